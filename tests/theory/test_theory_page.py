"""The pages on the theory are run: every number on them comes out."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize(("name", "least"), [("theory.md", 60), ("feasibility.md", 35)])
def test_numbers_of_the_page(name: str, least: int) -> None:
    done = doctest.testfile(str(DOCS / name), module_relative=False, encoding="utf-8")
    assert done.failed == 0
    assert done.attempted >= least
