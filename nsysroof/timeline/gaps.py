"""Why a GPU waited: every idle nanosecond gets one cause.

P is the activity that ended last before an idle stretch, N the next to start. The causes, the
first that holds: ``profiler`` (the profiler's own work in N's process covers it),
``outside_steps`` (outside every run of steps), ``in_graph`` (P and N belong to one replay), then,
where N's launch call starts at or after P's end, ``sync`` while a synchronising call of N's
process covers it, else ``host_late``; ``between_graphs`` (two replays, N launched in time);
``dependency`` (N launched in time and waited). Where N has no launch row the cause is null.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from nsysroof.timeline.activity import Activity, launch_starts, launches_of
from nsysroof.timeline.intervals import Intervals, covered, cut, idle_gaps, union
from nsysroof.trace import Trace

GAPS = pl.Schema(
    {
        "gpu": pl.UInt16(),
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "cause": pl.String(),  # null where it cannot be judged
        "before": pl.UInt32(),  # row of the activities: P
        "after": pl.UInt32(),  # row of the activities: N
    }
)


def find_gaps(trace: Trace, activities: pl.DataFrame, runs: pl.DataFrame) -> pl.DataFrame:
    """Return every idle stretch of every GPU, cut where its cause changes.

    Args:
        trace: Where host calls and profiler overhead are read from.
        activities: Schema ``ACTIVITIES``, sorted by GPU and start.
        runs: ``gpu``, ``start_ns``, ``end_ns`` of each run of steps; empty without steps.

    Returns:
        A frame with the schema ``GAPS``, sorted by GPU and start.
    """
    numbered = activities.with_row_index("row")
    found = []
    for (gpu,), rows in numbered.partition_by("gpu", as_dict=True, maintain_order=True).items():
        first = rows["row"][0]
        gaps = idle_gaps(rows).with_columns(
            pl.lit(gpu, dtype=pl.UInt16).alias("gpu"),
            pl.col("before") + first,
            pl.col("after") + first,
        )
        found.append(gaps)
    gaps = pl.concat(found) if found else pl.DataFrame(schema=GAPS).drop("cause")
    if not gaps.height:
        return pl.DataFrame(schema=GAPS)
    judged = _judge_whole(trace, activities, gaps)
    pieces = [
        _split(trace, runs, part)
        for part in judged.partition_by("gpu", "after_pid", maintain_order=True)
    ]
    return pl.concat(pieces).select(list(GAPS)).cast(GAPS).sort("gpu", "start_ns", "end_ns")


def sum_causes(gaps: pl.DataFrame, causes: tuple[str, ...]) -> dict[str, int]:
    """Return ns by cause; a null cause counts as ``unknown``.

    >>> gaps = pl.DataFrame({"start_ns": [0, 5], "end_ns": [2, 9], "cause": ["sync", None]})
    >>> sum_causes(gaps, ("sync", "unknown"))
    {'sync': 2, 'unknown': 4}
    """
    totals = gaps.group_by(pl.col("cause").fill_null("unknown")).agg(
        (pl.col("end_ns") - pl.col("start_ns")).sum().alias("ns")
    )
    found = dict(totals.iter_rows())
    return {cause: int(found.get(cause, 0)) for cause in causes}


def _judge_whole(trace: Trace, activities: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """Add the cause by the rules that look at P and N alone; ``host`` is split later."""
    sides = gaps
    for side in ("before", "after"):
        taken = activities[gaps[side]].select(
            pl.col("pid").alias(f"{side}_pid"),
            pl.col("correlation").alias(f"{side}_correlation"),
            (pl.col("replayed") | (pl.col("activity") == int(Activity.REPLAY))).alias(
                f"{side}_replayed"
            ),
        )
        sides = sides.hstack(taken)
    sides = sides.join(
        launch_starts(trace),
        left_on=["after_pid", "after_correlation"],
        right_on=["pid", "correlation"],
        how="left",
        maintain_order="left",
    )
    both = pl.col("before_replayed") & pl.col("after_replayed")
    same = (
        both
        & (pl.col("before_pid") == pl.col("after_pid"))
        & (pl.col("before_correlation") == pl.col("after_correlation"))
    )
    return sides.with_columns(
        pl.when(same)
        .then(pl.lit("in_graph"))
        .when(pl.col("launch_ns").is_null())
        .then(None)
        .when(pl.col("launch_ns") >= pl.col("start_ns"))
        .then(pl.lit("host"))
        .when(both)
        .then(pl.lit("between_graphs"))
        .otherwise(pl.lit("dependency"))
        .alias("whole")
    )


def _split(trace: Trace, runs: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame:
    """Cut the gaps of one GPU and one N process where a cover begins or ends."""
    gpu, pid = gaps["gpu"][0], gaps["after_pid"][0]
    profiler = _merged(trace.overheads.filter(pl.col("pid") == pid))
    syncs = launches_of(trace, kinds=("synchronize", "blocking_copy"))
    syncing = _merged(syncs.filter(pl.col("pid") == pid))
    inside = _merged(runs.filter(pl.col("gpu") == gpu))
    covers = (profiler, syncing, inside)
    edges = np.concatenate([edge for c in covers for edge in (c.starts, c.ends)])
    starts, ends, owner = cut(gaps["start_ns"].to_numpy(), gaps["end_ns"].to_numpy(), edges)
    stepped = inside.starts.size > 0
    pieces = gaps[owner].with_columns(
        start_ns=pl.Series(starts),
        end_ns=pl.Series(ends),
        _gap=pl.Series(owner),
        _profiler=pl.Series(covered(starts, profiler)),
        _sync=pl.Series(covered(starts, syncing)),
        _outside=pl.Series(~covered(starts, inside) if stepped else np.zeros(owner.size, bool)),
    )
    pieces = pieces.with_columns(
        pl.when("_profiler")
        .then(pl.lit("profiler"))
        .when("_outside")
        .then(pl.lit("outside_steps"))
        .when(pl.col("whole") == "host")
        .then(pl.when("_sync").then(pl.lit("sync")).otherwise(pl.lit("host_late")))
        .otherwise("whole")
        .alias("cause")
    )
    # Pieces of one gap that kept one cause become one row again.
    changed = pl.struct("_gap", "cause") != pl.struct("_gap", "cause").shift(1)
    return (
        pieces.with_columns(_piece=changed.fill_null(value=True).cum_sum())
        .group_by("_piece", maintain_order=True)
        .agg(
            pl.col("gpu", "cause", "before", "after").first(),
            pl.col("start_ns").first(),
            pl.col("end_ns").last(),
        )
    )


def _merged(frame: pl.DataFrame) -> Intervals:
    return union(frame["start_ns"].to_numpy(), frame["end_ns"].to_numpy())
