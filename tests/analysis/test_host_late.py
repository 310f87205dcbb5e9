"""What a late host waited for: planted steps, and a real capture with OS runtime calls."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.builder import ExportBuilder
from nsysroof.analysis import Options, analyze
from nsysroof.results import Report
from nsysroof.trace import open_trace

REAL = Path(__file__).parents[2] / "../shared/traces"
B200 = REAL / "b200-moe-gate-3.16.1.sqlite"


def served(steps: int = 30) -> ExportBuilder:
    """Kernels of 400 µs; before each, thread 9 polls 60 µs, is free 30 µs and launches in 10 µs."""
    export = ExportBuilder().gpu(0, "NVIDIA H100 80GB HBM3").process(4000, cuda_devices=[0])
    at = 1_000_000
    for number in range(steps):
        export.os_call("epoll_wait", at, at + 60_000, tid=9)
        export.os_call("futex", at, at + 60_000, tid=10)
        export.launch("cudaLaunchKernel", at + 90_000, at + 95_000, correlation=number, tid=9)
        export.kernel("k", at + 100_000, at + 500_000, correlation=number)
        at += 500_000
    return export.session(at)


def report(path: Path, *, complete: tuple[str, ...] = ()) -> Report:
    return analyze(open_trace(path), Options(), complete=complete)


def test_the_planted_calls_are_found_in_every_gap(tmp_path: Path) -> None:
    found = report(served().write(tmp_path / "export.sqlite"), complete=("gaps",))
    rows = [(row.doing, row.call, row.ns, row.gaps, row.share) for row in found.host_late]
    assert rows == [
        ("os_call", "epoll_wait", 29 * 60_000, 29, 0.6),
        ("no_call", None, 29 * 30_000, 29, 0.3),
        ("launching", None, 29 * 10_000, 29, 0.1),
    ]
    split = {"epoll_wait": 60_000, "(no call)": 30_000, "(launching)": 10_000}
    assert [gap.host_ns for gap in found.gaps] == [split] * 29
    (line,) = found.timeline
    assert line.idle_by_cause is not None
    assert line.idle_by_cause["host_late"] == 29 * 100_000


def test_the_largest_gaps_have_theirs_too(tmp_path: Path) -> None:
    found = report(served().write(tmp_path / "export.sqlite"))
    assert len(found.gaps) == 20
    assert all(sum((gap.host_ns or {}).values()) == gap.idle_ns for gap in found.gaps)


def test_a_capture_without_such_calls_says_nothing(tmp_path: Path) -> None:
    found = report(served().drop_table("OSRT_API").write(tmp_path / "export.sqlite"))
    assert found.host_late == []
    assert all(gap.host_ns is None for gap in found.gaps)
    assert {gap.cause for gap in found.gaps} == {"host_late"}


@pytest.mark.skipif(not B200.exists(), reason="the real captures are not here")
def test_a_real_capture_holds_to_sql_over_its_tables() -> None:
    found = report(B200, complete=("gaps",))
    (line,) = found.timeline
    assert line.idle_by_cause is not None
    assert sum(row.ns for row in found.host_late) == line.idle_by_cause["host_late"]
    with closing(sqlite3.connect(f"file:{B200}?mode=ro&immutable=1", uri=True)) as database:
        for gap in sorted(found.gaps, key=lambda gap: -gap.idle_ns)[:20]:
            if gap.cause != "host_late":
                continue
            assert gap.host_ns is not None
            assert sum(gap.host_ns.values()) == gap.idle_ns
            assert by_sql(database, gap.start_ns, gap.end_ns) == {
                what: ns for what, ns in gap.host_ns.items() if not what.startswith("(")
            }


def by_sql(database: sqlite3.Connection, start_ns: int, end_ns: int) -> dict[str, int]:
    """Return ns by call of the thread whose launch ended a gap, up to that launch.

    No call of this capture is nested in another, so a sum over rows counts nothing twice.
    """
    query = """
        SELECT s.value, sum(min(o.end, n.called) - max(o.start, :start))
        FROM (
            SELECT r.globalTid AS thread, min(r.start, :end) AS called
            FROM (
                SELECT start, correlationId, globalPid FROM CUPTI_ACTIVITY_KIND_KERNEL
                UNION ALL SELECT start, correlationId, globalPid FROM CUPTI_ACTIVITY_KIND_MEMCPY
            ) k JOIN CUPTI_ACTIVITY_KIND_RUNTIME r
                ON r.correlationId = k.correlationId AND r.globalTid >> 24 = k.globalPid >> 24
            WHERE k.start >= :end ORDER BY k.start, r.start LIMIT 1
        ) n JOIN OSRT_API o ON o.globalTid = n.thread AND o.start < n.called AND o.end > :start
        JOIN StringIds s ON s.id = o.nameId
        WHERE o.end > o.start GROUP BY s.value
    """
    return dict(database.execute(query, {"start": start_ns, "end": end_ns}).fetchall())
