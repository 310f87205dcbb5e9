"""The steps of a GPU by the rules of docs/design.md, one call and one cell after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

import numpy as np

from tests.timeline.many.bitmap import Bitmap
from tests.timeline.many.cases import Case, Mark

_HOLE_NS = 100_000_000
_NEVER = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One step of a GPU."""

    start: int
    end: int


def find_steps(case: Case, bitmap: Bitmap) -> list[Step]:
    """Return the steps that the ranges show on one GPU.

    A step begins with the first kernel, or replay, that was launched inside its range, and ends
    where the next begins or where the first hole does, the last with the last activity.
    """
    launched = _ranges_of_launches(case)
    firsts: dict[Mark, int] = {}
    for work in bitmap.work:
        mark = launched.get((work.pid, work.correlation))
        if mark is not None and work.kind in ("kernel", "replay"):
            firsts[mark] = min(firsts.get(mark, work.start), work.start)
    starts = sorted(set(firsts.values()))
    if not starts:
        return []
    lengths = [after - before for before, after in pairwise(starts)]
    limit = max(10 * median(lengths), _HOLE_NS) if lengths else _NEVER
    return [
        Step(start=start, end=_first_hole(bitmap, start, following, limit))
        for start, following in pairwise([*starts, bitmap.end])
    ]


def _ranges_of_launches(case: Case) -> dict[tuple[int, int | None], Mark]:
    """Return the range that each launch call lies in: of those still open the last to open.

    A call that is recorded twice counts once, where it first lies in a range.
    """
    marks = _outermost(case.marks)
    found: dict[tuple[int, int | None], Mark] = {}
    for call in sorted(case.calls, key=lambda call: (call.start, call.end, call.tid)):
        opened = [
            m for m in marks if (m.pid, m.tid) == (call.pid, call.tid) and m.start <= call.start
        ]
        last = max(opened, key=lambda m: m.start, default=None)
        launching = call.kind in ("kernel_launch", "graph_launch")
        if launching and last and call.correlation is not None and call.start < (last.end or 0):
            found.setdefault((call.pid, call.correlation), last)
    return found


def _outermost(marks: Sequence[Mark]) -> list[Mark]:
    """Return the ranges of steps that ended and do not lie inside another of their thread."""
    named = [m for m in marks if m.text.startswith("step") and m.end is not None]
    kept: list[Mark] = []
    for mark in sorted(named, key=lambda m: (m.start, -(m.end or 0), m.text)):
        own = [m.end or 0 for m in kept if (m.pid, m.tid) == (mark.pid, mark.tid)]
        if (mark.end or 0) > max(own, default=-_NEVER):
            kept.append(mark)
    return kept


def _first_hole(bitmap: Bitmap, start: int, end: int, limit: float) -> int:
    """Return where the first idle stretch above the limit begins in [start, end), or ``end``."""
    begins = {work.start for work in bitmap.work}
    idle, since = bitmap.idle, end
    for at in np.flatnonzero(bitmap.between(start, end)).tolist():
        cell = int(bitmap.cells[at])
        if not idle[at]:
            since = end
        elif since == end or cell in begins:
            since = cell
        if idle[at] and cell + int(bitmap.weights[at]) - since > limit:
            return since
    return end
