"""Changes of the planted step whose outcome follows from its planted times and bytes by hand."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from nsysroof import Options, analyze, open_trace
from nsysroof.carryover import Change, carry_over
from nsysroof.errors import UsageError
from nsysroof.outcomes import WhatIf, WhatIfRow
from nsysroof.results import Report
from tests.report import sample

FIXTURES = Path(__file__).parents[2] / "fixtures"
ROOFED = ("attn.qkv_proj", "attn.core", "attn.o_proj", "moe.gate_up", "moe.down", "lm_head")
"""The operators that were planted above a roof; all others are at the latency floor."""


@pytest.fixture(scope="module")
def report() -> Report:
    trace = open_trace(FIXTURES / "qwen3-30b-a3b-gh200.sqlite")
    return analyze(trace, Options(model="qwen3-30b-a3b", batch=1, context=(4096,)))


def row(found: WhatIf, role: str) -> WhatIfRow:
    (only,) = [one for one in found.rows if one.role == role]
    return only


def test_no_change_is_the_step_measured(report: Report) -> None:
    found = carry_over(report, Change())
    assert report.budget is not None
    assert found.changes == {}
    assert found.expected_ns == found.measured_ns == report.budget.wall_ns
    assert found.low_ns < found.expected_ns < found.high_ns  # instances differ by some percent
    assert found.high_ns - found.low_ns < 0.02 * found.measured_ns
    assert all(one.expected_ns == one.measured_ns for one in found.rows)


def test_twice_the_bandwidth_halves_what_memory_limits_and_nothing_else(report: Report) -> None:
    found = carry_over(report, Change(peaks=("bw=8e12",)))
    assert report.budget is not None
    by_role = report.budget.by_role
    for role, ns in by_role.items():
        assert row(found, role).expected_ns == pytest.approx(ns / 2 if role in ROOFED else ns)
    saved = sum(by_role[role] for role in ROOFED) / 2
    assert found.expected_ns == pytest.approx(found.measured_ns - saved)
    assert found.changes == {"peaks": "bw=8e12"}


def test_an_operator_never_beats_the_latency_floor(report: Report) -> None:
    found = carry_over(report, Change(peaks=("bw=40e12",)))
    core = row(found, "attn.core")  # 6,304 ns at a tenth of the time would be 630 ns
    assert core.expected_ns == pytest.approx(48 * 1_300)
    assert core.limiter == "latency"


def test_a_longer_context_lengthens_attention_by_its_bytes(report: Report) -> None:
    found = carry_over(report, Change(context=(8192,)))
    assert report.budget is not None
    # 2 B x (T tokens x 4 KV heads x 256 + 2 x 32 heads x 128 for q and output)
    factor = (2 * (8192 * 4 * 256 + 2 * 32 * 128)) / 8_404_992
    core = row(found, "attn.core")
    assert core.expected_ns == pytest.approx(report.budget.by_role["attn.core"] * factor)
    assert core.ratio == pytest.approx(
        report.budget.by_role["attn.core"] / (48 * 2_101.248), rel=1e-6
    )
    grown = found.expected_ns - found.measured_ns
    assert grown == pytest.approx(core.expected_ns - (core.measured_ns or 0))
    assert found.changes == {"context": "4,096 → 8,192"}


def test_a_larger_batch_reads_more_experts(report: Report) -> None:
    found = carry_over(report, Change(batch=2))
    assert report.budget is not None
    # Expected distinct experts of two tokens: 128 x (1 - (1 - 8/128)^2) = 15.5, so weights of
    # 15.5 experts, and inputs and outputs of two rows per expert chosen.
    size = 2 * (15.5 * 768 * 2048 + 16 * 768 + 16 * 2048)
    assert row(found, "moe.down").expected_ns == pytest.approx(
        report.budget.by_role["moe.down"] * size / 25_210_880
    )
    assert found.tokens == 2
    assert found.tokens_per_s == pytest.approx(2 / found.expected_ns * 1e9)


def test_tensor_parallelism_brings_collectives_that_were_not_measured(report: Report) -> None:
    found = carry_over(report, Change(tp=2))
    for role in ("attn.all_reduce", "moe.all_reduce"):
        added = row(found, role)
        assert (added.measured_ns, added.treatment) == (None, "added")
        assert added.expected_ns == 48 * 1_300  # far below the latency floor by its bytes
        assert added.high_ns == pytest.approx(48 * 1_300 * 3.0, rel=0.01)  # as the worst measured
    assert row(found, "attn.qkv_proj").expected_ns == pytest.approx(
        (row(found, "attn.qkv_proj").measured_ns or 0)
        * (2 * (2048 * 2560 + 2048 + 2560))
        / 20_985_856
    )
    assert any("not measured" in note and "moe.all_reduce" in note for note in found.notes)


def test_another_format_is_another_kernel_so_the_range_is_wide(report: Report) -> None:
    found = carry_over(report, Change(weights="fp8", activations="bf16"))
    down = row(found, "moe.down")
    assert not down.same_kernel
    assert down.low_ns == pytest.approx(down.bound_ns)
    assert down.high_ns == down.measured_ns
    assert down.low_ns < down.expected_ns < down.high_ns
    core = row(found, "attn.core")
    assert core.same_kernel
    assert core.expected_ns == core.measured_ns
    assert any("another kernel" in note and "moe.down" in note for note in found.notes)


def test_another_gpu_brings_its_own_bandwidth(report: Report) -> None:
    found = carry_over(report, Change(gpu="h100-sxm"))
    assert report.budget is not None
    ratio = 4.0e12 / 3.35e12
    assert row(found, "lm_head").expected_ns == pytest.approx(
        report.budget.by_role["lm_head"] * ratio, rel=1e-3
    )
    assert found.changes["gpu"] == "gh200-96 → h100-sxm"


def test_what_is_not_priced_keeps_its_time_and_is_told(report: Report) -> None:
    found = carry_over(report, Change(peaks=("bw=8e12",)))
    assert report.budget is not None
    budget = report.budget
    kept = budget.unexplained_ns + budget.copy_ns + budget.idle_ns - budget.overlap_ns
    assert found.kept_ns == kept
    assert found.expected_ns == pytest.approx(kept + sum(one.expected_ns for one in found.rows))
    assert "idle 789.4 µs" in found.notes[0]


def test_what_does_not_fit_is_said(report: Report) -> None:
    found = carry_over(report, Change(batch=256, context=(131_072,)))
    assert any("does not fit" in note for note in found.notes)


def test_reports_without_a_step_or_a_model_cannot_be_carried_over() -> None:
    for nothing in (sample.empty(), replace(sample.full(), budget=None)):
        with pytest.raises(UsageError) as caught:
            carry_over(nothing, Change())
        assert caught.value.slug == "whatif-needs-step"


def test_sequences_of_different_lengths_need_theirs_for_another_batch(report: Report) -> None:
    mixed = replace(
        report, assumptions=replace(report.assumptions, batch=2, context=[1_000, 7_000])
    )
    with pytest.raises(UsageError) as caught:
        carry_over(mixed, Change(batch=4))
    assert caught.value.slug == "context-missing"
