"""Host side: API names and kinds, NVTX ranges, profiler overhead."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.builder import ExportBuilder
from nsysroof.trace import Trace, open_trace
from nsysroof.trace.host import api_kind, api_name

Open = Callable[[ExportBuilder], Trace]


@pytest.mark.parametrize(
    ("text", "name", "kind"),
    [
        ("cudaLaunchKernel_v7000", "cudaLaunchKernel", "kernel_launch"),
        ("cudaLaunchKernel_ptsz_v7000", "cudaLaunchKernel", "kernel_launch"),
        ("cudaLaunchKernelExC_v11060", "cudaLaunchKernelExC", "kernel_launch"),
        ("cuLaunchKernelEx", "cuLaunchKernelEx", "kernel_launch"),
        ("cuLaunchKernel_ptsz", "cuLaunchKernel", "kernel_launch"),
        ("cudaLaunchCooperativeKernel_v9000", "cudaLaunchCooperativeKernel", "kernel_launch"),
        ("cuLaunchCooperativeKernel", "cuLaunchCooperativeKernel", "kernel_launch"),
        ("cudaLaunchHostFunc_v10000", "cudaLaunchHostFunc", "other"),
        ("cudaGraphLaunch_v10000", "cudaGraphLaunch", "graph_launch"),
        ("cuGraphLaunch", "cuGraphLaunch", "graph_launch"),
        ("cudaGraphInstantiate_v12000", "cudaGraphInstantiate", "other"),
        ("cudaDeviceSynchronize_v3020", "cudaDeviceSynchronize", "synchronize"),
        ("cudaStreamSynchronize_ptsz", "cudaStreamSynchronize", "synchronize"),
        ("cudaEventSynchronize_v3020", "cudaEventSynchronize", "synchronize"),
        ("cuCtxSynchronize", "cuCtxSynchronize", "synchronize"),
        ("cuEventSynchronize", "cuEventSynchronize", "synchronize"),
        ("cudaStreamWaitEvent_v3020", "cudaStreamWaitEvent", "other"),
        ("cudaMemcpy_v3020", "cudaMemcpy", "blocking_copy"),
        ("cudaMemcpy3D_v3020", "cudaMemcpy3D", "blocking_copy"),
        ("cudaMemcpyToSymbol_v3020", "cudaMemcpyToSymbol", "blocking_copy"),
        ("cuMemcpyDtoH_v2", "cuMemcpyDtoH", "blocking_copy"),
        ("cudaMemcpyAsync_v3020", "cudaMemcpyAsync", "copy"),
        ("cuMemcpyHtoDAsync_v2", "cuMemcpyHtoDAsync", "copy"),
        ("cudaMemcpyToSymbolAsync_v3020", "cudaMemcpyToSymbolAsync", "copy"),
        ("cudaMemset_v3020", "cudaMemset", "copy"),
        ("cuMemsetD8Async", "cuMemsetD8Async", "copy"),
        ("cudaMalloc_v3020", "cudaMalloc", "other"),
        ("[Unknown]", "[Unknown]", "other"),
    ],
)
def test_api_names_and_kinds(text: str, name: str, kind: str) -> None:
    assert api_name(text) == name
    assert api_kind(name) == kind


def test_calls_in_time_order_with_one_entry_per_api(opened: Open) -> None:
    export = ExportBuilder().api("cudaMalloc", 500, 600, correlation=3, pid=70, tid=71)
    export.row(
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        start=100, end=200, eventClass=0, globalTid=(1 << 48) | (70 << 24) | 72,
        correlationId=1, nameId=export.string("cudaLaunchKernel_ptsz_v7000"), returnValue=0,
    )  # fmt: skip
    export.api("cudaLaunchKernel", 300, 400, pid=70)
    trace = opened(export)
    assert trace.apis.rows() == [
        (0, "cudaLaunchKernel", "kernel_launch"),
        (1, "cudaMalloc", "other"),
    ]
    assert trace.api_calls.rows() == [
        (100, 200, 70, 72, 1, 0),
        (300, 400, 70, 70, None, 0),
        (500, 600, 70, 71, 3, 1),
    ]


def test_rows_that_only_hang_a_stack_on_a_call_are_not_calls(opened: Open) -> None:
    """Exports of 2022 hold each call twice; event class 67 marks the one with the call stack."""
    export = ExportBuilder().launch("cudaLaunchKernel", 100, 200, correlation=1)
    export.row(
        "CUPTI_ACTIVITY_KIND_RUNTIME",
        start=99, end=201, eventClass=67, globalTid=(1 << 48) | (4000 << 24) | 4000,
        correlationId=1, nameId=export.string("cudaLaunchKernel"), returnValue=0, callchainId=1,
    )  # fmt: skip
    trace = opened(export.kernel("k", 300, 400, correlation=1))
    assert trace.api_calls["start_ns"].to_list() == [100]
    assert trace.capture().launches == 1


def test_ranges_with_domains_kinds_and_threads(opened: Open) -> None:
    export = ExportBuilder().session(10_000)
    export.nvtx("step", 100, 200, tid=5).nvtx("layer", 110, 150, domain="engine", registered=True)
    export.nvtx("layer", 115, 140, domain="other", pid=5000)  # domain 1 of another process
    export.nvtx("across", 120, 300, kind="start_end", tid=5, end_tid=6)
    export.nvtx("same", 121, 300, kind="start_end", tid=5, end_tid=5)
    export.nvtx("open", 130, None).nvtx("mark", 140, None, kind="mark")
    ranges = opened(export).ranges
    assert ranges.drop("pid").rows() == [
        (100, 200, 5, None, "", "push_pop", "step"),
        (110, 150, 4000, None, "engine", "push_pop", "layer"),
        (115, 140, 5000, None, "other", "push_pop", "layer"),
        (120, 300, 5, 6, "", "start_end", "across"),
        (121, 300, 5, None, "", "start_end", "same"),
        (130, None, 4000, None, "", "push_pop", "open"),
        (140, None, 4000, None, "", "mark", "mark"),
    ]


def test_ranges_open_at_the_end_have_no_end(opened: Open) -> None:
    """They carry arbitrary ends far beyond the session, or before their own start."""
    hour = 3_600_000_000_000
    export = ExportBuilder().session(1_000).nvtx("a", 1, hour + 1_000).nvtx("b", 2, hour + 1_001)
    ranges = opened(export.nvtx("c", 50, 20)).ranges
    assert ranges.select("text", "end_ns").rows() == [
        ("a", hour + 1_000),
        ("b", None),
        ("c", None),
    ]


def test_profiler_overheads(opened: Open) -> None:
    export = ExportBuilder().overhead("TLS allocation", 40, 60, pid=9)
    overheads = opened(export.overhead("CUPTI Buffer flush", 10, 30, pid=9)).overheads
    assert overheads.rows() == [(10, 30, 9, "CUPTI Buffer flush"), (40, 60, 9, "TLS allocation")]


@pytest.mark.parametrize("form", ["sqlite", "parquet"])
def test_ranges_that_begin_so_are_read_alone(tmp_path: Path, form: str) -> None:
    export = ExportBuilder().session(1_000).nvtx("execute_1", 10, 20, pid=9)
    export.nvtx("execute_2", 30, 40, pid=9, registered=True, domain="engine")
    export.nvtx("step[x]", 50, 60, pid=9).nvtx("Execute_3", 70, 80).nvtx("xstep[", 70, 80)
    export.nvtx("stepx", 70, 80, registered=True).kernel("execute_kernel", 1, 2)
    path = tmp_path / "run"
    trace = open_trace(export.write(path) if form == "sqlite" else export.write_parquet(path))
    found = trace.ranges_beginning("execute_", "step[")
    assert found.select("start_ns", "end_ns", "pid", "text").rows() == [
        (10, 20, 9, "execute_1"),
        (30, 40, 9, "execute_2"),
        (50, 60, 9, "step[x]"),
    ]
    assert trace.ranges.height == 6
    assert not trace.ranges_beginning("nothing").height
