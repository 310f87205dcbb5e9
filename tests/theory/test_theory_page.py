"""The page on the theory is run: every number on it comes out."""

from __future__ import annotations

import doctest
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/theory.md"


def test_numbers_of_the_page() -> None:
    done = doctest.testfile(str(PAGE), module_relative=False, encoding="utf-8")
    assert done.attempted > 20
    assert done.failed == 0
