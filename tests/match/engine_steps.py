"""Whole decode and prefill steps of real engines: the published kernel order of a layer, its roles.

The order comes from ``kernel-sequences.tsv``; the roles beside it were written down from its
descriptions, one per launch. ``None``: no operator of the model. A tuple: any of these.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from nsysroof.theory.models.layers import Mlp
from nsysroof.theory.operators.elementwise import Activation
from nsysroof.theory.workload import Workload

SEQUENCES = Path(__file__).parents[2] / "../shared/reference/kernel-sequences.tsv"

Roles = tuple[str | None, ...]
Expected = tuple[Roles, ...]
MEMORY_OPERATIONS = ("memcpy", "memset")

NORM_IN: Roles = ("mlp.residual+attn.norm",)
NORM_MID: Roles = ("attn.residual+mlp.norm",)
NONE: Roles = (None,)


def one(*roles: str | None) -> Expected:
    return tuple((role,) for role in roles)


@dataclass(frozen=True, kw_only=True)
class EngineStep:
    """A step of one engine: a layer block with its roles, and what it runs on."""

    sequence: str
    model: str
    gpu: str
    workload: Workload
    layer: Expected
    before: tuple[str, ...] = ()  # launches before the published ones, of the same layer
    dense: Mlp | None = None  # the feed-forward part of the model that ran, where it is no MoE
    attention: tuple[tuple[str, Roles], ...] = ()  # a layer whose mixer is softmax attention
    first: str | None = None  # the launch that opens the first layer, where it is another
    later: str | None = None  # … and the one that opens the others
    optional: int | None = None  # position of a launch that engines may leave out
    swap: tuple[int, int] | None = None  # neighbours that do not depend on each other


QWEN3_MOE = one(
    "mlp.residual+attn.norm",
    "attn.qkv_proj",
    "attn.qk_norm",
    "attn.rope",
    "attn.kv_write",
    "attn.core",
    "attn.core",
    "attn.o_proj",
    "attn.o_proj",
    "attn.residual+mlp.norm",
    "moe.router",
    "moe.topk",
    "moe.align",
    "moe.align",
    "moe.gate_up",
    "moe.act",
    "moe.down",
    "moe.combine",
)

STEPS = (
    EngineStep(
        sequence="vllm_qwen3_30b_a3b_h100_decode",
        model="qwen3-30b-a3b",
        gpu="h100-sxm",
        workload=Workload.create(batch=8, context=2048),
        layer=QWEN3_MOE,
        optional=3,
        swap=(2, 3),
    ),
    EngineStep(
        sequence="vllm_dense_h100_decode",
        model="qwen3-8b",
        gpu="h100-sxm",
        workload=Workload.create(batch=4, context=4096),
        layer=(
            *QWEN3_MOE[:10],
            *one("mlp.gate_up_proj", "mlp.act", "mlp.down_proj", "mlp.down_proj"),
        ),
        optional=11,
        swap=(3, 4),
    ),
    EngineStep(
        sequence="sglang_qwen3_30b_a3b_h200_decode",
        model="qwen3-30b-a3b",
        gpu="h200-sxm",
        workload=Workload.create(batch=32, context=1024),
        first="RMSNormKernel",
        later="FusedAddRMSNormKernel",
        layer=(
            *one("mlp.residual+attn.norm", "attn.qkv_proj", "attn.qk_norm"),
            ("attn.rope", "attn.rope+attn.kv_write"),
            *one("attn.core", "attn.core", "attn.core", "attn.o_proj", "attn.o_proj"),
            *QWEN3_MOE[9:],
        ),
        optional=13,
        swap=(2, 3),
    ),
    EngineStep(
        sequence="vllm_qwen3_moe_w4a16_marlin_decode",
        model="qwen3-30b-a3b",
        gpu="rtxpro6000-ws",
        workload=Workload.create(batch=1, context=2048, weights="gptq"),
        layer=(
            *one("mlp.residual+attn.norm", "attn.qkv_proj"),
            ("attn.rope", "attn.qk_norm+attn.rope"),
            *one("attn.kv_write", "attn.core", "attn.o_proj", "attn.residual+mlp.norm"),
            *one("moe.router", "moe.topk", "moe.align", "moe.gate_up", "moe.act", "moe.down"),
            ("moe.combine",),
        ),
        optional=9,
        swap=(2, 3),
    ),
    EngineStep(
        sequence="sglang_qwen3_moe_w4a16_marlin_decode",
        model="qwen3-30b-a3b",
        gpu="rtxpro6000-ws",
        workload=Workload.create(batch=2, context=2048, weights="gptq"),
        layer=(
            *one("mlp.residual+attn.norm", "attn.qkv_proj", "attn.qk_norm", "attn.rope"),
            *one("attn.kv_write", "attn.core", "attn.o_proj", "attn.residual+mlp.norm"),
            *one("moe.router", "moe.topk", "moe.align"),
            (None, "moe.align"),
            *one("moe.gate_up", "moe.act", "moe.down", "moe.combine"),
        ),
        optional=2,
        swap=(2, 3),
    ),
    EngineStep(
        sequence="trtllm_dsr1_nvfp4_b200_tp8ep8_decode",
        model="deepseek-r1",
        gpu="b200",
        workload=Workload.create(batch=64, context=2048, tp=8, ep=8, weights="nvfp4"),
        layer=(
            *one("attn.qkv_a_proj", "attn.qkv_a_proj", "attn.q_a_norm", "attn.kv_a_norm"),
            ("attn.q_b_proj",),
            (None, "attn.rope", "attn.kv_write", "attn.rope+attn.kv_write"),
            ("attn.absorb_k",),
            ("attn.rope+attn.kv_write",),
            *one("attn.core", "attn.absorb_v"),
            ("attn.quant", "attn.o_proj"),
            *one("attn.o_proj", "attn.all_reduce+attn.residual+mlp.norm"),
            (None, "moe.dispatch"),
            *one("moe.router", "moe.router"),
            ("moe.quant", "moe.gate_up"),
            *one("moe.topk", "moe.align", "moe.gate_up+moe.act", "moe.down"),
            ("moe.quant", "moe.shared.gate_up_proj"),
            *one("moe.shared.gate_up_proj", "moe.shared.act"),
            ("moe.quant", "moe.shared.down_proj"),
            ("moe.shared.down_proj",),
            (
                "moe.combine+moe.all_reduce+mlp.residual+attn.norm",
                "moe.all_reduce+mlp.residual+attn.norm",
            ),
        ),
    ),
    EngineStep(
        sequence="sglang_dsv3_fp8_h100_deepep_decode",
        model="deepseek-v3",
        gpu="h100-sxm",
        workload=Workload.create(batch=64, context=2048, dp=64, ep=64),
        layer=(
            ("mlp.residual+attn.norm", "attn.norm"),  # the published name does not tell
            ("attn.quant", "attn.qkv_a_proj"),
            ("attn.qkv_a_proj",),
            ("attn.q_a_norm", "attn.kv_a_norm", "attn.q_a_norm+attn.kv_a_norm"),
            ("attn.quant", "attn.q_b_proj"),
            *one("attn.q_b_proj", "attn.absorb_k", "attn.rope"),
            (None, "attn.rope", "attn.kv_write"),
            *one("attn.kv_write", "attn.core", "attn.core", "attn.core", "attn.absorb_v"),
            ("attn.quant", "attn.o_proj"),
            *one("attn.o_proj", "attn.residual+mlp.norm", "moe.router", "moe.topk"),
            ("moe.dispatch",),
            *one("moe.shared.gate_up_proj", "moe.shared.act", "moe.shared.down_proj"),
            ("moe.gate_up",),
            ("moe.act", "moe.act+moe.quant"),
            ("moe.down",),
            ("moe.combine",),
        ),
    ),
    EngineStep(
        sequence="llamacpp_dense_b1_decode",
        model="llama-3.1-8b",
        gpu="rtx4090",
        workload=Workload.create(batch=1, context=2048, weights="q4_k"),
        layer=(
            ("attn.norm",),
            ("attn.quant", "attn.q_proj"),
            *one("attn.q_proj", "attn.v_proj", "attn.k_proj", "attn.rope", "attn.rope"),
            *one("attn.kv_write", "attn.kv_write", "attn.core", "attn.core"),
            ("attn.quant", "attn.o_proj"),
            *one("attn.o_proj", "attn.residual", "mlp.norm"),
            ("mlp.quant", "mlp.gate_up_proj+mlp.act"),
            ("mlp.gate_up_proj+mlp.act",),
            ("mlp.quant", "mlp.down_proj"),
            *one("mlp.down_proj", "mlp.residual"),
        ),
        optional=13,
    ),
    EngineStep(
        sequence="hf_eager_qwen15_05b_h100_prefill",
        model="qwen1.5-0.5b",
        gpu="h100-sxm",
        workload=Workload.create(phase="prefill", context=[279] * 8 + [280] * 8),
        layer=(
            *one(*["attn.norm"] * 8, "attn.q_proj", "attn.k_proj", "attn.v_proj"),
            *one(*["attn.rope"] * 10, None, None, None, "attn.core", None, "attn.o_proj"),
            *one("attn.residual", *["mlp.norm"] * 8, "mlp.gate_proj", "mlp.act", "mlp.up_proj"),
            *one("mlp.act", "mlp.down_proj", "mlp.residual"),
        ),
    ),
)


GATED_ATTENTION: tuple[tuple[str, Roles], ...] = (
    ("triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0", NORM_IN),
    ("void internal::gemvx::kernel<int, int, __nv_bfloat16>", ("attn.qkv_proj",)),
    ("triton_red_fused_2", ("attn.qk_norm",)),
    ("triton_poi_fused_3", ("attn.rope",)),
    ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>", ("attn.kv_write",)),
    ("kernel_unified_attention_3d", ("attn.core",)),
    ("triton_poi_fused_mul_sigmoid_4", ("attn.gate",)),
    ("void internal::gemvx::kernel<int, int, __nv_bfloat16>", ("attn.o_proj",)),
    ("triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_1", NORM_MID),
    ("void internal::gemvx::kernel<int, int, __nv_bfloat16>", ("mlp.gate_up_proj",)),
    ("triton_poi_fused_mul_silu_slice_1", ("mlp.act",)),
    ("void internal::gemvx::kernel<int, int, __nv_bfloat16>", ("mlp.down_proj",)),
)
"""Every fourth layer of a hybrid: softmax attention with an output gate.

Not published with the others: written here from the names that this engine gives its kernels.
"""

HYBRIDS = (
    EngineStep(
        sequence="vllm_gdn_hybrid_decode",
        model="qwen3.5-35b-a3b",
        gpu="rtxpro6000-ws",
        workload=Workload.create(batch=1, context=4096),
        dense=Mlp(intermediate=6144, act=Activation.GATED, bias=False),
        attention=GATED_ATTENTION,
        layer=(
            ("mlp.residual+ssm.norm",),
            *one("ssm.in_proj", "ssm.steps_proj", "ssm.conv", "ssm.state", "ssm.gate_norm"),
            *one("ssm.out_proj", "ssm.residual+mlp.norm", "mlp.gate_up_proj", "mlp.act"),
            ("mlp.down_proj",),
        ),
        optional=3,
    ),
    EngineStep(
        sequence="flashinfer_cutlass_moe_sm120",
        model="qwen3-30b-a3b",
        gpu="rtxpro6000-ws",
        workload=Workload.create(batch=4, context=2048, weights="nvfp4"),
        before=(
            "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_1",
            "nvjet_sm120_tst_mma_64x32x64_8_16x32x64_tmaAB_alignCD4_bz_TNNN",
            "triton_red_fused_2",
            "triton_poi_fused_3",
            "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>",
            "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>",
            "nvjet_sm120_tst_mma_64x32x64_8_16x32x64_tmaAB_alignCD4_bz_TNNN",
            "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0",
            "nvjet_sm120_tst_mma_64x32x64_8_16x32x64_tmaAB_alignCD4_bz_TNNN",
            "void vllm::moe::topkGating<4, 128, 4, 16, 32, int, __nv_bfloat16>",
        ),
        layer=(
            *one("mlp.residual+attn.norm", "attn.qkv_proj", "attn.qk_norm", "attn.rope"),
            *one("attn.kv_write", "attn.core", "attn.o_proj", "attn.residual+mlp.norm"),
            *one("moe.router", "moe.topk", "moe.align", "moe.align", "moe.align"),
            ("moe.permute",),
            (None, "moe.align", "moe.gate_up"),
            *one("moe.gate_up", "moe.act", "moe.down", "moe.combine"),
        ),
        optional=2,
    ),
)


@cache
def rows_of(sequence: str) -> list[dict[str, str]]:
    csv.field_size_limit(10**9)
    with SEQUENCES.open(encoding="utf-8") as file:
        rows = [row for row in csv.DictReader(file, delimiter="\t") if row["seq_id"] == sequence]
    return [row for row in rows if row["operator"] not in MEMORY_OPERATIONS]


def names_of(step: EngineStep) -> list[str]:
    """Return the names of one layer's launches in order."""
    return [*step.before, *(row["name"] for row in rows_of(step.sequence))]


GPT_OSS = EngineStep(
    sequence="vllm_gptoss120b_b200_tp8_prefill",
    model="gpt-oss-120b",
    gpu="b200",
    workload=Workload.create(batch=1, context=888, phase="prefill", tp=8, kv="fp8"),
    layer=(
        *one("attn.qkv_proj", "attn.rope", None),
        (None, "attn.quant"),
        *one("attn.kv_write", "attn.core", "attn.o_proj", "attn.all_reduce"),
        *one("attn.residual+mlp.norm", "moe.router", None, None),
        (None, "moe.quant"),
        *one("moe.topk", "moe.align", "moe.align", "moe.gate_up+moe.act", "moe.down"),
        *one("moe.combine", "moe.all_reduce", "mlp.residual+attn.norm"),
    ),
)
"""Published as a whole step: sliding and full attention in turn, a layer of each, and both ends."""

_GPT_OSS_HEAD = one(None, "embed", None, "embed", "attn.norm")
_GPT_OSS_TAIL = one("mlp.residual+final_norm", None, None, "lm_head", "logits")


def gpt_oss_launches() -> list[tuple[str, Roles]]:
    """Return name and roles of every launch of the step, its two layers repeated to 36."""
    names = names_of(GPT_OSS)
    head, tail = names[: len(_GPT_OSS_HEAD)], names[-len(_GPT_OSS_TAIL) :]
    two = names[len(head) : -len(tail)]
    size = len(GPT_OSS.layer)
    assert len(two) == 2 * size
    layers = [
        pair
        for number in range(36)
        for pair in zip(two[size * (number % 2) :][:size], GPT_OSS.layer, strict=True)
    ]
    return [
        *zip(head, _GPT_OSS_HEAD, strict=True),
        *layers[:-1],  # its last norm is the final one, which stands in the tail
        *zip(tail, _GPT_OSS_TAIL, strict=True),
    ]
