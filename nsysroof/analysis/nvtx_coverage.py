"""How much of the kernel time the NVTX ranges speak for: little of it is a warning, not a step."""

from __future__ import annotations

import polars as pl

from nsysroof.timeline.ranges import calls_inside, ranges_matching
from nsysroof.trace import Trace

_START_END = "start_end"  # may end on another thread than it began on


def nvtx_coverage(trace: Trace, kernels: pl.DataFrame, step_range: str) -> float | None:
    """Return the share, 0..1, of kernel time that was launched inside ranges that match.

    A kernel belongs to a range when its launch call lies inside the range: on the same thread for
    push/pop ranges, in the same process for start/end ranges. The kernels of a replayed graph
    belong to the range that launched the graph; ranges from its capture say nothing about them.

    Args:
        trace: Where ranges and launch calls are read from.
        kernels: ``start_ns``, ``end_ns``, ``pid`` and ``correlation`` of the kernels analysed.
        step_range: Regular expression for the text of the ranges.

    Returns:
        None where no range matches or no kernel is analysed.
    """
    ranges = ranges_matching(trace, step_range)
    total = _time_ns(kernels)
    if not ranges.height or not total:
        return None
    apart = pl.col("kind") == _START_END
    inside = pl.concat(
        [
            calls_inside(trace, _union(ranges.filter(~apart), ["pid", "tid"])),
            calls_inside(trace, _union(ranges.filter(apart), ["pid"]), by=["pid"]),
        ]
    ).unique()
    own = kernels.join(inside, on=["pid", "correlation"], how="semi")
    return _time_ns(own) / total


def _time_ns(kernels: pl.DataFrame) -> int:
    return int(kernels.select((pl.col("end_ns") - pl.col("start_ns")).sum()).item())


def _union(ranges: pl.DataFrame, by: list[str]) -> pl.DataFrame:
    """Return the ranges, each reaching as far as any that opened before it, by start."""
    return (
        ranges.sort(*by, "start_ns")
        .select(*by, range_start="start_ns", range_end=pl.col("end_ns").cum_max().over(by))
        .sort("range_start")
    )
