"""Cases of real users, rebuilt as synthetic captures, with the answer that was right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.builder import ExportBuilder
from fixtures.ids import graph_node_id
from nsysroof.analysis import Options, analyze
from nsysroof.errors import UsageError
from nsysroof.results import Report
from nsysroof.trace import open_trace

Analyzed = Callable[..., Report]
MS = 1_000_000
S = 1_000_000_000


@pytest.fixture
def analyzed(tmp_path: Path) -> Analyzed:
    def write_and_analyze(export: ExportBuilder, options: Options | None = None) -> Report:
        path = export.write(tmp_path / "capture.sqlite")
        return analyze(open_trace(path), options or Options(), complete=("gaps",))

    return write_and_analyze


def test_o1_a_graph_level_capture_is_busy_and_explains_nothing(analyzed: Analyzed) -> None:
    """128 replays of 26.0 ms every 27.3 ms, and 6 small kernels per step outside the graph."""
    export = ExportBuilder().graph_mode("graph").session(4 * S)
    for step in range(128):
        start = 10 * MS + round(step * 27.3 * MS)
        correlation = 1000 + step
        export.launch("cudaGraphLaunch", start - 50_000, start - 10_000, correlation=correlation)
        export.graph_trace(start, start + 26 * MS, graph=1, graph_exec=2, correlation=correlation)
        for small in range(6):
            at = start + 26 * MS + 20_000 * (small + 1)
            export.launch(
                "cudaLaunchKernel", at - 9_000, at - 5_000, correlation=5000 + 6 * step + small
            )
            export.kernel("tiny_kernel", at, at + 5_000, correlation=5000 + 6 * step + small)
    found = analyzed(export, Options(model="llama-3.1-8b", gpu="h100-sxm", context=(4096,)))
    line = found.timeline[0]
    assert line.busy_ns >= 3328 * MS
    assert line.window_ns == pytest.approx(3493.1 * MS, rel=1e-3)
    assert line.idle_ns is not None
    assert line.idle_ns / line.window_ns <= 0.0473
    assert line.kernel_window is not None
    # From the first to the last small kernel the replays count as kernels, though opaque.
    assert line.kernel_window.no_kernel_ns == line.kernel_window.idle_ns
    assert found.coverage.time_explained == 0.0
    assert found.operators == []
    slugs = {finding.slug: finding for finding in found.capture.findings}
    assert slugs["graph-level-trace"].severity == "error"
    assert "--cuda-graph-trace=node" in slugs["graph-level-trace"].hint
    assert (found.capture.launches, found.capture.graph_launches) == (128 * 7, 128)
    assert (found.steps.count, found.steps.source) == (128, "graph")


def test_o1_replays_without_any_record_leave_idle_time_unknown(analyzed: Analyzed) -> None:
    export = ExportBuilder().session(S)
    export.launch("cudaLaunchKernel", 500, 900, correlation=1).kernel(
        "a", 1000, 2000, correlation=1
    )
    for step in range(8):
        export.launch("cudaGraphLaunch", 5000 * step, 5000 * step + 900, correlation=10 + step)
    export.launch("cudaLaunchKernel", 50_000, 50_500, correlation=2)
    found = analyzed(export.kernel("a", 51_000, 52_000, correlation=2))
    line = found.timeline[0]
    assert (line.idle_ns, line.idle_by_cause, found.budget, found.gaps) == (None, None, None, [])
    assert "graph-launches-unseen" in {finding.slug for finding in found.capture.findings}


def test_o3_a_gpu_that_is_not_in_the_capture_is_not_replaced(analyzed: Analyzed) -> None:
    """Devices 1 to 7 with 6,460 kernels each; no device 0."""
    export = ExportBuilder()
    for device in range(1, 8):
        for number in range(6460):
            export.kernel("k", 100 * number, 100 * number + 50, device=device)
    found = analyzed(export)
    assert sum(row.kernels for row in found.capture.devices) == 45_220
    assert [line.gpu for line in found.timeline] == [1, 2, 3, 4, 5, 6, 7]
    with pytest.raises(UsageError) as raised:
        analyzed(export, Options(devices=(0,)))
    assert raised.value.slug == "device-missing"
    assert all(f"{device}: 6,460 kernels" in raised.value.hint for device in range(1, 8))
    assert [line.gpu for line in analyzed(export, Options(devices=(3,))).timeline] == [3]


def test_o4_one_of_eight_ranks_is_said_first(analyzed: Analyzed) -> None:
    export = ExportBuilder()
    for rank in range(8):
        pid = 4000 + rank
        for number in range(4):
            at = 1000 * number
            export.launch("cudaLaunchKernel", at, at + 90, correlation=number, pid=pid, tid=pid)
            if rank == 0:
                export.kernel("k", at + 100, at + 200, correlation=number, pid=pid)
    found = analyzed(export, Options(tp=8))
    errors = [finding for finding in found.capture.findings if finding.slug == "rank-missing"]
    assert any("1 of 8 ranks" in finding.text for finding in errors)
    assert all(finding.severity == "error" for finding in errors)
    assert found.timeline[0].busy_ns == 400


def test_o7_replay_rows_and_their_nodes_are_one_work_and_not_two(analyzed: Analyzed) -> None:
    export = ExportBuilder().session(S)
    export.launch("cudaGraphLaunch", 10, 40, correlation=1)
    export.graph_trace(100, 100_100, graph=1, graph_exec=2, correlation=1)
    for node, (start, end) in enumerate(((100, 40_100), (41_100, 100_100))):
        export.kernel("node", start, end, correlation=1, graph_node=graph_node_id(2, node), graph=2)
    line = analyzed(export).timeline[0]
    assert (line.busy_ns, line.kernel_busy_ns) == (100_000, 100_000)
    assert line.kernel_window is not None
    assert line.kernel_window.no_kernel_ns == 1_000
    found = analyzed(export)
    assert sum(row.total_ns for row in found.kernels) == 99_000
    assert line.window_ns == line.sum_ns - line.overlap_ns + (line.idle_ns or 0)


def test_o8_misdated_records_are_set_aside_and_said_first(analyzed: Analyzed) -> None:
    """50 launches; the first three kernels are dated 1e14 ns too early."""
    export = ExportBuilder().session(S)
    for number in range(50):
        at = 1000 + 1000 * number
        shift = 10**14 if number < 3 else 0
        export.launch("cudaLaunchKernel", at - 100, at - 50, correlation=number)
        export.kernel("k", at - shift, at + 500 - shift, correlation=number)
    found = analyzed(export)
    assert (found.capture.kernels_used, found.capture.set_aside) == (47, 3)
    assert found.timeline[0].window_start_ns == 4000
    assert found.capture.findings[0].slug == "bad-timestamps"
    assert "6.0 %" in found.capture.findings[0].text


def test_o9_seconds_count_from_the_first_kernel_and_not_from_the_upload(analyzed: Analyzed) -> None:
    export = ExportBuilder().session(70 * S).copy("h2d", 10**9, 0, 9 * S, correlation=None)
    first = 10_770 * MS
    for number in range(49_230):
        start = first + number * MS
        export.kernel("k", start, start + 500_000)
    found = analyzed(export, Options(window=(14.0, 32.0)))
    assert sum(row.instances for row in found.kernels) == 18_000
    assert found.assumptions.window_anchor_ns == first
    assert found.timeline[0].window_start_ns == 24_770 * MS
    # The last kernel starts at 42.769 s and runs half a millisecond.
    assert found.timeline[0].window_ns == 18_000 * MS - 500_000


def test_o10_ranges_that_cover_little_are_told_with_their_share(analyzed: Analyzed) -> None:
    """Of 1000 us of kernels, 22 us are launched inside a range, on the range's own thread."""
    export = ExportBuilder().session(1 * S)
    for number, ns in enumerate((22_000, 978_000), start=1):
        at = number * MS
        export.launch("cudaLaunchKernel", at, at + 5_000, correlation=number)
        export.kernel("k", at + 10_000, at + 10_000 + ns, correlation=number)
    export.nvtx("decode", 1 * MS - 1_000, 1 * MS + 8_000)
    export.nvtx("decode", 2 * MS - 1_000, 2 * MS + 8_000, tid=4001)
    found = analyzed(export, Options(step_range="^decode$"))
    told = {finding.slug: finding.text for finding in found.capture.findings}
    assert told["nvtx-low-coverage"].startswith("2.2 % of the kernel time")


def test_o10_a_range_across_threads_holds_the_launches_of_its_process(analyzed: Analyzed) -> None:
    export = ExportBuilder().session(1 * S)
    for number in (1, 2):
        at = number * MS
        export.launch("cudaLaunchKernel", at, at + 5_000, correlation=number)
        export.kernel("k", at + 10_000, at + 20_000, correlation=number)
    export.nvtx("decode", 1 * MS - 1_000, 3 * MS, kind="start_end", tid=4001, end_tid=4000)
    found = analyzed(export, Options(step_range="^decode$"))
    assert "nvtx-low-coverage" not in {finding.slug for finding in found.capture.findings}


def test_o11_one_correlation_in_two_processes_makes_two_pairs(analyzed: Analyzed) -> None:
    export = ExportBuilder()
    for pid, late in ((11, 0), (22, 600)):
        export.kernel("k", 0, 100, pid=pid, device=pid, correlation=6)
        export.launch("cudaLaunchKernel", 50 + late, 60 + late, correlation=7, pid=pid, tid=pid)
        export.kernel("k", 1000, 1100, pid=pid, device=pid, correlation=7)
    found = analyzed(export)
    assert sum(row.instances for row in found.kernels) == 4
    causes = {gap.gpu: gap.cause for gap in found.gaps}
    assert causes == {11: "dependency", 22: "host_late"}


def test_o13_the_sum_over_streams_is_not_utilisation(analyzed: Analyzed) -> None:
    """Stream 7 busy [0, 1978.3 ms), stream 20 [100, 382 ms), 30.3 ms idle in 2008.6 ms."""
    export = ExportBuilder()
    export.kernel("a", 0, 1_978_300_000, stream=7)
    export.kernel("b", 100 * MS, 382 * MS, stream=20)
    export.kernel("c", 2_008_600_000 - 1, 2_008_600_000, stream=7)
    line = analyzed(export).timeline[0]
    assert (line.window_ns, line.sum_ns, line.overlap_ns) == (
        2_008_600_000,
        2_260_300_001,
        282 * MS,
    )
    assert line.busy_ns == 1_978_300_001
    assert line.idle_ns == 30_300_000 - 1
    assert line.share(line.busy_ns) == pytest.approx(0.9849, abs=5e-5)


def test_o14_idle_is_of_the_gpu_and_not_of_its_streams(analyzed: Analyzed) -> None:
    """Three streams busy in [0, 20) and [290, 310) ms: 270 ms of idle, not 810."""
    export = ExportBuilder()
    for stream in (7, 8, 9):
        for start in (0, 290):
            export.kernel("k", start * MS, (start + 20) * MS, stream=stream)
    line = analyzed(export).timeline[0]
    assert (line.window_ns, line.busy_ns, line.idle_ns) == (310 * MS, 40 * MS, 270 * MS)


def test_o14_a_stream_that_waits_while_another_runs_loses_nothing(analyzed: Analyzed) -> None:
    export = ExportBuilder()
    export.kernel("a", 0, 10 * MS, stream=7).kernel("a", 59 * MS, 70 * MS, stream=7)
    line = analyzed(export.kernel("b", 5 * MS, 60 * MS, stream=8)).timeline[0]
    assert line.idle_ns == 0


def test_o15_streams_of_one_number_on_four_gpus_are_four_streams(analyzed: Analyzed) -> None:
    export = ExportBuilder()
    for device, stream in ((0, 7), (1, 17), (2, 17), (3, 17)):
        export.kernel("k", 0, 861_000, device=device, stream=stream)
        export.kernel("k", 999_999, 1_000_000, device=device, stream=stream)
    rows = analyzed(export).streams
    assert [(row.gpu, row.stream) for row in rows] == [(0, 7), (1, 17), (2, 17), (3, 17)]
    assert all(row.share == pytest.approx(0.861, abs=1e-5) for row in rows)
    assert sum(row.share or 0 for row in rows) == pytest.approx(3.444, abs=1e-4)


@pytest.mark.parametrize(
    ("wall_ms", "union_ms", "overlap_ms", "idle_percent"),
    [(3500, 3336, 0, 4.69), (849, 717, 25, 15.55)],
)
def test_o16_idle_follows_from_the_union(
    analyzed: Analyzed, wall_ms: int, union_ms: int, overlap_ms: int, idle_percent: float
) -> None:
    """An RTX 3090 run of a dense and of an MoE model; in the second 25 ms overlap."""
    export = ExportBuilder().kernel("a", 0, (union_ms - 1) * MS, stream=7)
    if overlap_ms:
        export.kernel("b", 10 * MS, (10 + overlap_ms) * MS, stream=8)
    export.kernel("a", (wall_ms - 1) * MS, wall_ms * MS, stream=7)
    line = analyzed(export).timeline[0]
    assert line.idle_ns is not None
    assert 100 * line.idle_ns / line.window_ns == pytest.approx(idle_percent, abs=0.005)
    assert line.sum_ns == (union_ms + overlap_ms) * MS
    assert line.overlap_ns == overlap_ms * MS


def test_o18_library_ranges_are_no_steps(analyzed: Analyzed) -> None:
    """One inference run of 40 different kernels, with four ranges of libraries around some."""
    export = ExportBuilder().session(S)
    for number in range(40):
        at = MS * (number + 1)
        export.launch("cudaLaunchKernel", at - 9_000, at - 5_000, correlation=number + 1)
        export.kernel(f"kernel_{number}", at, at + 700_000, correlation=number + 1)
    names = ("cub::DeviceScan", "ncclAllReduce", "thrust::sort", "nccl:all_gather")
    for number, text in enumerate(names):
        at = MS * (8 * number + 1)
        export.nvtx(text, at - 10_000, at, registered=number % 2 == 0)
    found = analyzed(export)
    assert (found.steps.count, found.steps.source, found.phases) == (0, None, [])
    assert "steps not detected" in {f.slug: f.text for f in found.capture.findings}["no-steps"]


def test_o19_load_warm_up_and_prefill_are_not_averaged_into_decode(analyzed: Analyzed) -> None:
    """56 fills of a KV cache, 54.7 s of nothing, a prompt in 4 chunks of 64 layers, then decode.

    100 decode steps of 4 ms with 3.9 ms busy: 2.5 % idle, whatever the 54.7 s are of the window.
    """
    export = ExportBuilder().session(70 * S)
    fill, hole = 721_800, 54_700 * MS
    calls = 0

    def launch(name: str, start: int, end: int) -> None:
        nonlocal calls
        calls += 1
        export.launch("cudaLaunchKernel", start - 9_000, start - 5_000, correlation=calls)
        export.kernel(name, start, end, correlation=calls)

    for number in range(56):
        launch("FillFunctor<signed char>", S + number * fill, S + (number + 1) * fill)
    loaded = S + 56 * fill
    prompt = loaded + hole
    empty = "sq0sk0sqsq0sqsk0"
    for chunk in range(4):
        first = prompt + chunk * 64 * MS
        kv = 1024 * (chunk + 1)
        sums = f"sq1024sk{kv}sqsq{1024**2}sqsk{1024 * kv}"
        text = f"execute_1024_context_1({sums})_generation_0({empty})"
        export.nvtx(text, first - 10_000, first + 64 * MS - 11_000)
        for layer in range(64):
            launch("flash_fwd_kernel", first + layer * MS, first + (layer + 1) * MS)
    decode = prompt + 256 * MS
    for step in range(100):
        first = decode + 4 * MS * step
        kv = 4097 + step
        text = f"execute_1_context_0({empty})_generation_1(sq1sk{kv}sqsq1sqsk{kv})"
        export.nvtx(text, first - 10_000, first + 4 * MS - 11_000)
        launch("flash_fwd_splitkv_kernel", first, first + 3_900_000)
    found = analyzed(export)
    assert [(row.phase, row.count) for row in found.phases] == [("prefill", 4), ("decode", 100)]
    assert (found.steps.phase, found.steps.source) == ("decode", "nvtx")
    assert found.steps.wall_ns is not None
    assert found.steps.wall_ns.p50 == 4 * MS
    assert found.budget is not None
    assert (found.budget.wall_ns, found.budget.idle_ns) == (4 * MS, 100_000)
    line = found.timeline[0]
    assert line.idle_by_cause is not None
    # The hole lies before the first step, the other idle time is 0.1 ms after 99 of 100 steps.
    assert line.idle_by_cause["outside_steps"] == hole
    (outside,) = [one for one in found.capture.findings if one.slug == "warm-up-in-window"]
    # 54,740.4 of 55,396.3 ms, and 40.4 of 686.4 ms of kernels.
    assert outside.text.startswith("98.8 % of the window and 5.9 % of the work of GPU 0")
    assert outside.hint == "cut them off with --window 54.740-55.397"
    cut = analyzed(export, Options(window=(54.740, 55.397)))
    assert cut.budget == found.budget
    assert "warm-up-in-window" not in {one.slug for one in cut.capture.findings}
    assert line.idle_ns == hole + 99 * 100_000
    # The prompt's launches are no part of what a decode step is measured on.
    assert {row.name: row.instances for row in found.kernels}["flash_fwd_kernel"] == 256
    note = {f.slug: f.text for f in found.capture.findings}["mixed-phases"]
    assert note == "the window holds 4 prefill, 100 decode steps; the decode steps are analysed"


def test_o36_a_bound_is_of_a_step_and_the_tokens_it_yields_are_an_input(
    analyzed: Analyzed,
) -> None:
    """78.71 tokens/s at 2.38 tokens a step: a step every 30.2376 ms, each with 4 tokens to verify.

    Read as a token for each step, the same step would be 33.07 tokens/s.
    """
    wall = round(2.38 / 78.71 * S)
    text = "execute_4_context_0(sq0sk0sqsq0sqsk0)_generation_1(sq4sk900sqsq16sqsk3600)"
    export = ExportBuilder().session(10 * S)
    for step in range(20):
        start = S + wall * step
        export.nvtx(text, start - 10_000, start + 1_000_000)
        export.launch("cudaLaunchKernel", start - 9_000, start - 5_000, correlation=step + 1)
        export.kernel("flash_fwd_splitkv_kernel", start, start + wall, correlation=step + 1)
    options = Options(model="llama-3.1-8b", gpu="h100-sxm", peaks=("bw=936.2e9",))
    naive = analyzed(export, options).step_bounds
    told = analyzed(export, replace(options, tokens_per_step=2.38)).step_bounds
    assert naive is not None
    assert told is not None
    assert naive.measured_ns == told.measured_ns == wall
    assert told.tokens_per_s == pytest.approx(78.71, rel=1e-6)
    assert naive.tokens_per_s == pytest.approx(33.0714, rel=1e-5)
    # One pass over the weights whatever it yields: the bound of the step is the same.
    assert naive.weights_once_ns == told.weights_once_ns
    assert told.weights_once_ns is not None
    # 7,504,924,672 BF16 weights are read (all but the embedding), 900 KV tokens of 131,072 B.
    read = 2 * 7_504_924_672 + 900 * 131_072
    assert told.weights_once_ns / 1e9 == pytest.approx(read / 936.2e9, rel=1e-3)


def test_o30_without_a_model_nothing_is_explained_and_nothing_guessed(analyzed: Analyzed) -> None:
    export = ExportBuilder().kernel("fused_moe_kernel", 0, 16_300)
    found = analyzed(export, Options(gpu="h100-sxm"))
    assert found.coverage.time_explained == 0.0
    assert (found.operators, found.impossible) == ([], [])
    assert [row.klass for row in found.unexplained] == ["moe_grouped_gemm"]


def test_o20_a_bubble_before_each_replay_is_told_from_gaps_inside(analyzed: Analyzed) -> None:
    """50 replays of 18 kernels of 1 ms without a gap, and 2 ms of nothing after each."""
    export = ExportBuilder().session(2 * S)
    for step in range(50):
        start = 10 * MS + 20 * MS * step
        correlation = 100 + step
        export.launch("cudaGraphLaunch", start - 90_000, start - 10_000, correlation=correlation)
        for node in range(18):
            at = start + node * MS
            export.kernel(
                f"node_{node}",
                at,
                at + MS,
                correlation=correlation,
                graph_node=graph_node_id(2, node),
            )
    found = analyzed(export)
    (line,) = found.timeline
    assert (line.window_ns, line.idle_ns) == (998 * MS, 98 * MS)
    assert line.idle_by_cause is not None
    assert line.idle_by_cause.get("in_graph", 0) == 0
    assert line.idle_by_cause["host_late"] == 98 * MS
    assert {gap.position for gap in found.gaps} == {"between steps"}
    assert [gap.idle_ns for gap in found.gaps] == [2 * MS] * 49


def test_o21_time_in_host_calls_is_no_time_to_win_back(analyzed: Analyzed) -> None:
    """6,372 kernels of 8,930 ns, each launched by a call that takes all the time between two.

    The calls add up to more than the GPU idles: a part of them runs while it works.
    """
    export = ExportBuilder().session(1 * S)
    period, busy, kernels = 44_800, 8_930, 6_372
    for number in range(kernels):
        at = MS + period * number
        export.launch("cudaLaunchKernel", at - period + 100, at - 100, correlation=number + 1)
        export.kernel(f"k{number % 7}", at, at + busy, correlation=number + 1)
    found = analyzed(export)
    (line,) = found.timeline
    idle = (kernels - 1) * (period - busy)
    assert line.idle_ns == idle
    assert line.busy_ns == kernels * busy
    assert found.host.launch_ns == kernels * (period - 200) > idle
    assert line.busy_ns + line.idle_ns == line.window_ns
    assert sum(gap.idle_ns for gap in found.gaps) == idle


@pytest.mark.parametrize(
    ("traced_ns", "alone_us", "severity", "told"),
    [
        (3_391_100, 2749.5, "warning", "1.233 times"),
        (27_450_000, 27_200.0, "note", "1.009 times"),
    ],
)
def test_o22_what_tracing_adds_to_a_step_is_told(
    analyzed: Analyzed, traced_ns: int, alone_us: float, severity: str, told: str
) -> None:
    export = ExportBuilder().session(1 * S)
    for step in range(4):
        start = 10 * MS + traced_ns * step
        export.nvtx(f"step_{step}", start - 90_000, start - 5_000)
        export.launch("cudaLaunchKernel", start - 80_000, start - 70_000, correlation=step + 1)
        export.kernel("k", start, start + traced_ns, correlation=step + 1)
    found = analyzed(export, Options(step_range="^step_", unprofiled_step_us=alone_us))
    (finding,) = [one for one in found.capture.findings if one.slug == "profiler-inflation"]
    assert finding.severity == severity
    assert told in finding.text
    assert ("upper bounds" in finding.text) is (severity == "warning")
