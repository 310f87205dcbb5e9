"""What the launching thread did while the GPU waited: planted calls of synthetic captures."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.builder import ExportBuilder
from nsysroof.timeline.activity import collect_activities
from nsysroof.timeline.gaps import find_gaps
from nsysroof.timeline.host_waits import HOST_WAITS, host_waits
from nsysroof.trace import Trace, open_trace

Row = tuple[int, int, str, str | None, int]
NO_RUNS = pl.DataFrame(schema={"gpu": pl.UInt16, "start_ns": pl.Int64, "end_ns": pl.Int64})


def waits_of(trace: Trace) -> pl.DataFrame | None:
    gpus = sorted(trace.kernels["gpu"].unique().to_list())
    activities = collect_activities(trace, trace.kernels, gpus=gpus, window_ns=None)
    return host_waits(trace, activities, find_gaps(trace, activities, NO_RUNS))


def late_host() -> ExportBuilder:
    """A kernel ends at 1,000 ns; thread 7 launches the next at 5,000 ns, which starts at 6,000."""
    export = ExportBuilder().gpu(0, "NVIDIA H100 80GB HBM3").process(4000, cuda_devices=[0, 1])
    export.launch("cudaLaunchKernel", 100, 200, correlation=1, tid=7)
    export.kernel("k", 500, 1_000, correlation=1)
    export.launch("cudaLaunchKernel", 5_000, 5_400, correlation=2, tid=7)
    return export.kernel("k", 6_000, 7_000, correlation=2)


def rows(export: ExportBuilder, folder: Path) -> list[Row]:
    found = waits_of(open_trace(export.write(folder / "export.sqlite")))
    assert found is not None
    assert found.schema == HOST_WAITS
    return found.rows()


def test_calls_of_the_launching_thread_split_the_gap(tmp_path: Path) -> None:
    export = late_host().os_call("poll", 600, 3_000, tid=7).os_call("futex", 3_500, 4_000, tid=7)
    export.os_call("poll", 4_200, 4_300, tid=7)
    assert rows(export, tmp_path) == [
        (0, 1_000, "os_call", "futex", 500),
        (0, 1_000, "os_call", "poll", 2_000 + 100),
        (0, 1_000, "launching", None, 1_000),
        (0, 1_000, "no_call", None, 500 + 200 + 700),
    ]


def test_other_threads_and_calls_within_the_launch_do_not_count(tmp_path: Path) -> None:
    export = late_host().os_call("read", 0, 9_000, tid=8).os_call("read", 0, 9_000, pid=5)
    export.os_call("ioctl", 5_100, 5_900, tid=7)
    assert rows(export, tmp_path) == [
        (0, 1_000, "launching", None, 1_000),
        (0, 1_000, "no_call", None, 4_000),
    ]


def test_one_call_may_cover_gaps_of_two_gpus(tmp_path: Path) -> None:
    export = late_host().gpu(1, "NVIDIA H100 80GB HBM3")
    export.launch("cudaLaunchKernel", 150, 250, correlation=3, tid=7)
    export.kernel("k", 500, 2_000, correlation=3, device=1)
    export.launch("cudaLaunchKernel", 5_500, 5_600, correlation=4, tid=7)
    export.kernel("k", 5_700, 8_000, correlation=4, device=1)
    export.os_call("sem_wait", 900, 4_500, tid=7)
    assert rows(export, tmp_path) == [
        (0, 1_000, "os_call", "sem_wait", 3_500),
        (0, 1_000, "launching", None, 1_000),
        (0, 1_000, "no_call", None, 500),
        (1, 2_000, "os_call", "sem_wait", 2_500),
        (1, 2_000, "launching", None, 200),
        (1, 2_000, "no_call", None, 1_000),
    ]


def test_other_causes_are_not_told(tmp_path: Path) -> None:
    export = late_host().os_call("poll", 600, 3_000, tid=7)
    # Between 2,000 and 4,000 the process synchronises: that part has another cause.
    export.api("cudaStreamSynchronize", 2_000, 4_000, correlation=9, tid=7)
    assert rows(export, tmp_path) == [
        (0, 1_000, "os_call", "poll", 1_000),
        (0, 4_000, "launching", None, 1_000),
        (0, 4_000, "no_call", None, 1_000),
    ]


@pytest.mark.parametrize(
    "export",
    [late_host(), late_host().keep_table("OSRT_API")],
    ids=["no table", "an empty table"],
)
def test_without_recorded_calls_nothing_is_known(export: ExportBuilder, tmp_path: Path) -> None:
    assert waits_of(open_trace(export.write(tmp_path / "export.sqlite"))) is None


def test_without_late_gaps_there_is_nothing_to_tell(tmp_path: Path) -> None:
    export = ExportBuilder().gpu(0, "NVIDIA H100 80GB HBM3").kernel("k", 1, 5)
    assert rows(export.os_call("poll", 0, 9), tmp_path) == []


@given(
    calls=st.lists(
        st.tuples(st.integers(0, 180), st.integers(1, 60), st.sampled_from(["poll", "read"])),
        max_size=6,
    ),
    pauses=st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30)), min_size=1, max_size=4),
)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_nanosecond_counts_once(
    calls: list[tuple[int, int, str]], pauses: list[tuple[int, int]], tmp_path: Path
) -> None:
    export = ExportBuilder().gpu(0, "NVIDIA H100 80GB HBM3").process(4000, cuda_devices=[0])
    export.launch("cudaLaunchKernel", 0, 1, correlation=1, tid=7).kernel("k", 5, 10, correlation=1)
    at, truth = 10, dict.fromkeys(("poll", "read", "launching", "no_call"), 0)
    running: dict[int, str] = {}
    for start, ns, name in sorted(calls, key=lambda call: (call[0], -call[1], call[2])):
        export.os_call(name, start, start + ns, tid=7)
        for at_ns in range(start, start + ns):  # time belongs to the call that began first
            running.setdefault(at_ns, name)
    for number, (wait, latency) in enumerate(pauses, start=2):
        for ns in range(at, at + wait):
            truth[running.get(ns, "no_call")] += 1
        truth["launching"] += latency
        begin = at + wait + latency
        export.launch("cudaLaunchKernel", at + wait, at + wait + 1, correlation=number, tid=7)
        export.kernel("k", begin, begin + 3, correlation=number)
        at = begin + 3
    export.os_call("write", 10_000, 10_001, tid=9)
    path = tmp_path / "export.sqlite"
    path.unlink(missing_ok=True)
    found = waits_of(open_trace(export.write(path)))
    assert found is not None
    summed = found.group_by(pl.col("text").fill_null(pl.col("doing").cast(pl.String))).agg(
        pl.col("ns").sum()
    )
    assert dict(summed.iter_rows()) == {what: ns for what, ns in truth.items() if ns}
