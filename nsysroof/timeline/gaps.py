"""Why a GPU waited: every idle nanosecond gets one cause.

P is the activity that ended last before an idle stretch, N the next to start. The causes, the
first that holds: ``profiler`` (the profiler's own work in N's process covers it),
``outside_steps`` (outside every run of steps), ``in_graph`` (P and N belong to one replay), then,
where N's launch call starts at or after P's end, ``sync`` while a synchronising call of N's
process covers it, else ``host_late``; ``between_graphs`` (two replays, N launched in time);
``dependency`` (N launched in time and waited). Where N has no launch row the cause is null.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from nsysroof.results import IDLE_CAUSES
from nsysroof.timeline.activity import NO_KEY, Activity, by_gpu, keyed, launches_of
from nsysroof.timeline.intervals import Intervals, Times, covered, cut, idle_gaps, union
from nsysroof.trace import Trace

CAUSES = pl.Enum(IDLE_CAUSES)
GAPS = pl.Schema(
    {
        "gpu": pl.UInt16(),
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "cause": CAUSES,  # null where it cannot be judged
        "before": pl.UInt32(),  # row of the activities: P
        "after": pl.UInt32(),  # row of the activities: N
    }
)
ORIGINS = ("kernel_launch", "graph_launch", "copy", "blocking_copy", "other")
"""Kinds of host calls that an activity can come from."""

_SYNCS = ("synchronize", "blocking_copy")
_CODES = {cause: np.uint8(code) for code, cause in enumerate(IDLE_CAUSES)}
_NAMES = pl.Series(IDLE_CAUSES, dtype=CAUSES)
_NO_LAUNCH = np.uint8(254)
_NOTHING = Intervals(starts=np.empty(0, np.int64), ends=np.empty(0, np.int64))
_HOST = np.uint8(255)  # late; whether the host was in a synchronising call is judged in pieces


def find_gaps(trace: Trace, activities: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Return every idle stretch of every GPU, cut where its cause changes.

    Args:
        trace: Where host calls and profiler overhead are read from.
        activities: Schema ``ACTIVITIES``, sorted by GPU and start.
        runs: ``gpu``, ``start_ns``, ``end_ns`` of each run of steps; empty without steps.

    Returns:
        A frame with the schema ``GAPS``, sorted by GPU and start.
    """
    launches = _Launches.of(trace)
    profiler = _by_process(trace.overheads)
    syncing = _by_process(launches_of(trace, kinds=_SYNCS))
    found = [pl.DataFrame(schema=GAPS)]
    first = 0
    for gpu, rows in by_gpu(activities):
        gaps = idle_gaps(rows)
        pids = rows["pid"].gather(gaps["after"])
        codes = _judge_whole(rows, gaps, launches)
        own_runs = runs.filter(pl.col("gpu") == gpu)
        inside = _merged(own_runs) if own_runs.height else None
        pieces = []
        for pid in pids.unique().sort().to_list():
            own = np.flatnonzero((pids.is_null() if pid is None else pids == pid).to_numpy())
            whole = gaps if own.size == gaps.height else gaps[own]
            covers = _Covers(
                profiler=profiler.get(pid, _NOTHING),
                syncing=syncing.get(pid, _NOTHING),
                inside=inside,
            )
            pieces.append(_split(whole, codes[own], covers))
        if pieces:
            frame = pl.concat(pieces, rechunk=False) if len(pieces) > 1 else pieces[0]
            frame = frame if len(pieces) == 1 else frame.sort("start_ns", "end_ns")
            here = pl.lit(gpu, dtype=pl.UInt16).alias("gpu")
            shifted = (pl.col(side) + pl.lit(first, pl.UInt32) for side in ("before", "after"))
            frame = frame.with_columns(here, *shifted)
            found.append(frame.select(list(GAPS)).cast(GAPS))
        first += rows.height
    return pl.concat(found, rechunk=False)


def sum_causes(gaps: pl.DataFrame, causes: tuple[str, ...]) -> dict[str, int]:
    """Return ns by cause; a null cause counts as ``unknown``.

    >>> gaps = pl.DataFrame({"start_ns": [0, 5], "end_ns": [2, 9], "cause": ["sync", None]})
    >>> sum_causes(gaps, ("sync", "unknown"))
    {'sync': 2, 'unknown': 4}
    """
    length = (pl.col("end_ns") - pl.col("start_ns")).sum()
    found: Counter[str] = Counter()
    for cause, ns in gaps.group_by("cause").agg(length).iter_rows():
        found[cause or "unknown"] += ns
    return {cause: found[cause] for cause in causes}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Launches:
    """Host calls that gave work, by process and correlation id in ascending order.

    Any call can be the origin of a copy or fill, so all kinds but synchronisation count; the
    earliest start stands for an id that occurs more than once in a process.
    """

    keys: npt.NDArray[np.uint64]
    starts: Times

    @classmethod
    def of(cls, trace: Trace) -> _Launches:
        calls = launches_of(trace, kinds=ORIGINS)
        keys = keyed(calls["pid"], calls["correlation"])
        starts = calls["start_ns"].to_numpy()
        order = np.lexsort((starts, keys))
        keys, starts = keys[order], starts[order]
        kept = np.append(True, keys[1:] != keys[:-1]) & (keys != NO_KEY)
        return cls(keys=keys[kept], starts=starts[kept])

    def late(self, keys: npt.NDArray[np.uint64], since: Times) -> npt.NDArray[np.uint8]:
        """Return, for each key, 1 where its call starts at or after a time, 0 before, 2: none."""
        if not self.keys.size:
            return np.full(keys.size, 2, dtype=np.uint8)
        at = np.minimum(np.searchsorted(self.keys, keys), self.keys.size - 1)
        late = (self.starts[at] >= since).astype(np.uint8)
        late[self.keys[at] != keys] = 2
        return late


def _judge_whole(
    rows: pl.DataFrame, gaps: pl.DataFrame, launches: _Launches
) -> npt.NDArray[np.uint8]:
    """Return the cause of each gap by the rules that look at P and N alone, as a code."""
    before, after = gaps["before"].to_numpy(), gaps["after"].to_numpy()
    keys = keyed(rows["pid"], rows["correlation"])
    of_before, of_after = keys[before], keys[after]
    replayed = rows["replayed"].to_numpy() | (rows["activity"].to_numpy() == Activity.REPLAY)
    both = replayed[before] & replayed[after]
    codes = np.where(both, _CODES["between_graphs"], _CODES["dependency"])
    same = both & (of_before == of_after) & (of_after != NO_KEY)
    codes[same] = _CODES["in_graph"]
    rest = np.flatnonzero(~same)
    late = launches.late(of_after[rest], gaps["start_ns"].to_numpy()[rest])
    codes[rest[late == 1]] = _HOST
    codes[rest[late == 2]] = _NO_LAUNCH
    return codes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Covers:
    """What lies over the gaps of one GPU and one N process.

    ``profiler`` and ``syncing`` are the calls of the process, ``inside`` is the time in steps,
    None where the GPU has none.
    """

    profiler: Intervals
    syncing: Intervals
    inside: Intervals | None

    @property
    def edges(self) -> Times:
        """Where a cover begins or ends."""
        own = [self.profiler, self.syncing, _NOTHING if self.inside is None else self.inside]
        return np.concatenate([edge for cover in own for edge in (cover.starts, cover.ends)])


def _split(gaps: pl.DataFrame, codes: npt.NDArray[np.uint8], covers: _Covers) -> pl.DataFrame:
    """Cut the gaps where a cover begins or ends, and judge the pieces."""
    starts, ends, owner = cut(gaps["start_ns"].to_numpy(), gaps["end_ns"].to_numpy(), covers.edges)
    codes = codes[owner]
    late = codes == _HOST
    codes[late] = np.where(
        covered(starts[late], covers.syncing), _CODES["sync"], _CODES["host_late"]
    )
    if covers.inside is not None:
        codes[~covered(starts, covers.inside)] = _CODES["outside_steps"]
    codes[covered(starts, covers.profiler)] = _CODES["profiler"]
    # Pieces of one gap that kept one cause become one row again.
    opens = np.append(True, (owner[1:] != owner[:-1]) | (codes[1:] != codes[:-1]))
    if not opens.all():
        first = np.flatnonzero(opens)
        last = np.append(first[1:], owner.size) - 1
        starts, ends, owner, codes = starts[first], ends[last], owner[first], codes[first]
    kept = pl.Series(owner.astype(np.uint32))
    code = pl.Series(codes.astype(np.uint32))
    return pl.DataFrame(
        {
            "start_ns": starts,
            "end_ns": ends,
            "cause": _NAMES.gather(code.set(code == int(_NO_LAUNCH), None)),
            "before": gaps["before"].gather(kept),
            "after": gaps["after"].gather(kept),
        }
    )


def _by_process(calls: pl.DataFrame) -> dict[int, Intervals]:
    """Return the union of the calls of each process; those of an unknown one are nobody's."""
    told = calls.select("pid", "start_ns", "end_ns").drop_nulls("pid")
    parts = told.partition_by("pid", as_dict=True)
    return {pid: _merged(rows) for (pid,), rows in parts.items()}


def _merged(frame: pl.DataFrame) -> Intervals:
    return union(frame["start_ns"].to_numpy(), frame["end_ns"].to_numpy())
