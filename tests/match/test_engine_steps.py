"""Steps of real engines, repeated for every layer, come out with every role right."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from functools import cache

import pytest

from nsysroof.analysis import Options
from nsysroof.analysis.plans import make_plans
from nsysroof.match.assign import place_operators
from nsysroof.match.engines import projects_value_first
from nsysroof.match.phases import attention_names
from nsysroof.match.rules import KernelClass, load_rules
from nsysroof.theory.gpus import find_gpu
from nsysroof.theory.models.batches import split_workload
from nsysroof.theory.models.decoder import operators
from nsysroof.theory.models.layers import Attention
from nsysroof.theory.models.separate import separate_layouts
from nsysroof.theory.models.spec import ModelSpec, find_model
from nsysroof.theory.roofline import bound, link_of
from nsysroof.theory.workload import Workload
from tests.match.engine_steps import (
    GPT_OSS,
    HYBRIDS,
    SEQUENCES,
    STEPS,
    EngineStep,
    Roles,
    gpt_oss_launches,
    names_of,
)
from tests.match.one_step import kernels_of_step, roles_of

pytestmark = pytest.mark.skipif(
    not SEQUENCES.exists(), reason="the published sequences are not here"
)

EMBED = "void at::native::(anonymous namespace)::indexSelectSmallIndex<c10::BFloat16, long>(int)"
PLAIN_NORM = "void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*)"
HEAD = "nvjet_tst_192x8_64x8_4x1_v_bz_TNT"
ARGMAX = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4> >"
FOREIGN = (
    "void at::native::vectorized_elementwise_kernel<4, at::native::AbsFunctor<float>>",
    "my_debug_checksum_kernel",
    "void at::native::elementwise_kernel<128, 4, at::native::gpu_kernel_impl_nocast<at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>>",
    "_compute_slot_mapping_kernel",
    "void cub::DeviceScanKernel<cub::AgentScanPolicy<128, 15, int> >",
)
FLOOR_NS = 1300.0


@dataclass(frozen=True)
class Kernel:
    """One launch of the step, the roles that are right for it, and its place in the layer."""

    name: str
    roles: Roles
    place: int | None = None


@cache
def model_of(step: EngineStep) -> ModelSpec:
    """Return the model of the published layer alone: without dense layers before routed ones."""
    model = find_model(step.model)
    last = model.layers[-1]
    layers = [layer for layer in model.layers if layer.ffn == last.ffn]
    if step.dense is not None:
        layers = [replace(layer, ffn=step.dense) for layer in layers]
    return replace(model, layers=tuple(layers))


@cache
def bounds_of(step: EngineStep, workload: Workload) -> dict[str, float]:
    """Return the bound of each role in ns."""
    peaks = find_gpu(step.gpu).dense_peaks()
    every = operators(model_of(step), workload)
    bounds: dict[str, float] = {}
    for layout in (every, *separate_layouts(every)):
        for op in layout:
            spec = bound(op.cost, peaks, link=link_of(op)).spec_ns
            assert spec is not None, op.role
            bounds[op.role] = spec
    return bounds


def written_down(step: EngineStep) -> list[Kernel]:
    """Return the whole step: embedding, every layer, final norm, LM head, sampling."""
    if step is GPT_OSS:
        return [Kernel(name, roles) for name, roles in gpt_oss_launches()]
    mixers = [layer.mixer for layer in model_of(step).layers]
    layers = len(mixers)
    block = [
        Kernel(name, roles, place)
        for place, (name, roles) in enumerate(zip(names_of(step), step.layer, strict=True))
    ]
    if step.later is not None:
        block[0] = replace(block[0], name=step.later)
    found = [Kernel(EMBED, ("embed",))]
    starts_at_norm = any("norm" in str(role) for role in block[0].roles)
    if not starts_at_norm:
        found.append(Kernel(PLAIN_NORM, ("attn.norm",)))
    full = [Kernel(name, roles) for name, roles in step.attention]
    for layer, mixer in enumerate(mixers):
        softmax = full and isinstance(mixer, Attention)
        found += [_at(kernel, layer, layers) for kernel in (full if softmax else block)]
    if step.first is not None:
        found[1] = replace(found[1], name=step.first)
    if starts_at_norm:
        found += _final_norm(block)
    return [*found, Kernel(HEAD, ("lm_head",)), Kernel(ARGMAX, ("sample",))]


def _at(kernel: Kernel, layer: int, layers: int) -> Kernel:
    roles = kernel.roles
    if layer == 0:  # nothing to add to before the first layer
        roles = tuple(role and role.removeprefix("mlp.residual+") for role in roles)
    if layer == layers - 1:  # what follows the last layer is the final norm
        roles = tuple(
            role.replace("mlp.residual+attn.norm", "mlp.residual+final_norm")
            if role and "all_reduce" in role
            else role
            for role in roles
        )
    return replace(kernel, roles=roles)


def _final_norm(block: list[Kernel]) -> list[Kernel]:
    first = block[0]
    if first.roles[0] in {"mlp.residual+attn.norm", "mlp.residual+ssm.norm"}:
        return [Kernel(first.name, ("mlp.residual+final_norm", "final_norm"))]
    chain = [kernel for kernel in block if kernel.roles == ("attn.norm",)]
    return [replace(kernel, roles=("final_norm",)) for kernel in chain]


def placed(
    step: EngineStep,
    kernels: list[Kernel],
    rng: random.Random,
    factor: float,
    *,
    timed_as: Workload | None = None,
) -> list[str | None]:
    """Return the roles found when each kernel takes up to ``factor`` times its bound.

    The bounds are those of the step, or of ``timed_as`` where it runs in parts.
    """
    bounds = bounds_of(step, timed_as or step.workload)
    times = []
    for number, kernel in enumerate(kernels):
        role = kernel.roles[0]
        helper = number > 0 and kernels[number - 1].roles == kernel.roles
        spec = 0.0
        if role is not None and not helper:
            spec = sum(bounds.get(part, 0.0) for part in role.split("+"))
        times.append(round(max(spec, FLOOR_NS) * rng.uniform(1.05, factor)))
    names = sorted({kernel.name for kernel in kernels})
    classes: list[KernelClass] = load_rules().classify_each(names)
    attention = {names[number] for number in attention_names(classes)}
    plans = make_plans(
        model_of(step),
        step.workload,
        Options(),
        find_gpu(step.gpu).dense_peaks(),
        value_first=projects_value_first(classes),
        attention_calls=sum(kernel.name in attention for kernel in kernels),
    )
    frame = kernels_of_step([names.index(kernel.name) for kernel in kernels], times)
    placement = place_operators(frame, classes, plans, floor_ns=FLOOR_NS)
    return roles_of(placement)


def wrong(
    kernels: list[Kernel], found: list[str | None]
) -> list[tuple[int, str, Roles, str | None]]:
    return [
        (number, kernel.name[:60], kernel.roles, role)
        for number, (kernel, role) in enumerate(zip(kernels, found, strict=True))
        if role not in kernel.roles
    ]


EVERY = (*STEPS, *HYBRIDS, GPT_OSS)
IDS = [step.sequence for step in EVERY]


@pytest.mark.parametrize("step", EVERY, ids=IDS)
def test_every_role_is_right(step: EngineStep) -> None:
    kernels = written_down(step)
    assert wrong(kernels, placed(step, kernels, random.Random(1), 2.0)) == []


@pytest.mark.parametrize("step", EVERY, ids=IDS)
def test_times_off_by_up_to_four_change_no_role(step: EngineStep) -> None:
    kernels = written_down(step)
    assert wrong(kernels, placed(step, kernels, random.Random(2), 4.0)) == []


@pytest.mark.parametrize("step", EVERY, ids=IDS)
def test_foreign_kernels_stay_foreign(step: EngineStep) -> None:
    rng = random.Random(3)
    kernels = written_down(step)
    for _ in range(len(kernels) // 20):
        at = rng.randrange(1, len(kernels))
        kernels.insert(at, Kernel(rng.choice(FOREIGN), (None,)))
    assert wrong(kernels, placed(step, kernels, rng, 2.0)) == []


@pytest.mark.parametrize(
    "step", [step for step in EVERY if step.swap is not None], ids=lambda step: step.sequence
)
def test_independent_neighbours_may_change_places(step: EngineStep) -> None:
    assert step.swap is not None
    first, second = step.swap
    kernels = written_down(step)
    for a in [number for number, kernel in enumerate(kernels) if kernel.place == first]:
        b = a + second - first
        kernels[a], kernels[b] = kernels[b], kernels[a]
    assert wrong(kernels, placed(step, kernels, random.Random(4), 2.0)) == []


@pytest.mark.parametrize(
    "step", [step for step in EVERY if step.optional is not None], ids=lambda step: step.sequence
)
def test_a_kernel_that_is_left_out_moves_no_role(step: EngineStep) -> None:
    assert step.optional is not None
    kernels = written_down(step)
    kept = [kernel for kernel in kernels if kernel.place != step.optional]
    assert len(kept) < len(kernels)
    assert wrong(kept, placed(step, kept, random.Random(5), 2.0)) == []


def test_two_half_batches_in_turn_keep_their_roles() -> None:
    """While one half's tokens travel to the experts and back, the other half computes."""
    step = next(one for one in STEPS if one.sequence == "sglang_dsv3_fp8_h100_deepep_decode")
    halves = split_workload(step.workload)
    assert halves is not None
    block = [
        Kernel(name, roles, place)
        for place, (name, roles) in enumerate(zip(names_of(step), step.layer, strict=True))
    ]
    sent = 1 + next(n for n, kernel in enumerate(block) if kernel.roles == ("moe.dispatch",))
    layers = len(model_of(step).layers)
    kernels = [Kernel(EMBED, ("embed",))]
    for layer in range(layers):
        for stage in (block[:sent], block[sent:]):
            for _ in halves:
                kernels += [_at(kernel, layer, layers) for kernel in stage]
    kernels += [*_final_norm(block), Kernel(HEAD, ("lm_head",)), Kernel(ARGMAX, ("sample",))]
    found = placed(step, kernels, random.Random(6), 2.0, timed_as=halves[0])
    assert wrong(kernels, found) == []
