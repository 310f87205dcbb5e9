"""Operators measured: one row per role and cost, with its bound, ratio and excess."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import prod

import numpy as np
import numpy.typing as npt
import polars as pl
from msgspec import structs

from nsysroof.analysis.grids import judge_grid
from nsysroof.match.assign import Placement
from nsysroof.results import OperatorRow
from nsysroof.theory.cost import Cost, Operator
from nsysroof.theory.gpus import Peaks
from nsysroof.theory.kinds import MATMUL_KINDS, OperatorKind
from nsysroof.theory.roofline import Bound, bound, link_of
from nsysroof.trace.schema import unpack_grid
from nsysroof.units import format_time

_LENGTH = pl.col("end_ns") - pl.col("start_ns")
_INSTANCES = pl.Schema(
    {
        "group": pl.UInt32(),
        "measured": pl.Int64(),  # ns, as the following but ``mains``
        "main": pl.Int64(),
        "mains": pl.Int64(),  # main kernels
        "advance": pl.Int64(),
    }
)
_HOST_LINKS = frozenset({"h2d", "d2h", "c2c"})
_LOW_PENALTY = 2.0  # score lost to time above which an assignment is called doubtful


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorGroup:
    """All assignments of one role and one cost.

    Attributes:
        role: Roles joined with ``+`` in model order.
        members: Operators of one instance.
        cost: Cost of one instance; what one member hands to the next stays in the kernel.
        min_cost: Least cost where it differs.
        bound: Bound of ``cost``; ``min_bound`` that of ``min_cost``; ``reachable`` that of
            ``cost`` under measured roofs.
        penalty: Worst score that a time cost one of the assignments.
    """

    role: str
    members: tuple[Operator, ...]
    cost: Cost
    min_cost: Cost | None
    bound: Bound
    min_bound: Bound | None
    reachable: Bound | None
    penalty: float

    @property
    def crosses_link(self) -> bool:
        """Whether it moves bytes between GPUs, so that it waits for others."""
        return bool(self._between_gpus)

    @property
    def collective(self) -> Operator | None:
        """The member that moves bytes between GPUs, None where none or several do."""
        moving = self._between_gpus
        return moving[0] if len(moving) == 1 else None

    @property
    def _between_gpus(self) -> list[Operator]:
        return [op for op in self.members if op.cost.link and link_of(op) not in _HOST_LINKS]

    @property
    def fixed(self) -> bool:
        """Whether the latency floor, not the roofline, limits it."""
        return self.bound.limiter == "latency"


def group_operators(
    placement: Placement,
    *,
    peaks: Peaks,
    roofs: Peaks | None,
    floor_ns: float,
) -> tuple[list[OperatorGroup], list[int]]:
    """Return the groups in model order, and the group of each cover of the placement."""
    keys: dict[tuple[str, str], int] = {}
    groups: list[OperatorGroup] = []
    group_of = [0] * len(placement.covers)
    for number in sorted(range(len(placement.covers)), key=placement.covers.__getitem__):
        members = tuple(placement.operators[at] for at in placement.covers[number])
        role = "+".join(member.role for member in members)
        cost, least = fused_cost(members), fused_cost(members, least=True)
        key = (role, repr(cost))
        if key in keys:
            at = keys[key]
            worst = max(groups[at].penalty, placement.penalties[number])
            if worst > groups[at].penalty:
                groups[at] = replace(groups[at], penalty=worst)
        else:
            at = keys[key] = len(groups)
            link = next((link_of(op) for op in members if op.cost.link), "nvlink")
            judge = partial(bound, floor_ns=floor_ns, link=link)
            groups.append(
                OperatorGroup(
                    role=role,
                    members=members,
                    cost=cost,
                    min_cost=least if least != cost else None,
                    bound=judge(cost, peaks),
                    min_bound=judge(least, peaks) if least != cost else None,
                    reachable=judge(cost, peaks.overlaid(roofs)) if roofs else None,
                    penalty=placement.penalties[number],
                )
            )
        group_of[number] = at
    return groups, group_of


def fused_cost(members: Sequence[Operator], *, least: bool = False) -> Cost:
    """Return the cost of operators that one kernel computes.

    What a member writes for the next one is neither written nor read again, but for a residual
    sum, which a later layer needs and which is therefore still written.
    """
    costs = [op.min_cost if least and op.min_cost else op.cost for op in members]
    total = costs[0]
    for before, cost in zip(members, costs[1:], strict=False):
        handed = min(total.act_write, cost.act_read)
        kept = before.kind == OperatorKind.RESIDUAL_ADD
        total += cost
        total = _less_activations(total, written=0 if kept else handed, read=handed)
    return total


def operator_rows(
    kernels: pl.DataFrame,
    groups: Sequence[OperatorGroup],
    texts: Sequence[str],
    *,
    staged: pl.DataFrame,
    confirmed: Collection[int] = (),
    steps: int,
    floor_ns: float,
    sm_count: int | None,
) -> list[OperatorRow]:
    """Return the measured rows in model order.

    Args:
        kernels: Kernels of the analysed steps with ``group``, ``covers``, ``main`` and
            ``advance_ns``.
        groups: The operator groups.
        texts: Text of each kernel name.
        staged: Copies that count with a collective, schema ``STAGED``.
        confirmed: Groups whose shapes NVTX ranges tell as well.
        steps: Steps analysed, summed over GPUs.
        floor_ns: Latency floor of a small kernel.
        sm_count: SMs of the GPU, where it is known: a grid of fewer blocks cannot reach the roof.
    """
    known = kernels.lazy().filter(pl.col("group").is_not_null() & pl.col("step").is_not_null())
    instances = _instances(known, staged)
    stats = instances.group_by("group").agg(
        pl.len().alias("instances"),
        pl.col("mains").sum(),
        _nearest("measured", 0.5),
        _nearest("measured", 0.1).alias("p10"),
        _nearest("measured", 0.9).alias("p90"),
        pl.col("measured").min().alias("min"),
        _nearest("main", 0.5),
        _nearest("advance", 0.5),
        pl.col("advance").sum().alias("advance_total"),
    )
    shown = _kernels_of(known)
    copied = _copy_notes(staged, dict(stats.select("group", "instances").iter_rows()))
    found = []
    for row in stats.sort("group").iter_rows(named=True):
        at = row["group"]
        measured = _row(groups[at], row, shown[at], texts, steps, floor_ns, sm_count)
        if at in copied:
            measured = structs.replace(measured, notes=[*measured.notes, copied[at]])
        if at in confirmed:
            measured = structs.replace(measured, evidence="nvtx-shape", confidence="high")
        found.append(measured)
    return found


def _instances(known: pl.LazyFrame, staged: pl.DataFrame) -> pl.DataFrame:
    """Return each instance of an operator: its group, and the sums over its kernels and copies.

    Instances are about as many as kernels, so their keys become one integer each; a frame of
    groups would take several times the memory.
    """
    told = ("gpu", "step", "covers", "group", "main", "advance_ns")
    rows = known.select(*told, ns=_LENGTH).collect()
    if staged.height:
        rows = pl.concat([rows, staged.select(*told, ns=_LENGTH)])
    if not rows.height:
        return pl.DataFrame(schema=_INSTANCES)
    key = rows["gpu"].to_numpy().astype(np.int64)
    for name in ("step", "covers"):
        numbers = rows[name].to_numpy()
        key *= int(numbers.max()) + 1
        key += numbers
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.append(True, key[1:] != key[:-1]))
    del key

    def total(values: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        sums: npt.NDArray[np.int64] = np.add.reduceat(values[order], first)
        return sums

    main, ns = rows["main"].to_numpy(), rows["ns"].to_numpy()
    return pl.DataFrame(
        {
            "group": rows["group"].gather(order[first]),
            "measured": total(ns),
            "main": total(ns * main),
            "mains": total(main.astype(np.int64)),
            "advance": total(rows["advance_ns"].to_numpy()),
        },
        schema=_INSTANCES,
    )


def _copy_notes(staged: pl.DataFrame, instances: dict[int, int]) -> dict[int, str]:
    """Return what to say of the copies that a group's time includes."""
    sums = staged.group_by("group").agg(pl.len().alias("copies"), _LENGTH.sum().alias("ns"))
    return {
        group: f"with its {copies / instances[group]:.3g} copies into and out of a buffer, "
        f"{format_time(ns / instances[group])}"
        for group, copies, ns in sums.select("group", "copies", "ns").iter_rows()
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """The kernels of a group, main ones first, and the blocks of the first one's grid."""

    names: list[int]
    blocks: int


def _kernels_of(known: pl.LazyFrame) -> dict[int, _Shown]:
    order = ["group", "main", "total", "name", "grid"]
    rows = (
        known.group_by("group", "main", "name", "grid")
        .agg(_LENGTH.sum().alias("total"))
        .collect(engine="streaming")
        .sort(order, descending=[False, True, True, False, False])
        .group_by("group", maintain_order=True)
        .agg(pl.col("name"), pl.col("grid").first())
    )
    return {
        group: _Shown(names=names, blocks=prod(unpack_grid(grid)))
        for group, names, grid in rows.iter_rows()
    }


def _row(
    group: OperatorGroup,
    row: dict[str, int],
    shown: _Shown,
    texts: Sequence[str],
    steps: int,
    floor_ns: float,
    sm_count: int | None,
) -> OperatorRow:
    spec = group.bound.spec_ns
    reachable = group.reachable.spec_ns if group.reachable else None
    least = group.min_bound.spec_ns if group.min_bound else spec
    target = max(spec, floor_ns) if spec is not None else None
    weighty = any(member.kind in MATMUL_KINDS for member in group.members)
    excess = None if target is None else (row["advance_total"] - target * row["instances"]) / steps
    facts = judge_grid(
        group.bound,
        blocks=shown.blocks,
        sm_count=sm_count,
        measured_ns=row["measured"],
        equal_blocks=row["mains"] == row["instances"]
        and all(member.kind in MATMUL_KINDS for member in group.members),
        host_link=any(link_of(member) in _HOST_LINKS for member in group.members),
    )
    return OperatorRow(
        role=group.role,
        kind="+".join(str(member.kind) for member in group.members),
        instances_per_step=row["instances"] / steps,
        reads_per_step=row["mains"] / row["instances"] if weighty else None,
        kernels=list(dict.fromkeys(texts[name] for name in shown.names)),
        measured_ns=row["measured"],
        main_ns=row["main"],
        p10_ns=row["p10"],
        p90_ns=row["p90"],
        min_ns=row["min"],
        advance_ns=row["advance"],
        bound_ns=spec,
        min_bound_ns=least,
        reachable_ns=reachable,
        floor_ns=floor_ns,
        limiter=group.bound.limiter,
        ratio=row["measured"] / spec if spec else None,
        reachable_ratio=row["measured"] / reachable if reachable else None,
        excess_ns_per_step=excess,
        flop=group.cost.total_flop,
        bytes=group.cost.bytes,
        intensity=group.bound.intensity,
        dtype=max(group.members, key=lambda member: member.cost.total_flop).dtype,
        evidence="model",
        confidence=_confidence(group.penalty),
        formula="; ".join(dict.fromkeys(member.formula for member in group.members)),
        inputs={
            key if len(group.members) == 1 else f"{member.role}.{key}": value
            for member in group.members
            for key, value in member.inputs.items()
        },
        notes=[*_notes(group), *facts.notes],
        blocks=facts.blocks,
        waves=facts.waves,
        wave_bound_ns=facts.wave_bound_ns,
    )


def _notes(group: OperatorGroup) -> list[str]:
    notes = []
    if group.bound.missing:
        notes.append(f"no bound: the peak {', '.join(sorted(group.bound.missing))} is not known")
    if group.min_cost is not None:
        notes.append("bound: expected distinct experts; min_bound: the fewest possible")
    if len(group.members) > 1:
        notes.append("one kernel computes all of these; what they hand on stays inside it")
    return notes


def _confidence(penalty: float) -> str:
    if penalty == 0:
        return "high"
    return "medium" if penalty < _LOW_PENALTY else "low"


def _less_activations(cost: Cost, *, written: int, read: int) -> Cost:
    return replace(cost, act_read=cost.act_read - read, act_write=cost.act_write - written)


def _nearest(column: str, quantile: float) -> pl.Expr:
    return pl.col(column).quantile(quantile, interpolation="nearest").cast(pl.Int64)
