"""What nsysroof says of each GPU of an export, as plain values to hold against the bitmap."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

import polars as pl
from msgspec import structs, to_builtins

from nsysroof.analysis.measured import Measured, measure
from nsysroof.analysis.options import Options
from nsysroof.analysis.steps import Analysed
from nsysroof.analysis.tables import gap_rows, stream_rows
from nsysroof.outcomes import Account
from nsysroof.results import Budget, Gap, Report, StreamRow, Timeline
from nsysroof.timeline.account import account
from nsysroof.timeline.budget import Share, step_budget, step_sums
from nsysroof.timeline.gaps import find_gaps
from nsysroof.timeline.steps import find_runs
from nsysroof.trace import Trace
from tests.timeline.many.cases import STEP_RANGE
from tests.timeline.many.truth import SERVING, SERVING_COPY, bound_of, label_of

Told = dict[str, Any]


def told_by_rooms(trace: Trace) -> tuple[dict[int, Told], dict[int, Timeline], dict[int, Budget]]:
    """Return what the measured wing says of each GPU, its account, and that of its median step.

    The kernels of the budget have the shares and roles that their names are given here, since no
    model has them.
    """
    found = measure(trace, Options(step_range=STEP_RANGE))
    gaps = find_gaps(trace, found.activities, find_runs(found.steps))
    lines = {line.gpu: line for line in account(found.activities, gaps, idle_known=True)}
    labels = _labels(found)
    budgets = _budgets(found, gaps, *labels)
    told = _told(
        lines.values(),
        gap_rows(gaps, found.activities, found.texts, found.steps, None, complete=True),
        stream_rows(found.kernels, list(lines.values())),
    )
    for gpu, *step in found.steps.select("gpu", "start_ns", "end_ns").iter_rows():
        told[gpu]["steps"].append(tuple(step))
    columns = ("start_ns", "end_ns", "pid", "context", "stream", "name", "step", "advance_ns")
    for gpu, *row in found.kernels.select("gpu", *columns).iter_rows():
        told[gpu]["kernels"].append((*row[:5], found.texts[row[5]], *row[6:]))
    for gpu, own in told.items():
        own["kernels"].sort(key=str)
        own["budget"] = tell_budget(budgets.get(gpu))
    kernels, copies = labels
    sums = step_sums(found.activities, gaps, kernels, serving=copies, steps=found.steps)
    for summed in sums.drop("step", "start_ns").iter_rows(named=True):
        told[summed.pop("gpu")]["step_sums"].append(summed)
    return told, lines, budgets


def told_by_report(report: Report) -> dict[int, Told]:
    """Return what a report says of each GPU."""
    told = _told(report.timeline, report.gaps, report.streams)
    for own in told.values():
        del own["steps"], own["kernels"], own["step_sums"]
    return told


def tell_budget(budget: Budget | None) -> Told | None:
    """Return an account of a step, without 0 ns and instances of its kernels."""
    if budget is None:
        return None
    sums = {(row.name, row.role): row.ns for row in budget.by_kernel if row.ns}
    roles = {role: ns for role, ns in budget.by_role.items() if ns}
    return structs.asdict(budget) | {"by_kernel": sums, "by_role": roles}


def tell_kernels(report: Report) -> dict[tuple[str, str | None], int]:
    """Return ns by name and role of the kernels of a report, without 0 ns."""
    sums: Counter[tuple[str, str | None]] = Counter()
    for row in report.kernels:
        sums[row.name, row.role] += row.total_ns
    return dict(+sums)


def tell_difference(account: Account) -> Told:
    """Return what a comparison says of two stretches."""
    return {
        "wall": account.wall_ns.delta,
        "work": account.delta.work_ns,
        "overlap": account.delta.overlap_ns,
        "idle": account.delta.idle_ns,
        "roles": {row.role: row.delta_ns for row in account.roles if row.a_ns or row.b_ns},
        "causes": {cause: change.delta for cause, change in account.idle_by_cause.items()},
    }


def _told(
    lines: Iterable[Timeline], gaps: Iterable[Gap], streams: Iterable[StreamRow]
) -> dict[int, Told]:
    told: dict[int, Told] = {}
    for line in lines:
        told[line.gpu] = {
            "timeline": to_builtins(line),
            "gaps": [],
            "streams": [],
            "steps": [],
            "kernels": [],
            "step_sums": [],
        }
    for gap in gaps:
        told[gap.gpu]["gaps"].append((gap.start_ns, gap.end_ns, gap.cause, gap.before, gap.after))
    for stream in streams:
        place = (stream.pid, stream.context, stream.stream)
        told[stream.gpu]["streams"].append((*place, stream.kernels, stream.sum_ns, stream.busy_ns))
    return told


def _labels(found: Measured) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return share and role of each kernel, and the copies that have them too."""
    shares = pl.Enum([str(share) for share in Share])
    labels = pl.DataFrame(
        [label_of(found.texts[name]) for name in found.kernels["name"]],
        schema={"share": shares, "role": pl.String},
        orient="row",
    )
    share, role = label_of(SERVING)
    copies = found.activities.filter(pl.col("copy_kind") == SERVING_COPY).select(
        "gpu",
        "start_ns",
        "end_ns",
        share=pl.lit(share, dtype=shares),
        role=pl.lit(role, dtype=pl.String),
    )
    return labels, copies


def _budgets(
    found: Measured, gaps: pl.DataFrame, labels: pl.DataFrame, copies: pl.DataFrame
) -> dict[int, Budget]:
    budgets = {}
    for _, steps in found.steps.group_by("gpu", maintain_order=True):
        median = Analysed(phase=None, steps=steps).median_step
        if median is not None:
            budgets[median.gpu] = step_budget(
                found.activities,
                gaps,
                labels,
                serving=copies,
                gpu=median.gpu,
                step=median.step,
                start_ns=median.start_ns,
                end_ns=median.end_ns,
                bound_ns=bound_of(median.gpu),
                texts=found.texts,
            )
    return budgets
