"""Kernels that ran beside kernels of other streams, apart from those that ran alone.

A kernel that shares the GPU takes longer through no fault of its own (a matrix product beside a
collective takes up to twice its time), so the clean instances judge the kernel.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from nsysroof.results import OverlapRow
from nsysroof.timeline.activity import by_gpu
from nsysroof.timeline.intervals import Intervals, Times, covered_before, union

_LANE = ["pid", "context", "stream"]


def overlap_rows(kernels: pl.DataFrame) -> list[OverlapRow]:
    """Return one row per role that ran beside another stream at least once, by role.

    A kernel counts as overlapped when a kernel of another stream of its GPU ran for any of its
    time. Kernels of its own stream do not count: programmatic dependent launch lets them overlap
    by design.

    Args:
        kernels: ``gpu``, ``pid``, ``context``, ``stream``, ``step`` (null outside the analysed
            steps), ``role``, ``main``, ``start_ns``, ``end_ns`` of all kernels, sorted by GPU; the
            roles are judged by their main kernels inside steps.
    """
    beside = np.zeros(kernels.height, dtype=bool)
    first = 0
    for _, own in by_gpu(kernels.select("gpu", *_LANE, "start_ns", "end_ns")):
        beside[first : first + own.height] = _shared_ns(own) > 0
        first += own.height
    if not beside.any():
        return []
    wanted = pl.col("role").is_not_null() & pl.col("step").is_not_null() & pl.col("main")
    ns = pl.col("end_ns") - pl.col("start_ns")
    found = (
        kernels.select("role", "step", "main", ns=ns, beside=pl.Series(beside))
        .filter(wanted)
        .group_by("role")
        .agg(
            (~pl.col("beside")).sum().alias("clean"),
            pl.col("beside").sum().alias("overlapped"),
            _p50(~pl.col("beside")).alias("clean_ns"),
            _p50(pl.col("beside")).alias("overlapped_ns"),
        )
        .filter(pl.col("overlapped") > 0)
        .sort("role")
    )
    return [_row(row) for row in found.iter_rows(named=True)]


def _p50(which: pl.Expr) -> pl.Expr:
    return pl.col("ns").filter(which).quantile(0.5, interpolation="nearest")


def _row(row: dict[str, str | int | float | None]) -> OverlapRow:
    clean, overlapped = (
        None if row[name] is None else int(row[name] or 0) for name in ("clean_ns", "overlapped_ns")
    )
    return OverlapRow(
        role=str(row["role"]),
        clean=int(row["clean"] or 0),
        overlapped=int(row["overlapped"] or 0),
        clean_ns=clean,
        overlapped_ns=overlapped,
        slowdown=overlapped / clean if clean and overlapped is not None else None,
    )


def _shared_ns(kernels: pl.DataFrame) -> Times:
    """Return for how long a kernel of another stream ran beside each; kernels of one GPU.

    A stream is busy throughout each of its kernels, so it shares the GPU exactly where at least
    two streams are busy.
    """
    lanes_used = kernels.lazy().select(_LANE).unique().collect(engine="streaming")
    if lanes_used.height < 2:
        return np.zeros(kernels.height, dtype=np.int64)
    lanes = [
        union(lane["start_ns"].to_numpy(), lane["end_ns"].to_numpy())
        for lane in kernels.partition_by(_LANE)
    ]
    crowded = _at_least_two(lanes)
    starts, ends = kernels["start_ns"].to_numpy(), kernels["end_ns"].to_numpy()
    return covered_before(ends, crowded) - covered_before(starts, crowded)


def _at_least_two(lanes: list[Intervals]) -> Intervals:
    """Return where at least two of several unions hold at once."""
    starts = np.concatenate([lane.starts for lane in lanes])
    ends = np.concatenate([lane.ends for lane in lanes])
    edges = np.concatenate([starts, ends])
    steps = np.concatenate([np.ones(starts.size, np.int64), -np.ones(ends.size, np.int64)])
    order = np.argsort(edges, kind="stable")
    edges, depth = edges[order], np.cumsum(steps[order])
    crowded = np.flatnonzero(depth[:-1] >= 2)
    return union(edges[crowded], edges[crowded + 1])
