"""A step that runs as two half batches in turn, so that one computes while the other communicates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from nsysroof.theory.cost import Operator
from nsysroof.theory.kinds import LINK_KINDS
from nsysroof.theory.workload import Workload

_RETURNS = "moe.combine"  # the experts' results come back: the other half may go on


def split_workload(workload: Workload) -> tuple[Workload, Workload] | None:
    """Return the two halves of a step's sequences, the larger first; None for a single sequence.

    >>> halves = split_workload(Workload.create(context=[10, 20, 30]))
    >>> [half.contexts for half in halves]
    [(10, 20), (30,)]
    """
    if workload.batch == 1:
        return None
    half = (workload.batch + 1) // 2
    first = replace(workload, contexts=workload.contexts[:half])
    second = replace(workload, contexts=workload.contexts[half:])
    return first, second


def two_batch_layouts(
    layouts_of: Callable[[Workload], Sequence[Sequence[Operator]]], workload: Workload
) -> list[list[Operator]]:
    """Return the operators of a step whose layers run twice, once for each half of the batch.

    The halves take turns after each communication (dispatch, combine, all-reduce), or after each
    layer where nothing is communicated. What lies before the first layer and after the last runs
    once.

    Args:
        layouts_of: The ways in which an engine may run a step of a workload.
        workload: The whole step.

    >>> from nsysroof.theory.models.decoder import operators
    >>> from nsysroof.theory.models.spec import find_model
    >>> model = find_model("llama-3.1-8b")
    >>> step = two_batch_layouts(lambda w: [operators(model, w)], Workload.create(context=[64, 64]))
    >>> sum(op.role == "attn.core" for op in step[0]), sum(op.role == "lm_head" for op in step[0])
    (64, 1)
    """
    halves = split_workload(workload)
    if halves is None:
        return []
    return [
        _in_turn(whole, first, second)
        for whole, first, second in zip(
            layouts_of(workload), *(layouts_of(half) for half in halves), strict=True
        )
    ]


def _in_turn(
    whole: Sequence[Operator], first: Sequence[Operator], second: Sequence[Operator]
) -> list[Operator]:
    layered = [at for at, op in enumerate(whole) if op.layer is not None]
    found = list(whole[: layered[0]])
    for ours, theirs in zip(_stages(first), _stages(second), strict=True):
        found += [*ours, *theirs]
    return [*found, *whole[layered[-1] + 1 :]]


def _stages(operators: Sequence[Operator]) -> list[list[Operator]]:
    """Return the operators of all layers, cut where a half waits for the link."""
    inside = [op for op in operators if op.layer is not None]
    communicates = any(_waits(op) for op in inside)
    stages: list[list[Operator]] = [[]]
    for at, op in enumerate(inside):
        stages[-1].append(op)
        last = at + 1 == len(inside)
        ends_layer = not last and inside[at + 1].layer != op.layer
        if (_waits(op) if communicates else ends_layer) and not last:
            stages.append([])
    return stages


def _waits(op: Operator) -> bool:
    return op.kind in LINK_KINDS or op.role == _RETURNS
