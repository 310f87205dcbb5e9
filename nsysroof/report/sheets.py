"""The tables of a view for programs: every field under its JSON name, raw numbers, full names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from nsysroof.outcomes import (
    Account,
    Check,
    Diff,
    Difference,
    KernelChange,
    RoleChange,
    Rule,
    WhatIf,
    WhatIfRow,
)
from nsysroof.report.characters import escaped
from nsysroof.report.views import Card, GapsView, InfoView, KernelsView, Listing, StepsView, View
from nsysroof.results import (
    Capture,
    CaptureDevice,
    CaptureProcess,
    CollectiveRow,
    Estimate,
    EstimateRow,
    FileCollectiveRow,
    FileRankRow,
    Finding,
    Gap,
    HostLateRow,
    ImpossibleRow,
    KernelRow,
    LinkRow,
    MetricRow,
    OperatorRow,
    PeakUsed,
    Phase,
    RankFile,
    RankRow,
    Ranks,
    Report,
    StepKernel,
    StepRow,
    Sweep,
    SweepRow,
    Timeline,
    UnexplainedRow,
)
from nsysroof.tables import columns_of, exact, value_at

LARGEST_GAPS = 10
"""Gaps that a report shows; ``gaps`` shows all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """One table: cells are one line of text each; an empty cell is a null."""

    name: str
    columns: tuple[str, ...]
    rows: Iterable[tuple[str, ...]]


def sheets(view: View) -> tuple[Sheet, ...]:
    """Return the tables of a view, the verdict on the capture first.

    Views of a single table (gaps, steps, kernels, listings) have exactly one.
    """
    return _SHEETS[type(view)](view)


def largest_gaps(gaps: Sequence[Gap]) -> list[Gap]:
    """Return the longest gaps, longest first."""
    order = sorted(gaps, key=lambda gap: (-gap.idle_ns, gap.gpu, gap.start_ns))
    return order[:LARGEST_GAPS]


def cell(value: Any) -> str:
    """Return a value as one line of text; null is empty, lists and mappings are JSON.

    >>> cell(None), cell(2.0), cell([2, 66, 1]), cell(True)
    ('', '2.0', '[2,66,1]', 'true')
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return escaped(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return escaped(msgspec.json.encode(value).decode(), backslash=False)


def _of_report(report: Report) -> tuple[Sheet, ...]:
    return (
        *_of_capture(report.capture),
        _fields("coverage", report.coverage),
        *_of_steps(report),
        _fields("budget", report.budget),
        _table("budget_by_kernel", StepKernel, report.budget.by_kernel if report.budget else []),
        _table("step_budgets", StepRow, report.step_budgets),
        _fields("step_bounds", report.step_bounds),
        _table("operators", OperatorRow, report.operators),
        _table("timeline", Timeline, report.timeline),
        _table("largest_gaps", Gap, largest_gaps(report.gaps)),
        _table("host_late", HostLateRow, report.host_late),
        _table("unexplained", UnexplainedRow, report.unexplained),
        _table("impossible", ImpossibleRow, report.impossible),
        _table("links", LinkRow, report.links),
        _table("metrics", MetricRow, report.metrics),
        *_of_ranks(report),
        _table("kernels", KernelRow, report.kernels),
        _fields("host", report.host),
        *_of_assumptions(report.assumptions),
    )


def _of_ranks(report: Report) -> tuple[Sheet, ...]:
    if not report.ranks:
        return ()
    return (
        _table("ranks", RankRow, report.ranks),
        _table("collectives", CollectiveRow, report.collectives),
    )


def _of_info(view: InfoView) -> tuple[Sheet, ...]:
    return (*_of_capture(view.capture), *_of_steps(view))


def _of_step_list(view: StepsView) -> tuple[Sheet, ...]:
    return (_table("step_budgets", StepRow, view.step_budgets),)


def _of_gaps(view: GapsView) -> tuple[Sheet, ...]:
    return (_table("gaps", Gap, view.gaps),)


def _of_kernels(view: KernelsView) -> tuple[Sheet, ...]:
    return (_table("kernels", KernelRow, view.kernels),)


def _of_run(run: Ranks) -> tuple[Sheet, ...]:
    return (
        _fields("run", run, skip=("files", "ranks", "collectives", "findings")),
        _table("files", RankFile, run.files),
        _table("findings", Finding, run.findings),
        _table("ranks", FileRankRow, run.ranks),
        _table("collectives", FileCollectiveRow, run.collectives),
    )


def _of_estimate(estimate: Estimate) -> tuple[Sheet, ...]:
    return (
        _fields("step", estimate.step),
        _fields("layer", estimate.layer),
        _fields("memory", estimate.memory),
        _pairs("ridge", estimate.ridge),
        _table("operators", EstimateRow, estimate.operators),
        _pairs("experts", estimate.experts or {}),
        _pairs("parameters", estimate.parameters),
        *_of_assumptions(estimate.assumptions),
        _notes(estimate.notes),
    )


def _of_sweep(sweep: Sweep) -> tuple[Sheet, ...]:
    return (_table("sweep", SweepRow, sweep.rows),)


def _of_check(check: Check) -> tuple[Sheet, ...]:
    return (_fields("check", check, skip=("rules",)), _table("rules", Rule, check.rules))


def _of_whatif(whatif: WhatIf) -> tuple[Sheet, ...]:
    return (
        _fields("whatif", whatif, skip=("rows", "changes", "notes")),
        _pairs("changes", whatif.changes),
        _table("rows", WhatIfRow, whatif.rows),
        _notes(whatif.notes),
    )


def _of_listing(listing: Listing) -> tuple[Sheet, ...]:
    return (_of_mappings(listing.title, listing.columns, _joined(listing)),)


def _notes(notes: Sequence[str]) -> Sheet:
    return _of_mappings("notes", ("note",), [{"note": note} for note in notes])


def _of_capture(capture: Capture) -> tuple[Sheet, ...]:
    return (
        _fields("capture", capture, skip=("devices", "process_list", "findings")),
        _table("devices", CaptureDevice, capture.devices),
        _table("processes", CaptureProcess, capture.process_list),
        _table("findings", Finding, capture.findings),
    )


def _of_steps(view: Report | InfoView) -> tuple[Sheet, ...]:
    return _fields("steps", view.steps), _table("phases", Phase, view.phases)


def _of_assumptions(assumptions: msgspec.Struct) -> tuple[Sheet, ...]:
    peaks: list[PeakUsed] = getattr(assumptions, "peaks", [])
    return (
        _fields("assumptions", assumptions, skip=("peaks",)),
        _table("peaks", PeakUsed, peaks),
    )


def _of_diff(diff: Diff) -> tuple[Sheet, ...]:
    lists = ("roles", "kernels", "idle_by_cause", "differences", "window")
    window = _of_account(diff.window, "window_") if diff.window else ()
    return (
        _fields("diff", diff, skip=lists),
        *_of_account(diff, ""),
        _table("differences", Difference, diff.differences),
        *((_fields("window", diff.window, skip=lists), *window) if window else ()),
    )


def _of_account(account: Account, prefix: str) -> tuple[Sheet, ...]:
    causes = [
        {"cause": cause, "a": change.a, "b": change.b, "delta": change.delta}
        for cause, change in account.idle_by_cause.items()
    ]
    return (
        _table(f"{prefix}roles", RoleChange, account.roles),
        _of_mappings(f"{prefix}idle_by_cause", ("cause", "a", "b", "delta"), causes),
        _table(f"{prefix}kernels", KernelChange, account.kernels),
    )


def _of_card(card: Card) -> tuple[Sheet, ...]:
    tables = {key: value for key, value in card.fields.items() if is_table(value)}
    plain = {key: value for key, value in card.fields.items() if key not in tables}
    return (
        _pairs(card.title, plain),
        *(_of_mappings(key, tuple(rows[0]), rows) for key, rows in tables.items()),
    )


def is_table(value: Any) -> bool:
    """Return whether a field of a card is a table: a list of mappings, not empty."""
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def _fields(name: str, struct: msgspec.Struct | None, skip: tuple[str, ...] = ()) -> Sheet:
    """Return an object as one row per field; an absent object has none."""
    if struct is None:
        return _pairs(name, {})
    plan = [column for column in columns_of(type(struct)) if column.path[0] not in skip]
    return _pairs(
        name, {column.name: exact(value_at(struct, column.path), column.kind) for column in plan}
    )


def _pairs(name: str, values: Mapping[str, Any]) -> Sheet:
    rows = ((cell(key), cell(value)) for key, value in values.items())
    return Sheet(name=name, columns=("field", "value"), rows=rows)


def _table(name: str, row_type: type[msgspec.Struct], rows: Sequence[msgspec.Struct]) -> Sheet:
    plan = columns_of(row_type)
    return Sheet(
        name=name,
        columns=tuple(column.name for column in plan),
        rows=(
            tuple(cell(exact(value_at(row, column.path), column.kind)) for column in plan)
            for row in rows
        ),
    )


def _joined(listing: Listing) -> Sequence[Mapping[str, Any]]:
    if not listing.lists:
        return listing.rows
    return [{**row, **{key: ",".join(row[key]) for key in listing.lists}} for row in listing.rows]


def _of_mappings(name: str, columns: tuple[str, ...], rows: Sequence[Mapping[str, Any]]) -> Sheet:
    cells = (tuple(cell(row[column]) for column in columns) for row in rows)
    return Sheet(name=name, columns=columns, rows=cells)


_SHEETS: dict[type, Callable[[Any], tuple[Sheet, ...]]] = {
    Report: _of_report,
    InfoView: _of_info,
    StepsView: _of_step_list,
    GapsView: _of_gaps,
    KernelsView: _of_kernels,
    Ranks: _of_run,
    Estimate: _of_estimate,
    Sweep: _of_sweep,
    Diff: _of_diff,
    Check: _of_check,
    WhatIf: _of_whatif,
    Listing: _of_listing,
    Card: _of_card,
}
