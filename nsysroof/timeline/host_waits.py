"""What the launching thread did while a GPU waited for a late host.

A gap of cause ``host_late`` falls into the time before the call that launched N (the next activity
to start), in which that thread was in an OS runtime call or in none that was recorded, and the time
from the beginning of that call on, which is the launch itself.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from nsysroof.timeline.activity import NO_KEY, keyed, launches_of
from nsysroof.timeline.gaps import ORIGINS
from nsysroof.timeline.intervals import cut, union
from nsysroof.trace import Trace

OS_CALL, LAUNCHING, NO_CALL = "os_call", "launching", "no_call"
HOST_WAITS = pl.Schema(
    {
        "gpu": pl.UInt16(),
        "start_ns": pl.Int64(),  # of the gap
        "doing": pl.Enum([OS_CALL, LAUNCHING, NO_CALL]),
        "text": pl.String(),  # name of the call; null for the others
        "ns": pl.Int64(),
    }
)


def host_waits(trace: Trace, activities: pl.DataFrame, gaps: pl.DataFrame) -> pl.DataFrame | None:
    """Return what the launching thread did in each gap of cause ``host_late``.

    Args:
        trace: Where host calls and OS runtime calls are read from.
        activities: Schema ``ACTIVITIES``.
        gaps: Schema ``GAPS``, found from the same activities.

    Returns:
        A frame with the schema ``HOST_WAITS``, sorted by GPU, gap, what and name, whose ns of a gap
        add up to it; None where OS runtime calls were not recorded.
    """
    if not trace.has_os_calls:
        return None
    late = gaps.filter(pl.col("cause") == "host_late")
    if not late.height:
        return pl.DataFrame(schema=HOST_WAITS)
    late = late.select("gpu", "start_ns", "end_ns").hstack(
        _launches_of(trace, activities.select("pid", "correlation")[late["after"]])
    )
    called = pl.col("called_ns").clip(pl.col("start_ns"), pl.col("end_ns"))
    late = late.with_columns(until_ns=called)
    parts = _before_launch(trace, late.filter(pl.col("until_ns") > pl.col("start_ns")))
    if parts is None:
        return None
    launching = late.filter(pl.col("end_ns") > pl.col("until_ns")).select(
        "gpu",
        "start_ns",
        doing=pl.lit(LAUNCHING),
        text=pl.lit(None, dtype=pl.String),
        ns=pl.col("end_ns") - pl.col("until_ns"),
    )
    keys = list(HOST_WAITS)[:-1]
    columns = [part.select(list(HOST_WAITS)).cast(HOST_WAITS) for part in (*parts, launching)]
    return pl.concat(columns).group_by(keys).agg(pl.col("ns").sum()).sort(keys, nulls_last=True)


def _launches_of(trace: Trace, rows: pl.DataFrame) -> pl.DataFrame:
    """Return ``pid``, ``tid`` and ``called_ns`` of the earliest call of each row; all have one."""
    calls = launches_of(trace, kinds=ORIGINS).select("pid", "tid", "correlation", "start_ns")
    wanted = keyed(rows["pid"], rows["correlation"])
    distinct = np.unique(wanted)
    keys = keyed(calls["pid"], calls["correlation"])
    at = np.minimum(np.searchsorted(distinct, keys), distinct.size - 1)
    of_interest = np.flatnonzero((distinct[at] == keys) & (keys != NO_KEY))
    keys, calls = keys[of_interest], calls[of_interest]
    order = np.lexsort((calls["start_ns"].to_numpy(), keys))
    found = order[np.searchsorted(keys[order], wanted)]
    return calls[found].select("pid", "tid", called_ns="start_ns")


def _before_launch(trace: Trace, late: pl.DataFrame) -> list[pl.DataFrame] | None:
    """Return the time before the launch calls by OS runtime call, None where none is recorded."""
    if not late.height:
        return []
    asked = union(late["start_ns"].to_numpy(), late["until_ns"].to_numpy())
    threads = set(late.select("pid", "tid").unique().iter_rows())
    calls = trace.os_calls(threads, asked.starts, asked.ends)
    if not calls.height and not trace.count_os_calls():
        return None
    by_thread = calls.partition_by("pid", "tid", as_dict=True)
    parts = []
    for (_, pid, tid), own in late.partition_by("gpu", "pid", "tid", as_dict=True).items():
        parts.append(_by_call(own, by_thread.get((pid, tid), calls.clear())))
    return parts


def _by_call(gaps: pl.DataFrame, calls: pl.DataFrame) -> pl.DataFrame:
    """Cut the gaps of one GPU and thread where its calls begin and end, and name each piece."""
    begun, ended = calls["start_ns"].to_numpy(), calls["end_ns"].to_numpy()
    starts, ends, owner = cut(
        gaps["start_ns"].to_numpy(), gaps["until_ns"].to_numpy(), np.append(begun, ended)
    )
    at: npt.NDArray[np.int64] = np.searchsorted(begun, starts, side="right") - 1
    inside = at >= 0
    inside[inside] = starts[inside] < ended[at[inside]]
    call = pl.Series(at).set(pl.Series(~inside), None)
    whole = pl.Series(owner)
    text = calls["text"].gather(call)
    return pl.DataFrame(
        {
            "gpu": gaps["gpu"].gather(whole),
            "start_ns": gaps["start_ns"].gather(whole),
            "text": text,
            "ns": ends - starts,
        }
    ).with_columns(
        doing=pl.when(pl.lit(pl.Series(inside))).then(pl.lit(OS_CALL)).otherwise(pl.lit(NO_CALL))
    )
