"""The steps that are analysed: one phase, its distribution, and the median step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from nsysroof.errors import UsageError
from nsysroof.match.phases import PHASES
from nsysroof.results import Phase, Spread, Steps


@dataclass(frozen=True, slots=True, kw_only=True)
class StepWindow:
    """One step of one GPU."""

    gpu: int
    step: int
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysed:
    """The steps of one phase on every GPU; ``phase`` is None without steps."""

    phase: str | None
    steps: pl.DataFrame

    @property
    def lowest(self) -> pl.DataFrame:
        """The steps of the lowest GPU, the shortest first."""
        own = self.steps.filter(pl.col("gpu") == pl.col("gpu").min())
        return own.with_columns(wall=pl.col("end_ns") - pl.col("start_ns")).sort("wall", "step")

    @property
    def median_step(self) -> StepWindow | None:
        """The step with the median wall time on the lowest GPU."""
        own = self.lowest
        if not own.height:
            return None
        row = own.row(_nearest_rank(own.height, 0.5), named=True)
        return StepWindow(
            gpu=row["gpu"], step=row["step"], start_ns=row["start_ns"], end_ns=row["end_ns"]
        )


def choose_steps(phased: pl.DataFrame, phase: str) -> Analysed:
    """Return the steps of a phase; ``auto``: of the phase with the most steps.

    Raises:
        UsageError: Steps were found, but none of this phase.
    """
    if not phased.height:
        return Analysed(phase=None if phase == "auto" else phase, steps=phased)
    rows = phase_rows(phased)
    if phase == "auto":
        # Of equally many, the phase that took longer.
        phase = max(rows, key=lambda row: (row.count, row.total_ns, row.phase)).phase
    elif phase not in {row.phase for row in rows}:
        told = ", ".join(f"{row.count} {row.phase}" for row in rows)
        raise UsageError(
            f"no {phase} step in the window",
            hint=f"the steps found are: {told}; leave --phase out to take the most frequent",
            slug="phase-missing",
            where="--phase",
        )
    return Analysed(phase=phase, steps=phased.filter(pl.col("phase") == phase))


def phase_rows(phased: pl.DataFrame) -> list[Phase]:
    """Return the phases found on the lowest GPU, in a fixed order."""
    if not phased.height:
        return []
    own = phased.filter(pl.col("gpu") == pl.col("gpu").min())
    found = {
        phase: (count, total)
        for phase, count, total in own.group_by("phase")
        .agg(pl.len(), (pl.col("end_ns") - pl.col("start_ns")).sum().alias("total"))
        .iter_rows()
    }
    return [
        Phase(phase=phase, count=found[phase][0], total_ns=found[phase][1])
        for phase in PHASES
        if phase in found
    ]


def summary(analysed: Analysed) -> Steps:
    """Return how many steps were analysed, and how long they took on the lowest GPU."""
    own = analysed.lowest
    if not own.height:
        return Steps(count=0, source=None, phase=analysed.phase, wall_ns=None)
    return Steps(
        count=own.height,
        source=own["source"][0],
        phase=analysed.phase,
        wall_ns=spread(own["wall"].to_list()),
    )


def spread(ascending_ns: Sequence[int]) -> Spread:
    """Return the distribution of ascending times, each value one of them.

    >>> spread([10, 20, 30, 40]).p50
    20
    """
    count = len(ascending_ns)
    return Spread(
        p10=ascending_ns[_nearest_rank(count, 0.1)],
        p50=ascending_ns[_nearest_rank(count, 0.5)],
        p90=ascending_ns[_nearest_rank(count, 0.9)],
        min=ascending_ns[0],
        max=ascending_ns[-1],
    )


def _nearest_rank(count: int, quantile: float) -> int:
    """Return the index of a quantile by nearest rank: ceil(q n) - 1, in exact tenths."""
    return max(-(-round(quantile * 10) * count // 10) - 1, 0)


def calls_per_step(kernels: pl.DataFrame, names: Sequence[int]) -> int:
    """Return how often kernels of these names run in the typical analysed step."""
    per_step = (
        kernels.select("gpu", "step", "name")
        .filter(pl.col("step").is_not_null() & pl.col("name").is_in(list(names)))
        .group_by("gpu", "step")
        .len()["len"]
    )
    return int(per_step.median()) if per_step.len() else 0  # type: ignore[arg-type]  # a number
