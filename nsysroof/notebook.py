"""Results as small HTML tables for notebooks; whoever shows them needs no IPython for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

import msgspec

from nsysroof.results import Estimate, Ranks, Report, Sweep
from nsysroof.tables import frame_of, table_named
from nsysroof.units import format_bytes, format_ratio, format_share, format_us, format_us_exact

_ROWS_SHOWN = 40
_LATENCY = "latency"
_SWEEP_LEFT_OUT = frozenset({"note"})

Row = Sequence[str]


def html_of(result: msgspec.Struct) -> str:
    """Return what a notebook shows for a result."""
    match result:
        case Report():
            return _report(result)
        case Estimate():
            return _estimate(result)
        case Sweep():
            return _sweep(result)
        case Ranks():
            return _ranks(result)
        case _:
            raise TypeError(f"{type(result).__name__} has no tables to show")


def _report(report: Report) -> str:
    a = report.assumptions
    findings = [(f.severity, f.text, f.hint) for f in report.capture.findings]
    explained = format_share(report.coverage.time_explained)
    wall = report.steps.wall_ns
    told = (
        f"{a.model or 'no model'} on {a.gpu or 'unknown GPU'}: {report.steps.count} "
        f"{report.steps.phase or ''} steps, {format_us(wall.p50 if wall else None)} µs in the "
        f"median; explained {explained} of kernel time"
    )
    rows = sorted(
        report.operators, key=lambda row: (-(row.excess_ns_per_step or 0.0), row.role, repr(row))
    )
    operators = [
        (
            row.role,
            f"{row.instances_per_step:,.4g}",
            format_us(row.measured_ns),
            format_us(row.bound_ns),
            "fixed" if row.limiter == _LATENCY else format_ratio(row.ratio),
            str(row.limiter or "–"),
            format_us(row.excess_ns_per_step),
        )
        for row in rows
    ]
    heads = ("operator", "n/step", "µs", "bound µs", "ratio", "limiter", "to win µs/step")
    parts = [_paragraph(told)]
    parts += [_table("findings", ("severity", "finding", "hint"), findings)] if findings else []
    parts += [_budget(report)] if report.budget else []
    parts += [_table("operators by time to win back", heads, operators)] if operators else []
    return "".join(parts)


def _budget(report: Report) -> str:
    budget = report.budget
    if budget is None:
        return ""
    parts = (
        ("bound", budget.bound_ns),
        ("+ over bound", budget.over_bound_ns),
        ("+ fixed", budget.fixed_ns),
        ("+ unexplained", budget.unexplained_ns),
        ("+ copies", budget.copy_ns),
        ("+ idle", budget.idle_ns),
        ("− overlap", budget.overlap_ns),
        ("= wall", budget.wall_ns),
    )
    rows = [(label, format_us_exact(ns), format_share(budget.share(ns))) for label, ns in parts]
    return _table("where the median step goes", ("part", "µs", "share"), rows)


def _estimate(estimate: Estimate) -> str:
    step, memory = estimate.step, estimate.memory
    told = (
        f"{estimate.assumptions.model} on {estimate.assumptions.gpu}: at least "
        f"{format_us(step.serial_ns)} µs per step, at most {step.tokens_per_s:,.1f} tokens/s; "
        f"{format_bytes(memory.weight_bytes)} of weights, {format_bytes(memory.kv_bytes)} of KV"
    )
    rows = [
        (
            row.role,
            str(row.count),
            format_us(row.bound_ns),
            format_us(row.bound_ns * row.count),
            str(row.limiter),
            format_bytes(row.bytes.memory),
        )
        for row in estimate.operators
    ]
    heads = ("operator", "n/step", "bound µs", "per step µs", "limiter", "bytes")
    return _paragraph(told) + _table("operators in model order", heads, rows)


def _sweep(sweep: Sweep) -> str:
    frame = frame_of(table_named(sweep, "rows"))
    known = [name for name in frame.columns if frame[name].null_count() < frame.height]
    shown = [name for name in known if name not in _SWEEP_LEFT_OUT]
    rows = [
        [
            "–" if value is None else f"{value:,}" if isinstance(value, int) else _plain(value)
            for value in row
        ]
        for row in frame.select(shown).iter_rows()
    ]
    return _table(f"{sweep.model}, {sweep.phase}", shown, rows)


def _ranks(run: Ranks) -> str:
    findings = [(f.severity, f.text, f.hint) for f in run.findings]
    rows = [
        (
            str(row.rank),
            run.files[row.file].name,
            str(row.gpu),
            f"{row.steps:,}",
            format_us(row.wall_p50_ns),
            format_us(row.work_ns_per_step),
            format_us(row.collective_ns_per_step),
            format_us(row.idle_ns_per_step),
            format_us(row.behind_ns),
            "slowest" if row.slowest else "",
        )
        for row in run.ranks
    ]
    heads = ("rank", "file", "GPU", "steps", "wall µs", "work", "collectives", "idle", "behind", "")
    told = _table("findings", ("severity", "finding", "hint"), findings) if findings else ""
    return told + _table("ranks, µs per step", heads, rows)


def _plain(value: object) -> str:
    return f"{value:,.6g}" if isinstance(value, float) else str(value)


def _paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def _table(caption: str, heads: Sequence[str], rows: Sequence[Row]) -> str:
    """Return a table of at most so many rows, and how many there are beyond."""
    left = len(rows) - _ROWS_SHOWN
    more = _paragraph(f"… and {left:,} more rows: .frame(name) has them all.") if left > 0 else ""
    head = _row(heads, "th")
    body = "".join(_row(row, "td") for row in rows[:_ROWS_SHOWN])
    return (
        f"<table><caption>{escape(caption)}</caption><thead>{head}</thead>"
        f"<tbody>{body}</tbody></table>{more}"
    )


def _row(cells: Iterable[str], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"
