"""Ranks of several files on one time axis: their common steps and their collectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from nsysroof.analysis.collectives import collective_rows
from nsysroof.analysis.ranks import Rank
from nsysroof.results import CollectiveRow
from nsysroof.timeline.intervals import Times
from nsysroof.trace.clock import Alignment, Clock, align

Places = npt.NDArray[np.intp]
"""Which steps of a rank are meant, counted from 0, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedRank:
    """A rank of a run, and how it lies on the axis of its file.

    ``instances`` are its kernels in collectives, as ``collective_rows`` takes them, in the times of
    its file; ``offset_ns`` added to these gives times on the axis.
    """

    rank: Rank
    file: int
    axis: int
    offset_ns: int
    instances: pl.DataFrame

    @property
    def starts(self) -> Times:
        """The starts of its steps on the axis, ascending."""
        return self.rank.time.starts + self.offset_ns


def find_axes(clocks: Sequence[Clock]) -> list[tuple[int, Alignment]]:
    """Return the axis of each file, and how it is aligned with the first file of that axis.

    The first file of an axis after the first tells in its alignment why it is not on that one.
    """
    firsts: list[Clock] = []
    found = []
    for clock in clocks:
        alignments = [align(first, clock) for first in firsts]
        axis = next((at for at, one in enumerate(alignments) if one.kind), None)
        if axis is None:
            found.append((len(firsts), alignments[0] if alignments else Alignment()))
            firsts.append(clock)
        else:
            found.append((axis, alignments[axis]))
    return found


def steps_in_common(ranks: Sequence[PlacedRank]) -> list[Places] | None:
    """Return which steps all ranks ran at the same time, None where their axes or steps differ."""
    if len({rank.axis for rank in ranks}) > 1:
        return None
    return common_steps([rank.starts for rank in ranks], ranks[0].rank.time.wall)


def common_steps(starts: Sequence[Times], wall: Times) -> list[Places] | None:
    """Return which steps all ranks ran at the same time, None where there are none.

    Args:
        starts: The starts of the steps of each rank in ascending order, ns on one axis.
        wall: How long the steps of the first rank take. A step of another rank is the same one
            where it starts within half of that.

    Returns:
        The places of the common steps, for each rank; shape (common steps,).

    >>> ours, theirs = np.array([0, 100, 200]), np.array([110, 205, 290])
    >>> [part.tolist() for part in common_steps([ours, theirs], np.array([100, 100, 100])) or ()]
    [[1, 2], [0, 1]]
    """
    if any(not one.size for one in starts):
        return None
    found = np.ones(starts[0].size, dtype=bool)
    places = []
    for one in starts:
        after = np.searchsorted(one, starts[0]).clip(0, one.size - 1)
        before = np.maximum(after - 1, 0)
        nearer = np.abs(one[before] - starts[0]) < np.abs(one[after] - starts[0])
        at = np.where(nearer, before, after)
        close = 2 * np.abs(one[at] - starts[0]) < wall
        found &= close & (np.bincount(at[close], minlength=one.size)[at] == 1)
        places.append(at)
    return [at[found] for at in places] if found.any() else None


def run_collectives(ranks: Sequence[PlacedRank], *, group_size: int) -> list[CollectiveRow]:
    """Return the collectives of each rank, whose number stands in place of the GPU.

    By arrival only within groups whose files share a clock, and only over the steps that all of
    their ranks ran at the same time.

    Args:
        ranks: The ranks of the run in order.
        group_size: Ranks that take part in each; consecutive ranks form a group.
    """
    rows: list[CollectiveRow] = []
    for first in range(0, len(ranks), group_size):
        group = range(first, min(first + group_size, len(ranks)))
        common = steps_in_common([ranks[at] for at in group])
        frame = pl.concat(
            [
                _instances(ranks[at], at, common[number] if common else None)
                for number, at in enumerate(group)
            ]
        )
        rows += collective_rows(
            frame,
            frame["role"].unique().to_list(),
            group_size=len(group),
            shared_clock=common is not None,
            gpus=group,
        )
    return sorted(rows, key=lambda row: (row.role, row.gpu))


def _instances(placed: PlacedRank, number: int, places: Places | None) -> pl.DataFrame:
    """Return the instances of a rank on the axis, in the steps at these places or in all.

    ``step`` becomes the place among those, so that it means one step on all ranks.
    """
    numbers = placed.rank.time.numbers
    kept = pl.Series("step", numbers if places is None else numbers[places], dtype=pl.UInt32)
    steps = kept.to_frame().with_row_index("at")
    return placed.instances.join(steps, on="step").select(
        pl.lit(number, dtype=pl.UInt16).alias("gpu"),
        pl.col("at").alias("step"),
        "role",
        "main",
        pl.col("start_ns") + placed.offset_ns,
        pl.col("end_ns") + placed.offset_ns,
    )
