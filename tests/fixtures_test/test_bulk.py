from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.bulk import Mode, generate, main

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"


@pytest.fixture(params=list(Mode))
def capture(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sqlite3.Connection]:
    path = tmp_path / "bulk.sqlite"
    assert generate(path, steps=6, kernels_per_step=776, mode=request.param) == 6 * 776
    with closing(sqlite3.connect(path)) as connection:
        yield connection


def one(connection: sqlite3.Connection, sql: str) -> int:
    (value,) = connection.execute(sql).fetchone()
    return int(value)


def test_rows_and_links_of_repeated_steps(capture: sqlite3.Connection) -> None:
    assert one(capture, f"SELECT count(*) FROM {KERNEL}") == 6 * 776
    assert one(capture, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_MEMCPY") == 6 * 2
    ids = "count(*) - count(DISTINCT correlationId)"
    assert one(capture, f"SELECT {ids} FROM {RUNTIME}") == 0
    joined = f"{KERNEL} k JOIN {RUNTIME} r ON r.correlationId = k.correlationId"
    assert one(capture, f"SELECT count(*) FROM {joined} WHERE r.start < k.start") == 6 * 776
    texts = [text for (text,) in capture.execute("SELECT text FROM NVTX_EVENTS ORDER BY start")]
    assert texts == [f"decode_step_{i}" for i in range(6)]


def test_one_stream_runs_one_kernel_at_a_time(capture: sqlite3.Connection) -> None:
    spans = f"SELECT start, lag(end) OVER (ORDER BY start) AS earlier FROM {KERNEL}"
    assert one(capture, f"SELECT min(start - earlier) FROM ({spans})") > 0
    duration = one(capture, "SELECT duration FROM ANALYSIS_DETAILS")
    assert 0 < one(capture, f"SELECT max(end) FROM {KERNEL}") < duration


@pytest.mark.parametrize(
    ("mode", "nodes", "launches"),
    [
        # A replay holds two opening kernels and 48 layers of 16; six kernels are launched singly.
        (Mode.GRAPH, 4 * 770, 4 * (6 + 1)),
        (Mode.EAGER, 0, 4 * 776),
        (Mode.MIXED, 2 * 770, 2 * (6 + 1) + 2 * 776),
    ],
)
def test_modes(mode: Mode, nodes: int, launches: int, tmp_path: Path) -> None:
    path = tmp_path / "bulk.sqlite"
    generate(path, steps=4, kernels_per_step=776, mode=mode)
    with closing(sqlite3.connect(path)) as connection:
        assert one(connection, f"SELECT count(graphNodeId) FROM {KERNEL}") == nodes
        called = f"SELECT count(*) FROM {RUNTIME} r JOIN StringIds s ON s.id = r.nameId"
        assert one(connection, f"{called} WHERE value LIKE '%Launch%'") == launches


def test_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bulk.sqlite"
    main([str(path), "--steps", "3", "--kernels-per-step", "100", "--mode", "graph"])
    assert "300 kernels" in capsys.readouterr().out
    with closing(sqlite3.connect(path)) as connection:
        assert one(connection, f"SELECT count(*) FROM {KERNEL}") == 300
