"""Sampled counters of synthetic decode steps: what each role does to the memory is planted."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from fixtures.builder import ExportBuilder
from nsysroof.analysis import Options, analyze
from nsysroof.results import MetricRow, Report
from nsysroof.trace import open_trace
from tests.analysis.decode_steps import H100, decode_pass

MODEL = "llama-3.2-1b"
PEAK = 3_352_320_000_000  # bytes per second, as such a device reports
EVERY_NS = 1_000
NAMES = [
    "GPC Clock Frequency [MHz]",
    "SMs Active [Throughput %]",
    "Tensor Active [Throughput %]",
    "DRAM Read Bandwidth [Throughput %]",
    "DRAM Write Bandwidth [Throughput %]",
]
READS = {"attn.qkv_proj": 72, "attn.o_proj": 64, "mlp.gate_up_proj": 80, "mlp.down_proj": 76}
READS["lm_head"] = 88
"""Percent of the peak that the kernels of a role read; all others read 0 and write 5."""

STEPS = 3
GAP_NS = 1_000
BETWEEN_NS = 50_000
START_NS = 1_000_000
FIRST_NS = START_NS - 20_300  # no sample begins with a kernel


def planted() -> tuple[list[tuple[int, int, str, str]], list[tuple[int, int]]]:
    """Return start, end, name and role of every kernel, and start and end of every step."""
    rows, steps, at = [], [], START_NS
    for _ in range(STEPS):
        first = at
        for name, role, ns in decode_pass(MODEL):
            rows.append((at, at + ns, name, role))
            at += ns + GAP_NS
        at += BETWEEN_NS
        steps.append((first, at))
    last = rows[-1][1]
    return rows, [*steps[:-1], (steps[-1][0], last)]


def per_ns(column: Callable[[str], int]) -> np.ndarray:
    """Return what is planted in each nanosecond; nothing where no kernel runs."""
    rows, _ = planted()
    held = np.zeros(rows[-1][1] + 100_000, dtype=np.int16)
    for start, end, _, role in rows:
        held[start:end] = column(role)
    return held


@cache
def levels() -> list[np.ndarray]:
    """Return SM activity, tensor activity, reads and writes by nanosecond."""
    return [
        per_ns(lambda _: 90),
        per_ns(lambda role: 40 if role in READS else 0),
        per_ns(lambda role: READS.get(role, 0)),
        per_ns(lambda role: 0 if role in READS else 5),
    ]


def sampled(
    *,
    names: Sequence[str] = NAMES,
    divided_by: int = 1,
    without: tuple[int, int] = (0, 0),
    bandwidth: int | None = PEAK,
    device: str = H100,
    uuid: str | None = None,
) -> ExportBuilder:
    """Steps of one H100 with a sample each microsecond; its value is that of the time after it."""
    export = ExportBuilder().gpu(0, device, memory_bandwidth=bandwidth, clock_hz=1_980_000_000)
    if uuid is not None:
        export = ExportBuilder().gpu(0, device, memory_bandwidth=bandwidth, uuid=uuid)
    export.process(4000, cuda_devices=[0])
    rows, steps = planted()
    for number, (first, _) in enumerate(steps, start=1):
        export.launch("cudaGraphLaunch", first - 800, first - 700, correlation=number)
    replay = 0
    for start, end, name, role in rows:
        replay += role == "embed"
        export.kernel(name, start, end, correlation=replay, graph_node=1, grid=(132, 1, 1))
    export.metric_names(0, list(names))
    held = levels()
    for at in range(FIRST_NS, rows[-1][1] + 20_000, EVERY_NS):
        if without[0] <= at < without[1]:
            continue
        means = [round(float(level[at : at + EVERY_NS].mean()) / divided_by) for level in held]
        export.metric_sample(0, at, [1_755_000_000, *means])
    return export.session(rows[-1][1] + 1_000_000)


def report(export: ExportBuilder, **options: object) -> Report:
    told: dict[str, object] = {"model": MODEL, "batch": 1, "context": (512,)} | options
    with TemporaryDirectory() as folder:
        trace = open_trace(export.write(Path(folder) / "steps.sqlite"))
        return analyze(trace, Options(**told))  # type: ignore[arg-type]


@cache
def whole() -> Report:
    return report(sampled())


def of_role(found: Report, role: str) -> MetricRow:
    (row,) = [row for row in found.metrics if row.role == role]
    return row


def slugs(found: Report) -> set[str]:
    return {finding.slug for finding in found.capture.findings}


def test_the_mean_of_the_steps_is_what_was_planted() -> None:
    (step,) = [row for row in whole().metrics if row.scope == "step"]
    _, steps = planted()
    wall = sum(end - start for start, end in steps)
    truth = [
        sum(float(level[start:end].sum()) for start, end in steps) / wall / 100
        for level in levels()
    ]
    got = [step.sm_active, step.tensor_active, step.dram_read, step.dram_write]
    assert got == pytest.approx(truth, abs=2e-3)  # samples are whole percents
    assert (step.gpu, step.role, step.interval_ns) == (0, None, EVERY_NS)
    assert step.sampled_share == 1.0
    assert step.span_ns == pytest.approx(wall / STEPS)


def test_bytes_are_percent_of_the_devices_peak_times_the_time() -> None:
    (step,) = [row for row in whole().metrics if row.scope == "step"]
    # Per step, by hand: each matrix product reads its percent of the peak while it runs.
    rows, _ = planted()
    read = sum((end - start) * READS.get(role, 0) for start, end, _, role in rows)
    written = sum((end - start) * 5 for start, end, _, role in rows if role not in READS)
    moved = (read + written) / 100 * PEAK / 1e9 / STEPS
    assert step.dram_bytes == pytest.approx(moved, rel=5e-3)
    assert (step.peak_bytes_per_s, step.peak_source) == (PEAK, "reported by the device")
    theory = sum(row.bytes.memory * row.instances_per_step for row in whole().operators)
    assert step.theory_bytes == pytest.approx(theory)
    # The 1.24 G weights in bf16 are 2.47 GB; products take 1.2 times that at 3352 GB/s.
    assert theory == pytest.approx(2.48e9, rel=0.01)
    assert step.bytes_ratio == pytest.approx(moved / theory, rel=5e-3)


def test_a_role_has_the_percent_of_its_own_kernels() -> None:
    for role, percent in READS.items():
        row = of_role(whole(), role)
        assert row.samples > 0
        assert row.dram_read == pytest.approx(percent / 100)
        assert row.tensor_active == pytest.approx(0.4)
        assert row.dram_write == 0
        assert row.sampled_share is None
    # 3072 x 2048 weights of 2 bytes take 1.2 x 12,582,912 / 3352 = 4,505 ns; 72 % of the peak in
    # that time are 10.87 MB, where theory has the weights, 2048 values in and 3072 out.
    row = of_role(whole(), "attn.qkv_proj")
    assert row.span_ns == 4_505
    assert row.dram_bytes == pytest.approx(0.72 * PEAK * 4_505e-9)
    assert row.theory_bytes == 12_582_912 + 2 * (2048 + 3072)
    assert row.bytes_ratio == pytest.approx(0.72 * PEAK * 4_505e-9 / 12_593_152)


def test_samples_of_a_long_kernel_are_those_with_both_sides_inside() -> None:
    rows, _ = planted()
    heads = [(start, end) for start, end, _, role in rows if role == "lm_head"]
    times = range(FIRST_NS, rows[-1][1] + 20_000, EVERY_NS)
    inside = sum(
        start <= t - EVERY_NS and t + EVERY_NS <= end for start, end in heads for t in times
    )
    assert of_role(whole(), "lm_head").samples == inside


def test_kernels_shorter_than_two_samples_have_none() -> None:
    rows = [row for row in whole().metrics if row.scope == "role" and row.samples == 0]
    assert "embed" in {row.role for row in rows}
    for row in rows:
        assert (row.sm_active, row.dram_read, row.dram_bytes, row.bytes_ratio) == (None,) * 4
        assert row.theory_bytes is not None


def test_measured_clocks_stand_beside_the_rated_one_and_move_no_bound() -> None:
    bare = report(sampled(names=["Unknown"] * 5))
    (step,) = [row for row in whole().metrics if row.scope == "step"]
    assert (step.clock_hz, step.rated_clock_hz) == (1_755_000_000, 1_980_000_000)
    assert whole().operators == bare.operators


def test_what_a_hole_hid_is_not_filled() -> None:
    (_, (first, end), _) = planted()[1]
    found = report(sampled(without=(first, end)))
    (step,) = [row for row in found.metrics if row.scope == "step"]
    wall = sum(end - start for start, end in planted()[1])
    # The sample before the hole has no interval either.
    assert step.sampled_share == pytest.approx(1 - (end - first) / wall, abs=2 * EVERY_NS / wall)


def test_reads_far_below_the_weights_are_told() -> None:
    assert "dram-reads-low" not in slugs(whole())
    found = report(sampled(divided_by=3))
    assert "dram-reads-low" in slugs(found)
    # Half of the time is not sampled: then the mean says too little.
    _, (_, (first, _), (_, last)) = planted()
    assert "dram-reads-low" not in slugs(report(sampled(divided_by=3, without=(first, last))))


def test_without_a_known_peak_shares_stay_and_bytes_are_withheld() -> None:
    other = sampled(bandwidth=None, device="NVIDIA H999")
    (step,) = [row for row in report(other).metrics if row.scope == "step"]
    assert step.dram_read is not None
    assert (step.dram_bytes, step.peak_bytes_per_s, step.bytes_ratio) == (None, None, None)


def test_a_peak_of_another_gpu_is_not_what_percents_are_of() -> None:
    found = report(sampled(), gpu="b200", peaks=("bw=9e12",))
    (step,) = [row for row in found.metrics if row.scope == "step"]
    assert step.peak_bytes_per_s == PEAK
    unknown = report(sampled(bandwidth=None, device="NVIDIA H999"), gpu="h100-sxm")
    (step,) = [row for row in unknown.metrics if row.scope == "step"]
    assert step.peak_bytes_per_s is None


def test_names_that_are_not_known_are_told() -> None:
    found = report(sampled(names=["a", "SMs Active [Avg]", "c", "d", "e"]))
    assert found.metrics == []
    assert "gpu-metrics-unusable" in slugs(found)


def test_a_mig_slice_has_no_samples_of_its_own() -> None:
    found = report(sampled(uuid="MIG-1234"))
    assert found.metrics == []
    assert "gpu-metrics-unusable" in slugs(found)


def test_without_steps_the_whole_window_is_told() -> None:
    export = ExportBuilder().gpu(0, H100, memory_bandwidth=PEAK).process(4000, cuda_devices=[0])
    export.kernel("k", 1_000, 2_000).kernel("k", 3_000, 5_000).metric_names(0, NAMES)
    for at, percent in ((0, 99), (1_000, 50), (2_000, 0), (3_000, 70), (4_000, 30), (5_000, 99)):
        export.metric_sample(0, at, [1_000_000_000, percent, 0, percent, 0])
    found = report(export.session(10_000), model=None)
    (row,) = found.metrics
    # From 1,000 to 5,000 ns: 50, 0, 70 and 30 percent of a microsecond each.
    assert (row.scope, row.samples, row.sm_active) == ("window", 4, 0.375)
    assert row.dram_bytes == pytest.approx(0.375 * PEAK * 4e-6)
    assert row.theory_bytes is None


def test_no_table_no_rows() -> None:
    export = ExportBuilder().gpu(0, H100).process(4000, cuda_devices=[0]).kernel("k", 1, 2)
    found = report(export.session(10_000), model=None)
    assert found.metrics == []
    assert "gpu-metrics-unusable" not in slugs(found)
