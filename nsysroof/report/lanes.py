"""One step in lines like those of a text: where its activities lie, whatever draws them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nsysroof.report.tones import tone_of_role
from nsysroof.results import StepSlice, StepTimeline

_MOST_LINES = 16
_MOST_LANES = 6
_NICE = (1, 2, 5)
_TONES = {"unexplained": "unexplained", "copy": "copy", "fill": "copy", "replay": "other"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where a moment of a step lies.

    Attributes:
        start_ns: Start of the step.
        end_ns: Its end.
        line_ns: Length of a line.
        lanes: Lane of each stream shown.
    """

    start_ns: int
    end_ns: int
    line_ns: int
    lanes: dict[int | None, int]

    @property
    def lines(self) -> int:
        """How many lines hold the step."""
        return max(-(-(self.end_ns - self.start_ns) // self.line_ns), 1)

    def pieces(self, start_ns: int, end_ns: int) -> Iterator[tuple[int, float, float]]:
        """Yield line, left edge and width of a stretch, both as shares of a line.

        A stretch is cut at the ends of the step and of the lines.
        """
        at, end = max(start_ns, self.start_ns), min(end_ns, self.end_ns)
        while at < end:
            line = (at - self.start_ns) // self.line_ns
            begin = self.start_ns + line * self.line_ns
            stop = min(end, begin + self.line_ns)
            yield line, (at - begin) / self.line_ns, (stop - at) / self.line_ns
            at = stop


def layout_of(step: StepTimeline) -> Layout:
    """Return lines of a round length, and a lane for each of the busiest streams.

    >>> step = StepTimeline(gpu=0, step=0, start_ns=0, end_ns=5_114_753, slices=[], idle=[])
    >>> layout_of(step).line_ns, layout_of(step).lines
    (500000, 11)
    """
    return Layout(
        start_ns=step.start_ns,
        end_ns=step.end_ns,
        line_ns=_line_ns(step.end_ns - step.start_ns),
        lanes=_lanes(step.slices),
    )


def tone_of(one: StepSlice) -> str:
    """Return the tone of an activity."""
    return _TONES.get(one.activity) or tone_of_role(one.what)


def stream_order(stream: int | None) -> int:
    """Return a key that sorts streams by number, an unknown one first."""
    return -1 if stream is None else stream


def _line_ns(wall_ns: int) -> int:
    least = max(wall_ns / _MOST_LINES, 1)
    size = 1
    while True:
        for nice in _NICE:
            if nice * size >= least:
                return nice * size
        size *= 10


def _lanes(slices: Sequence[StepSlice]) -> dict[int | None, int]:
    busy: dict[int | None, int] = {}
    for one in slices:
        busy[one.stream] = busy.get(one.stream, 0) + one.end_ns - one.start_ns
    kept = sorted(busy, key=lambda stream: (-busy[stream], stream_order(stream)))[:_MOST_LANES]
    return {stream: lane for lane, stream in enumerate(sorted(kept, key=stream_order))}
