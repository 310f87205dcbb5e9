"""Steps of a run, never invented: from NVTX ranges, from graph replays, or from a pattern.

NVTX ranges count where the user names them, or where an engine writes into their text what the
step works on; any other range may be anything.

A step runs from its first kernel to the first kernel of the next one; the last of a run to its
last end. A run of steps ends at a hole longer than ten median steps and 100 ms, whatever runs
between the hole and the next step.
"""

from __future__ import annotations

from enum import StrEnum

import numpy as np
import numpy.typing as npt
import polars as pl

from nsysroof.timeline.activity import Activity, by_gpu
from nsysroof.timeline.annotations import PREFIXES, step_marks
from nsysroof.timeline.intervals import Intervals, by_turns
from nsysroof.timeline.pattern import find_cycles
from nsysroof.timeline.ranges import calls_inside, ranges_matching
from nsysroof.timeline.replays import HOLE_NS, idle_before, starts_from_replays
from nsysroof.trace import Trace

STEPS = pl.Schema(
    {
        "gpu": pl.UInt16(),
        "step": pl.UInt32(),  # counts from 0 on each GPU
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "source": pl.String(),
        "replayed": pl.Boolean(),  # a graph replay is part of it
        "mark": pl.String(),  # text of the NVTX range that shows it, null without
    }
)
_HOLE_STEPS = 10


class StepSource(StrEnum):
    """What showed where a step begins."""

    NVTX = "nvtx"
    GRAPH = "graph"
    PATTERN = "pattern"


def find_steps(
    trace: Trace,
    activities: pl.DataFrame,
    *,
    step_range: str | None,
    layers: int | None,
) -> pl.DataFrame:
    """Return the steps of every GPU, or an empty frame where nothing shows them.

    Args:
        trace: Where NVTX ranges and launch calls are read from.
        activities: Schema ``ACTIVITIES``.
        step_range: Regular expression for the NVTX ranges that are steps; only these count then.
            None: the ranges that engines annotate, else replays or a pattern.
        layers: Number of layers of the model, if known: a pattern that repeats so often within
            a longer one is a layer, not a step.

    Returns:
        A frame with the schema ``STEPS``, sorted by GPU and start.
    """
    found = []
    marks = _marking_ranges(trace, step_range)
    calls = calls_inside(trace, marks.drop("text")) if marks.height else None
    for _, rows in by_gpu(activities):
        marked = _starts_from_ranges(rows, marks, calls) if calls is not None else None
        if marked is not None and marked.height:
            starts = marked["start_ns"].to_numpy()
            found.append(_windows(rows, starts, StepSource.NVTX, marked["text"]))
        elif step_range is None:
            starts, source = _starts_from_cycles(rows, layers)
            if starts.size:
                found.append(_windows(rows, starts, source, None))
    return pl.concat(found) if found else pl.DataFrame(schema=STEPS)


def find_runs(steps: pl.DataFrame) -> pl.DataFrame:
    """Return ``gpu``, ``start_ns``, ``end_ns`` of each run of consecutive steps."""
    broken = (pl.col("start_ns") != pl.col("end_ns").shift(1)).over("gpu").fill_null(value=True)
    return (
        steps.with_columns(_run=broken.cum_sum())
        .group_by("gpu", "_run", maintain_order=True)
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .select("gpu", "start_ns", "end_ns")
    )


def assign_steps(rows: pl.DataFrame, steps: pl.DataFrame) -> pl.Series:
    """Return the step each row starts in, null outside.

    Args:
        rows: ``gpu`` and ``start_ns``, sorted by GPU and start.
        steps: Schema ``STEPS``.
    """
    windows = steps.partition_by("gpu", as_dict=True)
    parts = [pl.Series("step", [], dtype=pl.UInt32)]
    for gpu, part in by_gpu(rows):
        own = windows.get((gpu,), steps.clear())
        in_steps = Intervals(starts=own["start_ns"].to_numpy(), ends=own["end_ns"].to_numpy())
        turns = by_turns(part["start_ns"].to_numpy(), in_steps)
        step = np.zeros(turns.size, dtype=np.uint32)
        step[1::2] = own["step"].to_numpy()
        outside = np.arange(turns.size) % 2 == 0
        found = pl.Series("step", np.repeat(step, turns))
        if turns[outside].any():
            found = found.set(pl.Series(np.repeat(outside, turns)), None)
        parts.append(found)
    return pl.concat(parts)


def _marking_ranges(trace: Trace, step_range: str | None) -> pl.DataFrame:
    """Return the ranges that are steps, of nested ones the outermost.

    Without a pattern of the user only ranges that begin as an engine's annotations do are read.
    """
    if step_range is not None:
        marks = ranges_matching(trace, step_range)
    else:
        annotated = trace.ranges_beginning(*PREFIXES)
        wanted = step_marks(annotated["text"].unique().to_list())
        marks = annotated.filter(pl.col("end_ns").is_not_null() & pl.col("text").is_in(wanted))
    ranges = marks.select("pid", "tid", "text", range_start="start_ns", range_end="end_ns").sort(
        "pid", "tid", "range_start", "range_end", "text", descending=[False] * 3 + [True, False]
    )
    # Of nested matches the outermost counts: one that ends before an earlier one is inside it, and
    # of two that begin together the longer is the earlier.
    outer = pl.col("range_end") > pl.col("range_end").cum_max().shift(1).over(
        "pid", "tid"
    ).fill_null(-(2**62))
    return ranges.filter(outer).with_row_index("range").sort("range_start")


def _starts_from_ranges(
    rows: pl.DataFrame, ranges: pl.DataFrame, calls: pl.DataFrame
) -> pl.DataFrame:
    """Return ``start_ns``, the first kernel start of each range, and the ``text`` of the range."""
    kernels = rows.filter(
        pl.col("activity").is_in([int(Activity.KERNEL), int(Activity.REPLAY)])
    ).join(calls, on=["pid", "correlation"])
    return (
        kernels.group_by("range")
        .agg(pl.col("start_ns").min())
        .join(ranges.select("range", "text"), on="range")
        .sort("start_ns", "range")
        .unique("start_ns", keep="first", maintain_order=True)
        .select("start_ns", "text")
    )


def _starts_from_cycles(
    rows: pl.DataFrame, layers: int | None
) -> tuple[npt.NDArray[np.int64], StepSource]:
    """Return where cycles of replays or of kernels begin."""
    told = ["start_ns", "end_ns", "pid", "correlation", "activity", "name", "copy_kind", "replayed"]
    filling = rows["activity"] == int(Activity.FILL)
    running = rows.select(told)
    if filling.any():
        running = running.filter(~filling)
    if running["replayed"].any():
        starts = starts_from_replays(running)
        if starts.size:
            return starts, StepSource.GRAPH
    kernels = running.filter(pl.col("activity") == int(Activity.KERNEL))
    cycles = find_cycles(
        kernels["name"].to_numpy(), idle_before(kernels), layers=layers, layered=True
    )
    return kernels["start_ns"].to_numpy()[cycles], StepSource.PATTERN


def _windows(
    rows: pl.DataFrame,
    starts: npt.NDArray[np.int64],
    source: StepSource,
    marks: pl.Series | None,
) -> pl.DataFrame:
    """Make windows of the starts: each ends where the next begins, or at the end of its run."""
    times, reach = rows["start_ns"].to_numpy(), np.maximum.accumulate(rows["end_ns"].to_numpy())
    window_ends = np.append(starts[1:], reach[-1])
    if starts.size > 1:
        limit = max(_HOLE_STEPS * float(np.median(np.diff(starts))), float(HOLE_NS))
        holes = reach[:-1][times[1:] - reach[:-1] > limit]
        # Work after a hole, such as the copies for the next step, belongs to no step.
        next_hole = np.append(holes, np.iinfo(np.int64).max)[np.searchsorted(holes, starts)]
        window_ends = np.minimum(window_ends, next_hole)
    replay_starts = rows.filter(pl.col("replayed"))["start_ns"].to_numpy()
    held = np.searchsorted(replay_starts, window_ends) > np.searchsorted(replay_starts, starts)
    return pl.DataFrame(
        {
            "gpu": pl.Series([rows["gpu"][0]], dtype=pl.UInt16).new_from_index(0, starts.size),
            "step": pl.Series(np.arange(starts.size, dtype=np.uint32)),
            "start_ns": starts,
            "end_ns": window_ends,
            "source": pl.Series([str(source)]).new_from_index(0, starts.size),
            "replayed": held,
            "mark": pl.Series([None] * starts.size, dtype=pl.String) if marks is None else marks,
        },
        schema=STEPS,
    )
