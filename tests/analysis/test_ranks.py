"""The ranks side by side: where the steps of each go, and which one the others wait for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from fixtures.builder import ExportBuilder
from nsysroof.analysis import Options, analyze
from nsysroof.analysis.measured import measure
from nsysroof.analysis.rank_time import RankTime, waiting_kernels
from nsysroof.analysis.ranks import Rank, rank_rows
from nsysroof.results import Finding, RankRow, Report
from nsysroof.trace import open_trace
from tests.analysis.decode_steps import (
    EMBED,
    FIRST_NORM,
    GEMM,
    LAYER,
    NORM,
    SAMPLE,
    SMALL_NS,
    WIDTHS,
)
from tests.analysis.rank_steps import (
    ALL_REDUCE,
    GAP_NS,
    LAYERS,
    STEP,
    STEP_NS,
    TRANSFER_NS,
    Plan,
    capture,
)

FIXTURES = Path(__file__).parents[2] / "fixtures"
BY_RANGE = Options(step_range="^step_")


def report_on(export: ExportBuilder, folder: Path, options: Options = BY_RANGE) -> Report:
    return analyze(open_trace(export.write(folder / "ranks.sqlite")), options)


def slow_ranks(report: Report) -> list[Finding]:
    return [found for found in report.capture.findings if found.slug == "slow-rank"]


def test_a_rank_whose_products_are_slower_is_the_slowest(tmp_path: Path) -> None:
    """3 µs more in each of 4 products: 12 µs a step, which the other rank waits."""
    report = report_on(capture([Plan(), Plan(slower={GEMM: 3_000})]), tmp_path)
    quick, slow = report.ranks
    work = LAYERS * 22_000
    wall = STEP_NS + LAYERS * 3_000
    assert (quick.gpu, quick.pids, quick.steps, quick.slowest) == (0, [4000], 5, False)
    assert (slow.gpu, slow.pids, slow.steps, slow.slowest) == (1, [4001], 5, True)
    assert (quick.work_ns_per_step, slow.work_ns_per_step) == (work, work + 12_000)
    assert (quick.wait_ns_per_step, slow.wait_ns_per_step) == (12_000, 0)
    assert quick.transfer_ns_per_step == slow.transfer_ns_per_step == LAYERS * TRANSFER_NS
    assert quick.collective_ns_per_step == LAYERS * TRANSFER_NS + 12_000
    assert slow.collective_ns_per_step == LAYERS * TRANSFER_NS
    assert quick.wall_p50_ns == slow.wall_p50_ns == wall
    assert (quick.behind_ns, slow.behind_ns) == (0, 12_000)
    assert {row.decided_by for row in report.ranks} == {"own_time"}
    (found,) = slow_ranks(report)
    assert found.severity == "warning"  # 12 of 148 µs are 8.1 %
    assert found.text == (
        "GPU 1 is the slowest of 2 ranks: 12.0 µs per step more than GPU 0 outside collectives, "
        "8.1 % of the step; it spends more on gemm (+12.0 µs)"
    )
    assert "clocks" in found.hint


def test_idle_time_that_its_host_causes_makes_a_rank_the_slowest(tmp_path: Path) -> None:
    """4 µs of host_late before each product instead of a gap of 1 µs: 12 µs a step."""
    report = report_on(capture([Plan(late=(GEMM,), late_ns=4_000), Plan(), Plan()]), tmp_path)
    slow, one, two = report.ranks
    assert [row.slowest for row in report.ranks] == [True, False, False]
    assert [row.behind_ns for row in report.ranks] == [12_000, 0, 0]
    assert (slow.idle_cause, slow.idle_cause_ns_per_step) == ("host_late", LAYERS * 4_000)
    assert one.idle_cause == two.idle_cause == "dependency"
    assert one.wait_ns_per_step == 12_000
    (found,) = slow_ranks(report)
    assert "12.0 µs per step more than GPU 1 outside collectives" in found.text
    assert found.text.endswith("it spends more on idle host_late (+16.0 µs)")
    assert "process" in found.hint


def test_o43_the_launch_paced_rank_of_a_production_capture(tmp_path: Path) -> None:
    """1,322 micro-gaps of 36.3 µs are 48 ms a step, which the other rank waits in 159 all-reduces."""
    pieces = [(NORM, 60_000)] * 1_322
    kernels: list[tuple[str, int]] = []
    for number in range(159):
        kernels += pieces[number * 1_322 // 159 : (number + 1) * 1_322 // 159]
        kernels.append((ALL_REDUCE, 40_000))
    late = Plan(late=(NORM,), late_ns=36_300)
    report = report_on(capture([Plan(), late], kernels=kernels, steps=5, gap_ns=0), tmp_path)
    waiting, slow = report.ranks
    lost = 1_322 * 36_300
    assert (slow.slowest, slow.behind_ns) == (True, lost)
    # What comes before the first kernel belongs to the step before it, and the first step has none.
    idled = (5 * 1_322 - 1) * 36_300
    assert (slow.idle_cause, slow.idle_cause_ns_per_step) == ("host_late", idled / 5)
    assert (waiting.wait_ns_per_step, slow.wait_ns_per_step) == (lost, 0)
    assert waiting.transfer_ns_per_step == 159 * 40_000
    assert "47,988.6 µs per step more than GPU 0" in slow_ranks(report)[0].text


def test_with_a_model_the_role_that_takes_longer_is_named(tmp_path: Path) -> None:
    """Llama-3.2-1B on two ranks, mlp.gate_up_proj 5 µs slower in its 16 layers on the second."""

    def product(role: str, extra: int) -> tuple[str, int]:
        return GEMM, round(1.2 * WIDTHS["llama-3.2-1b"][role] * 2 / 3352.0 / 2) + extra

    def step(extra: int) -> list[tuple[str, int]]:
        found = [(EMBED, SMALL_NS), (ALL_REDUCE, TRANSFER_NS), (FIRST_NORM, SMALL_NS)]
        for layer in range(16):
            for name, role, _ in LAYER[layer == 0 :]:
                grown = extra if role == "mlp.gate_up_proj" else 0
                found.append(product(role, grown) if name == GEMM else (name, SMALL_NS))
                if role in {"attn.o_proj", "mlp.down_proj"}:
                    found.append((ALL_REDUCE, TRANSFER_NS))
        return [*found, (NORM, SMALL_NS), product("lm_head", 0), (SAMPLE, SMALL_NS)]

    # A name of its own tells the slower launches apart where both ranks run one list of kernels.
    usual, slow = step(0), step(5_000)
    grown = [at for at, (a, b) in enumerate(zip(usual, slow, strict=True)) if a != b]
    assert len(grown) == 16
    export = capture([Plan(), Plan(slower_at=dict.fromkeys(grown, 5000))], kernels=usual)
    options = Options(model="llama-3.2-1b", batch=1, context=(512,), tp=2, step_range="^step_")
    report = report_on(export, tmp_path, options)
    assert [row.behind_ns for row in report.ranks] == [0, 80_000]
    (found,) = slow_ranks(report)
    assert found.text.endswith("it spends more on mlp.gate_up_proj (+80.0 µs)")
    assert all(
        row.tokens_per_s == pytest.approx(1e9 / row.wall_p50_ns)
        for row in report.ranks
        if row.wall_p50_ns
    )


def test_equal_ranks_have_no_slowest(tmp_path: Path) -> None:
    report = report_on(capture([Plan(), Plan()]), tmp_path)
    assert [row.behind_ns for row in report.ranks] == [0, 0]
    assert not any(row.slowest for row in report.ranks)
    assert slow_ranks(report) == []


@pytest.mark.parametrize(
    ("extra", "named"),
    [
        ((6_000, 6_000, 7_000, 6_000, 6_000), True),  # always about 6 µs
        ((4_000, 20_000, 0, 30_000, 6_000), False),  # 6 µs in the median, up to 30
        ((1_000, 1_000, 1_000, 1_000, 1_000), False),  # 1 of 137 µs is 0.7 %
        ((6_000, 6_000, 6_000, 6_000), False),  # four steps are no evidence
        ((2_000, 30_000) * 6, True),  # behind in each of twelve steps, if not by the same
        ((*(2_000, 30_000) * 5, 0), True),  # in ten of eleven, above nine tenths
        ((*(2_000, 30_000) * 5, 0, 0), False),  # in ten of twelve
    ],
)
def test_a_difference_inside_the_noise_names_nobody(
    extra: tuple[int, ...], named: bool, tmp_path: Path
) -> None:
    export = capture([Plan(), Plan(extra=extra)], steps=len(extra))
    report = report_on(export, tmp_path)
    assert [row.slowest for row in report.ranks] == [False, named]
    assert len(slow_ranks(report)) == named
    assert [one.severity for one in slow_ranks(report)] == (["note"] if named else [])


@pytest.mark.parametrize("steps", [5, 9, 10, 30])
def test_equal_ranks_with_noise_are_seldom_told_apart(steps: int) -> None:
    """Synthetic: own times of two ranks, normal around 1 ms with 5 %; at most one in a hundred."""
    random = np.random.default_rng(7)
    named = 0
    for _ in range(2_000):
        drawn = random.normal(1e6, 5e4, (2, steps)).astype(np.int64)
        pair = [time(gpu, own.tolist(), [9] * steps) for gpu, own in enumerate(drawn)]
        named += any(row.slowest for row in rows_of(*pair))
    assert named <= 20


def test_what_changes_on_both_ranks_is_no_noise(tmp_path: Path) -> None:
    """Steps grow by up to 40 µs on both, and the second is always 4 µs behind."""
    grown = (0, 10_000, 20_000, 30_000, 40_000)
    plans = [Plan(extra=grown), Plan(extra=[ns + 4_000 for ns in grown])]
    report = report_on(capture(plans), tmp_path)
    assert [row.behind_ns for row in report.ranks] == [0, 4_000]
    assert [row.slowest for row in report.ranks] == [False, True]


def test_without_collectives_the_step_decides(tmp_path: Path) -> None:
    kernels = [(name, ns) for name, ns in STEP if name != ALL_REDUCE]
    report = report_on(capture([Plan(slower={GEMM: 3_000}), Plan()], kernels=kernels), tmp_path)
    slow, quick = report.ranks
    assert slow.decided_by == quick.decided_by == "step_wall"
    assert (slow.wait_ns_per_step, slow.collective_ns_per_step) == (None, 0)
    assert (slow.behind_ns, slow.slowest) == (12_000, True)
    assert "collectives" not in slow_ranks(report)[0].text


def test_the_account_of_a_fixture_adds_up() -> None:
    """Of the planted waits of GPU 0 and 1 the transfers are taken: 6 steps, each rank's own time."""
    options = Options(
        model="llama-3.1-8b", batch=8, context=(1024,), tp=2, step_range="^decode_step_"
    )
    report = analyze(open_trace(FIXTURES / "llama-3.1-8b-h100-tp2.sqlite"), options)
    starts = [80014600, 85272602, 90731424, 96081751, 101343053, 106665175]  # planted, GPU 0
    for row, line in zip(report.ranks, report.timeline, strict=True):
        first = starts[0] if row.gpu == 0 else 80017100
        end = line.window_start_ns + line.window_ns
        parts = (row.work_ns_per_step, row.collective_ns_per_step, row.idle_ns_per_step)
        assert sum(part or 0.0 for part in parts) * 6 == pytest.approx(end - first, abs=1e-3)
        waited = (row.wait_ns_per_step or 0.0) + (row.transfer_ns_per_step or 0.0)
        assert row.collective_ns_per_step == pytest.approx(waited)
    # The host holds up GPU 0 in one step only: that is no slow rank.
    assert not any(row.slowest for row in report.ranks)


def test_one_gpu_is_no_rank(tmp_path: Path) -> None:
    assert report_on(capture([Plan()]), tmp_path).ranks == []


def test_what_serves_a_collective_is_own_work() -> None:
    """The all-reduces of a fixture as if by a class that waits for nobody: the operator tells."""
    options = Options(
        model="llama-3.1-8b", batch=8, context=(1024,), tp=2, step_range="^decode_step_"
    )
    found = measure(open_trace(FIXTURES / "llama-3.1-8b-h100-tp2.sqlite"), options)
    plain = [replace(one, klass="elementwise") for one in found.classes]
    mains = replace(found, classes=plain)
    assert waiting_kernels(mains).sum() == 2 * 6 * (2 * 32 + 1)  # GPUs, steps, layers and logits
    helpers = found.kernels.with_columns(main=pl.lit(value=False))
    assert waiting_kernels(replace(mains, kernels=helpers)).sum() == 0
    # A class that waits is enough, whatever it serves.
    assert waiting_kernels(replace(found, kernels=helpers)).sum() == 2 * 6 * (2 * 32 + 1)


def time(gpu: int, work: list[int], collective: list[int] | None = None) -> RankTime:
    values = np.array(work, dtype=np.int64)
    waits = np.array(collective or [0] * len(work), dtype=np.int64)
    return RankTime(gpu=gpu, pids=(7,), work=values, collective=waits, idle=np.zeros_like(values))


def rows_of(*times: RankTime, idle_known: bool = True) -> list[RankRow]:
    return rank_rows([Rank(time=one, idle_known=idle_known) for one in times])[0]


def test_other_numbers_of_steps_are_compared_by_their_medians() -> None:
    """100 against 80 in the median; the steps of one rank differ by 30, of the other by 4."""
    other = time(1, [78, 78, 80, 80, 82, 82], [9] * 6)
    wide = rows_of(time(0, [85, 85, 100, 115, 115], [9] * 5), other)
    assert [(row.behind_ns, row.slowest) for row in wide] == [(20, False), (0, False)]
    narrow = rows_of(time(0, [95, 95, 100, 105, 105], [9] * 5), other)
    assert [(row.behind_ns, row.slowest) for row in narrow] == [(20, True), (0, False)]


def test_of_two_equally_slow_ranks_none_is_the_slowest() -> None:
    found = rows_of(
        time(0, [100] * 4, [1] * 4), time(1, [100] * 4, [1] * 4), time(2, [80] * 4, [21] * 4)
    )
    assert [(row.behind_ns, row.slowest) for row in found] == [(20, False), (20, False), (0, False)]


@pytest.mark.parametrize(
    ("times", "idle_known"),
    [
        ((time(0, [100] * 4, [9] * 4), time(1, [80] * 4)), True),  # collectives on one rank only
        ((time(0, [100] * 4, [9] * 4), time(1, [80] * 4, [29] * 4)), False),
        ((time(0, [100] * 4, [9] * 4), time(1, [])), True),
    ],
)
def test_ranks_that_cannot_be_compared_are_not(
    times: tuple[RankTime, ...], idle_known: bool
) -> None:
    found = rows_of(*times, idle_known=idle_known)
    assert [(row.decided_by, row.behind_ns, row.slowest) for row in found] == [
        (None, None, False)
    ] * 2
    assert [row.idle_ns_per_step is None for row in found] == [
        not idle_known or not one.steps for one in times
    ]


def test_a_collective_beside_other_work_costs_the_step_nothing(tmp_path: Path) -> None:
    """A reduction of 9 µs beside a product of 20 µs on another stream."""
    export = capture([Plan(), Plan()], steps=3)
    before = report_on(export, tmp_path).ranks
    for gpu in (0, 1):
        for step in range(3):
            begin = 1_000_000 + step * STEP_NS + GAP_NS + 2_000 + GAP_NS  # the first product
            export.kernel(
                ALL_REDUCE, begin + 1_000, begin + 10_000, stream=9, device=gpu, pid=4000 + gpu
            )
    export.write(tmp_path / "beside.sqlite")
    after = analyze(open_trace(tmp_path / "beside.sqlite"), BY_RANGE).ranks
    for row, earlier in zip(after, before, strict=True):
        assert row.collective_ns_per_step == earlier.collective_ns_per_step
        assert row.work_ns_per_step == earlier.work_ns_per_step
        assert row.transfer_ns_per_step == (LAYERS + 1) * TRANSFER_NS
