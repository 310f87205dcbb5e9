"""One step in time: every stream a lane, in lines like those of a text, idle time marked below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nsysroof.report.blocks import count
from nsysroof.report.lanes import Layout, layout_of, stream_order, tone_of
from nsysroof.report.tones import FAMILIES
from nsysroof.report.web.blocks import scrolling
from nsysroof.report.web.markup import Markup, element, join, number
from nsysroof.results import StepSlice, StepTimeline
from nsysroof.units import format_us

_WIDTH = 1200
_LANE, _IDLE, _SCALE, _SPACE = 14, 6, 14, 8  # heights of a line's parts
_MOST_SLICES = 4_000
_MOST_IDLE = 2_000


def timeline(step: StepTimeline) -> Markup:
    """Return the drawing of a step, its legend, and what there was no room for."""
    layout = layout_of(step)
    slices = [one for one in step.slices if one.stream in layout.lanes]
    shown = sorted(slices, key=_longest_first)[:_MOST_SLICES]
    idle = sorted(step.idle, key=lambda gap: (gap.start_ns - gap.end_ns, gap.start_ns))[:_MOST_IDLE]
    left_out = len(step.slices) - len(shown)
    drawing = element(
        "svg",
        *_scales(layout),
        *(mark for one in sorted(shown, key=_in_time) for mark in _slice(one, layout)),
        *(
            _rect(
                layout,
                piece,
                lane=len(layout.lanes),
                height=_IDLE,
                tone="idle",
                told=f"idle {format_us(gap.idle_ns)} µs: {gap.cause or 'cause unknown'}",
            )
            for gap in sorted(idle, key=lambda gap: gap.start_ns)
            for piece in layout.pieces(gap.start_ns, gap.end_ns)
        ),
        viewBox=f"0 0 {_WIDTH} {layout.lines * _line_height(layout)}",
        role="img",
        aria_label=f"Timeline of step {step.step} on GPU {step.gpu}",
    )
    streams = ", ".join("?" if s is None else f"{s}" for s in layout.lanes)
    told = (
        f"Step {step.step} on GPU {step.gpu}, {layout.line_ns / 1e3:,g} µs a line; lanes from the "
        f"top: stream {streams or 'none'}; below them, where the GPU idles."
    )
    if left_out:
        told += f" {count(left_out, 'shorter or further activity', 'shorter or further activities')} not drawn."
    return join(
        element("p", told), _legend(shown), scrolling(drawing, label="timeline of one step")
    )


def _line_height(layout: Layout) -> int:
    return _SCALE + _LANE * max(len(layout.lanes), 1) + _IDLE + _SPACE


def _longest_first(one: StepSlice) -> tuple[int, int, int, str]:
    return one.start_ns - one.end_ns, *_in_time(one)


def _in_time(one: StepSlice) -> tuple[int, int, str]:
    return one.start_ns, stream_order(one.stream), one.what


def _slice(one: StepSlice, layout: Layout) -> Iterator[Markup]:
    tone = tone_of(one)
    told = f"{one.what}: {format_us(one.end_ns - one.start_ns)} µs"
    for piece in layout.pieces(one.start_ns, one.end_ns):
        yield _rect(
            layout, piece, lane=layout.lanes[one.stream], height=_LANE - 1, tone=tone, told=told
        )


def _rect(
    layout: Layout,
    piece: tuple[int, float, float],
    *,
    lane: int,
    height: int,
    tone: str,
    told: str,
) -> Markup:
    line, left, width = piece
    return element(
        "rect",
        element("title", told),
        x=number(left * _WIDTH, 1),
        y=line * _line_height(layout) + _SCALE + lane * _LANE,
        width=number(max(width * _WIDTH, 0.4), 1),
        height=height,
        class_=f"f-{tone}",
    )


def _scales(layout: Layout) -> Iterator[Markup]:
    """Yield the time at the beginning and in the middle of each line, from the step's start."""
    for line in range(layout.lines):
        y = line * _line_height(layout)
        for part in range(4):
            ns = line * layout.line_ns + part * layout.line_ns // 4
            x = number(part * _WIDTH / 4)
            yield element(
                "line", x1=x, x2=x, y1=y + 2, y2=y + _line_height(layout) - _SPACE, class_="grid"
            )
            text = f"{ns / 1e3:,.0f}" + (" µs" if part == 0 else "")
            yield element("text", text, x=f"{float(x) + 3:g}", y=y + 11, class_="tick")


def _legend(slices: Sequence[StepSlice]) -> Markup:
    used = {tone_of(one) for one in slices}
    keys = [
        element("li", _swatch(f"f-{tone}"), meaning)
        for tone, meaning in FAMILIES.items()
        if tone in used
    ]
    return element("ul", *keys, element("li", _swatch("f-idle"), "idle"), class_="legend")


def _swatch(tone: str) -> Markup:
    return element(
        "svg",
        element("rect", width=12, height=12, class_=tone),
        viewBox="0 0 12 12",
        class_="swatch",
        aria_hidden="true",
    )
