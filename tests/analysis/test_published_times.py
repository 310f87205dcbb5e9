"""Kernel times that others published, rebuilt as synthetic captures in the engine's order.

Names, counts and durations are the published ones; the order is that of the engine. The floors
were worked out from bytes and FLOP by those who collected the times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fixtures.builder import ExportBuilder
from nsysroof.analysis import Options, analyze
from nsysroof.results import OperatorRow, Report
from nsysroof.theory.dtypes import activation_format, weight_format
from nsysroof.theory.gpus import find_gpu
from nsysroof.theory.operators.gemm import LinearFormat, gemm
from nsysroof.theory.roofline import bound
from nsysroof.trace import open_trace

Launches = Sequence[tuple[str, float]]  # kernel name and µs
Rebuilt = Callable[..., Report]
GAP_NS = 900


@pytest.fixture
def rebuilt(tmp_path: Path) -> Rebuilt:
    def build(
        before: Launches, layer: Launches, layers: int, after: Launches, *, options: Options
    ) -> Report:
        export = ExportBuilder().session(10**10)
        now = 1_000_000
        for step in range(3):
            correlation = 100 + step
            export.launch("cudaGraphLaunch", now - 9_000, now - 1_000, correlation=correlation)
            for number, (name, us) in enumerate([*before, *list(layer) * layers, *after]):
                export.kernel(
                    name,
                    now,
                    now + round(us * 1000),
                    correlation=correlation,
                    graph_node=number + 1,
                    graph=1,
                    grid=(999, 1, 1),
                )
                now += round(us * 1000) + GAP_NS
            now += 100_000
        return analyze(open_trace(export.write(tmp_path / "rebuilt.sqlite")), options)

    return build


def rows_of(report: Report) -> dict[str, OperatorRow]:
    return {row.role: row for row in report.operators}


EMBED = ("void at::native::vectorized_gather_kernel<(int)16, long>(char *)", 4.0)


def test_qwen3_30b_fp8_on_gb10_with_a_shared_prefix(rebuilt: Rebuilt) -> None:
    """vLLM, graph and compile, batch 4 at about 8,300 tokens; all four prompts are the same.

    Floors at 273 GB/s: qkv 38.4, o 30.7, router 1.9, LM head 2,280 µs; attention over four
    separate caches 250 to 261 µs, which 112 µs cannot have read.
    """
    gemm_fp8 = "void cutlass::device_kernel<vllm::cutlass_3x_gemm_fp8_blockwise<cutlass::bfloat16_t, (int)128>>(T1::Params)"
    norm = "void vllm::rms_norm_per_block_quant_kernel<c10::BFloat16, c10::Float8_e4m3fn, (bool)1>(T1 *)"
    quant = "void per_token_group_quant_8bit_kernel<c10::BFloat16, c10::Float8_e4m3fn>(const T1 *)"
    layer = (
        (norm, 6.9),
        (gemm_fp8, 46.1),
        ("triton_red_fused_2", 2.2),
        ("triton_poi_fused_3", 4.7),
        ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16>(const T1 *)", 4.0),
        ("void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<(int)128, (int)64, (int)128, (int)4>, (bool)0, (bool)0, (bool)0, (bool)0, (bool)0, (bool)0, (bool)0, (bool)1, (bool)0>(flash::Flash_fwd_params)", 110.7),
        ("void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<(int)128>>(flash::Flash_fwd_params)", 3.7),
        (quant, 1.5),
        (gemm_fp8, 40.0),
        ("void vllm::fused_add_rms_norm_kernel<c10::BFloat16, (int)8>(T1 *)", 3.6),
        ("void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x1_tn_align8>(T1::Params)", 14.5),
        ("void vllm::moe::topkGating<(int)8, (int)128>(const T1 *)", 3.5),
        (quant, 1.5),
        ("fused_moe_kernel", 266.0),
        ("void vllm::act_and_mul_kernel<c10::BFloat16>(T1 *)", 1.58),
        (quant, 1.5),
        ("fused_moe_kernel", 133.0),
        ("void at::native::reduce_kernel<(int)128, (int)4, at::native::ReduceOp<c10::BFloat16, at::native::sum_functor<c10::BFloat16>>>(T3)", 4.5),
    )  # fmt: skip
    head = (
        "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8>(T1::Params)",
        2613.0,
    )
    options = Options(
        model="qwen3-30b-a3b", gpu="gb10", batch=4, context=(8300,), weights="fp8-block"
    )
    report = rebuilt([EMBED], layer, 48, [(norm, 6.9), head], options=options)
    rows = rows_of(report)
    floors = {
        "attn.qkv_proj": 38.4,
        "attn.o_proj": 30.7,
        "lm_head": 2280.0,
    }
    for role, floor in floors.items():
        assert rows[role].bound_ns == pytest.approx(floor * 1e3, rel=0.03), role
    # The published floor of the router is that of its weights alone.
    assert rows["moe.router"].bytes.weight / 273e9 == pytest.approx(1.9e-6, rel=0.03)
    assert rows["lm_head"].main_ns / (rows["lm_head"].bound_ns or 0) == pytest.approx(
        1.15, rel=0.03
    )
    assert 245e3 <= (rows["attn.core"].bound_ns or 0) <= 261e3
    causes = {row.role: row for row in report.impossible}
    assert causes["attn.core"].likely_cause == "shared-prefix"
    assert causes["attn.core"].hard
    # The experts are below the expected number too, which equal sequences explain.
    assert causes["moe.gate_up"].likely_cause == "shared-prefix"
    assert not causes["moe.gate_up"].hard


def test_llama_70b_tp8_prefill_on_h100(rebuilt: Rebuilt) -> None:
    """vLLM, chunks of 8,192 tokens on one of eight H100; one kernel name serves o and down.

    Floors: gate_up 973, o 139, down 486, qkv 174 µs of arithmetic; the fused norm 160 µs of memory.
    """
    norm = ("void vllm::fused_add_rms_norm_kernel<c10::BFloat16, (int)8>(T1 *)", 180.0)
    both = "nvjet_tst_256x144_64x4_2x1_v_bz_coopA_TNT"
    reduced = (
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<(unsigned long)4096>)",
        603.2,
    )
    layer = (
        norm,
        ("nvjet_tst_256x160_64x4_1x2_h_bz_coopA_TNT", 208.6),
        ("void vllm::rotary_embedding_kernel<c10::BFloat16, (bool)1>(const long *)", 40.0),
        ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char>(const T1 *)", 16.6),
        ("void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<(int)2>>>>(T1::Params)", 205.5),
        (both, 180.0),
        reduced,
        norm,
        ("nvjet_tst_256x152_64x4_1x2_h_bz_coopA_TNT", 1198.1),
        ("triton_poi_fused_mul_silu_slice_0", 115.0),
        (both, 630.0),
        reduced,
    )  # fmt: skip
    options = Options(
        model="llama-3.3-70b", gpu="h100-sxm", tp=8, phase="prefill", context=(8192,), kv="fp8"
    )
    head = ("nvjet_tst_192x8_64x8_4x1_v_bz_TNT", 110.0)
    report = rebuilt([EMBED], layer, 80, [norm, head], options=options)
    rows = rows_of(report)
    floors = {
        "mlp.gate_up_proj": (973.0, 1.23),
        "attn.qkv_proj": (174.0, 1.20),
        "attn.o_proj": (139.0, 180 / 139),
        "mlp.down_proj": (486.0, 630 / 486),
        "attn.residual+mlp.norm": (160.0, 180 / 160),
    }
    for role, (floor, ratio) in floors.items():
        assert rows[role].bound_ns == pytest.approx(floor * 1e3, rel=0.03), role
        assert rows[role].ratio == pytest.approx(ratio, rel=0.03), role
    assert rows["mlp.gate_up_proj"].limiter == "compute"
    assert rows["attn.residual+mlp.norm"].limiter == "memory"


def test_lm_head_of_a_small_model_on_an_rtx_5090() -> None:
    """129,280 x 1,280 in BF16 is 331 MB: 185 µs at 1,792 GB/s; 208 µs were measured."""
    plain = LinearFormat(
        weights=weight_format("bf16"), activations=activation_format("bf16"), output="bf16"
    )
    cost = gemm(1, 129_280, 1_280, fmt=plain)
    floor = bound(cost, find_gpu("rtx5090").dense_peaks()).spec_ns
    assert floor is not None
    assert floor == pytest.approx(185e3, rel=0.01)
    assert 208e3 / floor == pytest.approx(1.13, rel=0.01)
