"""Pictures of a report: its roofline, its median step as a budget and in time, its idle time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log10, sqrt

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter

from nsysroof.report.placing import Dot, place_labels
from nsysroof.report.plots.batch import step_against
from nsysroof.report.plots.lanes import step_lanes
from nsysroof.report.plots.style import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    PURPLE,
    RC,
    SIZE,
    SKY,
    VERMILION,
    plain_numbers,
    title,
)
from nsysroof.report.plots.tones import TONES, nothing
from nsysroof.report.tones import FAMILIES, tone_of_role
from nsysroof.report.web.glance import subject
from nsysroof.results import OperatorRow, Report, Sweep
from nsysroof.units import format_rate, format_share, format_us

_COMPUTE = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4", "int4")
_LABELLED = 8
_LARGEST, _SMALLEST = 24.0, 3.0  # points
_LETTER, _LINE = 6.7, 14.0
_OUTSIDE = "outside_steps"


def report_figure(report: Report, kind: str) -> Figure:
    """Return one picture of a report: ``roofline``, ``step``, ``timeline`` or ``gaps``.

    Raises:
        UsageError: ``nothing-to-draw`` where the report does not hold what is to be drawn.
    """
    kinds: dict[str, Callable[[Report], Figure]] = {
        "roofline": measured_roofline,
        "step": step_budget,
        "timeline": step_lanes,
        "gaps": idle_causes,
    }
    with mpl.rc_context(rc=RC):
        return kinds[kind](report)


def measured_roofline(report: Report) -> Figure:
    """Return a dot per operator: FLOP per byte across, achieved FLOP/s up, area: time per step."""
    rows = [row for row in report.operators if row.intensity and row.flop_per_s]
    if not rows:
        raise nothing("no operator with arithmetic has a known intensity")
    rows.sort(key=lambda row: (-row.ns_per_step, row.role, repr(row)))
    peaks = {peak.key: peak.value for peak in report.assumptions.peaks}
    figure, axes = _canvas(report, "achieved against the roofs; area: time per step")
    axes.set_xscale("log")
    axes.set_yscale("log")
    _limits(axes, rows, peaks)
    _roofs(axes, peaks)
    longest = rows[0].ns_per_step
    for row in rows:
        bounded = row.limiter in {"memory", "compute"}
        colour = TONES[tone_of_role(row.role)]
        axes.plot(
            [row.intensity or 0.0],
            [row.flop_per_s or 0.0],
            "o",
            markersize=2 * _radius(row, longest),
            markerfacecolor=colour if bounded else "white",
            markeredgecolor="white" if bounded else colour,
            alpha=0.8,
            zorder=3,
        )
    _name_dots(axes, rows)
    plain_numbers(axes.xaxis)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _rate(value)))
    axes.set_xlabel("FLOP per byte of memory")
    axes.set_ylabel("achieved")
    used = [tone for tone in FAMILIES if tone in {tone_of_role(row.role) for row in rows}]
    handles = [Line2D([], [], ls="", marker="o", color=TONES[t], label=FAMILIES[t]) for t in used]
    hollow = Line2D([], [], ls="", marker="o", mfc="white", color=INK, label="latency or link")
    axes.legend(handles=[*handles, hollow], loc="lower right", fontsize=9)
    return figure


def step_budget(report: Report) -> Figure:
    """Return the median step as a waterfall; the last bar is its wall time."""
    budget = report.budget
    if budget is None:
        raise nothing("no step was found, or its idle time is not known")
    causes = sorted(budget.idle_by_cause.items(), key=lambda pair: (-pair[1], pair[0]))
    idle = [(f"idle {cause}", ns, TONES["idle"]) for cause, ns in causes if ns]
    parts = [
        ("bound", budget.bound_ns, GREEN),
        ("over bound", budget.over_bound_ns, VERMILION),
        ("fixed", budget.fixed_ns, ORANGE),
        ("unexplained", budget.unexplained_ns, PURPLE),
        ("copies", budget.copy_ns, SKY),
        *(idle or [("idle", budget.idle_ns, TONES["idle"])]),
        ("overlap", -budget.overlap_ns, FAINT),
    ]
    figure, axes = _canvas(report, f"step {budget.step} on GPU {budget.gpu}, the median")
    reached = 0
    for at, (_, ns, colour) in enumerate(parts):
        axes.barh(at, ns / 1e3, left=reached / 1e3, color=colour)
        reached += ns
        told = f" {format_us(abs(ns))}  {format_share(budget.share(abs(ns)))}"
        axes.text(max(reached, reached - ns) / 1e3, at, told, va="center", fontsize=10)
    axes.barh(len(parts), budget.wall_ns / 1e3, color=INK)
    axes.text(budget.wall_ns / 1e3, len(parts), f" {format_us(budget.wall_ns)}", va="center")
    axes.set_yticks(range(len(parts) + 1), [*(label for label, _, _ in parts), "wall"])
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, max(budget.wall_ns, reached) / 1e3 * 1.18)
    plain_numbers(axes.xaxis)
    axes.set_xlabel("µs")
    return figure


def idle_causes(report: Report) -> Figure:
    """Return the idle time of each GPU by cause, per step where steps are known."""
    lines = [line for line in report.timeline if line.idle_by_cause]
    if not lines:
        raise nothing("the idle time of this capture is not known")
    per_step = report.per_step(1)
    causes = [
        cause
        for cause in (lines[0].idle_by_cause or {})
        if any((line.idle_by_cause or {})[cause] for line in lines)
        and not (per_step and cause == _OUTSIDE)  # it is no part of any step
    ]
    unit = "µs per step" if per_step else "µs"
    figure, axes = _canvas(report, "idle time by cause")
    height = 0.8 / len(lines)
    for number, line in enumerate(lines):
        values = [(line.idle_by_cause or {})[cause] * (per_step or 1) / 1e3 for cause in causes]
        places = [at + number * height for at in range(len(causes))]
        colour = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY)[number % 6]
        axes.barh(places, values, height=height * 0.9, color=colour, label=f"GPU {line.gpu}")
        for place, value in zip(places, values, strict=True):
            axes.text(value, place, f" {format_us(value * 1e3)}", va="center", fontsize=9)
    middle = 0.4 - height / 2
    axes.set_yticks([at + middle for at in range(len(causes))], causes)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.15)
    plain_numbers(axes.xaxis)
    axes.set_xlabel(unit)
    if len(lines) > 1:
        axes.legend(loc="lower right")
    return figure


def batches(sweep: Sweep, report: Report) -> Figure:
    """Return step time and rate against the batch in theory, with the measured step as a cross.

    Args:
        sweep: The report's model and machine over batches.
        report: The report.
    """
    with mpl.rc_context(rc=RC):
        figure = step_against(sweep, "batch")
        bounds, batch = report.step_bounds, report.assumptions.batch
        if bounds is not None and batch is not None and bounds.measured_ns is not None:
            above, below = figure.axes
            for panel, value in ((above, bounds.measured_ns / 1e6), (below, bounds.tokens_per_s)):
                if value is not None:
                    panel.plot([batch], [value], "X", color=VERMILION, markersize=11, zorder=5)
                    panel.annotate(
                        "measured",
                        (batch, value),
                        xytext=(9, 0),
                        textcoords="offset points",
                        va="center",
                        color=VERMILION,
                        fontsize=10,
                    )
        return figure


def _canvas(report: Report, below: str) -> tuple[Figure, Axes]:
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.add_subplot()
    figure.suptitle(subject(report.assumptions), x=0.02, ha="left", fontsize=13)
    title(axes, below)
    return figure, axes


def _limits(axes: Axes, rows: list[OperatorRow], peaks: Mapping[str, float]) -> None:
    roofs = [peaks[key] for key in _COMPUTE if key in peaks]
    reach = [row.intensity or 1.0 for row in rows]
    reach += [max(roofs) / peaks["bw"]] if roofs and "bw" in peaks else []
    rates = [row.flop_per_s or 1.0 for row in rows] + roofs
    axes.set_xlim(min(reach) / 2, max(reach) * 3)
    axes.set_ylim(min(rates) / 3, max(rates) * 2)


def _roofs(axes: Axes, peaks: Mapping[str, float]) -> None:
    left, right = axes.get_xlim()
    roofs = {key: peaks[key] for key in _COMPUTE if key in peaks}
    bandwidth = peaks.get("bw")
    top = max(roofs.values(), default=0.0)
    if bandwidth:
        end = top / bandwidth if top else right
        axes.plot([left, end], [left * bandwidth, end * bandwidth], color=INK)
        middle = sqrt(end * sqrt(left * end))
        axes.annotate(
            f"memory {format_rate(bandwidth, 'B')}",
            (middle, middle * bandwidth),
            xytext=(-8, 6),
            textcoords="offset points",
            ha="right",
            fontsize=10,
        )
    for key, peak in roofs.items():
        start = peak / bandwidth if bandwidth else left
        axes.plot([start, right], [peak] * 2, color=INK)
        axes.annotate(
            f"{key} {peak / 1e12:,.4g} TFLOP/s",
            (right, peak),
            xytext=(-4, 4),
            textcoords="offset points",
            ha="right",
            fontsize=10,
        )


def _rate(flop_per_s: float) -> str:
    """Return a tick: a rate without the digits that all ticks have.

    >>> _rate(1e12), _rate(1e8)
    ('1 TFLOP/s', '100 MFLOP/s')
    """
    return format_rate(flop_per_s, "FLOP").replace(".00 ", " ").replace(".0 ", " ")


def _radius(row: OperatorRow, longest: float) -> float:
    return max(_LARGEST * sqrt(row.ns_per_step / longest), _SMALLEST) if longest else _SMALLEST


def _name_dots(axes: Axes, rows: list[OperatorRow]) -> None:
    """Write the roles of the longest operators beside their dots, in points of the panel."""
    width, height = (side * 72 * 0.86 for side in SIZE)
    spans = [
        (log10(low), log10(high) - log10(low)) for low, high in (axes.get_xlim(), axes.get_ylim())
    ]
    dots = [
        Dot(
            x=(log10(row.intensity or 1) - spans[0][0]) / spans[0][1] * width,
            y=(1 - (log10(row.flop_per_s or 1) - spans[1][0]) / spans[1][1]) * height,
            radius=_radius(row, rows[0].ns_per_step),
        )
        for row in rows
    ]
    widths = [_LETTER * len(row.role) for row in rows[:_LABELLED]]
    places = place_labels(dots, widths, frame=(0, 0, width, height), line=_LINE)
    for row, dot, place in zip(rows, dots, places, strict=False):
        if place is None:
            continue
        tied = {"arrowstyle": "-", "color": FAINT, "lw": 0.8} if place.leader else None
        axes.annotate(
            row.role,
            (row.intensity or 1.0, row.flop_per_s or 1.0),
            xytext=(place.left - dot.x, dot.y - place.base),
            textcoords="offset points",
            fontsize=10,
            arrowprops=tied,
            bbox={"facecolor": "white", "alpha": 0.75, "pad": 0.5, "linewidth": 0},
            zorder=4,
        )
