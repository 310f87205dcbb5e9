"""The best a model can do on a GPU, without a trace: per operator, per layer and per step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from math import fsum

from nsysroof.errors import UsageError
from nsysroof.results import (
    Assumptions,
    Estimate,
    EstimateLayer,
    EstimateRow,
    EstimateStep,
    PeakUsed,
)
from nsysroof.theory.cost import Cost, Operator
from nsysroof.theory.dtypes import FLOAT_BYTES
from nsysroof.theory.feasibility import must_fit
from nsysroof.theory.gpus import Gpu
from nsysroof.theory.kinds import ATTENTION_KINDS, LINK_KINDS, MATMUL_KINDS
from nsysroof.theory.models.decoder import operators
from nsysroof.theory.models.feedforward import Routing
from nsysroof.theory.models.layers import Layer, Moe
from nsysroof.theory.models.spec import ModelSpec
from nsysroof.theory.models.stage import kv_format
from nsysroof.theory.models.weights import cache_bytes, count_parameters, quoted_active_bytes
from nsysroof.theory.offload import offload
from nsysroof.theory.peaks import Peaks
from nsysroof.theory.roofline import Bound, bound, link_of, operator_bound, ridges, step_bounds
from nsysroof.theory.workload import Workload
from nsysroof.units import format_bytes

NS_PER_S = 1e9
_DRAFT_NOTE = (
    "the step drafts its tokens too; what must fit in memory is without the draft model, and how "
    "many drafts are accepted only --tokens-per-step can tell"
)


def estimate(
    model: ModelSpec,
    gpu: Gpu | Peaks,
    workload: Workload,
    *,
    floor_ns: float | None = None,
    roofs: Peaks | None = None,
    drafting: Sequence[Operator] = (),
) -> Estimate:
    """Return what one step of a model takes at the least on a GPU.

    Args:
        model: The decoder.
        gpu: The GPU, or peaks that were resolved from it and from the user.
        workload: The step.
        floor_ns: Latency floor of a small kernel; None: small kernels are counted, not timed.
        roofs: Measured roofs, for ``reachable_ns`` only.
        drafting: Operators that draft the tokens which the step verifies; they belong to the step.

    Raises:
        UsageError: The workload does not fit the model, or a peak that it needs is not known.

    >>> from nsysroof.theory.gpus import find_gpu
    >>> from nsysroof.theory.models.spec import find_model
    >>> found = estimate(
    ...     find_model("qwen3-30b-a3b"), find_gpu("gh200-96"), Workload.create(context=4096))
    >>> found.layer.bytes, round(found.layer.bound_ns, 3), round(found.step.tokens_per_s, 1)
    (122159104, 30539.776, 616.7)
    """
    peaks = gpu.dense_peaks() if isinstance(gpu, Gpu) else gpu
    every = operators(model, workload, in_switch_reduction=peaks.in_switch_reduction)
    verified = [op for op in every if not op.auxiliary]
    step = [*verified, *(op for op in drafting if not op.auxiliary)]
    judge = _Judge(peaks=peaks, reachable=None if roofs is None else peaks.overlaid(roofs))
    notes = () if roofs is None else roofs.notes
    return Estimate(
        tool_version=version("nsysroof"),
        assumptions=_assumptions(model, peaks, workload, floor_ns, notes),
        operators=_rows(step, judge, floor_ns),
        layer=_layer(model, verified, judge),
        # What an engine may fuse away is no part of a bound on the whole step.
        step=_step(model, [op for op in step if not op.optional], judge, workload, floor_ns),
        memory=must_fit(model, workload, peaks),
        offload=offload(step, workload, peaks),
        ridge=ridges(peaks),
        experts=_experts(model, workload),
        parameters=_parameters(model),
        notes=[
            *model.notes,
            *_layer_notes(model),
            *_method_notes(model, workload),
            *([_DRAFT_NOTE] if drafting else []),
        ],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judge:
    """Turns operators into times; a peak that is not known is an error here."""

    peaks: Peaks
    reachable: Peaks | None

    def bound(self, operator: Operator, floor_ns: float | None = None) -> Bound:
        found = operator_bound(operator, self.peaks, floor_ns=floor_ns)
        if found.missing:
            raise _missing_peak(found.missing[0], operator, self.peaks)
        return found

    def spec_ns(self, operator: Operator) -> float:
        return self.bound(operator).spec_ns or 0.0

    def resident_ns(self, operator: Operator) -> float:
        """Return the time without activations, which small steps keep in L2."""
        found = bound(resident_cost(operator.cost), self.peaks, link=link_of(operator))
        return found.spec_ns or 0.0

    def reachable_ns(self, operator: Operator) -> float | None:
        if self.reachable is None:
            return None
        return operator_bound(operator, self.reachable).spec_ns


def _missing_peak(key: str, operator: Operator, peaks: Peaks) -> UsageError:
    card = peaks.gpu or "the GPU"
    hint = f"give --peak {key}=VALUE"
    if key in ("fp8", "fp4", "int8"):
        hint += ", or --activations bf16 where the weights are expanded before the product"
    return UsageError(
        f"no {key} peak of {card} is known, and {operator.role} needs it",
        hint=hint,
        slug="unknown-peak",
        where=f"--peak {key}",
    )


def resident_cost(cost: Cost) -> Cost:
    """Return a cost without its activations: weights, scales, KV, state and links stay.

    >>> resident_cost(Cost(weight=4, act_read=2, link=1))
    Cost(flop={}, weight=4, scale=0, act_read=0, act_write=0, kv_read=0, kv_write=0, state=0, link=1)
    """
    return Cost(
        flop=dict(cost.flop),
        weight=cost.weight,
        scale=cost.scale,
        kv_read=cost.kv_read,
        kv_write=cost.kv_write,
        state=cost.state,
        link=cost.link,
    )


def is_core(operator: Operator) -> bool:
    """Return whether an operator is a matrix product or mixes tokens: what a layer is judged by."""
    return operator.kind in MATMUL_KINDS or operator.kind in ATTENTION_KINDS


def is_small(operator: Operator) -> bool:
    """Return whether an operator is one of a layer's small kernels, at the latency floor."""
    return (
        operator.layer is not None
        and not operator.optional
        and not operator.auxiliary
        and not is_core(operator)
        and operator.kind not in LINK_KINDS
    )


def _rows(step: Sequence[Operator], judge: _Judge, floor_ns: float | None) -> list[EstimateRow]:
    """Return one row per role and distinct cost, in order of first appearance."""
    groups: dict[tuple[object, ...], list[Operator]] = {}
    for op in step:
        groups.setdefault((op.role, tuple(sorted(op.cost.flop.items())), op.cost.bytes), []).append(
            op
        )
    return [_row(group[0], len(group), judge, floor_ns) for group in groups.values()]


def _row(op: Operator, count: int, judge: _Judge, floor_ns: float | None) -> EstimateRow:
    found = judge.bound(op, floor_ns)
    least = None
    if op.min_cost is not None:
        least = bound(op.min_cost, judge.peaks, link=link_of(op)).spec_ns
    return EstimateRow(
        role=op.role,
        kind=op.kind,
        count=count,
        flop=op.cost.total_flop,
        bytes=op.cost.bytes,
        bound_ns=found.spec_ns or 0.0,
        resident_ns=judge.resident_ns(op),
        min_bound_ns=least,
        reachable_ns=judge.reachable_ns(op),
        limiter="memory" if found.limiter is None else found.limiter.value,
        intensity=found.intensity,
        dtype=op.dtype,
        formula=op.formula,
        inputs=dict(op.inputs),
        optional=op.optional,
    )


def repeating_layer(model: ModelSpec) -> tuple[Layer, int]:
    """Return the commonest kind of layer and how many of it there are, the first one on a tie."""
    counts = Counter(model.layers)
    layer = max(counts, key=lambda kind: counts[kind])
    return layer, counts[layer]


def _layer(model: ModelSpec, step: Sequence[Operator], judge: _Judge) -> EstimateLayer:
    layer, count = repeating_layer(model)
    index = model.layers.index(layer)
    inside = [op for op in step if op.layer == index]
    core = [op for op in inside if is_core(op)]
    total = sum((op.cost for op in core), Cost())
    return EstimateLayer(
        layers=count,
        bytes=total.resident_bytes,
        bound_ns=_sum(core, judge.resident_ns),
        activation_bytes=total.act_read + total.act_write,
        bound_with_activations_ns=_sum(core, judge.spec_ns),
        small_kernels=sum(is_small(op) for op in inside),
    )


def _step(
    model: ModelSpec,
    step: Sequence[Operator],
    judge: _Judge,
    workload: Workload,
    floor_ns: float | None,
) -> EstimateStep:
    serial = [op for op in step if is_core(op) or op.cost.link]
    serial_ns = _sum(serial, judge.resident_ns)
    small = sum(is_small(op) for op in step)
    small_ns = None if floor_ns is None else small * floor_ns
    floors = step_bounds([op.cost for op in step], judge.peaks, links=[link_of(op) for op in step])
    total = sum((op.cost for op in step), Cost())
    tokens = workload.yielded_tokens
    quoted = Cost(weight=quoted_active_bytes(model, workload) // workload.tp)
    return EstimateStep(
        serial_ns=serial_ns,
        serial_bytes=sum(op.cost.resident_bytes for op in serial),
        serial_with_activations_ns=_sum(step, judge.spec_ns),
        serial_reachable_ns=_reachable_sum(serial, judge),
        hard_ns=floors.hard_ns or 0.0,
        memory_ns=floors.memory_ns,
        compute_ns=floors.compute_ns,
        link_ns=floors.link_ns,
        weights_once_ns=floors.weights_once_ns or 0.0,
        quoted_active_ns=bound(quoted, judge.peaks).spec_ns,
        small_kernels_ns=small_ns,
        tokens=tokens,
        tokens_per_s=tokens / serial_ns * NS_PER_S,
        tokens_per_s_with_small_kernels=None
        if small_ns is None
        else tokens / (serial_ns + small_ns) * NS_PER_S,
        bytes=total.memory_bytes,
        flop=total.total_flop,
    )


def _sum(each: Sequence[Operator], time: Callable[[Operator], float]) -> float:
    return fsum(time(op) for op in each)


def _reachable_sum(each: Sequence[Operator], judge: _Judge) -> float | None:
    if judge.reachable is None:
        return None
    roofs = judge.reachable
    return sum(bound(resident_cost(op.cost), roofs, link=link_of(op)).spec_ns or 0.0 for op in each)


def _experts(model: ModelSpec, workload: Workload) -> dict[str, float] | None:
    for layer in model.layers:
        if isinstance(layer.ffn, Moe):
            routing = Routing.of(layer.ffn, workload)
            found = {
                "expected": routing.expected,
                "minimum": routing.fewest,
                "maximum": routing.most,
            }
            if routing.same_groups is not None:
                found["same_groups"] = routing.same_groups
            return found
    return None


def _parameters(model: ModelSpec) -> dict[str, int]:
    counts = count_parameters(model)
    return {
        "total": counts.total,
        "active": counts.active,
        "active_with_head": counts.active_with_head,
        "active_with_embedding": counts.active_with_embedding,
    }


def _layer_notes(model: ModelSpec) -> list[str]:
    layer, count = repeating_layer(model)
    if count == len(model.layers):
        return []
    first = model.layers.index(layer)
    total = len(model.layers)
    return [f"layers differ: the one shown is number {first}, one of {count} alike of {total}"]


def _method_notes(model: ModelSpec, workload: Workload) -> list[str]:
    """Return why the one-line floor with quoted parameters is not the one with bytes read."""
    if workload.phase != "decode":
        return []
    counts = count_parameters(model)
    quoted = counts.active_with_embedding
    unread = (quoted - counts.active_with_head) * FLOAT_BYTES[model.dtype]
    cached = format_bytes(cache_bytes(model, workload))
    parts = [f"a floor from the {quoted / 1e9:.2f} B active parameters as quoted"]
    if unread:
        parts.append(f"counts {format_bytes(unread)} of embedding that no step reads and")
    parts.append(f"leaves out {cached} of KV cache")
    if model.is_moe and workload.batch > 1:
        parts.append("and the experts that further tokens choose")
    parts.append("and agrees with the others by luck where it does")
    return [" ".join(parts)]


def _assumptions(
    model: ModelSpec,
    peaks: Peaks,
    workload: Workload,
    floor_ns: float | None,
    notes: Sequence[str],
) -> Assumptions:
    quantised = model.quantisation.weights
    configured = model.dtype if quantised is None else quantised.name
    usual = 1 if workload.phase == "decode" and workload.query_lengths is None else None
    return Assumptions(
        model=model.name,
        gpu=peaks.gpu,
        batch=workload.batch,
        context=list(workload.contexts),
        new_tokens=workload.new_tokens or usual,
        query_lengths=list(workload.query_lengths) if workload.query_lengths else None,
        phase=workload.phase,
        weights=workload.weights or configured,
        kv=kv_format(model, workload),
        activations=workload.activations,
        tp=workload.tp,
        ep=workload.ep,
        dp=workload.dp,
        experts=workload.experts,
        floor_us=None if floor_ns is None else floor_ns / 1e3,
        tokens_per_step=workload.tokens_per_step,
        shared_prefix=workload.shared_prefix or None,
        peaks=[PeakUsed(key=k, value=float(p.value), source=p.source) for k, p in peaks.items()],
        notes=[*peaks.notes, *notes],
    )
