"""All device activity of a trace in one frame: kernels, copies, fills and graph replays."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import polars as pl

from nsysroof.trace import Trace
from nsysroof.trace.order import sort_frame


class Activity(IntEnum):
    """What occupied the GPU."""

    KERNEL = 0
    COPY = 1
    FILL = 2
    REPLAY = 3


COPY_KINDS = pl.Enum(["h2d", "d2h", "d2d", "p2p", "other"])

ACTIVITIES = pl.Schema(
    {
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "gpu": pl.UInt16(),
        "pid": pl.UInt32(),
        "stream": pl.UInt32(),
        "correlation": pl.UInt32(),
        "activity": pl.UInt8(),
        "name": pl.UInt32(),  # kernel name; null for the others
        "copy_kind": COPY_KINDS,  # h2d, d2h …; null but for copies
        "replayed": pl.Boolean(),  # part of a CUDA graph replay
        "kernel": pl.UInt32(),  # row of the kernels; null for the others
    }
)
_SORT = ["start_ns", "end_ns", "stream", "correlation", "activity", "name", "pid"]
_GRAPH_LAUNCH = ("graph_launch",)


def collect_activities(
    trace: Trace,
    kernels: pl.DataFrame,
    *,
    gpus: list[int],
    window_ns: tuple[int, int] | None,
) -> pl.DataFrame:
    """Return every device activity, sorted by GPU and start.

    A row is ``replayed`` when it carries a graph node or its launch call was a graph launch.

    Args:
        trace: The trace; its copies, fills and graph-level replays are added.
        kernels: The kernels to use, in the schema of ``trace.kernels``, already selected.
        gpus: GPUs whose activity counts.
        window_ns: Keep what starts in [start, end); None: everything.

    Returns:
        A frame with the schema ``ACTIVITIES``.
    """
    parts = [
        _part(
            kernels,
            Activity.KERNEL,
            name=pl.col("name"),
            kernel=pl.int_range(pl.len(), dtype=pl.UInt32),
        ),
        _part(
            selected(trace.copies, gpus, window_ns),
            Activity.COPY,
            copy_kind=pl.col("kind").cast(COPY_KINDS),
        ),
        _part(selected(trace.fills, gpus, window_ns), Activity.FILL),
        _part(
            selected(trace.replays, gpus, window_ns), Activity.REPLAY, replayed=pl.lit(value=True)
        ),
    ]
    shares = [dict(by_gpu(_with_graph_launches(trace, part))) for part in parts if part.height]
    frames = [pl.DataFrame(schema=ACTIVITIES)]
    for gpu in gpus:
        own = [share[gpu] for share in shares if gpu in share]
        if own:
            frames.append(sort_frame(pl.concat(own, rechunk=False), _SORT))
    return pl.concat(frames, rechunk=False)


def by_gpu(frame: pl.DataFrame) -> Iterator[tuple[int, pl.DataFrame]]:
    """Yield each GPU and its rows, as views of a frame that is sorted by GPU."""
    gpus = frame["gpu"].to_numpy()
    if not gpus.size:
        return
    first = np.flatnonzero(np.append(True, gpus[1:] != gpus[:-1]))
    for start, end in zip(first, np.append(first[1:], gpus.size), strict=True):
        yield int(gpus[start]), frame[int(start) : int(end)]


def replayed_kernels(activities: pl.DataFrame) -> pl.Series:
    """Return ``replayed`` of each kernel, by its number in ``activities["kernel"]``."""
    numbers = activities["kernel"]
    known = numbers.is_not_null()
    found = np.zeros(int(known.sum()), dtype=bool)
    found[numbers.filter(known).to_numpy()] = activities["replayed"].filter(known).to_numpy()
    return pl.Series("replayed", found)


def selected(
    frame: pl.DataFrame, gpus: list[int], window_ns: tuple[int, int] | None
) -> pl.DataFrame:
    """Return the rows on these GPUs that start in the window."""
    wanted = pl.col("gpu").is_in(gpus)
    if window_ns is not None:
        wanted &= pl.col("start_ns").is_between(*window_ns, closed="left")
    return frame.filter(wanted)


def launches_of(trace: Trace, *, kinds: tuple[str, ...]) -> pl.DataFrame:
    """Return the host calls of the given kinds, as in ``trace.api_calls``."""
    wanted = trace.apis.filter(pl.col("kind").is_in(list(kinds)))["api"]
    return trace.api_calls.filter(pl.col("api").is_in(wanted.implode()))


def keyed(pid: pl.Series, correlation: pl.Series) -> npt.NDArray[np.uint64]:
    """Return process and correlation id as one integer; where one is null it is no other's.

    >>> keyed(pl.Series([1, 1], dtype=pl.UInt32), pl.Series([7, None], dtype=pl.UInt32)).tolist()
    [4294967303, 18446744073709551615]
    """
    keys = pid.fill_null(0).to_numpy().astype(np.uint64)
    keys <<= np.uint64(32)
    keys |= correlation.fill_null(0).to_numpy()
    for part in (pid, correlation):
        if part.null_count():
            keys[part.is_null().to_numpy()] = NO_KEY
    return keys


NO_KEY = np.uint64(2**64 - 1)
"""The key of an activity or call without a process or a correlation id."""


def _with_graph_launches(trace: Trace, part: pl.DataFrame) -> pl.DataFrame:
    """Mark what a graph launch started as replayed, though it carries no graph node."""
    launches = launches_of(trace, kinds=_GRAPH_LAUNCH)
    replayed = part["replayed"].to_numpy().copy()
    rest = np.flatnonzero(~replayed)
    if not launches.height or not rest.size:
        return part
    graphs = np.unique(keyed(launches["pid"], launches["correlation"]))
    unmarked = part.select("pid", "correlation")[rest]
    keys = keyed(unmarked["pid"], unmarked["correlation"])
    at = np.minimum(np.searchsorted(graphs, keys), graphs.size - 1)
    replayed[rest] = (graphs[at] == keys) & (keys != NO_KEY)
    return part.with_columns(pl.Series("replayed", replayed))


def _part(frame: pl.DataFrame, activity: Activity, **given: pl.Expr) -> pl.DataFrame:
    columns = {
        "name": pl.lit(None, dtype=pl.UInt32),
        "copy_kind": pl.lit(None, dtype=COPY_KINDS),
        "kernel": pl.lit(None, dtype=pl.UInt32),
        "replayed": pl.col("graph_node").is_not_null()
        if "graph_node" in frame.columns
        else pl.lit(value=False),
    } | given
    return frame.select(
        "start_ns",
        "end_ns",
        "gpu",
        "pid",
        "stream",
        "correlation",
        pl.lit(int(activity), dtype=pl.UInt8).alias("activity"),
        **columns,
    ).select(list(ACTIVITIES))
