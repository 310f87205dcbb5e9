"""Where steps begin in a run of graph replays, and in the eager forwards between them."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import polars as pl

from nsysroof.timeline.activity import COPY_KINDS, Activity
from nsysroof.timeline.forwards import forward_cores
from nsysroof.timeline.pattern import ALIKE, MIN_LAYER_KINDS, MIN_LAYERS, find_cycles

HOLE_NS = 100_000_000
"""Idle time that no two steps of one run have between them."""
_OFTEN = 0.5  # share of the steps from which a forward beside the replay is a part of the step
_DEEP = 0.5  # share of the replay's layers from which repeated kernels are another forward

Positions = npt.NDArray[np.intp]


def starts_from_replays(rows: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Return the first kernel of each step whose graphs were replayed, and of those between.

    Replays become one unit each, named by what they hold; a step then begins after the read-back
    (a copy to the host) that ended the one before, or else after the longest idle stretch. A whole
    forward that was launched kernel by kernel between replays, such as a prompt, is a step too.

    Args:
        rows: Kernels and copies of one GPU, sorted by start: ``start_ns``, ``end_ns``, ``pid``,
            ``correlation``, ``activity``, ``name``, ``copy_kind`` and ``replayed``.
    """
    run = _Run.of(_units(rows))
    if not run.replays.size:  # without launch ids no two replays can be told apart
        return np.empty(0, np.int64)
    depths = _depths(rows, run.units)
    heads = _step_replays(run, depths)
    bodies = [
        (int(head), int(run.replays[run.replays < after][-1]))
        for head, after in zip(heads, [*heads[1:], len(run.idle)], strict=True)
    ]
    eager = _eager_cores(run, bodies, depths)
    bodies = sorted([*bodies, *eager])
    firsts = [
        run.first_kernel(run.cut(before, begin), begin)
        for (_, before), (begin, _) in pairwise(bodies)
    ]
    first = bodies[0][0]
    leads = [begin - at for at, (begin, _) in zip(firsts, bodies[1:], strict=True)]
    return run.starts[[run.first_kernel(run.lead(first, leads), first), *firsts]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """Replays, kernels and copies of a GPU in order of start.

    Attributes:
        units: One row each, as ``_units`` returns.
        replays: Positions of the replays.
        starts: Start of each.
        idle: Idle ns before each.
        readback: Whether each is a copy to the host.
        kernel_like: Whether each is a replay or a kernel.
    """

    units: pl.DataFrame
    replays: Positions
    starts: npt.NDArray[np.int64]
    idle: npt.NDArray[np.int64]
    readback: npt.NDArray[np.bool_]
    kernel_like: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, units: pl.DataFrame) -> _Run:
        return cls(
            units=units,
            replays=np.flatnonzero(units["is_replay"].to_numpy()),
            starts=units["start_ns"].to_numpy(),
            idle=idle_before(units),
            readback=(units["copy_kind"] == "d2h").fill_null(value=False).to_numpy(),
            kernel_like=units["kernel_like"].to_numpy(),
        )

    def cut(self, before: int, body: int) -> int:
        """Return where the step of a body begins, after the body at ``before``."""
        between = np.arange(before + 1, body + 1)
        copies = between[self.readback[between]]
        return int(copies[-1]) + 1 if copies.size else int(between[self.idle[between].argmax()])

    def lead(self, body: int, leads: list[int]) -> int:
        """Return where the first step begins: no earlier before its body than the others do.

        What ran before a read-back or a hole belongs to no step.
        """
        copies = np.flatnonzero(self.readback[:body])
        holes = np.flatnonzero(self.idle[: body + 1] > HOLE_NS)
        usual = body - int(np.median(leads)) if leads else 0
        after_copy = int(copies[-1]) + 1 if copies.size else 0
        return max(usual, after_copy, int(holes[-1]) if holes.size else 0)

    def first_kernel(self, low: int, body: int) -> int:
        return low + int(np.flatnonzero(self.kernel_like[low : body + 1])[0])


def idle_before(rows: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Return the idle ns before each row, 0 where something still ran."""
    starts, ends = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
    if not starts.size:
        return starts
    reach = np.maximum.accumulate(ends)
    return np.append(0, np.maximum(starts[1:] - reach[:-1], 0))


def _eager_cores(
    run: _Run, bodies: list[tuple[int, int]], depths: npt.NDArray[np.int64]
) -> list[tuple[int, int]]:
    """Return the forwards between the bodies of steps, as the span of their layers.

    Where most steps have one it is a part of them, such as a draft model.
    """
    holes = np.flatnonzero(run.idle[: bodies[0][0] + 1] > HOLE_NS)
    lows = [int(holes[-1]) if holes.size else 0, *(end + 1 for _, end in bodies)]
    highs = [*(begin for begin, _ in bodies), len(run.idle)]
    symbols = run.units["symbol"].to_numpy()
    found: list[tuple[int, int]] = []
    beside = 0
    for low, high in zip(lows, highs, strict=True):
        least = _DEEP * depths[bodies[0][0]]
        cores = forward_cores(symbols[low:high], run.idle[low:high], least=least) if least else []
        found += [(low + first, low + last) for first, last in cores]
        beside += bool(cores)
    return found if beside <= _OFTEN * len(bodies) else []


def _units(rows: pl.DataFrame) -> pl.DataFrame:
    """Collapse each replay to one row; other kernels and copies stay rows of their own."""
    replay = pl.col("replayed") & pl.col("correlation").is_not_null()
    # What a replay holds, in any order: a sum of hashes names it.
    content = pl.col("name").fill_null(2**32 - 1).hash(seed=1)
    replays = (
        rows.lazy()
        .filter(replay)
        .group_by("pid", "correlation")
        .agg(
            pl.col("start_ns").min(),
            pl.col("end_ns").max(),
            (content.cast(pl.UInt64) // 2**20).sum().alias("symbol"),
            (pl.col("end_ns") - pl.col("start_ns")).sum().alias("ns"),
        )
        .select(
            "start_ns",
            "end_ns",
            "symbol",
            "ns",
            pl.lit(value=True).alias("is_replay"),
            pl.lit(value=True).alias("kernel_like"),
            pl.lit(None, dtype=COPY_KINDS).alias("copy_kind"),
            "pid",
            "correlation",
        )
        .collect(engine="streaming")
    )
    others = rows.filter(~replay.fill_null(value=False)).select(
        "start_ns",
        "end_ns",
        (content.cast(pl.UInt64) // 2**20).alias("symbol"),
        (pl.col("end_ns") - pl.col("start_ns")).alias("ns"),
        pl.lit(value=False).alias("is_replay"),
        (pl.col("activity") == int(Activity.KERNEL)).alias("kernel_like"),
        "copy_kind",
        "pid",
        "correlation",
    )
    return pl.concat([replays, others]).sort("start_ns", "end_ns", "symbol")


def _depths(rows: pl.DataFrame, units: pl.DataFrame) -> npt.NDArray[np.int64]:
    """Return how often the layers in each replay repeat, 0 for those that hold none."""
    one = ["pid", "correlation"]
    repeated = (
        rows.lazy()
        .filter(pl.col("replayed") & pl.col("correlation").is_not_null())
        .group_by(*one, "name")
        .agg(pl.len().cast(pl.Int64).alias("depth"))
        .filter(pl.col("depth") >= MIN_LAYERS)
        .group_by(*one, "depth")
        .len()
        .filter(pl.col("len") >= MIN_LAYER_KINDS)
        .group_by(one)
        .agg(pl.col("depth").min(), pl.lit(value=True).alias("is_replay"))
        .collect(engine="streaming")
    )
    told = units.select(*one, "is_replay").join(
        repeated, on=[*one, "is_replay"], how="left", maintain_order="left"
    )
    return told["depth"].fill_null(0).to_numpy()


def _step_replays(run: _Run, depths: npt.NDArray[np.int64]) -> Positions:
    """Return which replays begin a step.

    One graph per step: every replay of a whole-step graph does, of whatever batch. Many graphs
    per step (a model compiled piece by piece): the cycle in the sequence of graphs tells, and its
    first piece.
    """
    symbols = run.units["symbol"].to_numpy()[run.replays]
    ns = run.units["ns"].to_numpy()[run.replays]
    cycles = _cycles(symbols)
    own = depths[run.replays]
    if not own.any() or _covers(cycles, symbols.size):
        return run.replays[cycles if cycles.size else np.flatnonzero(_heaviest(symbols, ns))]
    # Graphs of the same model for other batches have other kernels, but as many layers.
    alike = np.where(own > 0, own.astype(np.uint64), symbols)
    cycles = _cycles(alike)
    if _covers(cycles, symbols.size):
        return run.replays[cycles]
    deep = own > 0
    return run.replays[deep][_heaviest(alike[deep], ns[deep])]


def _cycles(symbols: npt.NDArray[np.uint64]) -> Positions:
    return find_cycles(symbols, np.zeros(symbols.size, np.int64), layers=None, layered=False)


def _covers(cycles: Positions, replays: int) -> bool:
    """Return whether each replay belongs to a cycle, and none is much longer than the others."""
    if not cycles.size:
        return False
    lengths = np.diff(np.append(cycles, replays))
    usual = float(np.median(lengths[:-1] if lengths.size > 1 else lengths))
    return bool(cycles[0] <= usual and (lengths <= (1 + ALIKE) * usual).all())


def _heaviest(symbols: npt.NDArray[np.uint64], ns: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return which of the symbols are the one that takes the most time."""
    at = np.unique(symbols, return_inverse=True)[1]
    kept: npt.NDArray[np.bool_] = at == np.bincount(at, weights=ns).argmax()
    return kept
