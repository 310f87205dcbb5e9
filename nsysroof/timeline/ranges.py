"""Which NVTX ranges a user means, and which one a launch call lies in."""

from __future__ import annotations

import re
from collections.abc import Sequence

import polars as pl

from nsysroof.timeline.activity import launches_of
from nsysroof.trace import Trace

LAUNCHES = ("kernel_launch", "graph_launch")


def ranges_matching(trace: Trace, pattern: str) -> pl.DataFrame:
    """Return the ranges that ended and whose text the regular expression matches somewhere."""
    ranges = trace.ranges.filter(pl.col("end_ns").is_not_null())
    found = re.compile(pattern)
    wanted = [text for text in ranges["text"].unique().to_list() if found.search(text)]
    return ranges.filter(pl.col("text").is_in(wanted))


def calls_inside(
    trace: Trace,
    ranges: pl.DataFrame,
    *,
    kinds: Sequence[str] = LAUNCHES,
    by: Sequence[str] = ("pid", "tid"),
) -> pl.DataFrame:
    """Return the launch calls inside a range, one row for each.

    The range that opened last before a call counts, if it is still open.

    Args:
        trace: Where launch calls are read from.
        ranges: ``range_start``, ``range_end`` and the columns of ``by``; sorted by start.
        kinds: Kinds of calls, as in the APIS frame.
        by: What a call and its range have in common: the thread, or the process alone.

    Returns:
        ``pid`` and ``correlation`` of each call, and what else ``ranges`` has; a call that is
        recorded twice counts once.
    """
    told = [name for name in ranges.columns if name not in (*by, "range_start", "range_end")]
    return (
        launches_of(trace, kinds=tuple(kinds))
        .sort("start_ns")
        .join_asof(
            ranges,
            left_on="start_ns",
            right_on="range_start",
            by=list(by),
            check_sortedness=False,
        )
        .filter(pl.col("start_ns") < pl.col("range_end"))
        .select("pid", "correlation", *told)
        .unique(["pid", "correlation"], keep="first", maintain_order=True)
    )
