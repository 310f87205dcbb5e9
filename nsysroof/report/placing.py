"""Where labels may stand in a drawing of dots: near their dots, over no other dot and no label."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

Box: TypeAlias = tuple[float, float, float, float]
"""Left, top, right and bottom edge; y grows downwards."""

_DISTANCES = (6.0, 30.0, 60.0)
_STEPS = (0, -1, 1, -2, 2, -3, 3, -4, 4)
_LEADER = 12.0  # a label farther from its dot is tied to it by a line


@dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A round mark."""

    x: float
    y: float
    radius: float

    @property
    def box(self) -> Box:
        """The square around it."""
        return (
            self.x - self.radius,
            self.y - self.radius,
            self.x + self.radius,
            self.y + self.radius,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """Left edge and base line of a text, and where the line to its dot ends, if it needs one."""

    left: float
    base: float
    leader: tuple[float, float] | None


def place_labels(
    dots: Sequence[Dot],
    widths: Sequence[float],
    *,
    frame: Box,
    line: float,
    taken: Sequence[Box] = (),
) -> list[Label | None]:
    """Return a place for the label of each of the first dots, None where there is no room.

    Args:
        dots: Every dot drawn; none is covered.
        widths: Widths of the labels of the first dots, the most important first.
        frame: Where labels may stand.
        line: Height of a line of text.
        taken: What else must not be covered.

    >>> dot = Dot(x=50, y=50, radius=10)
    >>> place_labels([dot], [20.0], frame=(0, 0, 100, 100), line=12)
    [Label(left=66.0, base=54, leader=None)]
    """
    used = [*taken, *(dot.box for dot in dots)]
    found: list[Label | None] = []
    for dot, width in zip(dots, widths, strict=False):
        place = _first_free(dot, width, frame, line, used)
        found.append(place)
        if place is not None:
            used.append(_box(place.left, place.base, width, line))
    return found


def overlap(a: Box, b: Box) -> bool:
    """Return whether two boxes share some area.

    >>> overlap((0, 0, 2, 2), (1, 1, 3, 3)), overlap((0, 0, 1, 1), (1, 0, 2, 1))
    (True, False)
    """
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def inside(box: Box, frame: Box) -> bool:
    """Return whether a box lies within a frame."""
    return box[0] > frame[0] and box[1] > frame[1] and box[2] < frame[2] and box[3] < frame[3]


def _first_free(
    dot: Dot, width: float, frame: Box, line: float, used: Sequence[Box]
) -> Label | None:
    for left, base in _places(dot, width, line):
        box = _box(left, base, width, line)
        if inside(box, frame) and not any(overlap(box, other) for other in used):
            return Label(left=left, base=base, leader=_leader(dot, left, base, width))
    return None


def _places(dot: Dot, width: float, line: float) -> Iterator[tuple[float, float]]:
    """Yield left edges and base lines, the nearest to the dot first."""
    for distance in _DISTANCES:
        for step in _STEPS:
            base = dot.y + 4 + step * line
            yield dot.x + dot.radius + distance, base
            yield dot.x - dot.radius - distance - width, base


def _box(left: float, base: float, width: float, line: float) -> Box:
    return left - 2, base - line + 3, left + width + 2, base + 3


def _leader(dot: Dot, left: float, base: float, width: float) -> tuple[float, float] | None:
    end = left - 3 if left > dot.x else left + width + 3
    near = abs(end - dot.x) <= dot.radius + _LEADER and abs(base - 4 - dot.y) <= dot.radius
    return None if near else (end, base - 4)
