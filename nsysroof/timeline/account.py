"""The account of each GPU: window = sum - overlap + idle, to the nanosecond."""

from __future__ import annotations

import numpy as np
import polars as pl

from nsysroof.results import IDLE_CAUSES, KernelWindow, Timeline
from nsysroof.timeline.activity import Activity, by_gpu
from nsysroof.timeline.gaps import sum_causes
from nsysroof.timeline.intervals import Intervals, union


def account(activities: pl.DataFrame, gaps: pl.DataFrame, *, idle_known: bool) -> list[Timeline]:
    """Return one account per GPU, in the order of the GPUs.

    Args:
        activities: Schema ``ACTIVITIES``; the window runs from its first start to its last end.
        gaps: Schema ``GAPS``, found from the same activities.
        idle_known: False where the capture hides work, so that what looks idle may be busy.
    """
    rows = []
    idle_of = dict(by_gpu(gaps.select("gpu", "start_ns", "end_ns", "cause")))
    told = ["gpu", "activity", "start_ns", "end_ns", "pid", "correlation"]
    for gpu, rows_of_gpu in by_gpu(activities.select(told)):
        part = rows_of_gpu.drop("gpu")
        own_gaps = idle_of.get(gpu, gaps.clear())
        start, end = _first_to_last(part)
        busy = _between(start, own_gaps, end)
        total = int((part["end_ns"] - part["start_ns"]).sum())
        kernels = part.filter(pl.col("activity") == int(Activity.KERNEL))
        replays = part.filter(pl.col("activity") == int(Activity.REPLAY))
        # A replay whose kernels are there runs when they do; of another nothing else is known.
        hiding = replays
        if replays.height:
            hiding = replays.join(kernels, on=["pid", "correlation"], how="anti")
        computing = _union(pl.concat([kernels, hiding]) if hiding.height else kernels)
        running = _union(pl.concat([kernels, replays])) if replays.height else computing
        kernel_busy = running.total_ns
        rows.append(
            Timeline(
                gpu=gpu,
                window_start_ns=start,
                window_ns=end - start,
                sum_ns=total,
                busy_ns=busy.total_ns,
                overlap_ns=total - busy.total_ns,
                idle_ns=end - start - busy.total_ns if idle_known else None,
                kernel_busy_ns=kernel_busy,
                copy_only_ns=busy.total_ns - kernel_busy,
                idle_by_cause=sum_causes(own_gaps, IDLE_CAUSES) if idle_known else None,
                sum_by_activity=_by_activity(part),
                kernel_window=_kernel_window(kernels, computing, busy, idle_known=idle_known),
            )
        )
    return rows


def _by_activity(part: pl.DataFrame) -> dict[str, int]:
    length = pl.col("end_ns") - pl.col("start_ns")
    sums = dict(part.group_by("activity").agg(length.sum()).iter_rows())
    return {kind.name.lower(): sums[kind] for kind in Activity if kind in sums}


def _kernel_window(
    kernels: pl.DataFrame, computing: Intervals, busy: Intervals, *, idle_known: bool
) -> KernelWindow | None:
    if not kernels.height:
        return None
    start, end = _first_to_last(kernels)
    computing_ns = computing.clip(start, end).total_ns
    busy_ns = busy.clip(start, end).total_ns
    return KernelWindow(
        start_ns=start,
        window_ns=end - start,
        no_kernel_ns=end - start - computing_ns,
        busy_ns=busy_ns,
        idle_ns=end - start - busy_ns if idle_known else None,
    )


def _first_to_last(part: pl.DataFrame) -> tuple[int, int]:
    start, end = part.select(pl.col("start_ns").min(), pl.col("end_ns").max()).row(0)
    return int(start), int(end)


def _between(start: int, gaps: pl.DataFrame, end: int) -> Intervals:
    """Return the time from start to end without the gaps, which lie in it in ascending order."""
    return Intervals(
        starts=np.append(start, gaps["end_ns"].to_numpy()),
        ends=np.append(gaps["start_ns"].to_numpy(), end),
    )


def _union(part: pl.DataFrame) -> Intervals:
    return union(part["start_ns"].to_numpy(), part["end_ns"].to_numpy())
