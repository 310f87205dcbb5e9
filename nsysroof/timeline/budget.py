"""The budget of a step: where each nanosecond of its wall time went, in exact integers."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import polars as pl

from nsysroof.results import DEVICE_COPY, GRAPH_REPLAY, IDLE_CAUSES, Budget, StepKernel
from nsysroof.timeline.activity import Activity, by_gpu
from nsysroof.timeline.gaps import sum_causes
from nsysroof.timeline.intervals import Times, covered_before, union


class Share(StrEnum):
    """What part of the budget a kernel's time belongs to."""

    BOUND = "bound"  # has an operator: the bound, and what is over it
    FIXED = "fixed"  # has an operator whose bound is below the latency floor
    UNEXPLAINED = "unexplained"


def step_budget(
    activities: pl.DataFrame,
    gaps: pl.DataFrame,
    labels: pl.DataFrame,
    *,
    serving: pl.DataFrame,
    gpu: int,
    step: int,
    start_ns: int,
    end_ns: int,
    bound_ns: int,
    texts: Sequence[str],
) -> Budget:
    """Return the account of one step of one GPU.

    Every activity counts with the part of it inside the step, so that neighbouring steps never
    count a nanosecond twice and the account adds up without a tolerance.

    Args:
        activities: Schema ``ACTIVITIES``.
        gaps: Schema ``GAPS``.
        labels: ``share`` (a ``Share``) and ``role`` (null: unexplained) of each kernel, by the row
            number in ``activities["kernel"]``.
        serving: Copies whose time counts with an operator: ``gpu``, ``start_ns``, ``end_ns``,
            ``share`` and ``role``.
        gpu: The GPU.
        step: Number of the step on it.
        start_ns: First kernel of the step.
        end_ns: Where the next step begins, or its run ends.
        bound_ns: Sum of the bounds of the operator instances whose share is ``BOUND``.
        texts: Text of each kernel name.
    """
    inside = _clipped(activities, gpu, start_ns, end_ns)
    idle = _clipped(gaps, gpu, start_ns, end_ns)
    length = pl.col("end_ns") - pl.col("start_ns")
    kernels = inside.filter(pl.col("activity") == int(Activity.KERNEL))
    kernels = kernels.hstack(labels[kernels["kernel"]].select("share", "role"))
    told = ("share", "role", "start_ns", "end_ns")
    served = _clipped(serving, gpu, start_ns, end_ns)
    shared = pl.concat([kernels.select(told), served.select(told)])
    by_share = dict(shared.group_by("share").agg(length.sum()).iter_rows())
    explained = shared.filter(pl.col("share") != str(Share.UNEXPLAINED))
    by_role = explained.group_by("role").agg(length.sum().alias("ns")).sort("role")
    moved = pl.col("activity").is_in([int(Activity.COPY), int(Activity.FILL)])
    copy_ns = int(inside.filter(moved).select(length.sum()).item())
    copy_ns -= int(served.select(length.sum()).item())
    replays = pl.col("activity") == int(Activity.REPLAY)
    hidden_ns = int(inside.filter(replays).select(length.sum()).item())
    total = int(inside.select(length.sum()).item())
    busy = union(inside["start_ns"].to_numpy(), inside["end_ns"].to_numpy()).total_ns
    wall = end_ns - start_ns
    return Budget(
        gpu=gpu,
        step=step,
        wall_ns=wall,
        bound_ns=bound_ns,
        over_bound_ns=int(by_share.get(Share.BOUND, 0)) - bound_ns,
        fixed_ns=int(by_share.get(Share.FIXED, 0)),
        unexplained_ns=int(by_share.get(Share.UNEXPLAINED, 0)) + hidden_ns,
        copy_ns=copy_ns,
        idle_ns=wall - busy,
        overlap_ns=total - busy,
        by_role=dict(by_role.iter_rows()),
        by_kernel=_by_kernel(kernels, served, texts, hidden_ns),
        idle_by_cause=sum_causes(idle, IDLE_CAUSES),
    )


STEP_SUMS = pl.Schema(
    {
        "gpu": pl.UInt16(),
        "step": pl.UInt32(),
        "start_ns": pl.Int64(),
        "wall_ns": pl.Int64(),
        **{str(share): pl.Int64() for share in Share},
        "copy_ns": pl.Int64(),
        "idle_ns": pl.Int64(),
        "overlap_ns": pl.Int64(),
        **{cause: pl.Int64() for cause in IDLE_CAUSES},
    }
)
"""What ran in each step, by share of the budget, and its idle time by cause; ns."""

_SHARES = tuple(str(share) for share in Share)
_COPY = len(_SHARES)  # place of copies and fills among the sums


def step_sums(
    activities: pl.DataFrame,
    gaps: pl.DataFrame,
    labels: pl.DataFrame,
    *,
    serving: pl.DataFrame,
    steps: pl.DataFrame,
) -> pl.DataFrame:
    """Return what the budgets of many steps add up, schema ``STEP_SUMS``, by GPU and start.

    Args:
        activities: Schema ``ACTIVITIES``, sorted by GPU and start.
        gaps: Schema ``GAPS``, sorted by GPU and start.
        labels: As for ``step_budget``.
        serving: As for ``step_budget``.
        steps: ``gpu``, ``step``, ``start_ns`` and ``end_ns`` of steps that do not overlap.
    """
    places = _place(labels["share"])
    windows = steps.sort("gpu", "start_ns").partition_by("gpu", as_dict=True)
    idle_of = dict(by_gpu(gaps))
    found = [pl.DataFrame(schema=STEP_SUMS)]
    for gpu, running in by_gpu(activities):
        if (gpu,) not in windows:
            continue
        cut = _Windows(windows[gpu,])
        rows = cut.reaching(running)
        sums = cut.sums(rows, _places_of(rows, places), _COPY + 1)
        busy = union(rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy())
        busy_ns = covered_before(cut.ends, busy) - covered_before(cut.starts, busy)
        overlap_ns = sums.sum(axis=0) - busy_ns
        served = serving.filter(pl.col("gpu") == gpu)
        moved = cut.sums(served, _place(served["share"]), _COPY + 1)
        sums += moved
        sums[_COPY] -= moved.sum(axis=0)
        waited = cut.reaching(idle_of.get(gpu, gaps.clear()))
        cause = waited["cause"].cast(pl.Enum(IDLE_CAUSES)).fill_null("unknown").to_physical()
        idle = cut.sums(waited, cause.to_numpy(), len(IDLE_CAUSES))
        wall_ns = cut.ends - cut.starts
        columns = (wall_ns, *sums, wall_ns - busy_ns, overlap_ns, *idle)
        names = list(STEP_SUMS)[3:]
        found.append(
            windows[gpu,]
            .select("gpu", "step", "start_ns")
            .with_columns(pl.Series(name, ns) for name, ns in zip(names, columns, strict=True))
        )
    return pl.concat(found)


class _Windows:
    """The steps of one GPU, and what of other intervals lies in each."""

    def __init__(self, steps: pl.DataFrame) -> None:
        self.starts: Times = steps["start_ns"].to_numpy()
        self.ends: Times = steps["end_ns"].to_numpy()

    def reaching(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Return the rows, sorted by start, that may reach into a step: few where the steps are."""
        if not rows.height:
            return rows
        starts, ends = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
        longest = int((ends - starts).max())
        first = np.searchsorted(starts, self.starts - longest)
        last = np.searchsorted(starts, self.ends)
        first[1:] = np.maximum(first[1:], last[:-1])
        return pl.concat(
            [rows[int(low) : int(high)] for low, high in zip(first, last, strict=True)],
            rechunk=False,
        )

    def sums(self, rows: pl.DataFrame, places: npt.NDArray[np.integer], size: int) -> Times:
        """Return the ns of the rows of each place in each step, shape (size, steps)."""
        starts, ends = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
        first = np.searchsorted(self.ends, starts, side="right")
        last = np.searchsorted(self.starts, ends, side="left")
        count = np.maximum(last - first, 0)  # steps that a row reaches into
        row = np.repeat(np.arange(rows.height), count)
        step = np.arange(row.size) - np.repeat(np.cumsum(count) - count - first, count)
        ns = np.minimum(ends[row], self.ends[step]) - np.maximum(starts[row], self.starts[step])
        sums = np.zeros((size, self.starts.size), dtype=np.int64)
        np.add.at(sums, (places[row], step), ns)
        return sums


def _place(shares: pl.Series) -> npt.NDArray[np.uint32]:
    return shares.cast(pl.Enum(_SHARES)).to_physical().cast(pl.UInt32).to_numpy()


def _places_of(rows: pl.DataFrame, of_kernel: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Return where each activity counts: kernels by their share, hidden ones as unexplained."""
    activity = rows["activity"].to_numpy()
    places = np.full(rows.height, _COPY, dtype=np.uint32)
    places[activity == int(Activity.REPLAY)] = _SHARES.index(Share.UNEXPLAINED)
    kernel = activity == int(Activity.KERNEL)
    places[kernel] = of_kernel[rows["kernel"].filter(pl.Series(kernel)).to_numpy()]
    return places


def _by_kernel(
    kernels: pl.DataFrame, served: pl.DataFrame, texts: Sequence[str], hidden_ns: int
) -> list[StepKernel]:
    """Return the time of each kernel by the role it has, the longest first; replays are one."""
    ns = (pl.col("end_ns") - pl.col("start_ns")).sum().alias("ns")
    sums = kernels.group_by("name", "role").agg(pl.len().alias("instances"), ns)
    copied = served.group_by("role").agg(pl.len().alias("instances"), ns)
    rows = [
        StepKernel(name=texts[name], role=role, instances=instances, ns=ns)
        for name, role, instances, ns in sums.select("name", "role", "instances", "ns").iter_rows()
    ]
    rows += [
        StepKernel(name=DEVICE_COPY, role=role, instances=instances, ns=ns)
        for role, instances, ns in copied.select("role", "instances", "ns").iter_rows()
    ]
    if hidden_ns:
        rows.append(StepKernel(name=GRAPH_REPLAY, role=None, instances=None, ns=hidden_ns))
    return sorted(rows, key=lambda row: (-row.ns, row.name, row.role or ""))


def _clipped(frame: pl.DataFrame, gpu: int, start_ns: int, end_ns: int) -> pl.DataFrame:
    """Return the rows of a GPU with the part of them inside [start_ns, end_ns)."""
    return frame.filter(
        (pl.col("gpu") == gpu) & (pl.col("start_ns") < end_ns) & (pl.col("end_ns") > start_ns)
    ).with_columns(
        start_ns=pl.col("start_ns").clip(lower_bound=start_ns),
        end_ns=pl.col("end_ns").clip(upper_bound=end_ns),
    )
