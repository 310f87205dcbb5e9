"""OS runtime calls of synthetic exports, of the threads and the time that are asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fixtures.builder import ExportBuilder
from nsysroof.trace import Trace, open_trace
from nsysroof.trace.schema import OS_CALLS
from tests.trace.conftest import Open


def calls() -> ExportBuilder:
    export = ExportBuilder().kernel("k", 1_000, 2_000)
    export.os_call("poll", 100, 900, tid=4001).os_call("read", 950, 960, tid=4001)
    export.os_call("pthread_cond_wait", 1_000, 5_000, tid=4002)
    export.os_call("futex", 1_010, 4_990, tid=4002, nesting=1)
    export.os_call("poll", 100, 900, pid=5000, tid=4001)
    export.os_call("OS runtime libraries profiling started", 500, 500, tid=4001)
    return export.os_call("sem_wait", 8_000, 9_000, tid=4001)


def read(
    trace: Trace, threads: list[tuple[int, int]], *spans: tuple[int, int]
) -> list[tuple[object, ...]]:
    starts, ends = (np.array(side, dtype=np.int64) for side in zip(*spans, strict=True))
    found = trace.os_calls(threads, starts, ends)
    assert found.schema == OS_CALLS
    return found.rows()


def test_only_the_threads_and_the_time_asked_for_are_read(opened: Open) -> None:
    trace = opened(calls())
    assert trace.has_os_calls
    poll, sem = (100, 900, 4000, 4001, "poll"), (8_000, 9_000, 4000, 4001, "sem_wait")
    assert read(trace, [(4000, 4001)], (0, 10_000)) == [
        poll,
        (950, 960, 4000, 4001, "read"),
        sem,
    ]
    # 900 and 8,000 are outside of half-open [0, 100), [900, 950) and [960, 8_000).
    assert read(trace, [(4000, 4001)], (0, 100), (900, 950), (960, 8_000)) == []
    assert read(trace, [(4000, 4001)], (899, 900), (7_000, 8_001)) == [poll, sem]
    assert read(trace, [(5000, 4001)], (0, 10_000)) == [(100, 900, 5000, 4001, "poll")]


def test_of_nested_calls_the_outermost_counts(opened: Open) -> None:
    wait = (1_000, 5_000, 4000, 4002, "pthread_cond_wait")
    assert read(opened(calls()), [(4000, 4002)], (0, 10_000)) == [wait]
    # Also where only the inner one begins in the time asked for.
    assert read(opened(calls()), [(4000, 4002)], (1_005, 1_015)) == [wait]


def test_parquet_and_other_schemas_give_the_same(tmp_path: Path) -> None:
    threads, span = [(4000, 4001), (4000, 4002)], (850, 1_500)
    sqlite = open_trace(calls().write(tmp_path / "export.sqlite"))
    parquet = open_trace(calls().write_parquet(tmp_path / "export"))
    wanted = read(sqlite, threads, span)
    assert [row[4] for row in wanted] == ["poll", "read", "pthread_cond_wait"]
    assert read(parquet, threads, span) == wanted


def test_without_the_table_or_a_column_there_are_none(opened: Open) -> None:
    bare = opened(ExportBuilder().kernel("k", 1_000, 2_000))
    assert (bare.has_os_calls, bare.count_os_calls()) == (False, 0)
    assert read(bare, [(4000, 4001)], (0, 10_000)) == []
    nameless = opened(calls().drop_column("OSRT_API", "nameId"))
    assert not nameless.has_os_calls
    assert read(nameless, [(4000, 4001)], (0, 10_000)) == []
