"""One step in time: every stream a lane, in lines like those of a text, idle time marked below."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nsysroof.report.blocks import count
from nsysroof.report.web.blocks import scrolling
from nsysroof.report.web.markup import Markup, element, join, number
from nsysroof.report.web.tones import FAMILIES, tone_of_role
from nsysroof.results import StepSlice, StepTimeline
from nsysroof.units import format_us

_WIDTH = 1200
_LANE, _IDLE, _SCALE, _SPACE = 14, 6, 14, 8  # heights of a line's parts
_MOST_LINES = 16
_MOST_LANES = 6
_MOST_SLICES = 4_000
_MOST_IDLE = 2_000
_NICE = (1, 2, 5)
_TONES = {"unexplained": "unexplained", "copy": "copy", "fill": "copy", "replay": "other"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """Where a moment of the step lies."""

    start_ns: int
    end_ns: int
    line_ns: int
    lanes: dict[int | None, int]

    @property
    def line_height(self) -> int:
        return _SCALE + _LANE * max(len(self.lanes), 1) + _IDLE + _SPACE

    @property
    def lines(self) -> int:
        return max(-(-(self.end_ns - self.start_ns) // self.line_ns), 1)

    def pieces(self, start_ns: int, end_ns: int) -> Iterator[tuple[int, float, float]]:
        """Yield line, left edge and width of a stretch, cut at the step's and the lines' ends."""
        at, end = max(start_ns, self.start_ns), min(end_ns, self.end_ns)
        while at < end:
            line = (at - self.start_ns) // self.line_ns
            begin = self.start_ns + line * self.line_ns
            stop = min(end, begin + self.line_ns)
            scale = _WIDTH / self.line_ns
            yield line, (at - begin) * scale, (stop - at) * scale
            at = stop


def timeline(step: StepTimeline) -> Markup:
    """Return the drawing of a step, its legend, and what there was no room for."""
    layout = _Layout(
        start_ns=step.start_ns,
        end_ns=step.end_ns,
        line_ns=_line_ns(step.end_ns - step.start_ns),
        lanes=_lanes(step.slices),
    )
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
        viewBox=f"0 0 {_WIDTH} {layout.lines * layout.line_height}",
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


def _line_ns(wall_ns: int) -> int:
    """Return a round length of a line, such that few lines hold the step."""
    least = max(wall_ns / _MOST_LINES, 1)
    size = 1
    while True:
        for nice in _NICE:
            if nice * size >= least:
                return nice * size
        size *= 10


def _lanes(slices: Sequence[StepSlice]) -> dict[int | None, int]:
    """Return a lane for each of the busiest streams, in order of their numbers."""
    busy: dict[int | None, int] = {}
    for one in slices:
        busy[one.stream] = busy.get(one.stream, 0) + one.end_ns - one.start_ns
    kept = sorted(busy, key=lambda stream: (-busy[stream], _number(stream)))[:_MOST_LANES]
    return {stream: lane for lane, stream in enumerate(sorted(kept, key=_number))}


def _number(stream: int | None) -> int:
    return -1 if stream is None else stream


def _longest_first(one: StepSlice) -> tuple[int, int, int, str]:
    return one.start_ns - one.end_ns, *_in_time(one)


def _in_time(one: StepSlice) -> tuple[int, int, str]:
    return one.start_ns, _number(one.stream), one.what


def _slice(one: StepSlice, layout: _Layout) -> Iterator[Markup]:
    tone = _TONES.get(one.activity) or tone_of_role(one.what)
    told = f"{one.what}: {format_us(one.end_ns - one.start_ns)} µs"
    for piece in layout.pieces(one.start_ns, one.end_ns):
        yield _rect(
            layout, piece, lane=layout.lanes[one.stream], height=_LANE - 1, tone=tone, told=told
        )


def _rect(
    layout: _Layout,
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
        x=number(left, 1),
        y=line * layout.line_height + _SCALE + lane * _LANE,
        width=number(max(width, 0.4), 1),
        height=height,
        class_=f"f-{tone}",
    )


def _scales(layout: _Layout) -> Iterator[Markup]:
    """Yield the time at the beginning and in the middle of each line, from the step's start."""
    for line in range(layout.lines):
        y = line * layout.line_height
        for part in range(4):
            ns = line * layout.line_ns + part * layout.line_ns // 4
            x = number(part * _WIDTH / 4)
            yield element(
                "line", x1=x, x2=x, y1=y + 2, y2=y + layout.line_height - _SPACE, class_="grid"
            )
            text = f"{ns / 1e3:,.0f}" + (" µs" if part == 0 else "")
            yield element("text", text, x=f"{float(x) + 3:g}", y=y + 11, class_="tick")


def _legend(slices: Sequence[StepSlice]) -> Markup:
    used = {_TONES.get(one.activity) or tone_of_role(one.what) for one in slices}
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
