"""The accounts of steps: their budgets, and of the median one its timeline and its bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from nsysroof.analysis.measured import Measured, StepTheory
from nsysroof.analysis.operators import OperatorGroup
from nsysroof.analysis.step_timeline import step_timeline
from nsysroof.analysis.theory import Hardware
from nsysroof.results import (
    IDLE_CAUSES,
    Budget,
    LinkRow,
    StepBounds,
    StepRow,
    StepTimeline,
)
from nsysroof.theory.peaks import Peaks
from nsysroof.theory.roofline import crossed_link, link_of, step_bounds
from nsysroof.timeline.budget import Share, step_budget, step_sums

_LONGEST = 20  # steps that a report keeps
_BOUNDS = pl.Schema({"gpu": pl.UInt16(), "step": pl.UInt32(), "bound_ns": pl.Int64()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """What part of a budget each activity belongs to.

    ``kernels`` has share and role of each kernel, ``copies`` the copies that serve an operator,
    with their times.
    """

    kernels: pl.DataFrame
    copies: pl.DataFrame


def shares_of(found: Measured) -> Shares:
    """Return the shares of all kernels, and of the copies that count with an operator."""
    names = pl.Enum([str(share) for share in Share])
    shares = pl.Series("share", [str(_share(group)) for group in found.groups], dtype=names)
    kernels = found.kernels.select(
        shares.gather(found.kernels["group"]).fill_null(str(Share.UNEXPLAINED)), "role"
    )
    copies = found.staged.select("gpu", "start_ns", "end_ns", "role", "group")
    return Shares(
        kernels=kernels, copies=copies.with_columns(shares.gather(copies["group"])).drop("group")
    )


def budget_of(found: Measured, shares: Shares) -> Budget | None:
    """Return the budget of the median step, None without steps."""
    median = found.analysed.median_step
    if median is None:
        return None
    bounds = _bounds_ns(found, pl.DataFrame({"gpu": [median.gpu], "step": [median.step]}))
    return step_budget(
        found.activities,
        found.gaps,
        shares.kernels,
        serving=shares.copies,
        gpu=median.gpu,
        step=median.step,
        start_ns=median.start_ns,
        end_ns=median.end_ns,
        bound_ns=int(bounds["bound_ns"].sum()),
        texts=found.texts,
    )


def step_rows(found: Measured, shares: Shares, *, complete: bool) -> list[StepRow]:
    """Return the account of every analysed step in order, else of the longest, those first."""
    steps = found.analysed.steps.with_columns(ns=pl.col("end_ns") - pl.col("start_ns"))
    if not complete:
        order = ["ns", "gpu", "start_ns"]
        steps = steps.sort(order, descending=[True, False, False]).head(_LONGEST)
    sums = step_sums(
        found.activities, found.gaps, shares.kernels, serving=shares.copies, steps=steps
    )
    rows = sums.join(_bounds_ns(found, steps), on=["gpu", "step"], how="left").with_columns(
        pl.col("bound_ns").fill_null(0)
    )
    keys = ["gpu", "start_ns"] if complete else ["wall_ns", "gpu", "start_ns"]
    rows = rows.sort(keys, descending=[key == "wall_ns" for key in keys])
    return [
        StepRow(
            gpu=row["gpu"],
            step=row["step"],
            start_ns=row["start_ns"],
            wall_ns=row["wall_ns"],
            bound_ns=row["bound_ns"],
            over_bound_ns=row[Share.BOUND] - row["bound_ns"],
            fixed_ns=row[Share.FIXED],
            unexplained_ns=row[Share.UNEXPLAINED],
            copy_ns=row["copy_ns"],
            idle_ns=row["idle_ns"],
            overlap_ns=row["overlap_ns"],
            idle_by_cause={cause: row[cause] for cause in IDLE_CAUSES},
        )
        for row in rows.iter_rows(named=True)
    ]


def _bounds_ns(found: Measured, steps: pl.DataFrame) -> pl.DataFrame:
    """Return ``bound_ns`` by GPU and step: the operators that their roof, not a launch, limits."""
    if not found.groups:
        return pl.DataFrame(schema=_BOUNDS)
    bounds = pl.Series(
        "bound_ns",
        [
            round(group.bound.spec_ns or 0) if _share(group) is Share.BOUND else 0
            for group in found.groups
        ],
        dtype=pl.Int64,
    )
    inside = found.kernels.select("gpu", "step", "covers", "group")
    if steps.height < found.analysed.steps.height:
        wanted = steps.select(pl.col("gpu").cast(pl.UInt16), pl.col("step").cast(pl.UInt32))
        inside = inside.join(wanted, on=["gpu", "step"], how="semi")
    inside = inside.drop_nulls(["step", "group"])
    # Instances are nearly as many as kernels: of their keys one integer each.
    keys = inside["gpu"].to_numpy().astype(np.int64)
    for name in ("step", "covers"):
        numbers = inside[name].to_numpy()
        keys = keys * (int(numbers.max()) + 1 if numbers.size else 1) + numbers
    _, first = np.unique(keys, return_index=True)
    instances: pl.DataFrame = inside[first].with_columns(
        bounds.gather(inside["group"].gather(first))
    )
    return instances.group_by("gpu", "step").agg(pl.col("bound_ns").sum())


def peaks_used(groups: Sequence[OperatorGroup], links: Sequence[LinkRow], peaks: Peaks) -> set[str]:
    """Return the keys of the peaks that the report's bounds and ratios were divided by."""
    used = {"bw" if row.kind == "d2d" else row.kind for row in links if row.ratio is not None}
    for group in groups:
        used |= set(group.cost.flop)
        used |= {"bw"} if group.cost.memory_bytes else set()
        used |= {crossed_link(link_of(op), peaks) for op in group.members if op.cost.link}
    return used


def timeline_of(found: Measured) -> StepTimeline | None:
    """Return what ran when in the median step, None without steps."""
    median = found.analysed.median_step
    if median is None:
        return None
    return step_timeline(found.activities, found.gaps, found.kernels["role"], found.texts, median)


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
