"""Random timelines held against a bitmap of their nanoseconds.

Each file is a synthetic export of many cases, read and analysed as any other; every account of
every GPU must be the bitmap's to the nanosecond. All cases pass through the rooms in bulk; the first
of a file is analysed once more by the whole command, alone and in a window of time.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from msgspec import structs, to_builtins

from nsysroof.analysis.options import Options
from nsysroof.analysis.pipeline import analyze
from nsysroof.compare import compare
from nsysroof.results import SHORTENED, Budget, KernelRow, Report, Timeline
from nsysroof.trace import Trace, open_trace
from tests.timeline.many.cases import STEP_RANGE, Case
from tests.timeline.many.difference import account_of, account_of_step, difference
from tests.timeline.many.draw import ORIGINS, draw_case
from tests.timeline.many.export import write_cases
from tests.timeline.many.told import (
    Told,
    tell_budget,
    tell_difference,
    tell_kernels,
    told_by_report,
    told_by_rooms,
)
from tests.timeline.many.truth import REPLAY, Truth

CASES_PER_FILE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What occurred in how many cases, and what did not agree with the bitmap."""

    counts: Counter[str]
    problems: list[str]


def check_cases(numbers: range, *, seed: int) -> Tally:
    """Draw these cases, write them as one export, analyse it and compare."""
    origin = ORIGINS[numbers.start // CASES_PER_FILE % len(ORIGINS)]
    cases = {number: draw_case(seed, number, origin=origin) for number in numbers}
    truths = {at: [Truth.of(case, gpu) for gpu in case.gpus] for at, case in cases.items()}
    with TemporaryDirectory() as folder:
        export = write_cases(list(cases.values()), Random(seed))
        trace = open_trace(export.write(Path(folder) / "many.sqlite"))
        told, lines, budgets = told_by_rooms(trace)
        problems = [
            line
            for at, own in truths.items()
            for truth in own
            for line in _contrast(f"case {at}", truth.told, told[truth.gpu])
        ]
        first = numbers[0]
        base = _analyze(trace, cases[first])
        problems += _contrast_report(f"case {first} alone", base, truths[first])
        problems += _check_window(trace, cases[first], f"case {first} in a window", Random(first))
    reports = {at: _report_of(base, own, lines, budgets) for at, own in truths.items()}
    for a, b in pairwise(numbers):
        problems += _check_diff(f"cases {a} and {b}", reports[a], reports[b], truths[a], truths[b])
    return Tally(counts=_count(truths.values()), problems=problems)


def check_many(count: int, *, seed: int, workers: int) -> Tally:
    """Check so many cases, in files of ``CASES_PER_FILE``."""
    files = [
        range(first, min(first + CASES_PER_FILE, count))
        for first in range(0, count, CASES_PER_FILE)
    ]
    total = Tally(counts=Counter(), problems=[])
    os.environ.setdefault("POLARS_MAX_THREADS", "1")
    # Spawned, since a forked process has the locks of polars' threads but not the threads.
    with ProcessPoolExecutor(max_workers=workers, mp_context=get_context("spawn")) as pool:
        for tally in pool.map(partial(check_cases, seed=seed), files):
            total.counts.update(tally.counts)
            total.problems.extend(tally.problems)
    return total


def _check_window(trace: Trace, case: Case, where: str, random: Random) -> Iterator[str]:
    """Compare the report on what starts in a window, in whole ns from the first kernel."""
    kernels = sorted(work.start for work in case.work if work.kind == "kernel")
    if not kernels:
        return
    begin, end = sorted(at - kernels[0] for at in random.choices(kernels, k=2))
    report = _analyze(trace, case, window=(begin / 1e9, (end + 1) / 1e9))
    begin, end = begin + kernels[0], end + 1 + kernels[0]
    seen = replace(case, work=[work for work in case.work if begin <= work.start < end])
    yield from _contrast_report(where, report, [Truth.of(seen, gpu) for gpu in seen.gpus])


def _contrast_report(where: str, report: Report, truths: Sequence[Truth]) -> Iterator[str]:
    told = told_by_report(report)
    if sorted(told) != [truth.gpu for truth in truths]:
        yield f"{where}: GPUs {sorted(told)}"
        return
    for truth in truths:
        own = told[truth.gpu]
        yield from _contrast(where, {key: truth.told[key] for key in own}, own)
    kernels = account_of(truths, labelled=False)["kernels"]
    kernels = {key: ns for key, ns in kernels.items() if key[0] != REPLAY}
    stepped = next((truth for truth in truths if truth.steps), None)
    number = stepped.median_step if stepped else None
    budget = stepped.budget(number, 0, labelled=False) if stepped and number is not None else None
    steps = [step for truth in truths for step in truth.step_accounts()]
    found = {
        "kernels": tell_kernels(report),
        "budget": tell_budget(report.budget),
        "step_budgets": [to_builtins(row) for row in report.step_budgets],
    }
    yield from _contrast(
        where, {"kernels": kernels, "budget": budget, "step_budgets": steps}, found
    )


def _analyze(trace: Trace, case: Case, window: tuple[float, float] | None = None) -> Report:
    options = Options(step_range=STEP_RANGE, devices=tuple(case.gpus), window=window)
    return analyze(trace, options, complete=SHORTENED)


def _report_of(
    base: Report,
    truths: Sequence[Truth],
    lines: Mapping[int, Timeline],
    budgets: Mapping[int, Budget],
) -> Report:
    """Return a report on one case: its accounts as they were found, its kernels as drawn."""
    rows = [
        KernelRow(
            name=name,
            klass="unknown",
            grid=[1, 1, 1],
            block=[1, 1, 1],
            instances=1,
            total_ns=ns,
            p50_ns=ns,
            min_ns=ns,
            max_ns=ns,
            role=role,
            ratio=None,
        )
        for (name, role), ns in account_of(truths, labelled=True)["kernels"].items()
        if name != REPLAY
    ]
    budget = next((budgets[truth.gpu] for truth in truths if truth.gpu in budgets), None)
    timeline = [lines[truth.gpu] for truth in truths]
    return structs.replace(base, timeline=timeline, budget=budget, kernels=rows)


def _check_diff(
    where: str, a: Report, b: Report, a_truths: Sequence[Truth], b_truths: Sequence[Truth]
) -> Iterator[str]:
    """Compare the comparison of two reports: of the whole windows, and of steps in both."""
    found = compare(a, b, names=("a", "b"))
    sides = [account_of(truths, labelled=True) for truths in (a_truths, b_truths)]
    if found.window is not None:
        yield from _contrast(f"{where}, window", difference(*sides), tell_difference(found.window))
    steps = [_step_account(truths) for truths in (a_truths, b_truths)]
    stepped = [step for step in steps if step is not None]
    if len(stepped) == len(steps):
        sides = stepped
    yield from _contrast(where, difference(*sides), tell_difference(found))


def _step_account(truths: Sequence[Truth]) -> Told | None:
    return next((account_of_step(truth.told["budget"]) for truth in truths if truth.steps), None)


def _contrast(where: str, expected: Told, found: Told) -> Iterator[str]:
    for key, value in expected.items():
        if found[key] != value:
            yield f"{where}, {key}:\n  bitmap   {value}\n  nsysroof {found[key]}"


def _count(truths: Iterable[Sequence[Truth]]) -> Counter[str]:
    """Return what occurred how often, so that a run shows that it was not empty."""
    counts: Counter[str] = Counter()
    for own in truths:
        counts["cases"] += 1
        for truth in own:
            counts["GPUs"] += 1
            counts["activities"] += len(truth.work)
            counts["steps"] += len(truth.steps)
            counts.update(f"gaps by {row.cause or 'unknown'}" for row in truth.idle)
            counts["GPUs of several processes"] += len({work.pid for work in truth.work}) > 1
            counts["GPUs with overlap"] += bool(truth.told["timeline"]["overlap_ns"])
    return counts
