"""One step in time: every stream a lane, in lines like those of a text, idle time below."""

from __future__ import annotations

from collections.abc import Iterator

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from nsysroof.report.lanes import Layout, layout_of, tone_of
from nsysroof.report.plots.style import INK, SIZE
from nsysroof.report.plots.tones import TONES, nothing
from nsysroof.report.tones import FAMILIES
from nsysroof.report.web.glance import subject
from nsysroof.results import Report, StepTimeline
from nsysroof.units import format_us

_LANE, _IDLE, _GAP = 1.0, 0.45, 0.55  # heights in a line


def step_lanes(report: Report) -> Figure:
    """Return what ran in the median step, and when nothing did.

    Raises:
        UsageError: ``nothing-to-draw`` where the report does not hold it.
    """
    step = report.step_timeline
    if step is None:
        raise nothing("the report does not hold what ran in a step")
    layout = layout_of(step)
    figure = Figure(figsize=SIZE, layout="constrained")
    axes = figure.add_subplot()
    figure.suptitle(subject(report.assumptions), x=0.02, ha="left", fontsize=13)
    for tone, bars in _bars(step, layout).items():
        for base, spans in bars.items():
            height = _IDLE if tone == "idle" else _LANE
            axes.broken_barh(spans, (base, height), facecolors=TONES[tone], linewidth=0)
    _frame(axes, step, layout)
    used = {tone_of(one) for one in step.slices}
    handles = [Patch(color=TONES[t], label=name) for t, name in FAMILIES.items() if t in used]
    handles.append(Patch(color=TONES["idle"], label="idle"))
    axes.legend(
        handles=handles,
        loc="lower left",
        bbox_to_anchor=(0, 1),
        ncols=len(handles),
        frameon=False,
        fontsize=9,
        handlelength=1,
        columnspacing=1.2,
    )
    return figure


def _bars(step: StepTimeline, layout: Layout) -> dict[str, dict[float, list[tuple[float, float]]]]:
    """Return the stretches of each tone by the height at which they lie, in µs of a line."""
    found: dict[str, dict[float, list[tuple[float, float]]]] = {}
    for tone, base, span in _marks(step, layout):
        found.setdefault(tone, {}).setdefault(base, []).append(span)
    return found


def _marks(step: StepTimeline, layout: Layout) -> Iterator[tuple[str, float, tuple[float, float]]]:
    scale = layout.line_ns / 1e3
    for one in step.slices:
        if one.stream in layout.lanes:
            for line, left, width in layout.pieces(one.start_ns, one.end_ns):
                base = line * _line_height(layout) + layout.lanes[one.stream] * _LANE
                yield tone_of(one), base, (left * scale, width * scale)
    for gap in step.idle:
        for line, left, width in layout.pieces(gap.start_ns, gap.end_ns):
            base = line * _line_height(layout) + len(layout.lanes) * _LANE
            yield "idle", base, (left * scale, width * scale)


def _line_height(layout: Layout) -> float:
    return len(layout.lanes) * _LANE + _IDLE + _GAP


def _frame(axes: Axes, step: StepTimeline, layout: Layout) -> None:
    height = _line_height(layout)
    streams = ", ".join("?" if stream is None else f"{stream}" for stream in layout.lanes)
    axes.set_ylim(layout.lines * height - _GAP, 0)
    axes.set_xlim(0, layout.line_ns / 1e3)
    axes.set_yticks(
        [line * height + len(layout.lanes) * _LANE / 2 for line in range(layout.lines)],
        [f"{line * layout.line_ns / 1e3:,.0f}" for line in range(layout.lines)],
    )
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)
    axes.set_ylabel("µs from the start of the step")
    axes.set_xlabel(
        f"µs within a line; step {step.step} on GPU {step.gpu}, "
        f"{format_us(step.end_ns - step.start_ns)} µs; lanes from the top: stream {streams or 'none'}",
        color=INK,
    )
