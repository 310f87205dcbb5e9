"""Where the steps of each GPU go: its own work, collectives, idle time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import polars as pl

from nsysroof.analysis.measured import Measured
from nsysroof.timeline.activity import Activity, by_gpu
from nsysroof.timeline.intervals import Times, covered_before, union
from nsysroof.timeline.steps import assign_steps

_LENGTH = pl.col("end_ns") - pl.col("start_ns")
_OTHER_WORK = {Activity.COPY: "copies", Activity.FILL: "fills", Activity.REPLAY: "graph replays"}
IDLE = "idle "
"""What a cause of idle time begins with in ``RankTime.spent_on``."""

_NO_TIMES: Times = np.zeros(0, dtype=np.int64)


SPENT = pl.Schema({"at": pl.UInt32(), "what": pl.String(), "ns": pl.Int64()})
"""Own time by place of the step, counted from 0, and by what it was spent on."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RankTime:
    """The analysed steps of one GPU in order, an int64 value in ns for each: shape (steps,).

    ``numbers`` are those of the steps among all steps of the GPU; wall = work + collective + idle, exactly. ``spent`` (schema ``SPENT``) is a step's own time by
    what it was spent on: a role, a class of kernels, ``IDLE`` and a cause.
    """

    gpu: int
    pids: tuple[int, ...]
    numbers: Times = field(default_factory=lambda: _NO_TIMES)
    starts: Times = field(default_factory=lambda: _NO_TIMES)
    work: Times = field(default_factory=lambda: _NO_TIMES)
    collective: Times = field(default_factory=lambda: _NO_TIMES)
    idle: Times = field(default_factory=lambda: _NO_TIMES)
    spent: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=SPENT))

    @property
    def steps(self) -> int:
        """How many steps were analysed."""
        return self.work.size

    @property
    def own(self) -> Times:
        """What a step takes without the time in which nothing but collectives ran."""
        return self.work + self.idle

    @property
    def wall(self) -> Times:
        """What a step takes."""
        return self.own + self.collective

    @property
    def idle_by_cause(self) -> dict[str, int]:
        """The idle time of all steps by cause, in the order of their names."""
        idle = self.spent.filter(pl.col("what").str.starts_with(IDLE)).group_by("what")
        sums = idle.agg(pl.col("ns").sum()).sort("what")
        return {what.removeprefix(IDLE): ns for what, ns in sums.iter_rows()}

    @property
    def usual(self) -> dict[str, int]:
        """The own time of one step by what it was spent on: the p50 over steps."""
        sums = self.spent.group_by("what").agg(pl.col("ns").sort()).sort("what")
        return {what: _median(present, self.steps) for what, present in sums.iter_rows()}

    def only(self, places: npt.NDArray[np.intp]) -> RankTime:
        """Return the steps at these places alone, which ascend."""
        kept = pl.DataFrame(
            {
                "at": pl.Series(places, dtype=SPENT["at"]),
                "to": pl.Series(range(places.size), dtype=SPENT["at"]),
            }
        )
        return replace(
            self,
            numbers=self.numbers[places],
            starts=self.starts[places],
            work=self.work[places],
            collective=self.collective[places],
            idle=self.idle[places],
            spent=self.spent.join(kept, on="at").select(pl.col("to").alias("at"), "what", "ns"),
        )


def rank_times(found: Measured) -> list[RankTime]:
    """Return one account per GPU with activity, by GPU."""
    waits = waiting_kernels(found)
    labels = kernel_labels(found, found.kernels)
    steps = found.analysed.steps.sort("gpu", "start_ns")
    return [
        _rank_time(
            gpu,
            rows,
            found.gaps.filter(pl.col("gpu") == gpu),
            steps.filter(pl.col("gpu") == gpu),
            labels,
            waits,
        )
        for gpu, rows in by_gpu(found.activities)
    ]


def waiting_kernels(found: Measured) -> pl.Series:
    """Return whether each kernel runs until other ranks have come, by its class or operator."""
    by_name = pl.Series("waits", [kernel.entry.waits for kernel in found.classes], dtype=pl.Boolean)
    by_group = pl.Series(
        "waits",
        [group.crosses_link for group in found.groups],
        dtype=pl.Boolean,
    )
    named = by_name.gather(found.kernels["name"])
    meets = by_group.gather(found.kernels["group"]).fill_null(value=False)
    # What only serves a collective, such as a copy into its buffer, waits for nobody.
    return named | (meets & found.kernels["main"].fill_null(value=False))


def kernel_labels(found: Measured, kernels: pl.DataFrame) -> pl.Series:
    """Return what each of some kernels is: its role, else its class."""
    classes = pl.Series("label", [kernel.klass for kernel in found.classes], dtype=pl.String)
    named = classes.gather(kernels["name"])
    return kernels.select(pl.coalesce("role", named).alias("label"))["label"]


def waiting_instances(found: Measured) -> pl.DataFrame:
    """Return the kernels that wait for other ranks, as ``collective_rows`` takes them.

    ``role`` is the class where there is no operator, so that no model is needed.
    """
    kernels = found.kernels.select("gpu", "step", "name", "role", "main", "start_ns", "end_ns")
    kernels = kernels.filter(waiting_kernels(found))
    return kernels.select(
        "gpu",
        "step",
        kernel_labels(found, kernels).alias("role"),
        pl.col("main").fill_null(value=True),
        "start_ns",
        "end_ns",
    )


def _rank_time(
    gpu: int,
    rows: pl.DataFrame,
    gaps: pl.DataFrame,
    steps: pl.DataFrame,
    labels: pl.Series,
    waits: pl.Series,
) -> RankTime:
    pids = tuple(rows["pid"].drop_nulls().unique().sort().to_list())
    if not steps.height:
        return RankTime(gpu=gpu, pids=pids)
    waiting = waits.gather(rows["kernel"]).fill_null(value=False)
    working = rows.filter(~waiting)
    starts, ends = steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy()
    busy, work = _covered(rows, starts, ends), _covered(working, starts, ends)
    return RankTime(
        gpu=gpu,
        pids=pids,
        numbers=steps["step"].to_numpy().astype(np.int64),
        starts=starts,
        work=work,
        collective=busy - work,
        idle=ends - starts - busy,
        spent=_spent(working, gaps, steps, labels),
    )


def _covered(rows: pl.DataFrame, starts: Times, ends: Times) -> Times:
    """Return how much of each step the rows cover."""
    cover = union(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy())
    return covered_before(ends, cover) - covered_before(starts, cover)


def _spent(
    working: pl.DataFrame, gaps: pl.DataFrame, steps: pl.DataFrame, labels: pl.Series
) -> pl.DataFrame:
    """Return the own time of each step with the schema ``SPENT``."""
    others = pl.Series("what", [_OTHER_WORK.get(kind) for kind in Activity], dtype=pl.String)
    known = pl.coalesce(labels.gather(working["kernel"]), others.gather(working["activity"]))
    done = working.select(known.alias("what"), _LENGTH.alias("ns"))
    idled = gaps.select(
        (pl.lit(IDLE) + pl.col("cause").fill_null("unknown")).alias("what"), _LENGTH.alias("ns")
    )
    places = steps.select("step").with_row_index("at")
    parts = [
        done.with_columns(assign_steps(working, steps)),
        idled.with_columns(assign_steps(gaps, steps)),
    ]
    return (
        pl.concat(parts)
        .join(places, on="step")
        .group_by("at", "what")
        .agg(pl.col("ns").sum())
        .select(list(SPENT))
        .sort("at", "what")
    )


def _median(present: Sequence[int], count: int) -> int:
    """Return the p50 by nearest rank of ascending values, those that are absent being 0.

    >>> _median([5, 7], 3), _median([5], 3)
    (5, 0)
    """
    at = -(-count // 2) - 1 - (count - len(present))
    return present[at] if at >= 0 else 0


def mean(times: npt.NDArray[np.int64]) -> float:
    """Return the mean of integer ns; there is at least one."""
    return int(times.sum()) / times.size
