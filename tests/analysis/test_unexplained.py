"""Kernels without an operator: their time per step, their bytes, and a rule for unknown ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.builder import ExportBuilder
from nsysroof.analysis import Options, analyze
from nsysroof.results import Report, UnexplainedRow
from nsysroof.trace import open_trace
from tests.report.render import to_file

REAL = Path(__file__).parents[2] / "../shared/traces/h100x2-training-3.25.0.sqlite"
MS = 1_000_000
H100_BANDWIDTH = 3.352e12

COPY = (
    "void at::native::unrolled_elementwise_kernel<at::native::direct_copy_kernel_cuda("
    "at::TensorIteratorBase&)::{lambda()#3}::operator()() const::{lambda()#7}::operator()() const::"
    "{lambda(float)#1}, std::array<char*, 2ul>, 4, TrivialOffsetCalculator<1, unsigned int>, "
    "TrivialOffsetCalculator<1, unsigned int>, at::native::memory::LoadWithCast<1>, "
    "at::native::memory::StoreWithCast<1> >(int)"
)
FILL = "void at::native::vectorized_elementwise_kernel<8, at::native::FillFunctor<float>, {array} >"
FILL = FILL.format(array="std::array<char*, 1ul>")
COPY_NS = 87_279  # 5,880 of them are 513.2 ms


def report(export: ExportBuilder, tmp_path: Path, **options: object) -> Report:
    path = export.write(tmp_path / "capture.sqlite")
    return analyze(open_trace(path), Options(**options))  # type: ignore[arg-type]


def copies_and_products() -> ExportBuilder:
    """Build 5 steps of 1,176 copies, 45 % of the GPU time, and 4 products of 31.36 ms each."""
    export, at, correlation = ExportBuilder(), 0, 0
    for _ in range(5):
        start = at
        for number in range(4 + 1176):
            if number < 4:
                name, ns, blocks = f"nvjet_tst_{number}x8_64x16_1x1_v_bz_TNT", 31_360_000, 132
            else:
                name, ns, blocks = COPY, COPY_NS, 32_768
            export.launch("cudaLaunchKernel", at, at + 1, correlation=correlation)
            export.kernel(name, at + 1, at + 1 + ns, grid=(blocks, 1, 1), correlation=correlation)
            at += ns + 1
            correlation += 1
        export.nvtx("step", start, at)
    return export


def test_o41_copies_that_dominate_are_the_first_of_what_no_operator_explains(
    tmp_path: Path,
) -> None:
    """45 % of the time of a step are 1,176 copies of 87.3 µs, 102.6 ms: an overhead, with bytes."""
    found = report(copies_and_products(), tmp_path, gpu="h100-sxm", step_range="step")
    first = found.unexplained[0]
    assert (first.name, first.klass) == (COPY, "copy_cast")
    assert (first.instances, first.total_ns) == (5_880, 5_880 * COPY_NS)
    assert first.total_ns == pytest.approx(513.2 * MS, rel=1e-5)
    assert first.share == pytest.approx(0.45, abs=1e-3)
    assert first.instances_per_step == 1176
    assert first.ns_per_step == pytest.approx(102.6 * MS, rel=1e-3)
    # 32,768 blocks of 128 x 4 elements, the last one not full; FP32 written, 1 to 8 B read.
    assert first.bytes_low == (32_767 * 512 + 1) * 5
    assert first.bytes_high == 32_768 * 512 * 12
    assert first.evidence == "launch-geometry"
    # The least takes 25.0 µs at 3.352 TB/s, so the ratio of 87.3 µs is 3.49 or less.
    assert first.bound_ns == pytest.approx(83_883_525 / H100_BANDWIDTH * 1e9)
    assert first.ratio == pytest.approx(3.4877, abs=1e-4)
    shown = to_file(found, "table")
    assert "each moves 83.9 MB to 201 MB by its launch geometry" in shown
    assert "≥ 25.0 µs, p50 87.3 µs, ratio ≤ 3.49" in shown


def test_without_steps_nothing_is_per_step_and_without_a_gpu_there_is_no_bound(
    tmp_path: Path,
) -> None:
    export = ExportBuilder().kernel(COPY, 0, 90_000, grid=(32_768, 1, 1))
    row = report(export, tmp_path).unexplained[0]
    assert (row.instances_per_step, row.ns_per_step) == (None, None)
    assert (row.bound_ns, row.ratio) == (None, None)
    assert row.bytes_low == (32_767 * 512 + 1) * 5


def test_the_latency_floor_and_open_ends_judge_no_kernel(tmp_path: Path) -> None:
    export = ExportBuilder().kernel(FILL, 0, 1_500, grid=(2, 1, 1))
    export.kernel("triton_poi_fused_add_0", 2_000, 9_000, grid=(999, 1, 1))
    lost = FILL.replace("at::native::FillFunctor<float>", "house::Fill")
    export.kernel(lost, 10_000, 90_000, grid=(80_000, 1, 1))
    rows = {row.name: row for row in report(export, tmp_path, gpu="h100-sxm").unexplained}
    # 1,025 to 2,048 floats take 1.2 ns, far below the 1.3 µs of any kernel.
    fill = rows[FILL]
    assert (fill.bytes_low, fill.bytes_high, fill.ratio) == (4_100, 8_192, None)
    assert fill.bound_ns == pytest.approx(4_100 / H100_BANDWIDTH * 1e9)
    # Operands and elements of a block are not in the name.
    triton = rows["triton_poi_fused_add_0"]
    assert (triton.bytes_low, triton.bytes_high, triton.evidence) == (None, None, None)
    # Nothing limits what an unknown type holds: at least a byte an element, but no ratio.
    assert (rows[lost].bytes_low, rows[lost].bytes_high, rows[lost].ratio) == (
        79_999 * 1024 + 1,
        None,
        None,
    )
    assert rows[lost].bound_ns is not None


def test_blocks_of_two_sizes_widen_the_range(tmp_path: Path) -> None:
    export = ExportBuilder()
    export.kernel(FILL, 0, 10, grid=(3, 1, 1), block=(128, 1, 1))
    export.kernel(FILL, 20, 40, grid=(3, 1, 1), block=(256, 1, 1))
    [row] = report(export, tmp_path).unexplained
    assert (row.bytes_low, row.bytes_high) == ((2 * 1024 + 1) * 4, 3 * 2048 * 4)
    assert (row.instances, row.p50_ns) == (2, 20)


def test_a_kernel_of_unknown_class_carries_its_rule_and_the_page_says_how_to_get_all(
    tmp_path: Path,
) -> None:
    export = ExportBuilder().kernel("house_mixer", 0, 10_000)
    found = report(export.kernel(FILL, 20_000, 21_000), tmp_path)
    rows = {row.name: row for row in found.unexplained}
    assert rows[FILL].stub is None
    stub = rows["house_mixer"].stub
    assert stub is not None
    own = tmp_path / "own.toml"
    own.write_text(stub.replace('"CLASS"', '"activation"'))
    later = analyze(open_trace(tmp_path / "capture.sqlite"), Options(rules=own)).unexplained
    assert {row.name: (row.klass, row.stub) for row in later} == {
        "house_mixer": ("activation", None),
        FILL: ("fill", None),
    }
    assert "nsysroof rules stub TRACE > own.toml" in to_file(found, "table")


def test_a_grid_that_no_gpu_could_fill_tells_nothing(tmp_path: Path) -> None:
    export = ExportBuilder().kernel(FILL, 0, 10, grid=(2**31 - 1, 65_535, 65_535))
    [row] = report(export, tmp_path, gpu="h100-sxm").unexplained
    assert (row.bytes_low, row.bytes_high, row.evidence, row.bound_ns) == (None, None, None, None)


def test_with_a_model_what_only_moves_memory_is_called_an_overhead(tmp_path: Path) -> None:
    export = ExportBuilder().kernel(COPY, 0, 10).kernel(FILL, 20, 30).kernel("house_mixer", 40, 50)
    export.kernel("nvjet_tst_64x8_64x16_1x1_v_bz_TNT", 60, 70)
    found = report(export, tmp_path, gpu="h100-sxm", model="llama-3.1-8b", context=(4096,))
    hints = {row.klass: row.hint.partition(":")[0].partition(";")[0] for row in found.unexplained}
    assert hints == {
        "copy_cast": "overhead",
        "fill": "overhead",
        "unknown": "no rule knows this name",
        "gemm": "no operator of the model does this",
    }


@pytest.mark.skipif(not REAL.exists(), reason="the real captures are not here")
def test_real_copies_run_near_the_bandwidth_and_never_above_it() -> None:
    """Conversions of 15,600 x 1,536 FP32 to BF16 in a video model's training on two H100."""
    found = analyze(open_trace(REAL), Options(gpu="h100-sxm"))
    rows: list[UnexplainedRow] = [
        row
        for row in found.unexplained
        if "bfloat16_copy_kernel" in row.name and row.grid == [23_400, 1, 1]
    ]
    assert len(rows) == 1
    row = rows[0]
    # 23,400 x 1,024 elements are exactly 15,600 x 1,536; 4 B are read and 2 written.
    assert row.bytes_high == 15_600 * 1_536 * 6
    assert row.p50_ns is not None
    rate = row.bytes_high / row.p50_ns * 1e9
    assert 0.85 * H100_BANDWIDTH < rate < H100_BANDWIDTH
    # What moves for long enough that no cache can hold it stays below the bandwidth.
    judged = [row for row in found.unexplained if row.ratio and (row.bytes_low or 0) > 90e6]
    assert len(judged) >= 10
    assert min(row.ratio or 0 for row in judged) >= 1.0
