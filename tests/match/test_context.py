"""Synthetic stretches of a step in which neighbours tell what a kernel is, and what layout ran."""

from __future__ import annotations

import pytest

from nsysroof.analysis.options import Options
from nsysroof.analysis.plans import make_plans
from nsysroof.match.align import Launch
from nsysroof.match.assign import place_operators
from nsysroof.match.context import with_cache_concats, with_shared_sums
from nsysroof.match.rules import load_rules
from nsysroof.theory.gpus import find_gpu
from nsysroof.theory.models.spec import find_model
from nsysroof.theory.workload import Workload
from tests.match.one_step import kernels_of_step, roles_of

CAT = "void at::native::(anonymous namespace)::CatArrayBatchedCopy<at::native::OpaqueType<2u>>(T1)"
MUL = "void at::native::elementwise_kernel<128, 4, at::native::BinaryFunctor<c10::BFloat16, c10::BFloat16, c10::BFloat16, at::native::binary_internal::MulFunctor<float>>>(int)"
ADD = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char*, 3ul> >(int)"
COPY = "void at::native::elementwise_kernel<128, 4, at::native::direct_copy_kernel_cuda(at::TensorIteratorBase&)>(int)"
FLASH = "void pytorch_flash::flash_fwd_kernel<pytorch_flash::Flash_fwd_kernel_traits<64, 128, 128, 4, false, false, cutlass::bfloat16_t>, false, true, false, false, true, true, false, false>(pytorch_flash::Flash_fwd_params)"
WRITE = "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>(T1)"
GEMM = "nvjet_tst_64x8_64x16_4x1_v_bz_TNT"
NORM = "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(T2*)"
TOPK = "void vllm::moe::topkGatingSoftmax<8, 64, 4, 16, 32, int>(T1)"
ALIGN = "void vllm::moe::moe_align_block_size_kernel<int>(T1)"
EXPERTS = "fused_moe_kernel"
ACT = "void vllm::act_and_mul_kernel<c10::BFloat16>(T1)"
SUM = "void vllm::moe::moe_sum_kernel<c10::BFloat16, 6>(T1)"
EMBED = "void at::native::vectorized_gather_kernel<16, long>(char*)"
FIRST_NORM = "void flashinfer::norm::RMSNormKernel<8u, __nv_bfloat16>(T2*)"
ROPE = "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)"
PAGED = "void flashinfer::BatchDecodeWithPagedKVCacheKernel<2u, 4u>(T9)"
KV = frozenset({"kv_write"})


def launches(names: list[str]) -> list[Launch]:
    classes = load_rules().classify_each(names)
    return [Launch(implements=one.implements, parts=one.parts, ns=2_000.0) for one in classes]


def cached(names: list[str]) -> list[int]:
    found = with_cache_concats(launches(names), load_rules().classify_each(names))
    return [row for row, launch in enumerate(found) if launch.implements == (KV,)]


ROTARY = [MUL, CAT, MUL, ADD]


def test_concatenations_after_the_rotary_embedding_append_to_the_cache() -> None:
    names = [GEMM, *ROTARY, *ROTARY, CAT, CAT, COPY, FLASH]
    assert cached(names) == [9, 10]


@pytest.mark.parametrize(
    "names",
    [
        [GEMM, *ROTARY, *ROTARY, COPY, COPY, FLASH],  # a prompt without a cache
        [GEMM, *ROTARY, CAT, WRITE, FLASH],  # another kernel writes it
        [GEMM, FLASH, CAT, GEMM],  # after attention
    ],
    ids=["none", "paged", "after"],
)
def test_other_concatenations_do_not(names: list[str]) -> None:
    assert [row for row in cached(names) if names[row] == CAT] == []


def summed(names: list[str]) -> list[int]:
    found = with_shared_sums(launches(names))
    return [row for row, launch in enumerate(found) if launch.absorbed_by == "earlier"]


def test_the_first_sum_after_the_combine_adds_the_shared_experts() -> None:
    assert summed([SUM, ADD, ADD, NORM]) == [1]
    assert summed([SUM, GEMM, ACT, GEMM, ADD, NORM, ADD]) == [4]
    assert summed([NORM, ADD, SUM, NORM, ADD]) == []


ATTENTION = [
    (GEMM, "attn.qkv_proj"),
    (ROPE, "attn.rope"),
    (WRITE, "attn.kv_write"),
    (PAGED, "attn.core"),
    (GEMM, "attn.o_proj"),
    (NORM, "attn.residual+mlp.norm"),
]
DENSE = [(GEMM, "mlp.gate_up_proj"), (ACT, "mlp.act"), (GEMM, "mlp.down_proj")]
SHARED = [
    (GEMM, "moe.shared.gate_up_proj"),
    (ACT, "moe.shared.act"),
    (GEMM, "moe.shared.down_proj"),
]
ROUTER = [(GEMM, "moe.router"), (TOPK, "moe.topk"), (ALIGN, "moe.align")]
ROUTED = [(EXPERTS, "moe.gate_up"), (ACT, "moe.act"), (EXPERTS, "moe.down"), (SUM, "moe.combine")]
LAYERS = 46  # of GLM-4.5-Air; the first is dense


@pytest.mark.parametrize(
    "experts",
    [[*SHARED, *ROUTER, *ROUTED], [*ROUTER, *SHARED, *ROUTED], [*ROUTER, *ROUTED, *SHARED]],
    ids=["before the router", "before the products", "after"],
)
def test_shared_experts_keep_their_roles_wherever_an_engine_runs_them(
    experts: list[tuple[str, str]],
) -> None:
    kernels = [(EMBED, "embed"), (FIRST_NORM, "attn.norm"), *ATTENTION, *DENSE]
    for _ in range(LAYERS - 1):
        kernels += [(NORM, "mlp.residual+attn.norm"), *ATTENTION, *experts, (ADD, "moe.combine")]
    kernels += [(NORM, "mlp.residual+final_norm"), (GEMM, "lm_head")]
    plans = make_plans(
        find_model("glm-4.5-air"),
        Workload.create(context=2048, batch=16, tp=4),
        Options(),
        find_gpu("h200-sxm").dense_peaks(),
        value_first=False,
        attention_calls=LAYERS,
    )
    bounds = {
        op.role: ns or 0.0 for op, ns in zip(plans[0].operators, plans[0].bounds_ns, strict=True)
    }
    # No collectives are launched here, and every kernel takes 1.3 times its bound, or 2 µs.
    names = sorted({name for name, _ in kernels})
    times = [
        max(2_000, round(1.3 * sum(bounds[part] for part in role.split("+"))))
        for _, role in kernels
    ]
    frame = kernels_of_step([names.index(name) for name, _ in kernels], times)
    classes = load_rules().classify_each(names)
    placed = place_operators(frame, classes, plans, floor_ns=1_300.0)
    assert roles_of(placed) == [role for _, role in kernels]
