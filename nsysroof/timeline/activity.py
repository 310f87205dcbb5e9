"""All device activity of a trace in one frame: kernels, copies, fills and graph replays."""

from __future__ import annotations

from enum import IntEnum

import polars as pl

from nsysroof.trace import Trace


class Activity(IntEnum):
    """What occupied the GPU."""

    KERNEL = 0
    COPY = 1
    FILL = 2
    REPLAY = 3


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
        "copy_kind": pl.String(),  # h2d, d2h …; null but for copies
        "replayed": pl.Boolean(),  # part of a CUDA graph replay
        "kernel": pl.UInt32(),  # row of the kernels; null for the others
    }
)
_SORT = ["gpu", "start_ns", "end_ns", "stream", "correlation", "activity", "name"]


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
        _part(selected(trace.copies, gpus, window_ns), Activity.COPY, copy_kind=pl.col("kind")),
        _part(selected(trace.fills, gpus, window_ns), Activity.FILL),
        _part(
            selected(trace.replays, gpus, window_ns), Activity.REPLAY, replayed=pl.lit(value=True)
        ),
    ]
    frame = pl.concat([part for part in parts if part.height] or parts[:1])
    graph_launches = (
        launches_of(trace, kinds=("graph_launch",))
        .select("pid", "correlation", pl.lit(value=True).alias("_graph"))
        .unique(["pid", "correlation"])
    )
    if graph_launches.height:
        frame = frame.join(graph_launches, on=["pid", "correlation"], how="left").with_columns(
            replayed=pl.col("replayed") | pl.col("_graph").fill_null(value=False)
        )
    return frame.select(list(ACTIVITIES)).sort(_SORT)


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


def launch_starts(trace: Trace) -> pl.DataFrame:
    """Return ``pid``, ``correlation``, ``launch_ns``: the start of each call that gave work.

    Any call can be the origin of a copy or fill, so all kinds but synchronisation count; the
    earliest start stands for a correlation id that occurs more than once in a process.
    """
    kinds = ("kernel_launch", "graph_launch", "copy", "blocking_copy", "other")
    calls = launches_of(trace, kinds=kinds).filter(pl.col("correlation").is_not_null())
    return calls.group_by("pid", "correlation").agg(launch_ns=pl.col("start_ns").min())


def _part(frame: pl.DataFrame, activity: Activity, **given: pl.Expr) -> pl.DataFrame:
    columns = {
        "name": pl.lit(None, dtype=pl.UInt32),
        "copy_kind": pl.lit(None, dtype=pl.String),
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
    )
