"""The first screen: the verdict, the coverage, the step, and where the most time can be won."""

from __future__ import annotations

from collections.abc import Sequence

from nsysroof.report.blocks import count
from nsysroof.report.pages.idle import CAUSES
from nsysroof.report.web.markup import Markup, element, role
from nsysroof.results import SEVERITIES, Assumptions, Report
from nsysroof.units import format_ratio, format_share, format_us

_SHOWN = 3
_LATENCY = "latency"
_SOFTWARE = "software-node-trace"
_UNIT = "µs per step"


def subject(assumptions: Assumptions) -> str:
    """Return in one line what was measured.

    >>> subject(Assumptions(model="qwen3-8b", gpu="l4", batch=2, context=[8, 8]))
    'qwen3-8b on l4, batch 2, context 8'
    """
    a = assumptions
    gpu = a.gpu or "an unknown GPU"
    parts = [f"{a.model} on {gpu}" if a.model else f"{gpu}, no model given"]
    parts += [a.phase] if a.phase else []
    parts += [f"batch {a.batch:,}"] if a.batch else []
    if a.context:
        low, high = min(a.context), max(a.context)
        parts.append(f"context {low:,}" + (f" to {high:,}" if high > low else ""))
    parts += [f"TP {a.tp}"] if a.tp and a.tp > 1 else []
    return ", ".join(parts)


def glance(report: Report) -> Markup:
    """Return the head of a report's page."""
    return element(
        "header",
        element("p", f"nsysroof {report.tool_version}", class_="tool"),
        element("h1", subject(report.assumptions)),
        element("dl", *_tiles(report), class_="tiles"),
        element("div", _wins(report), _waits(report), class_="wins"),
    )


def _tiles(report: Report) -> Sequence[Markup]:
    worst, told = _verdict(report)
    bounds = report.step_bounds
    over = bounds.over(bounds.serial_ns) if bounds else None
    wall = report.steps.wall_ns
    floor = f"its bound {format_us(bounds.serial_ns)} µs" if bounds else "no bound known"
    return (
        _tile("capture", told, worst, link="capture", severity=_severity(report)),
        _tile("explained", format_share(report.coverage.time_explained), "of kernel time"),
        _tile("step", f"{format_us(wall.p50)} µs" if wall else "–", _steps(report)),
        _tile("measured / bound", f"{format_ratio(over)} ×" if over else "–", floor),
    )


def _tile(
    label: str, value: str, below: str, *, link: str | None = None, severity: str | None = None
) -> Markup:
    shown = element("a", value, href=f"#{link}", class_=severity) if link else value
    return element(
        "div",
        element("dt", label),
        element("dd", element("b", shown), " ", element("small", below)),
    )


def _verdict(report: Report) -> tuple[str, str]:
    """Return what to make of the capture, and how many findings say so."""
    findings = report.capture.findings
    counts = {s: sum(f.severity == s for f in findings) for s in SEVERITIES}
    told = ", ".join(count(counts[s], s) for s in SEVERITIES if counts[s]) or "no findings"
    if not report.capture.kernels_used:
        return told, "no kernels"
    if counts["error"]:
        return told, "read first"
    return told, "usable with care" if counts["warning"] else "usable"


def _severity(report: Report) -> str | None:
    """Return the worst severity of a finding that is more than a note."""
    told = {found.severity for found in report.capture.findings}
    return next((severity for severity in SEVERITIES[:-1] if severity in told), None)


def _steps(report: Report) -> str:
    steps = report.steps
    if steps.source is None:
        return "no steps found"
    return f"median of {count(steps.count, f'{steps.phase} step' if steps.phase else 'step')}"


def _wins(report: Report) -> Markup:
    known = [row for row in report.operators if row.excess_ns_per_step]
    rows = sorted(known, key=lambda row: (-(row.excess_ns_per_step or 0), row.role, repr(row)))
    entries = [
        (
            row.role,
            row.excess_ns_per_step or 0.0,
            "at the latency floor"
            if row.limiter == _LATENCY
            else f"{format_ratio(row.ratio)} × its bound",
        )
        for row in rows[:_SHOWN]
        if (row.excess_ns_per_step or 0) > 0
    ]
    return _ranking("Largest wins in kernels", entries, "operators", "no operator has a bound")


def _waits(report: Report) -> Markup:
    causes = report.budget.idle_by_cause if report.budget else {}
    rows = sorted(causes.items(), key=lambda pair: (-pair[1], pair[0]))
    software = any(found.slug == _SOFTWARE for found in report.capture.findings)
    entries = [(cause, float(ns), CAUSES.get(cause, "")) for cause, ns in rows[:_SHOWN] if ns]
    unit = "µs per step, inflated by tracing" if software else _UNIT
    otherwise = "the idle time of a step is not known"
    return _ranking("Longest waits", entries, "idle", otherwise, unit=unit)


def _ranking(
    title: str,
    entries: Sequence[tuple[str, float, str]],
    link: str,
    otherwise: str,
    *,
    unit: str = _UNIT,
) -> Markup:
    heading = element("h2", element("a", title, href=f"#{link}"), element("small", unit))
    if not entries:
        return element("div", heading, element("p", f"None: {otherwise}."))
    lines = (
        element(
            "li",
            element("b", format_us(ns), class_="n"),
            role(what),
            element("small", told),
        )
        for what, ns, told in entries
    )
    return element("div", heading, element("ol", *lines))
