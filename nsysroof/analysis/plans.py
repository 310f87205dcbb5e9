"""The ways in which an engine may run the steps: what the kernels are aligned with."""

from __future__ import annotations

from collections.abc import Sequence

from nsysroof.analysis.options import Options
from nsysroof.analysis.theory import drafting_of
from nsysroof.match.assign import Plan
from nsysroof.theory.cost import Operator
from nsysroof.theory.kinds import ATTENTION_KINDS
from nsysroof.theory.models.batches import two_batch_layouts
from nsysroof.theory.models.decoder import operators
from nsysroof.theory.models.separate import fused_layouts, separate_layouts
from nsysroof.theory.models.spec import ModelSpec
from nsysroof.theory.peaks import Peaks
from nsysroof.theory.roofline import bound, link_of
from nsysroof.theory.workload import Workload


def make_plans(
    model: ModelSpec,
    workload: Workload,
    options: Options,
    peaks: Peaks,
    *,
    value_first: bool,
    attention_calls: int,
) -> list[Plan]:
    """Return the ways in which a step may run, the likeliest first.

    Args:
        model: The model that the step runs.
        workload: What the step holds.
        options: Whether another model drafts in the same step.
        peaks: What the bounds are divided by.
        value_first: Whether the engine's graph projects V before K.
        attention_calls: Launches of attention in a step; twice as many as the model has layers
            may be two half batches in turn.
    """

    def layouts_of(step: Workload) -> list[list[Operator]]:
        return fused_layouts(operators(model, step, in_switch_reduction=peaks.in_switch_reduction))

    fused = layouts_of(workload)
    apart = separate_layouts(fused[0], value_first=value_first)
    if attention_calls == 2 * sum(op.kind in ATTENTION_KINDS for op in fused[0]):
        fused += two_batch_layouts(layouts_of, workload)
    drafting = drafting_of(options, model, workload)
    return [
        _plan(layout, peaks, fused=is_fused)
        for is_fused, layouts in ((True, fused), (False, apart))
        for found in layouts
        # Drafts are made from what was verified: after it, or first in the next step.
        for layout in ([*found, *drafting], [*drafting, *found])[: 2 if drafting else 1]
    ]


def _plan(layout: Sequence[Operator], peaks: Peaks, *, fused: bool) -> Plan:
    bounds = [bound(op.min_cost or op.cost, peaks, link=link_of(op)).spec_ns for op in layout]
    return Plan(fused=fused, operators=list(layout), bounds_ns=bounds)
