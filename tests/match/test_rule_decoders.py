from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysroof.match.attributes import DECODERS
from nsysroof.match.dtype_names import first_type, split_types
from nsysroof.match.quantised_names import scalar_type_name
from nsysroof.match.rules import load_rules

RULES = load_rules()

FA2 = "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<(int)128, (int)64, (int)128, (int)4, (bool)0, (bool)0, cutlass::bfloat16_t, Flash_kernel_traits<(int)128, (int)64, (int)128, (int)4, cutlass::bfloat16_t>>, {flags}>(flash::Flash_fwd_params)"
FA3 = "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2, cute::tuple<cute::C<1>, cute::C<1>, cute::C<1> >, cute::tuple<cute::C<{m}>, cute::C<{n}>, cute::C<{d}> >, {dv}, cutlass::bfloat16_t, float, cutlass::arch::Sm90, {flags}, cutlass::bfloat16_t>, flash::CollectiveEpilogueFwd<int>>>>"
GROUPED = "void deep_gemm::fp8_gemm_kernel<4096u, 7168u, 128u, 160u, 128u, 0u, 64u, 9u, 4u, 128u, 128u, 1u, true, (deep_gemm::GemmType)1>(__nv_bfloat16*)"

CASES: list[tuple[str, dict[str, object]]] = [
    # nvjet: three letters are A = B, accumulator, C = D.
    (
        "nvjet_hss_96x128_64x7_2x1_v_bz_TNN",
        {"dtype": "fp16", "dtype_out": "fp32", "tile_m": 96, "tile_n": 128, "stages": 7},
    ),
    (
        "nvjet_tst_64x8_64x16_4x1_v_bz_splitK_TNT",
        {"dtype": "bf16", "dtype_out": "bf16", "split_k": True, "phase": "decode", "bias": False},
    ),
    (
        "nvjet_tst_144x128_64x6_2x1_v_bz_bias_TNN",
        {"tile_m": 144, "tile_n": 128, "tile_k": 64, "bias": True, "split_k": False},
    ),
    # Five letters are A, B, C, accumulator, D.
    (
        "nvjet_qqtst_128x256_128x6_2x2_2cta_h_bz_Avec32UE8M0_Bvec32UE8M0_TNT",
        {"dtype": "fp8", "dtype_out": "bf16", "weights": "mxfp8", "phase": "prefill"},
    ),
    (
        "nvjet_ootst_128x64_256x5_2x1_v_bz_Avec16UE4M3_Bvec16UE4M3_TNT",
        {"dtype": "fp4", "weights": "nvfp4", "dtype_out": "bf16", "cluster": "2x1"},
    ),
    ("nvjet_sss_tf32_128x128_32x4_2x1_v_bz_TNT", {"dtype": "tf32", "dtype_out": "fp32"}),
    ("nvjet_ootst_FP4", {"dtype": "fp4", "tile_m": None}),
    (
        "nvjet_sm120_tst_mma_64x64x128_3_32x32x128_tmaAB_alignCD4_bz_splitK_TNNN",
        {"dtype": "bf16", "tile_m": 64, "tile_n": 64, "tile_k": 128, "stages": 3, "split_k": True},
    ),
    # cuBLAS before nvjet: no output type means fp32, MMA 1688 without a type is TF32.
    (
        "ampere_bf16_s16816gemm_bf16_64x64_sliced1x2_ldg8_f2f_stages_64x6_tn",
        {"dtype": "bf16", "accumulate": "fp32", "dtype_out": "bf16", "tile_k": 64, "stages": 6},
    ),
    (
        "ampere_s16816gemm_fp16_128x128_ldg8_stages_32x5_tn",
        {"dtype": "fp16", "dtype_out": "fp32", "accumulate": "fp32"},
    ),
    ("ampere_h16816gemm_64x64_ldg8_stages_64x5_tn", {"dtype": "fp16", "accumulate": "fp16"}),
    ("volta_sgemm_128x32_nt", {"dtype": "fp32", "tile_m": 128, "tile_n": 32}),
    (
        "sm80_xmma_gemm_f32f32_tf32f32_f32_tn_n_tilesize128x128x16_stage4_warpsize2x2x1_tensor16x8x8_aligna4_alignc4_execute_kernel__5x_cublas",
        {"dtype": "tf32", "accumulate": "fp32", "dtype_out": "fp32", "tile_k": 16, "stages": 4},
    ),
    (
        "sm89_xmma_gemm_e4m3f16_e4m3f32_f32_tn_n_tilesize64x64x64_stage4_warpsize2x2x1_tensor16x8x32_bias_f16_execute_kernel__5x_cublas",
        {"dtype": "fp8", "dtype_out": "fp16", "accumulate": "fp32", "bias": True},
    ),
    (
        "void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8>(T1::Params)",
        {"dtype": "bf16", "tile_m": 16, "tile_n": 16, "tile_k": 128, "stages": 2},
    ),
    (
        "void cutlass::Kernel2<cutlass_80_tensorop_i16832gemm_s8_64x64_64x6_tn_align16>(T1::Params)",
        {"dtype": "int8", "accumulate": "int32"},
    ),
    (
        "cutlass3x_sm100_bstensorop_s128x128x96gemm_block_scaled_ue4m3xe2m1_ue4m3xe2m1_f32_f16_f16_128x128x768_0_tnn_align32_o_vs16_1sm_bias_f16_relu",
        {"dtype": "fp4", "weights": "nvfp4", "accumulate": "fp32", "dtype_out": "fp16"},
    ),
    # DeepGEMM: N and K are literal; GemmType 1 is contiguous (prefill), 2 masked (decode).
    (GROUPED, {"n": 4096, "k": 7168, "experts": 9, "phase": "prefill", "weights": "fp8-block"}),
    (
        GROUPED.replace("GemmType)1", "GemmType)0").replace("9u", "1u"),
        {"n": 4096, "k": 7168, "experts": None, "phase": None},
    ),
    (
        "void deep_gemm::sm100_fp8_fp4_gemm_1d1d_impl<(cute::UMMA::Major)0, (cute::UMMA::Major)0, 128u, 128u, 0u, 0u, 0u, 16u, 128u, 128u, 1u, 128u, 128u, 128u, 12u, 128u, 128u, 2u, true, 148u, true, (deep_gemm::GemmType)0, false, cutlass::float_e4m3_t>(int*)",
        {"n": None, "k": None, "tile_n": 16, "tile_m": 128, "tile_k": 128},
    ),
    # Marlin: blocks of 16, group size 16 x group blocks.
    (
        "void marlin_moe_wna16::Marlin<1125899906909960l, 1125899907892224l, 1125899906909960l, 1125899906909960l, 128, 3, 8, 4, false, 4, 8, false>(int4 const*)",
        {"dtype": "bf16", "weights": "gptq", "tile_m": 128, "tile_n": 48, "group_size": 128},
    ),
    (
        "void marlin::Marlin<1125899906909952l, 1125899906843648l, 1125899906910725l, 1125899906910725l, 128, 1, 8, 4, true, 4, -1, false>(int4 const*)",
        {"dtype": "int8", "weights": "awq", "tile_n": 8, "group_size": -1, "phase": "decode"},
    ),
    (
        "void marlin::Marlin<__half, 2814749767172868l, 128, 1, 8, 4, true, 4, 8, false>(int4 const*)",
        {"dtype": "fp16", "weights": "fp8", "tile_m": 128, "tile_k": 64},
    ),
    # TRT-LLM's batched GEMM.
    (
        "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_Ab32_Bb32_t128x8x256u2_s6_et128x8_m128x8x32_c1x1x1_rM_TN_transOut_schedS_biasFp32M_bN_rgTma_clmp_dynB_sm100f",
        {"weights": "mxfp4", "dtype": "fp8", "dtype_out": "bf16", "tile_m": 128, "tile_n": 8,
         "phase": "decode", "bias": True, "fused_activation": None},
    ),
    (
        "bmm_E4m3_E4m3E4m3_Fp32_t128x128x128_s5_et64x128_m64x128x32_c1x1x1_rM_TN_transOut_dsFp8_schedS_bN_tma_tmaSf_rgTma_clmp_lbW4_dynB_sm100f",
        {"weights": "fp8-block", "phase": "prefill", "dtype_out": "fp8"},
    ),
    (
        "_matmul_ogs_NNT_bf16xbf16xmxfp4_16x128x256x1",
        {"weights": "mxfp4", "tile_n": 16, "tile_m": 128, "split_k": False},
    ),
    # llama.cpp: 12 is Q4_K, 14 Q6_K.
    ("void mul_mat_vec_q<(ggml_type)12, 1, false, false>", {"weights": "q4_k", "tile_n": 1}),
    ("void mul_mat_q<(ggml_type)14, (int)128, (bool)0>", {"weights": "q6_k", "tile_n": 128}),
    ("void mul_mat_q5_K<c10::BFloat16, true>(void const*)", {"weights": "q5_k"}),
    ("void mul_mat_vec_q<(ggml_type)142, 1, false, false>", {"weights": None}),
    # FlashAttention 2: Split is the seventh flag of the split kernel.
    (
        FA2.format(flags="(bool)1, (bool)0, (bool)0, (bool)0, (bool)1, (bool)1, (bool)0, (bool)0"),
        {"head_dim": 128, "causal": True, "split_kv": False, "phase": None},
    ),
    (
        FA2.format(flags="(bool)0, (bool)0, (bool)0, (bool)0, (bool)1, (bool)1, (bool)1, (bool)1"),
        {"causal": False, "split_kv": True, "appends_kv": True, "phase": "decode"},
    ),
    # FlashAttention 3: twelve flags upstream, thirteen in vLLM's fork.
    (
        FA3.format(m=128, n=128, d=128, dv=128, flags="true, false, false, true, true, false, false, true, true, true, false, false"),
        {"head_dim": 128, "causal": True, "paged": True, "packs_gqa": True, "split_kv": False, "phase": "prefill"},
    ),
    (
        FA3.format(m=64, n=192, d=64, dv=64, flags="false, false, false, true, true, false, false, false, true, true, true, true, false"),
        {"head_dim": 64, "causal": False, "packs_gqa": True, "split_kv": True, "phase": "decode"},
    ),
    (
        FA3.format(m=64, n=64, d=64, dv=512, flags="false, false, false, true, true, false, true, true, false, true, true, false"),
        {"head_dim": 64, "head_dim_v": 512, "has_qv": True, "phase": "decode"},
    ),
    (
        "fmhaSm100fKernel_QkvE4m3OBfloat16HQk576HV512HVPerCta128PagedKvDenseP32MultiCtasKvVarSeqQ32Kv64StaticSwapsAbForGen",
        {"dtype": "fp8", "kv_dtype": "fp8", "head_dim": 576, "head_dim_v": 512, "page": 32,
         "split_kv": True, "causal": False, "phase": "decode"},
    ),
    (
        "fmhaSm100fKernel_QBfloat16KvE4m3OBfloat16H128PagedKvSlidingOrChunkedCausalP64VarSeqQ128Kv128PersistentContext",
        {"dtype": "bf16", "kv_dtype": "fp8", "head_dim": 128, "window": True, "causal": True,
         "phase": "prefill", "tile_q": 128},
    ),
    ("void topkGatingSigmoid<__half, 2, 2, 4, 4>(__half const*)", {"experts": 2}),
    ("void vllm::moe::topkGating<8, 128, 4, 16, 32, int, __nv_bfloat16>", {"experts": 128}),
    (
        "void tensorrt_llm::kernels::customMoeRoutingKernel<__nv_bfloat16, float, int, 128, 8, false>",
        {"experts": 128, "topk": 8},
    ),
    ("void deep_ep::internode_ll::combine<3, 10, 7168, 9>(void*)", {"hidden": 7168, "topk": 9}),
    ("void vllm::cross_device_reduce_2stage<__half, 8>(vllm::RankData*)", {"world_size": 8}),
    ("void multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)", {"world_size": None}),
    (
        "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport<(flashinfer::trtllm_allreduce_fusion::AllReduceFusionPattern)1, __nv_bfloat16, 8, false, false>",
        {"world_size": 8, "fusion_pattern": 1},
    ),
    ("void (anonymous namespace)::fused_qknorm_warp<128l, true, __nv_bfloat16>", {"head_dim": 128}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), CASES, ids=map(str, range(len(CASES))))
def test_decoded_attributes(name: str, expected: Mapping[str, object]) -> None:
    seen = RULES.classify(name).attributes
    assert {key: seen.get(key) for key in expected} == expected


@pytest.mark.parametrize(
    ("packed", "name"),
    [
        (1125899906909960, "bf16"),
        (1125899906910725, "fp16"),
        (1125899906843648, "u4"),
        (1125899907892224, "u4b8"),
        (1125899923621888, "u8b128"),
        (1125899906909952, "s8"),
        (2814749767172868, "fp8"),
        (2814749767106568, "e8m0"),
        (562949953487106, "fp4"),
    ],
)
def test_packed_scalar_types(packed: int, name: str) -> None:
    assert scalar_type_name(packed) == name


def test_types_run_together_are_split() -> None:
    assert split_types("i8i32") == ["int8", "int32"]
    assert split_types("e5m2e4m3f16") == ["fp8", "fp8", "fp16"]


def test_the_first_element_type_is_that_of_the_arguments() -> None:
    assert first_type("c10::Half, float") == "fp16"
    quantiser = RULES.classify(
        "void vllm::scaled_fp8_quant_kernel_strided<c10::BFloat16, c10::Float8_e4m3fn>(int)"
    )
    assert quantiser.attributes["dtype"] == "bf16"


@pytest.mark.parametrize("decoder", DECODERS)
@given(text=st.text())
def test_no_decoder_raises_on_any_text(decoder: str, text: str) -> None:
    seen = DECODERS[decoder](text)
    assert all(isinstance(value, str | int | None) for value in seen.values())


@pytest.mark.parametrize("decoder", DECODERS)
def test_no_decoder_raises_on_a_name_that_is_cut(decoder: str) -> None:
    for name, _ in CASES:
        for length in range(0, len(name), 7):
            assert isinstance(DECODERS[decoder](name[:length]), dict)
