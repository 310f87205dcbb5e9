"""Exports for the tests of this room: tiny synthetic ones, and the real ones where they are."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.builder import ExportBuilder
from nsysroof.trace import Trace, open_trace

_REAL = Path(__file__).resolve().parents[2].parent / "shared" / "traces"

Open = Callable[[ExportBuilder], Trace]


@pytest.fixture
def opened(tmp_path: Path) -> Open:
    """Return a function that writes an export and opens it."""

    def write_and_open(export: ExportBuilder) -> Trace:
        return open_trace(export.write(tmp_path / "export.sqlite"))

    return write_and_open


@pytest.fixture(scope="session")
def real_traces() -> Path:
    """Return the folder of real exports beside the checkout."""
    if not _REAL.is_dir():
        pytest.skip("the folder of real exports is not beside this checkout")
    return _REAL
