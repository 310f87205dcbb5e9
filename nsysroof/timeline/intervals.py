"""Arithmetic on half-open intervals [start, end) in ns: union, gaps and cutting, on columns.

Every function is pure and exact; the tests hold each against a bitmap of single nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from nsysroof.trace.order import holds_one_value

Times = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Disjoint intervals in ascending order; two arrays of the same length, ns."""

    starts: Times
    ends: Times

    @property
    def total_ns(self) -> int:
        """The time covered."""
        return int((self.ends - self.starts).sum())

    def clip(self, start_ns: int, end_ns: int) -> Intervals:
        """Return the part inside [start_ns, end_ns)."""
        first = np.searchsorted(self.ends, start_ns, side="right")
        last = np.searchsorted(self.starts, end_ns) if end_ns > start_ns else first
        starts, ends = self.starts[first:last], self.ends[first:last]
        if starts.size and (starts[0] < start_ns or ends[-1] > end_ns):
            starts, ends = np.maximum(starts, start_ns), np.minimum(ends, end_ns)
        return Intervals(starts=starts, ends=ends)


def union(starts: Times, ends: Times) -> Intervals:
    """Return the union of any intervals as disjoint intervals; touching ones become one.

    >>> busy = union(np.array([0, 5, 8]), np.array([4, 9, 12]))
    >>> busy.starts.tolist(), busy.ends.tolist(), busy.total_ns
    ([0, 5], [4, 12], 11)
    """
    kept = ends > starts
    if not kept.all():
        starts, ends = starts[kept], ends[kept]
    if not starts.size:
        return Intervals(starts=starts, ends=ends)
    if (starts[1:] < starts[:-1]).any():
        order = np.argsort(starts, kind="stable")
        starts, ends = starts[order], ends[order]
    reach = np.maximum.accumulate(ends)
    opens = np.empty(starts.size, dtype=bool)
    opens[0] = True
    opens[1:] = starts[1:] > reach[:-1]
    first = np.flatnonzero(opens)
    last = np.append(first[1:] - 1, starts.size - 1)
    return Intervals(starts=starts[first], ends=reach[last])


def covered(points: Times, cover: Intervals) -> npt.NDArray[np.bool_]:
    """Return which points, in ascending order, lie inside the cover.

    >>> cover = Intervals(starts=np.array([10]), ends=np.array([20]))
    >>> covered(np.array([9, 10, 19, 20]), cover).tolist()
    [False, True, True, False]
    """
    turns = by_turns(points, cover)
    inside: npt.NDArray[np.bool_] = np.arange(turns.size) % 2 == 1
    return np.repeat(inside, turns)


def by_turns(points: Times, cover: Intervals) -> npt.NDArray[np.intp]:
    """Return how many points, in ascending order, lie before the first interval, in it, and so on.

    >>> cover = Intervals(starts=np.array([10, 30]), ends=np.array([20, 40]))
    >>> by_turns(np.array([1, 10, 19, 20, 30, 99]), cover).tolist()
    [1, 2, 1, 1, 1]
    """
    ends = np.full(2 * cover.starts.size + 1, points.size)
    ends[:-1:2] = np.searchsorted(points, cover.starts)
    ends[1::2] = np.searchsorted(points, cover.ends)
    return np.diff(ends, prepend=0)


def covered_before(points: Times, cover: Intervals) -> Times:
    """Return how much of the cover lies before each point.

    >>> cover = Intervals(starts=np.array([10, 40]), ends=np.array([20, 45]))
    >>> covered_before(np.array([5, 12, 30, 99]), cover).tolist()
    [0, 2, 10, 15]
    """
    if not cover.starts.size:
        return np.zeros(points.shape, dtype=np.int64)
    lengths = cover.ends - cover.starts
    whole = np.cumsum(lengths) - lengths
    at = np.searchsorted(cover.starts, points, side="right") - 1
    inside = np.minimum(points - cover.starts[at], lengths[at])
    return np.where(at >= 0, whole[at] + inside, 0)


def cut(starts: Times, ends: Times, edges: Times) -> tuple[Times, Times, npt.NDArray[np.intp]]:
    """Cut intervals at every edge inside them.

    Args:
        starts: Starts of n disjoint intervals in ascending order.
        ends: Their ends.
        edges: Points to cut at, in any order; far fewer than intervals, as a rule.

    Returns:
        Starts and ends of the pieces, and for each piece the index of its interval.

    >>> [part.tolist() for part in cut(np.array([0, 10]), np.array([8, 12]), np.array([3, 8, 11]))]
    [[0, 3, 10, 11], [3, 8, 11, 12], [0, 0, 1, 1]]
    """
    edges = np.unique(edges)
    at = np.searchsorted(starts, edges, side="left") - 1
    inside = np.flatnonzero((at >= 0) & (edges < ends[at])) if starts.size else at[:0]
    edges, at = edges[inside], at[inside]
    owner = np.arange(starts.size)
    return (
        np.insert(starts, at + 1, edges),
        np.insert(ends, at, edges),
        np.insert(owner, at + 1, at),
    )


def idle_gaps(activities: pl.DataFrame) -> pl.DataFrame:
    """Return the idle stretches of one GPU with the activity before and after each.

    Args:
        activities: Rows of one GPU sorted by start, with columns ``start_ns`` and ``end_ns``.

    Returns:
        ``start_ns``, ``end_ns`` of each gap, ``before`` and ``after``: row numbers of the
        activity that ended last before it (the first of several) and of the next to start.
    """
    starts = activities["start_ns"].to_numpy()
    ends = activities["end_ns"].to_numpy()
    if not starts.size:
        empty = {"start_ns": pl.Int64, "end_ns": pl.Int64, "before": pl.UInt32, "after": pl.UInt32}
        return pl.DataFrame(schema=empty)
    reach = np.maximum.accumulate(ends)
    holder = np.arange(ends.size, dtype=np.uint32)
    holder[1:][ends[1:] <= reach[:-1]] = 0
    np.maximum.accumulate(holder, out=holder)
    after = np.flatnonzero(starts[1:] > reach[:-1]) + 1
    return pl.DataFrame(
        {
            "start_ns": reach[after - 1],
            "end_ns": starts[after],
            "before": holder[after - 1],
            "after": after.astype(np.uint32),
        }
    )


def advance(kernels: pl.DataFrame) -> pl.Series:
    """Return by how much each kernel moved the latest end of its stream, in ns.

    ``advance`` = end - max(own start, latest earlier end in the stream), at least 0: a kernel that
    starts before its predecessor ends (programmatic dependent launch) is not charged for the
    time it waited. Advances of a stream add up to its busy time.

    Args:
        kernels: Rows with ``gpu``, ``pid``, ``context``, ``stream``, ``start_ns``, ``end_ns``,
            sorted by start within each stream.

    Returns:
        One Int64 value per row, in the order of the rows.
    """
    # Null for the first of a stream, which the maximum passes over.
    earlier = pl.col("end_ns").cum_max().shift(1)
    apart = [
        key for key in ("gpu", "pid", "context", "stream") if not holds_one_value(kernels[key])
    ]
    if apart:
        earlier = earlier.over(apart)
    spent = pl.col("end_ns") - pl.max_horizontal("start_ns", earlier)
    return kernels.select(pl.max_horizontal(spent, pl.lit(0)).alias("advance_ns"))["advance_ns"]
