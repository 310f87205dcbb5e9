"""From one step's alignment to every kernel of a run: equal steps are aligned once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from nsysroof.match.align import Alignment, Assignment, Launch, align
from nsysroof.match.classes import implements_of, kernel_classes
from nsysroof.match.context import with_cache_concats, with_shared_sums
from nsysroof.match.rules import KernelClass
from nsysroof.theory.cost import Operator
from nsysroof.theory.kinds import OperatorKind

_GEMM = frozenset({str(OperatorKind.GEMM)})
_SHARED = "moe.shared."
_UNPLACED = 2**32 - 1
_NO_ALIGNMENT = Alignment(assignments=[], score=-1e18)
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
        patterns: Distinct kernel sequences that were aligned; 0 where there is no operator.
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
            usual kernel sequence best is taken for all.
        floor_ns: Time that the smallest kernel takes.
    """
    known = any(plan.operators for plan in plans)
    shared = any(op.role.startswith(_SHARED) for plan in plans for op in plan.operators)
    patterns = _patterns(_stepped(kernels), classes, shared=shared) if known else []
    usual = _usual(patterns)
    plan, fitted = _best_plan(plans, usual.launches if usual else [], floor_ns)
    covers: dict[tuple[int, ...], int] = {}
    penalties: list[float] = []
    numbers = np.full(kernels.height, _UNPLACED, dtype=np.uint32)
    mains = np.zeros(kernels.height, dtype=bool)
    placed = np.zeros(kernels.height, dtype=bool)
    for pattern in patterns:
        found = (
            fitted
            if pattern is usual
            else align(pattern.launches, plan.operators, plan.bounds_ns, floor_ns=floor_ns)
        ).assignments
        numbers[pattern.rows] = _numbered(found, covers, penalties)
        mains[pattern.rows] = [assignment.main for assignment in found]
        placed[pattern.rows] = True
    columns = (
        pl.Series("covers", numbers).set(pl.Series(numbers == _UNPLACED), None),
        pl.Series("main", mains).set(pl.Series(~placed), None),
    )
    return Placement(
        operators=plan.operators,
        kernels=kernels.with_columns(columns),
        covers=list(covers),
        penalties=penalties,
        patterns=len(patterns),
    )


def _stepped(kernels: pl.DataFrame) -> pl.DataFrame:
    """Return the kernels of steps that the model may have launched, with their ``row``."""
    told = ("gpu", "stream", "start_ns", "end_ns", "name", "replayed", "step")
    rows = kernels.select(*told).with_row_index("row")
    inside = rows["step"].is_not_null()
    return _model_streams(rows if inside.all() else rows.filter(inside))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Pattern:
    """Steps with one sequence of kernel names.

    ``launches`` are the kernels with their median times; ``rows`` are the kernels' row numbers, a
    line for each of the steps.
    """

    launches: list[Launch]
    rows: npt.NDArray[np.uint32]


def _patterns(
    stepped: pl.DataFrame, classes: Sequence[KernelClass], *, shared: bool
) -> list[_Pattern]:
    """Return the distinct sequences of the steps, in the order of their first step.

    Args:
        stepped: Kernels of steps with their ``row``, sorted by GPU and start, so that the kernels
            of a step stand together.
        classes: Class of each distinct name.
        shared: Whether the model has experts that every token passes through.
    """
    if not stepped.height:
        return []
    gpu, step = stepped["gpu"].to_numpy(), stepped["step"].to_numpy()
    begins = np.append(True, (gpu[1:] != gpu[:-1]) | (step[1:] != step[:-1]))
    firsts = np.flatnonzero(begins)
    names = stepped["name"].to_numpy()
    alike: dict[bytes, list[int]] = {}
    for first, last in zip(firsts, np.append(firsts[1:], stepped.height), strict=True):
        alike.setdefault(names[first:last].tobytes(), []).append(int(first))
    rows = stepped["row"].to_numpy()
    ns = stepped.select(pl.col("end_ns") - pl.col("start_ns")).to_series().to_numpy()
    streams = stepped["stream"].to_numpy()
    found = []
    for sequence, starts in alike.items():
        length = len(sequence) // names.itemsize
        at = np.array(starts)[:, None] + np.arange(length)
        typical = zip(names[at[0]], streams[at[0]], np.median(ns[at], axis=0), strict=True)
        launches = [
            _launch(classes[name], int(stream), float(time)) for name, stream, time in typical
        ]
        launches = with_cache_concats(launches, [classes[name] for name in names[at[0]]])
        if shared:
            launches = with_shared_sums(launches)
        found.append(_Pattern(launches=launches, rows=rows[at]))
    return found


def _usual(patterns: Sequence[_Pattern]) -> _Pattern | None:
    """Return the sequence of most steps; of several, one of middle length.

    The longest may be two steps that were not told apart, the shortest one that was cut off.
    """
    most = max((len(pattern.rows) for pattern in patterns), default=0)
    often = [pattern for pattern in patterns if len(pattern.rows) == most]
    often.sort(key=lambda pattern: len(pattern.launches))
    return often[len(often) // 2] if often else None


def _best_plan(
    plans: Sequence[Plan], usual: Sequence[Launch], floor_ns: float
) -> tuple[Plan, Alignment]:
    """Return the plan with the highest score on the usual sequence, and its alignment.

    Where the fused ones leave hardly a matrix product over, the others are not tried.
    """
    best, fitted, left_over = plans[0], _NO_ALIGNMENT, 0
    for plan in sorted(plans, key=lambda plan: not plan.fused):
        layers = sum(op.role == "attn.core" for op in plan.operators)
        if not plan.fused and 2 * left_over < max(layers, 1):
            break
        found = align(usual, plan.operators, plan.bounds_ns, floor_ns=floor_ns)
        if found.score <= fitted.score:
            continue
        best, fitted = plan, found
        if plan.fused:
            left_over = sum(
                not assignment.operators and _GEMM in launch.implements
                for assignment, launch in zip(found.assignments, usual, strict=True)
            )
    return best, fitted


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
) -> list[int]:
    numbers: list[int] = []
    for assignment in found:
        if not assignment.operators:
            numbers.append(_UNPLACED)
            continue
        number = covers.setdefault(assignment.operators, len(covers))
        if number == len(penalties):
            penalties.append(0.0)
        penalties[number] = max(penalties[number], assignment.penalty)
        numbers.append(number)
    return numbers
