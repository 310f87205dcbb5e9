"""From one step's alignment to every kernel of a run: equal steps are aligned once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from nsysroof.match.align import Assignment, Launch, align
from nsysroof.match.classes import implements_of, kernel_classes
from nsysroof.match.rules import KernelClass
from nsysroof.theory.cost import Operator
from nsysroof.theory.kinds import OperatorKind

_GEMM = frozenset({str(OperatorKind.GEMM)})
_SIDE_STREAM = 0.05  # share of kernel time below which an eager stream is none of the model's


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """One way in which an engine may run a step: its operators in order, and their bounds.

    A bound is None where a peak is not known; ``fused`` says that projections are launched
    together, as most engines do.
    """

    fused: bool
    operators: list[Operator]
    bounds_ns: list[float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The kernels with the operators they were found to be.

    Attributes:
        operators: The operators of the plan that fits best, in model order.
        kernels: The kernels given, with ``covers`` (index into ``covers``, null: unexplained) and
            ``main``.
        covers: Operator indices of each distinct assignment, in model order.
        penalties: Worst score that a time cost each of them.
        patterns: Distinct kernel sequences that were aligned.
    """

    operators: list[Operator]
    kernels: pl.DataFrame
    covers: list[tuple[int, ...]]
    penalties: list[float]
    patterns: int


def place_operators(
    kernels: pl.DataFrame,
    classes: Sequence[KernelClass],
    plans: Sequence[Plan],
    *,
    floor_ns: float,
) -> Placement:
    """Find the operators of all kernels that belong to an analysed step.

    Args:
        kernels: ``gpu``, ``stream``, ``start_ns``, ``end_ns``, ``name``, ``replayed`` and ``step``
            (null outside the analysed steps), sorted by GPU and start.
        classes: Class of each distinct name.
        plans: Ways in which a step may run, the likeliest first; the one that explains the
            longest kernel sequence best is taken for all.
        floor_ns: Time that the smallest kernel takes.
    """
    told = ("gpu", "stream", "start_ns", "end_ns", "name", "replayed", "step")
    rows = kernels.select(*told).with_row_index("row")
    inside = rows["step"].is_not_null()
    stepped = _model_streams(rows if inside.all() else rows.filter(inside))
    placed = stepped.select(
        "row",
        "gpu",
        "step",
        "name",
        "stream",
        ns=pl.col("end_ns") - pl.col("start_ns"),
        position=pl.int_range(pl.len(), dtype=pl.UInt32).over("gpu", "step"),
    )
    # The sequence of names is the pattern; a sum of hashes over positions names it.
    content = pl.struct("position", "name").hash(seed=1) // 2**20
    placed = placed.with_columns(pattern=content.sum().over("gpu", "step"))
    typical = (
        placed.group_by("pattern", "position")
        .agg(pl.col("name", "stream").first(), pl.col("ns").median())
        .sort("pattern", "position")
    )
    sequences = [
        (rows.select("pattern", "position"), _launches(rows, classes))
        for rows in typical.partition_by("pattern", maintain_order=True)
    ]
    plan = _best_plan(plans, [launches for _, launches in sequences], floor_ns)
    covers: dict[tuple[int, ...], int] = {}
    penalties: list[float] = []
    labels = []
    for places, launches in sequences:
        found = align(launches, plan.operators, plan.bounds_ns, floor_ns=floor_ns).assignments
        labels.append(
            places.with_columns(
                _numbered(found, covers, penalties),
                pl.Series("main", [assignment.main for assignment in found], dtype=pl.Boolean),
            )
        )
    empty = (
        placed.select("pattern", "position")
        .clear()
        .with_columns(covers=pl.lit(None, dtype=pl.UInt32), main=pl.lit(None, dtype=pl.Boolean))
    )
    known = placed.select("row", "pattern", "position").join(
        pl.concat([empty, *labels]), on=["pattern", "position"], how="left"
    )
    unplaced = known.select("covers", "main").clear(kernels.height)
    columns = [column.scatter(known["row"], known[column.name]) for column in unplaced]
    return Placement(
        operators=plan.operators,
        kernels=kernels.with_columns(columns),
        covers=list(covers),
        penalties=penalties,
        patterns=len(labels),
    )


def _best_plan(
    plans: Sequence[Plan], sequences: Sequence[Sequence[Launch]], floor_ns: float
) -> Plan:
    """Return the plan with the highest score on the longest sequence.

    Where the fused ones leave hardly a matrix product over, the others are not tried.
    """
    longest = max(sequences, key=len, default=[])
    best, best_score, left_over = plans[0], -1e18, 0
    for plan in sorted(plans, key=lambda plan: not plan.fused):
        layers = sum(op.role == "attn.core" for op in plan.operators)
        if not plan.fused and 2 * left_over < max(layers, 1):
            break
        found = align(longest, plan.operators, plan.bounds_ns, floor_ns=floor_ns)
        if found.score <= best_score:
            continue
        best, best_score = plan, found.score
        if plan.fused:
            left_over = sum(
                not assignment.operators and _GEMM in launch.implements
                for assignment, launch in zip(found.assignments, longest, strict=True)
            )
    return best


def _launches(rows: pl.DataFrame, classes: Sequence[KernelClass]) -> list[Launch]:
    return [
        _launch(classes[name], stream, ns)
        for name, stream, ns in rows.select("name", "stream", "ns").iter_rows()
    ]


def _model_streams(rows: pl.DataFrame) -> pl.DataFrame:
    """Leave out streams that only prepare other work while the model runs.

    In a replayed step the model runs on the streams of the replay; in an eager one on those that
    hold more than a sliver of the kernel time.
    """
    if rows["replayed"].any():
        lanes = rows.lazy().filter("replayed").select("gpu", "stream").unique().collect()
        if rows.select("gpu", "stream").unique().height == lanes.height:
            return rows
        return rows.join(lanes, on=["gpu", "stream"], how="semi", maintain_order="left")
    ns = pl.col("end_ns") - pl.col("start_ns")
    share = ns.sum().over("gpu", "stream") / ns.sum().over("gpu")
    return rows.filter(share >= _SIDE_STREAM)


def _launch(kernel: KernelClass, stream: int, ns: float) -> Launch:
    entry = kernel_classes()[kernel.klass]
    served = [kinds for name in entry.of for kinds in implements_of(name)]
    return Launch(
        implements=kernel.implements,
        parts=kernel.parts,
        absorbed_by=entry.serves,
        serves=frozenset[str]().union(*served),
        stream=stream,
        ns=ns,
    )


def _numbered(
    found: Sequence[Assignment], covers: dict[tuple[int, ...], int], penalties: list[float]
) -> pl.Series:
    numbers: list[int | None] = []
    for assignment in found:
        if not assignment.operators:
            numbers.append(None)
            continue
        number = covers.setdefault(assignment.operators, len(covers))
        if number == len(penalties):
            penalties.append(0.0)
        penalties[number] = max(penalties[number], assignment.penalty)
        numbers.append(number)
    return pl.Series("covers", numbers, dtype=pl.UInt32)
