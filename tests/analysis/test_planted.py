"""What was planted in the shipped captures is found again: roles, slowdowns, gaps, strangers."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from nsysroof.analysis import Options, analyze
from nsysroof.analysis.pipeline import label_kernels
from nsysroof.results import IDLE_CAUSES, SHORTENED, Report, StepAccount
from nsysroof.trace import Trace, open_trace

FIXTURES = Path(__file__).parents[2] / "fixtures"
OPTIONS = {
    "qwen3-30b-a3b-gh200": Options(model="qwen3-30b-a3b", batch=1, context=(4096,)),
    "llama-3.1-8b-h100-tp2": Options(
        model="llama-3.1-8b", batch=8, context=(1024,), tp=2, step_range="^decode_step_"
    ),
}
NAMES = list(OPTIONS)


@cache
def truth(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((FIXTURES / f"{name}.truth.json").read_text())
    return loaded


@cache
def trace(name: str) -> Trace:
    return open_trace(FIXTURES / f"{name}.sqlite")


@cache
def report(name: str) -> Report:
    return analyze(trace(name), OPTIONS[name], complete=SHORTENED)


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_has_its_role(name: str) -> None:
    kernels = label_kernels(trace(name), OPTIONS[name])
    found = {
        (start, gpu): role
        for start, gpu, role in kernels.select("start_ns", "gpu", "role").iter_rows()
    }
    expected = {(start, gpu): role for start, gpu, role in truth(name)["kernels"]}
    wrong = Counter(
        (expected[at], found.get(at)) for at in expected if found.get(at) != expected[at]
    )
    assert wrong == Counter()
    assert len(found) == len(expected)


@pytest.mark.parametrize("name", NAMES)
def test_steps_begin_where_they_were_planted(name: str) -> None:
    steps = report(name).steps
    assert (steps.count, steps.source) == (
        truth(name)["steps"]["count"],
        truth(name)["steps"]["source"],
    )


@pytest.mark.parametrize("name", NAMES)
def test_every_ratio_and_slowdown_is_within_one_percent(name: str) -> None:
    rows = {row.role: row for row in report(name).operators}
    for role, planted in truth(name)["ratios"].items():
        row = rows[role]
        assert row.measured_ns == pytest.approx(planted["measured_ns"], rel=0.01), role
        assert row.bound_ns == pytest.approx(planted["bound_ns"], rel=0.01), role
        assert row.ratio == pytest.approx(planted["ratio"], rel=0.01), role
    for planted in truth(name)["slowdowns"]:
        assert rows[planted["role"]].ratio == pytest.approx(planted["ratio"], rel=0.01)


@pytest.mark.parametrize("name", NAMES)
def test_every_planted_gap_is_exact_and_has_its_cause(name: str) -> None:
    found = {(gap.gpu, gap.start_ns, gap.end_ns, gap.cause) for gap in report(name).gaps}
    planted = {
        (gap["gpu"], gap["start_ns"], gap["end_ns"], gap["cause"]) for gap in truth(name)["gaps"]
    }
    assert planted
    assert planted <= found


@pytest.mark.parametrize("name", NAMES)
def test_each_step_adds_up_and_the_median_one_has_the_budget(name: str) -> None:
    found = report(name)
    rows = found.step_budgets
    gpus = {line.gpu for line in found.timeline}
    assert len(rows) == found.steps.count * len(gpus)
    assert [(row.gpu, row.start_ns) for row in rows] == sorted(
        (row.gpu, row.start_ns) for row in rows
    )
    for row in rows:
        work = row.bound_ns + row.over_bound_ns + row.fixed_ns + row.unexplained_ns + row.copy_ns
        assert row.wall_ns == work + row.idle_ns - row.overlap_ns
        assert row.idle_by_cause.keys() == set(IDLE_CAUSES)  # 0 is known, and no null
        assert sum(row.idle_by_cause.values()) == row.idle_ns
    assert found.budget is not None
    [median] = [row for row in rows if (row.gpu, row.step) == (found.budget.gpu, found.budget.step)]
    terms = StepAccount.__struct_fields__
    assert [getattr(median, term) for term in terms] == [
        getattr(found.budget, term) for term in terms
    ]


def test_the_steps_that_took_longest_are_those_with_planted_gaps() -> None:
    """What was planted into a few of the 20 steps lies in the rows of those, by cause."""
    rows = {row.step: row for row in report("qwen3-30b-a3b-gh200").step_budgets}
    planted: Counter[str] = Counter()
    for gap in truth("qwen3-30b-a3b-gh200")["gaps"]:
        for row in rows.values():
            if row.start_ns <= gap["start_ns"] < row.start_ns + row.wall_ns:
                planted[f"{row.step} {gap['cause']}"] += gap["end_ns"] - gap["start_ns"]
    assert len(planted) >= 4
    for key, ns in planted.items():
        step, cause = key.split()
        assert rows[int(step)].idle_by_cause[cause] >= ns
    longest = max(rows.values(), key=lambda row: row.wall_ns)
    most = max(planted, key=lambda key: planted[key])
    assert longest.step == int(most.split()[0])


def test_a_report_keeps_the_longest_steps() -> None:
    name = "llama-3.1-8b-h100-tp2"
    kept = analyze(trace(name), OPTIONS[name]).step_budgets
    every = sorted(report(name).step_budgets, key=lambda row: (-row.wall_ns, row.gpu, row.start_ns))
    assert kept == every[:20]


@pytest.mark.parametrize("name", NAMES)
def test_the_unexplained_kernels_are_the_planted_ones_and_no_others(name: str) -> None:
    found: Counter[str] = Counter()
    for row in report(name).unexplained:
        found[row.name] += row.instances
    assert dict(found) == truth(name)["unexplained"]


@pytest.mark.parametrize("name", NAMES)
def test_the_account_of_each_gpu_is_the_planted_one(name: str) -> None:
    found = {line.gpu: line for line in report(name).timeline}
    for planted in truth(name)["timeline"]:
        line = found[planted["gpu"]]
        assert (line.window_ns, line.sum_ns, line.overlap_ns, line.idle_ns) == tuple(
            planted[key] for key in ("window_ns", "sum_ns", "overlap_ns", "idle_ns")
        )
        assert line.idle_by_cause is not None
        causes = {cause: ns for cause, ns in line.idle_by_cause.items() if ns}
        assert causes == {cause: ns for cause, ns in planted["idle_by_cause"].items() if ns}


@pytest.mark.parametrize("name", NAMES)
def test_the_budget_of_the_median_step_adds_up_exactly(name: str) -> None:
    found = report(name)
    budget, steps = found.budget, found.steps
    assert budget is not None
    assert steps.wall_ns is not None
    starts = truth(name)["steps"]["starts_ns"]
    assert budget.wall_ns == steps.wall_ns.p50
    assert budget.wall_ns == starts[budget.step + 1] - starts[budget.step]
    assert budget.wall_ns == (
        budget.bound_ns
        + budget.over_bound_ns
        + budget.fixed_ns
        + budget.unexplained_ns
        + budget.copy_ns
        + budget.idle_ns
        - budget.overlap_ns
    )


@pytest.mark.parametrize("name", NAMES)
def test_coverage_and_unexplained_make_the_whole(name: str) -> None:
    found = report(name)
    assert found.coverage.time_explained is not None
    share = sum(row.share for row in found.unexplained)
    assert found.coverage.time_explained + share == pytest.approx(1, abs=1e-12)
    assert found.impossible == []
