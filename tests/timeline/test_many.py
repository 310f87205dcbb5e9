"""Random timelines end to end, some hundred of those that ``tests.timeline.many`` holds."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from random import Random

import pytest

from nsysroof.analysis.options import Options
from nsysroof.analysis.pipeline import analyze
from nsysroof.results import IDLE_CAUSES, SHORTENED
from nsysroof.trace import open_trace
from tests.analysis.decode_steps import H100, decode_pass
from tests.timeline.many.cases import STEP_RANGE, Call, Case, Mark, Work
from tests.timeline.many.check import CASES_PER_FILE, check_cases
from tests.timeline.many.draw import ORIGINS
from tests.timeline.many.export import write_cases
from tests.timeline.many.truth import Truth

SEED = 20


@pytest.mark.parametrize("number", range(len(ORIGINS)))
def test_every_account_of_a_file_of_random_cases_is_the_bitmaps(number: int) -> None:
    first = number * CASES_PER_FILE  # the time at which a file begins goes with its number
    tally = check_cases(range(first, first + CASES_PER_FILE), seed=SEED)
    assert tally.problems == []
    assert tally.counts["cases"] == CASES_PER_FILE
    # What never occurs is not tested either.
    assert all(tally.counts[f"gaps by {cause}"] > 10 for cause in IDLE_CAUSES)
    assert tally.counts["steps"] > CASES_PER_FILE
    assert tally.counts["GPUs of several processes"] > CASES_PER_FILE / 4


FOREIGN = "synthetic_foreign_kernel"
PID = 4000


def replayed_passes(random: Random) -> tuple[Case, dict[str, list[Work]]]:
    """Three replays of a model's pass at random times, and its kernels by role.

    Kernels start early, late or when the one before ends; copies, fills and kernels of another
    program run beside them, across the edges of steps too.
    """
    case, roles = Case(devices={PID: [0]}), defaultdict(list)
    at = 1_000_000
    for number in range(1, 4):
        case.marks.append(Mark(text="step", start=at - 900, end=at - 100, pid=PID, tid=PID))
        launch = (at - random.choice((800, 200)), at - 150)
        case.calls.append(_call("graph_launch", "cudaGraphLaunch", *launch, correlation=number))
        for node, (name, role, ns) in enumerate(decode_pass("llama-3.2-1b"), start=1):
            end = at + round(ns * random.uniform(1.0, 1.5))
            roles[role].append(_work("kernel", name, at, end, correlation=number, node=node))
            at = end + random.choice((-400, 0, 0, 250, 1_000))
            if random.random() < 0.1:
                kind = random.choice(("copy", "fill", "kernel"))
                label = {"copy": "h2d", "fill": "", "kernel": FOREIGN}[kind]
                begun, length = at + random.randint(-3_000, 3_000), random.randint(1, 9_000)
                case.work.append(_work(kind, label, begun, begun + length, stream=13))
        case.calls.append(_call("synchronize", "cudaStreamSynchronize", at - 500, at + 20_000))
        at += random.choice((30_000, 50_000))
    case.work.extend(work for own in roles.values() for work in own)
    return case, roles


def _call(kind: str, name: str, start: int, end: int, *, correlation: int | None = None) -> Call:
    return Call(
        kind=kind, name=name, start=start, end=end, pid=PID, tid=PID, correlation=correlation
    )


def _work(
    kind: str,
    label: str,
    start: int,
    end: int,
    *,
    stream: int = 7,
    correlation: int | None = None,
    node: int | None = None,
) -> Work:
    return Work(
        kind=kind,
        label=label,
        start=start,
        end=end,
        gpu=0,
        pid=PID,
        context=1,
        stream=stream,
        correlation=correlation,
        node=node,
    )


@pytest.mark.parametrize("seed", range(6))
def test_with_a_model_the_budget_of_a_random_step_is_the_bitmaps(tmp_path: Path, seed: int) -> None:
    case, roles = replayed_passes(Random(seed))
    export = write_cases([case], Random(seed)).gpu(0, H100)
    trace = open_trace(export.write(tmp_path / "passes.sqlite"))
    options = Options(model="llama-3.2-1b", batch=1, context=(64,), step_range=STEP_RANGE)
    report = analyze(trace, options, complete=SHORTENED)
    truth = Truth.of(case, 0, whole_ns=1)
    bitmap, number = truth.bitmap, truth.median_step
    assert number is not None
    step, budget = truth.steps[number], report.budget
    within = bitmap.between(step.start, step.end)
    expected = truth.budget(number, 0, labelled=False)
    assert budget is not None
    assert (budget.step, budget.wall_ns) == (number, expected["wall_ns"])
    assert (budget.copy_ns, budget.idle_ns) == (expected["copy_ns"], expected["idle_ns"])
    assert budget.overlap_ns == expected["overlap_ns"]
    assert budget.idle_by_cause == expected["idle_by_cause"]
    places = {work: at for at, work in enumerate(truth.work)}
    by_role = {
        role: bitmap.sum_of([places[work] for work in own], within) for role, own in roles.items()
    }
    assert budget.by_role == by_role
    foreign = [at for at in bitmap.of_kinds("kernel") if truth.work[at].label == FOREIGN]
    assert budget.unexplained_ns == bitmap.sum_of(foreign, within)
    assert budget.bound_ns + budget.over_bound_ns + budget.fixed_ns == sum(by_role.values())
    bound = [row for row in report.operators if row.limiter != "latency" and row.bound_ns]
    assert budget.bound_ns == sum(
        round(row.bound_ns or 0) * round(row.instances_per_step) for row in bound
    )
    assert budget.fixed_ns == sum(
        ns for role, ns in by_role.items() if role not in {row.role for row in bound}
    )
