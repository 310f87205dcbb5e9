"""Means of sampled counters: over stretches of time, and where one kind of work ran alone.

A sample is taken to describe the time from its timestamp to the next one; whether it is that or the
time before is not documented. Over long stretches it hardly matters. For short ones only samples
count for which both lie inside.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsysroof.timeline.intervals import Intervals, Times, covered_before

_HOLE = 2.0  # median intervals from which on samples are missing between two


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sampling:
    """The samples of one metric that have an interval, in order of time, ns.

    ``interval_ns`` is the median time between samples. Those before a hole and the last one have
    no interval: how long they would hold is not known.
    """

    starts: Times
    ends: Times
    values: npt.NDArray[np.float64]
    interval_ns: float | None

    @classmethod
    def of(cls, timestamps: Times, values: npt.NDArray[np.float64]) -> Sampling:
        """Return the sampling of ascending timestamps; of equal ones the last counts.

        >>> found = Sampling.of(np.array([0, 10, 20, 60, 70]), np.array([1.0, 2, 3, 4, 5]))
        >>> found.starts.tolist(), found.values.tolist(), found.interval_ns
        ([0, 10, 60], [1.0, 2.0, 4.0], 10.0)
        """
        lengths = np.diff(timestamps)
        positive = lengths > 0
        if not positive.any():
            none = np.zeros(0, dtype=np.int64)
            return cls(starts=none, ends=none, values=none.astype(np.float64), interval_ns=None)
        interval = float(np.median(lengths[positive]))
        kept = np.flatnonzero(positive & (lengths < _HOLE * interval))
        return cls(
            starts=timestamps[kept],
            ends=timestamps[kept + 1],
            values=values[kept],
            interval_ns=interval,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A mean weighted by time; None where nothing was sampled. ``ns`` is the time sampled."""

    value: float | None
    samples: int
    ns: int


def mean_inside(sampling: Sampling, spans: Intervals) -> Mean:
    """Return the mean over the parts of the samples that lie inside the spans.

    >>> sampling = Sampling.of(np.array([0, 10, 20, 30]), np.array([50.0, 100, 0, 0]))
    >>> mean_inside(sampling, Intervals(starts=np.array([5]), ends=np.array([20])))
    Mean(value=83.33333333333333, samples=2, ns=15)
    """
    inside = covered_before(sampling.ends, spans) - covered_before(sampling.starts, spans)
    total = int(inside.sum())
    value = float((sampling.values * inside).sum() / total) if total else None
    return Mean(value=value, samples=int((inside > 0).sum()), ns=total)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LoneRuns:
    """Disjoint stretches in ascending order in which only work of one label ran, without a pause."""

    starts: Times
    ends: Times
    labels: npt.NDArray[np.intp]


def lone_runs(starts: Times, ends: Times, labels: npt.NDArray[np.intp]) -> LoneRuns:
    """Return where work of one label ran alone.

    Args:
        starts: Starts of all work of one GPU, in ascending order.
        ends: Their ends.
        labels: What each is, from 0 on; negative: of no interest, but it disturbs.

    >>> runs = lone_runs(np.array([0, 10, 25]), np.array([10, 30, 40]), np.array([3, 3, -1]))
    >>> runs.starts.tolist(), runs.ends.tolist(), runs.labels.tolist()
    ([0], [25], [3])
    """
    if not starts.size:
        return LoneRuns(starts=starts, ends=ends, labels=labels)
    reach = np.maximum.accumulate(ends)
    opens = np.append(True, (labels[1:] != labels[:-1]) | (starts[1:] > reach[:-1]))
    first = np.flatnonzero(opens)
    last = np.append(first[1:], starts.size) - 1
    since = np.maximum(starts[first], np.append(starts[0], reach[first[1:] - 1]))
    until = np.minimum(
        np.maximum.reduceat(ends, first), np.append(starts[first[1:]], reach[last[-1]])
    )
    kept = (until > since) & (labels[first] >= 0)
    return LoneRuns(starts=since[kept], ends=until[kept], labels=labels[first][kept])


def means_by_label(sampling: Sampling, runs: LoneRuns, labels: int) -> list[Mean]:
    """Return the mean for each label below ``labels`` over the samples that lie inside its runs.

    Both the interval that begins at the timestamp and the one that ends there must lie inside.
    """
    starts, ends = sampling.starts, sampling.ends
    follows = np.flatnonzero(starts[1:] == ends[:-1]) + 1
    since, until = starts[follows - 1], ends[follows]
    if not runs.starts.size or not follows.size:
        return [Mean(value=None, samples=0, ns=0)] * labels
    at = np.searchsorted(runs.starts, since, side="right") - 1
    inside = (at >= 0) & (until <= runs.ends[np.maximum(at, 0)])
    of, chosen = runs.labels[at[inside]], follows[inside]
    lengths = ends[chosen] - starts[chosen]
    counts = np.bincount(of, minlength=labels)
    ns = np.bincount(of, weights=lengths, minlength=labels)
    sums = np.bincount(of, weights=lengths * sampling.values[chosen], minlength=labels)
    return [
        Mean(value=float(total / time) if time else None, samples=int(count), ns=int(time))
        for total, time, count in zip(sums, ns, counts, strict=True)
    ]
