"""What each nanosecond of a GPU was, found by looking at all of them: a slow, plain second opinion.

Nothing here comes from ``nsysroof``: the rules are those of docs/design.md, "The account of a GPU",
applied to every nanosecond by itself. Only a long stretch in which nothing at all begins or ends is
one cell, which weighs as much as it is long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from tests.timeline.many.cases import COPIES, Case, Work

Times = npt.NDArray[np.int64]
Cells = npt.NDArray[np.bool_]
"""One truth value for each cell."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Bitmap:
    """One GPU: cells of time with their weight in ns, and which activity covers which.

    Of activities that start or end together the first in ``work`` stands.
    """

    work: list[Work]
    cells: Times
    weights: Times
    covers: npt.NDArray[np.bool_]  # activities x cells

    @classmethod
    def of(cls, case: Case, gpu: int, *, whole_ns: int = 4096) -> Bitmap:
        """Draw the bitmap from the first to the last activity of a GPU.

        A stretch longer than ``whole_ns`` in which nothing at all begins or ends is one cell.
        """
        work = sorted((w for w in case.work if w.gpu == gpu), key=_order)
        first, last = min(w.start for w in work), max(w.end for w in work)
        edges = sorted({edge for edge in case.edges() if first < edge < last} | {first, last})
        parts = [
            np.arange(a, b) if b - a <= whole_ns else np.array([a]) for a, b in pairwise(edges)
        ]
        cells = np.concatenate([*parts, np.empty(0, dtype=np.int64)]).astype(np.int64)
        starts, ends = columns(work)
        return cls(
            work=work,
            cells=cells,
            weights=np.diff(np.append(cells, last)),
            covers=(starts <= cells) & (cells < ends),
        )

    @property
    def start(self) -> int:
        """The start of the first activity."""
        return min(w.start for w in self.work)

    @property
    def end(self) -> int:
        """The end of the last activity."""
        return max(w.end for w in self.work)

    @property
    def idle(self) -> Cells:
        """Which cells nothing covers."""
        return ~self.covered_by(range(len(self.work)))

    @property
    def everywhere(self) -> Cells:
        """All cells."""
        return np.ones(self.cells.size, dtype=bool)

    def of_kinds(self, *kinds: str) -> list[int]:
        """Return the places of activities of these kinds."""
        return [at for at, work in enumerate(self.work) if work.kind in kinds]

    def covered_by(self, places: Sequence[int]) -> Cells:
        """Return which cells some activities cover."""
        covered: Cells = np.logical_or.reduce(self.covers[list(places)], axis=0)
        return covered

    def between(self, start: int, end: int) -> Cells:
        """Return which cells lie in [start, end)."""
        inside: Cells = (self.cells >= start) & (self.cells < end)
        return inside

    def weigh(self, cells: Cells) -> int:
        """Return the ns of some cells."""
        return int(self.weights[cells].sum())

    def sum_of(self, places: Sequence[int], within: Cells) -> int:
        """Return the ns of some activities inside some cells; what overlaps counts as often."""
        return int((self.covers[list(places)].sum(axis=0) * self.weights * within).sum())

    def overlap(self, within: Cells) -> int:
        """Return by how much more often than once some cells are covered, in ns."""
        again = np.maximum(self.covers.sum(axis=0) - 1, 0)
        return int((again * self.weights * within).sum())

    def advances(self) -> list[int]:
        """Return for each activity the ns that it was the first kernel of its stream to cover."""
        painted: dict[tuple[int, int, int], Cells] = {}
        found = []
        for at, work in enumerate(self.work):
            stream = (work.pid, work.context, work.stream)
            before = painted.get(stream, np.zeros(self.cells.size, dtype=bool))
            found.append(self.weigh(self.covers[at] & ~before) if work.kind == "kernel" else 0)
            if work.kind == "kernel":
                painted[stream] = before | self.covers[at]
        return found


def columns(work: Sequence[Work]) -> tuple[Times, Times]:
    """Return starts and ends, each as one column."""
    starts = np.array([[w.start] for w in work], dtype=np.int64)
    return starts, np.array([[w.end] for w in work], dtype=np.int64)


def _order(work: Work) -> tuple[object, ...]:
    kinds = ("kernel", "copy", "fill", "replay")
    return (
        work.start,
        work.end,
        work.stream,
        -1 if work.correlation is None else work.correlation,
        kinds.index(work.kind),
        work.label if work.kind == "kernel" else "",
        work.pid,
        work.context,
        work.node or 0,
        COPIES.get(work.label, ""),
    )
