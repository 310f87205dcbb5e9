"""The accounts of one step: its budget, its timeline, and what bounds it as a whole."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from nsysroof.analysis.measured import Measured, StepTheory
from nsysroof.analysis.operators import OperatorGroup
from nsysroof.analysis.step_timeline import step_timeline
from nsysroof.analysis.theory import Hardware
from nsysroof.results import (
    Budget,
    LinkRow,
    StepBounds,
    StepTimeline,
)
from nsysroof.theory.peaks import Peaks
from nsysroof.theory.roofline import crossed_link, link_of, step_bounds
from nsysroof.timeline.budget import Share, step_budget


def budget_of(found: Measured, gaps: pl.DataFrame) -> Budget | None:
    """Return the budget of the median step, None without steps; ``gaps`` as ``find_gaps`` does."""
    median = found.analysed.median_step
    if median is None:
        return None
    kind = [_share(group) for group in found.groups]
    names = pl.Enum([str(share) for share in Share])
    shares = pl.Series("share", [str(share) for share in kind], dtype=names)
    labels = found.kernels.select(
        shares.gather(found.kernels["group"]).fill_null(str(Share.UNEXPLAINED)), "role"
    )
    numbered = found.kernels.select("gpu", "step", "covers", "group")
    inside = numbered.filter((pl.col("gpu") == median.gpu) & (pl.col("step") == median.step))
    instances = inside.group_by("covers").agg(pl.col("group").first())["group"].drop_nulls()
    serving = found.staged.select("gpu", "start_ns", "end_ns", "role", "group")
    return step_budget(
        found.activities,
        gaps,
        labels,
        serving=serving.with_columns(shares.gather(serving["group"])),
        gpu=median.gpu,
        step=median.step,
        start_ns=median.start_ns,
        end_ns=median.end_ns,
        bound_ns=sum(
            round(found.groups[at].bound.spec_ns or 0)
            for at in instances
            if kind[at] is Share.BOUND
        ),
        texts=found.texts,
    )


def peaks_used(groups: Sequence[OperatorGroup], links: Sequence[LinkRow], peaks: Peaks) -> set[str]:
    """Return the keys of the peaks that the report's bounds and ratios were divided by."""
    used = {"bw" if row.kind == "d2d" else row.kind for row in links if row.ratio is not None}
    for group in groups:
        used |= set(group.cost.flop)
        used |= {"bw"} if group.cost.memory_bytes else set()
        used |= {crossed_link(link_of(op), peaks) for op in group.members if op.cost.link}
    return used


def timeline_of(found: Measured, gaps: pl.DataFrame) -> StepTimeline | None:
    """Return what ran when in the median step, None without steps."""
    median = found.analysed.median_step
    if median is None:
        return None
    return step_timeline(found.activities, gaps, found.kernels["role"], found.texts, median)


def _share(group: OperatorGroup) -> Share:
    if group.bound.spec_ns is None:
        return Share.UNEXPLAINED
    return Share.FIXED if group.fixed else Share.BOUND


def bounds_of_step(
    theory: StepTheory, hardware: Hardware, budget: Budget | None
) -> StepBounds | None:
    """Return the bounds on a whole step beside its wall time, None where nothing is modelled."""
    if theory.workload is None or not theory.operators:
        return None
    # What an engine may fuse away is no part of a bound on the whole step.
    real = [op for op in theory.operators if not (op.auxiliary or op.optional)]
    bounds = step_bounds(
        [op.cost for op in real], hardware.peaks, links=[link_of(op) for op in real]
    )
    tokens = theory.workload.yielded_tokens
    wall = budget.wall_ns if budget else None
    return StepBounds(
        measured_ns=wall,
        serial_ns=bounds.serial_ns,
        hard_ns=bounds.hard_ns,
        weights_once_ns=bounds.weights_once_ns,
        tokens=tokens,
        tokens_per_s=tokens / wall * 1e9 if wall else None,
        tokens_per_s_bound=tokens / bounds.hard_ns * 1e9 if bounds.hard_ns else None,
    )
