from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.builder import ExportBuilder
from nsysroof.trace import open_trace

KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"


@pytest.fixture
def export(tmp_path: Path) -> Path:
    builder = ExportBuilder()
    for number in range(5_000):
        builder.kernel("k", 10 * number, 10 * number + 5)
    return builder.write(tmp_path / "run.sqlite")


def test_the_fraction_grows_to_exactly_the_whole_table(export: Path) -> None:
    told: list[tuple[str, int, int]] = []
    trace = open_trace(export, tell=lambda table, done, total: told.append((table, done, total)))
    assert told == []  # nothing is read before it is asked for
    assert trace.kernels.height == 5_000
    mine = [(done, total) for table, done, total in told if table == KERNELS]
    assert mine[-1] == (5_000, 5_000)
    assert mine == sorted(mine)
    assert {total for _, total in mine} == {5_000}


def test_watching_changes_nothing(export: Path) -> None:
    watched = open_trace(export, tell=lambda *_: None)
    assert watched.kernels.equals(open_trace(export).kernels)
    assert watched.capture() == open_trace(export).capture()
