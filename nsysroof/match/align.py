"""Which kernel is which operator: one step's kernels aligned with the model's operators.

Both are sequences in order, so the question is the one of sequence alignment (Needleman and
Wunsch, 1970): match, skip an operator (fused away or left out), or skip a kernel (unexplained).
A match needs a kernel class that can implement the operator, and scores by how well the measured
time fits the operator's bound; no role follows from a name alone. One kernel may cover several consecutive
operators, and a chain of element-wise kernels one operator. Kernels that serve an operator
(split-K reductions, attention combines) are absorbed by it afterwards, and neighbours that an
engine runs in the other order are paired.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from nsysroof.theory.cost import Operator
from nsysroof.theory.kinds import ATTENTION_KINDS, LINK_KINDS, MATMUL_KINDS, OperatorKind

Floats = npt.NDArray[np.float64]

_ATTENTION = "attention"  # whether a kernel prefills or decodes is the workload's to say
_HEAVY, _LINK, _LIGHT, _SLIGHT = 6.0, 4.0, 2.0, 0.5  # score of a match by what it explains
_SLIGHT_KINDS = frozenset(
    {OperatorKind.RESIDUAL_ADD, OperatorKind.QUANTIZE, OperatorKind.MOE_ALIGN}
)
_SKIP_OPTIONAL = 0.05
_SKIP_SHARE = 0.5  # of what a match would have scored, for an operator that must run somewhere
_SKIP_KERNEL, _SKIP_UNKNOWN = 0.8, 0.2
_FAST, _SLOW = 0.9, 3.0  # measured over bound: no penalty between
_FAST_SLOPE, _SLOW_SLOPE = 4.0, 0.5  # score lost per factor of two outside
_FAST_CAP, _SLOW_CAP = 8.0, 3.0
_REPEATED_KINDS = frozenset(
    {
        OperatorKind.QK_NORM,
        OperatorKind.ROPE,
        OperatorKind.KV_WRITE,
        OperatorKind.QUANTIZE,
        OperatorKind.TOPK,
        OperatorKind.MOE_ALIGN,
        OperatorKind.MOE_PERMUTE,
        OperatorKind.SAMPLING,
    }
)  # operators that engines spread over several launches, such as K and V written apart
_INTERLEAVED = frozenset({OperatorKind.QK_NORM, OperatorKind.ROPE, OperatorKind.KV_WRITE})
"""Operators on queries, keys and values apart, which engines run in any order."""
_NEVER_SWAPPED = frozenset({OperatorKind.CAST})  # casts are too common to pair out of order
_STEP_OF_CHAIN = 0.6  # score of each kernel that is one of several steps of an operator
_REACH = 4  # kernels and operators that far apart may still be swapped neighbours
_NO_MATCH = -1e18


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """One kernel of a step as the aligner sees it.

    Attributes:
        implements: Sets of operator kinds that one launch of its class can compute.
        parts: Operator kinds that it can be one of several steps of.
        absorbed_by: ``previous`` or ``next``: the neighbour that a helper kernel serves;
            ``earlier``: the last one before it that it can serve, whatever lies between.
        serves: Operator kinds that it can serve.
        stream: Stream, for finding the neighbour.
        ns: Typical duration.
    """

    implements: tuple[frozenset[str], ...]
    parts: frozenset[str] = frozenset()
    absorbed_by: str | None = None
    serves: frozenset[str] = frozenset()
    stream: int = 0
    ns: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """What one kernel was found to be; no operators: unexplained.

    ``main`` is False for a kernel that only serves its operator. ``penalty`` is the score that
    its time cost it: 0 where the time fits.
    """

    operators: tuple[int, ...] = ()
    main: bool = True
    penalty: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """One assignment per kernel; of two plans of a step the one with the higher score fits."""

    assignments: list[Assignment]
    score: float


def align(
    launches: Sequence[Launch],
    operators: Sequence[Operator],
    bounds_ns: Sequence[float | None],
    *,
    floor_ns: float,
) -> Alignment:
    """Return one assignment per launch, with the score of the whole.

    Args:
        launches: n kernels of one step in order of start.
        operators: m operators of the step in model order.
        bounds_ns: The least time of each operator; None where it is not known, which leaves
            its match to order and class.
        floor_ns: Time that the smallest kernel takes.
    """
    table = _Table(operators, bounds_ns, floor_ns)
    found, score = _trace_back(launches, table)
    _pair_swapped(found, launches, table)
    _absorb(found, launches, table)
    return Alignment(assignments=found, score=score)


class _Table:
    """The operators as arrays, and the score of matching a kernel with each stretch of them."""

    def __init__(
        self, operators: Sequence[Operator], bounds_ns: Sequence[float | None], floor_ns: float
    ) -> None:
        self.kinds = [_merge_phases(operator.kind) for operator in operators]
        self.size = len(operators)
        self.weight = np.array([_weight(kind) for kind in self.kinds])
        self.skip = np.array(
            [
                _SKIP_OPTIONAL if op.optional or op.auxiliary else weight * _SKIP_SHARE
                for op, weight in zip(operators, self.weight, strict=True)
            ]
        )
        self.bounds = np.array([np.nan if ns is None else ns for ns in bounds_ns], dtype=float)
        self.floor_ns = floor_ns
        self._ends: dict[frozenset[str], tuple[npt.NDArray[np.intp], Floats, Floats]] = {}
        self._single: dict[frozenset[str], npt.NDArray[np.intp]] = {}

    def stretches(self, kinds: frozenset[str]) -> tuple[npt.NDArray[np.intp], Floats, Floats]:
        """Return the ends, weights and bounds of the stretches that hold exactly these kinds."""
        if kinds not in self._ends:
            size = len(kinds)
            ends = [
                end
                for end in range(size, self.size + 1)
                if set(self.kinds[end - size : end]) == kinds
            ]
            at = np.array(ends, dtype=np.intp)
            weights = np.array([self.weight[end - size : end].sum() for end in ends])
            bounds = np.array([self.bounds[end - size : end].sum() for end in ends])
            self._ends[kinds] = (at, weights, bounds)
        return self._ends[kinds]

    def ends_of(self, kinds: frozenset[str]) -> npt.NDArray[np.intp]:
        """Return the ends of single operators of any of these kinds."""
        if kinds not in self._single:
            ends = [at + 1 for at, kind in enumerate(self.kinds) if kind in kinds]
            self._single[kinds] = np.array(ends, dtype=np.intp)
        return self._single[kinds]

    def holds(self, assignment: Assignment, kinds: frozenset[str]) -> bool:
        """Return whether one of the operators is of one of these kinds."""
        wanted = _merge_set(kinds)
        return any(self.kinds[at] in wanted for at in assignment.operators)

    def penalty(self, ns: float, bounds: Floats) -> Floats:
        """Return the score lost where the time does not fit; 0 where no bound is known."""
        fit = ns / np.maximum(bounds, self.floor_ns)
        # A kernel may beat the floor, which is only typical, but not the bound by much.
        hard = ns / np.maximum(bounds, 1.0)
        fast = _FAST_SLOPE * np.log2(_FAST / np.maximum(hard, 1e-9))
        slow = _SLOW_SLOPE * np.log2(np.maximum(fit, 1e-9) / _SLOW)
        # Called for every kernel: np.clip and np.nan_to_num take as long as all the rest.
        lost = np.minimum(np.maximum(fast, 0.0), _FAST_CAP)
        lost += np.minimum(np.maximum(slow, 0.0), _SLOW_CAP)
        lost[np.isnan(lost)] = 0.0
        return lost


@dataclass(frozen=True, slots=True)
class _Paths:
    """How each cell of the table was reached, by (kernels used, operators used).

    ``choice`` numbers the stretch that a kernel matched, or is ``_SKIPPED`` or ``_CHAINED``;
    ``came_from`` is the column before operators were skipped; ``chain`` says whether the open
    chain of a cell began with this kernel, went on with it, or waited while it was foreign.
    """

    choice: npt.NDArray[np.int8]
    came_from: npt.NDArray[np.int32]
    chain: npt.NDArray[np.int8]


_SKIPPED, _CHAINED = -1, -2
_WAITS, _BEGINS, _GOES_ON = 0, 1, 2


def _trace_back(launches: Sequence[Launch], table: _Table) -> tuple[list[Assignment], float]:
    """Fill the table row by row and walk the best path back; return it with its score."""
    options = [
        sorted({_merge_set(kinds) for kinds in one.implements}, key=lambda s: (-len(s), sorted(s)))
        for one in launches
    ]
    paths, score = _fill(launches, options, table)
    found = [Assignment()] * len(launches)
    column, chained = table.size, False
    for row in range(len(launches), 0, -1):
        launch = launches[row - 1]
        if not chained:
            column = int(paths.came_from[row, column])
            number = int(paths.choice[row, column])
            chained = number == _CHAINED
        if chained:
            state = int(paths.chain[row, column])
            if state != _WAITS:
                found[row - 1] = Assignment(operators=(column - 1,))
            if state == _BEGINS:
                column, chained = column - 1, False
        elif number >= 0:
            first = column - len(options[row - 1][number])
            bound = table.bounds[first:column].sum(keepdims=True)
            penalty = float(table.penalty(launch.ns, bound)[0])
            found[row - 1] = Assignment(operators=tuple(range(first, column)), penalty=penalty)
            column = first
    return found, score


def _fill(
    launches: Sequence[Launch], options: Sequence[Sequence[frozenset[str]]], table: _Table
) -> tuple[_Paths, float]:
    rows, size = len(launches), table.size
    skipped = np.concatenate(([0.0], np.cumsum(table.skip)))
    paths = _Paths(
        choice=np.full((rows + 1, size + 1), _SKIPPED, dtype=np.int8),
        came_from=np.zeros((rows + 1, size + 1), dtype=np.int32),
        chain=np.full((rows + 1, size + 1), _WAITS, dtype=np.int8),
    )
    columns = np.arange(size + 1)
    best = -skipped
    chain = np.full(size + 1, _NO_MATCH)
    for row, launch in enumerate(launches, start=1):
        reached = best - _skip_kernel(launch)
        # Before the model's first operator and after its last, other kernels cost nothing.
        reached[[0, size]] = best[[0, size]]
        for number, kinds in enumerate(options[row - 1]):
            ends, weights, bounds = table.stretches(kinds)
            if not ends.size:
                continue
            score = best[ends - len(kinds)] + weights - table.penalty(launch.ns, bounds)
            better = score > reached[ends]
            reached[ends[better]] = score[better]
            paths.choice[row, ends[better]] = number
        chain = chain - _skip_kernel(launch)
        ends = table.ends_of(launch.parts)
        if ends.size:
            begun = best[ends - 1] + _STEP_OF_CHAIN
            gone_on = chain[ends] + _skip_kernel(launch) + _STEP_OF_CHAIN
            chain[ends] = np.maximum(begun, gone_on)
            paths.chain[row, ends] = np.where(begun > gone_on, _BEGINS, _GOES_ON)
            better = chain[ends] > reached[ends]
            reached[ends[better]] = chain[ends[better]]
            paths.choice[row, ends[better]] = _CHAINED
        # Operators skipped after this kernel: the running best of what came before.
        lifted = reached + skipped
        ahead = np.maximum.accumulate(lifted)
        paths.came_from[row] = np.maximum.accumulate(np.where(lifted == ahead, columns, 0))
        best = ahead - skipped
    return paths, float(best[size])


def _pair_swapped(found: list[Assignment], launches: Sequence[Launch], table: _Table) -> None:
    """Pair operators and kernels left over side by side: an engine ran them in another order."""
    taken = {at for assignment in found for at in assignment.operators}
    for row, launch in enumerate(launches):
        if found[row].operators or not launch.implements:
            continue
        near = [
            at for other in found[max(0, row - _REACH) : row + _REACH + 1] for at in other.operators
        ]
        if not near:
            continue
        low, high = min(near) - _REACH, max(near) + _REACH + 1
        for kinds in sorted(launch.implements, key=len, reverse=True):
            ends, weights, bounds = table.stretches(_merge_set(kinds))
            free = np.array(
                [
                    low + len(kinds) <= end <= high
                    and not taken.intersection(range(end - len(kinds), end))
                    and table.kinds[end - 1] not in _NEVER_SWAPPED
                    for end in ends
                ],
                dtype=bool,
            )
            if not free.any():
                continue
            lost = np.where(free, table.penalty(launch.ns, bounds), np.inf)
            pick = int(lost.argmin())
            if lost[pick] < weights[pick]:
                covered = tuple(range(int(ends[pick]) - len(kinds), int(ends[pick])))
                found[row] = Assignment(operators=covered, penalty=float(lost[pick]))
                taken.update(covered)
                break


def _absorb(found: list[Assignment], launches: Sequence[Launch], table: _Table) -> None:
    """Give helper kernels, and repeats of one small operator, to the neighbour they serve."""
    for row, launch in enumerate(launches):
        if found[row].operators:
            continue
        lone = (next(iter(kinds)) for kinds in launch.implements if len(kinds) == 1)
        repeated = _REPEATED_KINDS.intersection(lone)
        chances = (
            (launch.absorbed_by, launch.serves),
            ("previous", repeated),
            ("next", repeated),
            ("near", repeated & _INTERLEAVED),
        )
        for direction, kinds in chances:
            if direction is None or not kinds:
                continue
            if direction in ("earlier", "near"):
                reach = range(row - 1, -1, -1) if direction == "earlier" else _around(row, found)
                served = next((at for at in reach if table.holds(found[at], kinds)), None)
            else:
                served = _neighbour(found, launches, row, forward=direction == "next")
            if served is not None and table.holds(found[served], kinds):
                found[row] = Assignment(operators=found[served].operators, main=False)
                break
        else:
            _join_chain(found, launches, row, table)


def _join_chain(
    found: list[Assignment], launches: Sequence[Launch], row: int, table: _Table
) -> None:
    """Give a step of a chain that another operator interrupts to the rest of its chain."""
    parts = launches[row].parts
    for other in _around(row, found):
        if found[other].main and table.holds(found[other], parts & launches[other].parts):
            found[row] = Assignment(operators=found[other].operators)
            return


def _around(row: int, found: Sequence[Assignment]) -> list[int]:
    """Return the rows within reach, the nearest first."""
    rows = range(max(0, row - _REACH), min(len(found), row + _REACH + 1))
    return sorted(rows, key=lambda other: abs(other - row))


def _neighbour(
    found: Sequence[Assignment], launches: Sequence[Launch], row: int, *, forward: bool
) -> int | None:
    """Return the nearest main kernel of the same stream before or after a row."""
    rows = range(row + 1, len(launches)) if forward else range(row - 1, -1, -1)
    for other in rows:
        if launches[other].stream == launches[row].stream and found[other].operators:
            return other if found[other].main or not forward else None
    return None


def _merge_phases(kind: str) -> str:
    phases = (OperatorKind.ATTENTION_DECODE, OperatorKind.ATTENTION_PREFILL)
    return _ATTENTION if kind in phases else str(kind)


def _merge_set(kinds: frozenset[str]) -> frozenset[str]:
    return frozenset(_merge_phases(kind) for kind in kinds)


def _weight(kind: str) -> float:
    if kind == _ATTENTION or kind in MATMUL_KINDS or kind in ATTENTION_KINDS:
        return _HEAVY
    if kind in LINK_KINDS:
        return _LINK
    return _SLIGHT if kind in _SLIGHT_KINDS else _LIGHT


def _skip_kernel(launch: Launch) -> float:
    if launch.absorbed_by is not None:
        return 0.0
    return _SKIP_KERNEL if launch.implements else _SKIP_UNKNOWN
