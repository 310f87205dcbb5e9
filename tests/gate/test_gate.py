"""Limits and their verdicts, on reports changed by hand; what cannot be judged never passes."""

from __future__ import annotations

import msgspec
import pytest

from nsysroof.errors import UsageError
from nsysroof.gate import CONDITIONS_DIFFER, Limits, check
from nsysroof.outcomes import Check, Rule
from nsysroof.results import Assumptions, Coverage, ImpossibleRow, KernelRow, OperatorRow, Report
from tests.report import sample


def report(
    operators: list[OperatorRow] | None = None,
    *,
    kernels: list[KernelRow] | None = None,
    impossible: list[ImpossibleRow] | None = None,
    **assumed: object,
) -> Report:
    """Return a report without findings or steps, and with the operators given."""
    whole = sample.full()
    return msgspec.structs.replace(
        whole,
        capture=sample.capture(findings=[]),
        assumptions=msgspec.structs.replace(whole.assumptions, **assumed),
        steps=msgspec.structs.replace(whole.steps, wall_ns=None),
        operators=operators or [],
        kernels=kernels or [],
        impossible=impossible or [],
    )


def measured(role: str, ns: int, **changed: object) -> OperatorRow:
    return sample.operator(role, measured_ns=ns, **changed)


def ratio(role: str, value: float | None, limiter: str | None = "memory") -> OperatorRow:
    return sample.operator(role, ratio=value, limiter=limiter)


def judged(judged_report: Report, limits: Limits, *baselines: Report) -> Check:
    return check(judged_report, limits, name="run", baselines=baselines)


def verdicts(found: Check) -> dict[str, str]:
    return {rule.rule: rule.verdict for rule in found.rules}


def only(found: Check) -> Rule:
    (rule,) = found.rules
    return rule


# Ratios


@pytest.mark.parametrize(
    ("limit", "verdict"), [(2.0, "pass"), (1.999, "fail"), (2.5, "pass"), (1.0, "fail")]
)
def test_a_ratio_may_reach_its_limit(limit: float, verdict: str) -> None:
    found = judged(report([ratio("lm_head", 2.0)]), Limits(max_ratio={"lm_head": limit}))
    rule = only(found)
    assert (rule.rule, rule.value, rule.limit) == ("max-ratio lm_head", 2.0, limit)
    assert (rule.verdict, found.verdict) == (verdict, verdict)


def test_the_worst_cost_of_a_role_counts() -> None:
    rows = [ratio("attn.core", 1.2), ratio("attn.core", 3.4), ratio("attn.core", 2.0)]
    assert only(judged(report(rows), Limits(max_ratio={"attn.core": 3.0}))).value == 3.4


def test_a_role_is_found_inside_a_fused_one() -> None:
    rows = [ratio("attn.residual+mlp.norm", 5.0)]
    assert only(judged(report(rows), Limits(max_ratio={"mlp.norm": 4.0}))).verdict == "fail"


def test_a_star_means_every_roofline_bound_role_without_a_limit_of_its_own() -> None:
    rows = [
        ratio("attn.core", 3.0),
        ratio("lm_head", 1.1),
        ratio("mlp.down_proj", 1.6),
        ratio("mlp.norm", 40.0, "latency"),
    ]
    found = judged(report(rows), Limits(max_ratio={"*": 1.5, "attn.core": 3.5}))
    assert verdicts(found) == {
        "max-ratio attn.core": "pass",
        "max-ratio lm_head": "pass",
        "max-ratio mlp.down_proj": "fail",
    }


@pytest.mark.parametrize(
    ("rows", "role"),
    [
        ([ratio("lm_head", 1.0)], "attn.core"),  # no such role
        ([ratio("lm_head", None, None)], "lm_head"),  # no bound
        ([ratio("lm_head", 1.1), ratio("lm_head", None)], "lm_head"),  # one cost has none
        ([ratio("lm_head", float("nan"))], "lm_head"),
        ([], "*"),
        ([ratio("mlp.norm", 9.0, "latency")], "*"),
        ([ratio("lm_head", None, None)], "*"),
    ],
)
def test_a_ratio_that_is_not_known_does_not_pass(rows: list[OperatorRow], role: str) -> None:
    found = judged(report(rows), Limits(max_ratio={role: 100.0}))
    assert (found.verdict, only(found).value) == ("inconclusive", None)


def test_an_impossible_ratio_does_not_pass() -> None:
    rows = [ratio("mlp.act", 0.8)]
    limits = Limits(max_ratio={"mlp.act": 2.0})
    for hard, verdict in ((True, "inconclusive"), (False, "pass")):
        impossible = ImpossibleRow(
            role="mlp.act", ratio=0.8, hard=hard, likely_cause="experts", evidence=""
        )
        assert judged(report(rows, impossible=[impossible]), limits).verdict == verdict


# Shares


def with_idle(*accounts: tuple[int, int | None, dict[str, int] | None]) -> Report:
    whole = report()
    line = whole.timeline[0]
    lines = [
        msgspec.structs.replace(line, gpu=gpu, window_ns=window, idle_ns=idle, idle_by_cause=causes)
        for gpu, (window, idle, causes) in enumerate(accounts)
    ]
    return msgspec.structs.replace(whole, timeline=lines)


def test_idle_is_a_share_of_the_time_inside_steps() -> None:
    # 1,000 ns; 500 idle, of which 400 before the steps and 20 the profiler's: 80 of 580.
    causes = {"outside_steps": 400, "profiler": 20, "sync": 80}
    found = judged(with_idle((1_000, 500, causes)), Limits(max_idle=0.14))
    assert only(found).value == pytest.approx(80 / 580)
    assert found.verdict == "pass"
    assert judged(with_idle((1_000, 500, causes)), Limits(max_idle=0.13)).verdict == "fail"


def test_every_gpu_is_held_to_the_limit() -> None:
    found = judged(with_idle((100, 1, {}), (100, 30, {})), Limits(max_idle=0.05))
    assert verdicts(found) == {"max-idle gpu 0": "pass", "max-idle gpu 1": "fail"}


def test_idle_time_that_is_not_known_does_not_pass() -> None:
    hidden = with_idle((100, None, None))
    nothing = msgspec.structs.replace(report(), timeline=[])
    for unfit in (hidden, nothing, with_idle((0, 0, {}))):
        assert judged(unfit, Limits(max_idle=1.0)).verdict == "inconclusive"


def covered(time: float | None, in_steps: float | None = None) -> Report:
    coverage = Coverage(time_explained=time, count_explained=time, in_steps_time_explained=in_steps)
    return msgspec.structs.replace(report(), coverage=coverage)


def test_the_unexplained_share_is_of_the_steps_and_coverage_of_everything() -> None:
    found = judged(covered(0.5, 0.95), Limits(max_unexplained=0.05, min_coverage=0.5))
    assert {rule.rule: rule.value for rule in found.rules} == {
        "max-unexplained": 0.05,
        "min-coverage": 0.5,
    }
    assert found.verdict == "pass"
    assert judged(covered(0.5, 0.949), Limits(max_unexplained=0.05)).verdict == "fail"
    assert judged(covered(0.499, 0.95), Limits(min_coverage=0.5)).verdict == "fail"
    assert judged(covered(0.94), Limits(max_unexplained=0.05)).verdict == "fail"


def test_coverage_without_a_model_or_kernels_does_not_pass() -> None:
    limits = Limits(max_unexplained=1.0, min_coverage=0.0)
    without_model = msgspec.structs.replace(covered(0.0), assumptions=Assumptions())
    for unfit in (covered(None), without_model):
        found = judged(unfit, limits)
        assert {rule.verdict for rule in found.rules} == {"inconclusive"}


# Regressions


@pytest.mark.parametrize(
    ("now_ns", "verdict"),
    [(20_300, "pass"), (24_000, "fail"), (21_000, "pass"), (21_001, "fail"), (15_000, "pass")],
)
def test_o47_a_regression_exceeds_a_share_and_a_time_and_the_noise(
    now_ns: int, verdict: str
) -> None:
    """20.0 µs before, noise 0.3: 20.3 passes under "worse by > 3 % and > 1 µs", 24.0 fails."""
    limits = Limits(max_regression=0.03, max_regression_ns=1_000, noise_ns=300)
    before = report([measured("attn.core", 20_000)])
    rule = only(judged(report([measured("attn.core", now_ns)]), limits, before))
    assert (rule.rule, rule.baseline, rule.value) == ("regression attn.core", 20_000, now_ns)
    assert rule.limit == 21_000  # 3 % are 0.6 µs, so that 1 µs decides
    assert rule.verdict == verdict


def test_of_a_share_a_time_and_the_noise_the_largest_decides() -> None:
    before = report([measured("lm_head", 100_000)])
    now = report([measured("lm_head", 104_000)])
    for limits, allowed in (
        (Limits(max_regression=0.03, max_regression_ns=1_000), 103_000),
        (Limits(max_regression=0.03, max_regression_ns=4_500), 104_500),
        (Limits(max_regression=0.03, max_regression_ns=1_000, noise_ns=9_000), 109_000),
    ):
        rule = only(judged(now, limits, before))
        assert rule.limit == allowed
        assert rule.verdict == ("fail" if allowed < 104_000 else "pass")


def test_repeats_of_the_baseline_show_the_noise() -> None:
    """Three runs of 20.0, 21.9 and 20.4 µs: 20.4 in the middle, apart by 1.9 µs."""
    repeats = [report([measured("attn.core", ns)]) for ns in (20_000, 21_900, 20_400)]
    for now_ns, verdict in ((22_300, "pass"), (22_301, "fail")):
        rule = only(judged(report([measured("attn.core", now_ns)]), Limits(), *repeats))
        assert (rule.baseline, rule.limit, rule.verdict) == (20_400, 22_300, verdict)


def test_what_is_gone_is_not_improved() -> None:
    before = report([measured("attn.core", 20_000), measured("mlp.act", 2_000)])
    found = judged(report([measured("attn.core", 20_000)]), Limits(), before)
    assert verdicts(found) == {"regression attn.core": "pass", "regression mlp.act": "inconclusive"}
    assert found.verdict == "inconclusive"


def test_nothing_comparable_is_a_failure() -> None:
    before = report([measured("attn.core", 20_000)])
    found = judged(report([measured("mlp.act", 1)]), Limits(), before)
    assert verdicts(found) == {"baseline": "fail", "regression attn.core": "inconclusive"}
    assert found.verdict == "fail"
    assert judged(report(), Limits(), report()).verdict == "fail"


def test_costs_of_one_role_are_compared_in_model_order() -> None:
    """Sliding attention at 3 µs and full attention at 30 µs are two entries of attn.core."""
    before = report([measured("attn.core", 3_000), measured("attn.core", 30_000)])
    now = report([measured("attn.core", 3_000), measured("attn.core", 33_000)])
    found = judged(now, Limits(), before)
    assert verdicts(found) == {"regression attn.core": "pass", "regression attn.core #2": "fail"}


def test_the_step_is_compared_too() -> None:
    whole = sample.full()
    before = msgspec.structs.replace(report(), steps=whole.steps)
    assert whole.steps.wall_ns is not None
    slow = msgspec.structs.replace(whole.steps.wall_ns, p50=6_300_000)
    now = msgspec.structs.replace(
        report(), steps=msgspec.structs.replace(whole.steps, wall_ns=slow)
    )
    rule = only(judged(now, Limits(), before))  # 6.1 ms and 3 % are 6.283 ms
    assert (rule.rule, rule.limit, rule.verdict) == ("regression step", 6_283_000, "fail")


def test_without_a_model_kernels_are_compared_by_name_and_grid() -> None:
    row = sample.full().kernels[0]

    def run(p50_ns: int) -> Report:
        rows = [msgspec.structs.replace(row, p50_ns=p50_ns, role=None, ratio=None)]
        return report(kernels=rows, model=None)

    found = judged(run(44_000), Limits(), run(41_000))  # 3 % of 41 µs are 1.23
    assert only(found).rule == f"regression {sample.FLASH} [1, 8, 64] [128, 1, 1]"
    assert found.verdict == "fail"


def test_runs_under_other_conditions_are_not_compared_blindly() -> None:
    rows = [measured("attn.core", 20_000)]
    before, now = report(rows, batch=8), report(rows, batch=16)
    found = judged(now, Limits(), before)
    assert verdicts(found)["baseline conditions"] == "inconclusive"
    assert "batch 8 → 16" in found.rules[0].reason
    allowed = judged(now, Limits(allowed=frozenset({CONDITIONS_DIFFER})), before)
    assert allowed.verdict == "pass"


# The verdict


def test_an_error_of_the_capture_makes_it_inconclusive_unless_allowed() -> None:
    errors = [sample.finding("rank-missing", "error", "1 of 8 ranks")]
    unfit = msgspec.structs.replace(report(), capture=sample.capture(findings=errors))
    limits = Limits(min_coverage=0.5)
    found = judged(unfit, limits)
    assert verdicts(found) == {"capture": "inconclusive", "min-coverage": "pass"}
    assert found.verdict == "inconclusive"
    allowing = msgspec.structs.replace(unfit)
    assert (
        judged(allowing, Limits(min_coverage=0.5, allowed=frozenset({"rank-missing"}))).verdict
        == "pass"
    )
    warned = sample.capture(findings=[sample.finding("no-steps", "warning", "none")])
    assert judged(msgspec.structs.replace(report(), capture=warned), limits).verdict == "pass"


def test_a_rule_that_trips_wins_over_one_that_cannot_be_judged() -> None:
    rows = [ratio("attn.core", 9.0)]
    limits = Limits(max_ratio={"attn.core": 2.0, "lm_head": 2.0})
    found = judged(report(rows), limits)
    assert verdicts(found) == {"max-ratio attn.core": "fail", "max-ratio lm_head": "inconclusive"}
    assert found.verdict == "fail"


def test_no_limit_is_a_mistake() -> None:
    with pytest.raises(UsageError) as raised:
        judged(report(), Limits())
    assert raised.value.slug == "no-limits"
