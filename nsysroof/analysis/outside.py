"""Work of a capture that is in no step: loading, warm-up, graph capture, other requests."""

from __future__ import annotations

import math

import polars as pl

from nsysroof.findings import finding
from nsysroof.results import Finding
from nsysroof.timeline.activity import by_gpu
from nsysroof.timeline.intervals import Intervals, covered
from nsysroof.timeline.steps import find_runs
from nsysroof.units import format_share

_WORTH_TELLING = 0.05  # share of the work, or of the window


def work_outside_steps(
    activities: pl.DataFrame, steps: pl.DataFrame, *, anchor_ns: int | None
) -> list[Finding]:
    """Return the finding that much of the lowest GPU's time is in no step, if it is.

    Idle time alone is none: it stands in the account of the GPU as ``outside_steps``.

    Args:
        activities: Schema ``ACTIVITIES``, sorted by GPU and start.
        steps: Schema ``STEPS``, of all phases.
        anchor_ns: What ``--window`` counts from; None where there is no kernel.
    """
    if not steps.height or anchor_ns is None:
        return []
    runs = find_runs(steps.sort("gpu", "start_ns"))
    gpu = runs["gpu"][0]
    rows = next(own for number, own in by_gpu(activities) if number == gpu)
    runs = runs.filter(pl.col("gpu") == gpu)
    begins, ends = runs["start_ns"].to_numpy(), runs["end_ns"].to_numpy()
    starts, stops = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    outside = ~covered(starts, Intervals(starts=begins, ends=ends))
    lengths = stops - starts
    window = int(stops.max() - starts[0])
    work = int(lengths[outside].sum()) / max(int(lengths.sum()), 1)
    span = 1 - int((ends - begins).sum()) / max(window, 1)
    if not outside.any() or max(work, span) < _WORTH_TELLING:
        return []
    # In ms, and not a step less for it.
    first = math.floor((int(begins[0]) - anchor_ns) / 1e6) / 1e3
    last = math.ceil((int(ends[-1]) - anchor_ns) / 1e6) / 1e3
    return [
        finding(
            slug="warm-up-in-window",
            severity="note",
            text=f"{format_share(span)} of the window and {format_share(work)} of the work of GPU "
            f"{gpu} are in no step (loading, warm-up, graph capture, holes): the budget leaves "
            "them out, tables over the window do not",
            hint=f"cut them off with --window {max(first, 0):.3f}-{last:.3f}",
        )
    ]
