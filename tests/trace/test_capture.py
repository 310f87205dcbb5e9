"""The verdict: which captures can answer, and what is said about those that cannot."""

from __future__ import annotations

from collections.abc import Callable

import polars as pl

from fixtures.builder import ExportBuilder
from fixtures.ids import graph_node_id
from nsysroof.results import Finding
from nsysroof.trace import Trace

Open = Callable[[ExportBuilder], Trace]


def finding(trace: Trace, slug: str) -> Finding:
    [found] = [f for f in trace.capture().findings if f.slug == slug]
    return found


def slugs(trace: Trace) -> dict[str, str]:
    return {f.slug: f.severity for f in trace.capture().findings}


def described() -> ExportBuilder:
    return ExportBuilder().gpu(0, "NVIDIA H100").process(4000, cuda_devices=[0])


def test_o1_graph_level_trace(opened: Open) -> None:
    """128 replays traced as a whole, 6 small kernels a step outside of them."""
    export = described().graph_mode("graph")
    for step in range(128):
        at, first = 27_300_000 * step + 1, 10 * step + 1
        export.launch("cudaGraphLaunch", at, at + 900, correlation=first)
        export.graph_trace(at + 1_000, at + 26_001_000, correlation=first)
        for number in range(1, 7):
            start = at + 26_100_000 + 10_000 * number
            export.launch("cudaLaunchKernel", start - 900, start - 800, correlation=first + number)
            export.kernel("small", start, start + 3_000, correlation=first + number)
    trace = opened(export)
    capture = trace.capture()
    assert capture.graph_mode == "graph"
    assert (capture.kernels, capture.graph_replays, capture.graph_launches) == (768, 128, 128)
    assert capture.launches == 128 + 768
    assert capture.graph_kernels == 0
    spans = trace.replays["end_ns"] - trace.replays["start_ns"]
    assert spans.sum() == 3_328_000_000
    assert slugs(trace) == {"graph-level-trace": "error"}
    error = finding(trace, "graph-level-trace")
    assert "128 CUDA graph replays" in error.text
    assert "--cuda-graph-trace=node" in error.hint


def test_o2_no_kernel_table(opened: Open) -> None:
    export = described()
    for number in range(5):
        at = 1_000 * number
        export.launch("cudaLaunchKernel", at, at + 9, correlation=number + 1)
        export.kernel("k", at + 10, at + 20, correlation=number + 1)
    trace = opened(export.drop_table("CUPTI_ACTIVITY_KIND_KERNEL"))
    assert trace.kernels.is_empty()
    assert slugs(trace) == {"no-kernels": "error"}
    error = finding(trace, "no-kernels")
    assert "no GPU kernel records; 5 launch API calls were traced" in error.text
    for cause in ("CuptiUseRawGpuTimestamps", "WSL2", "permissions"):
        assert cause in error.hint


def test_o2_empty_kernel_table_is_the_same(opened: Open) -> None:
    export = described().keep_table("CUPTI_ACTIVITY_KIND_KERNEL")
    trace = opened(export.launch("cudaLaunchKernel", 1, 2, correlation=1))
    assert "1 launch API calls were traced" in finding(trace, "no-kernels").text


def test_o4_only_one_of_eight_ranks_has_kernels(opened: Open) -> None:
    export = ExportBuilder().gpu(0, "NVIDIA H100")
    for pid in range(100, 108):
        export.launch("cudaLaunchKernel", 1_000, 1_100, correlation=1, pid=pid)
        export.launch("cudaGraphLaunch", 5_000, 5_100, correlation=2, pid=pid)
    export.kernel("k", 2_000, 3_000, correlation=1, pid=103)
    export.kernel("n", 6_000, 7_000, correlation=2, pid=103, graph_node=8)
    trace = opened(export)
    capture = trace.capture()
    assert capture.processes == 8
    by_pid = {p.pid: (p.launches, p.kernels) for p in capture.process_list}
    assert by_pid == {pid: (2, 2 if pid == 103 else 0) for pid in range(100, 108)}
    error = finding(trace, "rank-missing")
    assert error.severity == "error"
    assert "7 of 8 processes" in error.text
    assert "100, 101, 102, 104, 105, 106, 107" in error.text


def test_o4_processes_that_launch_nothing_are_not_missing(opened: Open) -> None:
    export = described().api("cudaMalloc", 1, 2, pid=77)
    export.launch("cudaLaunchKernel", 3, 4, correlation=1)
    trace = opened(export.kernel("k", 5, 6, correlation=1))
    assert slugs(trace) == {}
    assert [p.pid for p in trace.capture().process_list] == [4000]


def test_o6_graph_columns_that_are_all_null(opened: Open) -> None:
    export = described().graph_mode("graph").launch("cudaLaunchKernel", 1, 2, correlation=1)
    trace = opened(export.kernel("k", 3, 4, correlation=1))
    capture = trace.capture()
    assert capture.graph_mode == "none"
    assert (capture.graph_launches, capture.graph_kernels) == (0, 0)
    assert slugs(trace) == {}


def test_node_level_trace(opened: Open) -> None:
    export = described().graph_mode("node").launch("cudaGraphLaunch", 1, 90, correlation=1)
    for node in range(3):
        at = 100 + 10 * node
        export.kernel("k", at, at + 9, correlation=1, graph_node=graph_node_id(2, node))
    trace = opened(export)
    assert trace.capture().graph_mode == "node"
    assert trace.capture().graph_kernels == 3
    assert slugs(trace) == {}


def test_kernels_of_a_graph_launch_without_node_ids(opened: Open) -> None:
    """Exports that carry no node ids still tell by the launch call of the kernel."""
    export = described().launch("cuGraphLaunch", 1, 90, correlation=1)
    export.kernel("k", 100, 109, correlation=1).kernel("k", 110, 119, correlation=1)
    trace = opened(export)
    assert trace.capture().graph_mode == "node"
    assert trace.capture().graph_kernels == 2


def test_graph_launches_without_any_record(opened: Open) -> None:
    export = described().launch("cudaGraphLaunch", 1, 2, correlation=1)
    export.launch("cudaLaunchKernel", 3, 4, correlation=2)
    trace = opened(export.kernel("k", 5, 6, correlation=2))
    assert trace.capture().graph_mode == "missing"
    assert slugs(trace) == {"graph-launches-unseen": "error"}
    assert "idle time is not measurable" in finding(trace, "graph-launches-unseen").text


def test_some_graph_launches_without_records(opened: Open) -> None:
    export = described()
    for number in (1, 2, 3):
        at = 1_000 * number
        export.launch("cudaGraphLaunch", at, at + 9, correlation=number)
        if number < 3:
            export.kernel("k", at + 10, at + 20, correlation=number, graph_node=4)
    trace = opened(export)
    assert slugs(trace) == {"graph-launches-unseen": "warning"}
    assert "1 of 3 CUDA graph launches" in finding(trace, "graph-launches-unseen").text


def test_launches_that_only_copy_are_seen(opened: Open) -> None:
    export = described().launch("cudaGraphLaunch", 1, 2, correlation=1)
    export.copy("h2d", 8, 10, 20, correlation=1, graph_node=3)
    export.launch("cudaLaunchKernel", 30, 31, correlation=2)
    trace = opened(export.kernel("k", 40, 50, correlation=2))
    assert trace.capture().graph_mode == "node"
    assert slugs(trace) == {}


def test_o7_replay_and_its_kernels_are_alternatives(opened: Open) -> None:
    """One replay of 100 µs with both of its kernels: a union of 100 µs, 99 µs in kernels."""
    export = described().launch("cudaGraphLaunch", 0, 1, correlation=1)
    export.graph_trace(0, 100_000, correlation=1)
    export.kernel("a", 0, 40_000, correlation=1, graph_node=graph_node_id(2, 0))
    export.kernel("b", 41_000, 100_000, correlation=1, graph_node=graph_node_id(2, 1))
    trace = opened(export)
    capture = trace.capture()
    assert (capture.launches, capture.graph_launches) == (1, 1)
    assert (capture.kernels, capture.graph_replays, capture.graph_kernels) == (2, 1, 2)
    durations = trace.kernels.select(pl.col("end_ns") - pl.col("start_ns"))
    assert durations.to_series().sum() == 99_000
    assert trace.replays.select("start_ns", "end_ns").rows() == [(0, 100_000)]
    assert slugs(trace) == {}


def test_kernels_without_any_host_rows_leave_graphs_unknown(opened: Open) -> None:
    trace = opened(described().kernel("k", 1, 2))
    assert trace.capture().graph_mode == "unknown"
    assert slugs(trace) == {"missing-launch-rows": "note"}


def test_capture_without_cuda(opened: Open) -> None:
    trace = opened(ExportBuilder().nvtx("main", 1, 2))
    capture = trace.capture()
    assert capture.graph_mode == "none"
    assert (capture.processes, capture.devices, capture.launches) == (0, [], 0)
    assert "profile with -t cuda" in finding(trace, "no-kernels").hint


def test_launch_calls_during_stream_capture_count_as_launches(opened: Open) -> None:
    export = described()
    for number in (1, 2):
        export.launch("cudaLaunchKernel", 10 * number, 10 * number + 5, correlation=number)
    trace = opened(export.kernel("k", 30, 40, correlation=2))
    assert trace.capture().launches == 2
    assert slugs(trace) == {}


def test_findings_come_by_severity(opened: Open) -> None:
    export = ExportBuilder().meta_export("EXPORT_SCHEMA_VERSION", "3.99.0")
    export.launch("cudaGraphLaunch", 1, 2, correlation=1)
    trace = opened(export.kernel("k", 0, 0).kernel("k", 3, 4))
    severities = [f.severity for f in trace.capture().findings]
    assert severities == sorted(severities, key=["error", "warning", "note"].index)
    assert set(severities) == {"error", "warning", "note"}


def test_newer_driver_is_noted(opened: Open) -> None:
    export = described().launch("cudaLaunchKernel", 1, 2, correlation=1)
    export.kernel("k", 3, 4, correlation=1)
    trace = opened(
        export.diagnostic(
            "Installed CUDA driver version (13.2) is not supported by this build of Nsight"
            " Systems. CUDA trace will be collected using libraries for driver version 13.1"
        )
    )
    assert slugs(trace) == {"driver-newer": "note"}
