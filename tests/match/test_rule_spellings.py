"""Names as profilers cut, mangle and generate them: the operator is told all the same."""

from __future__ import annotations

import pytest

from nsysroof.match.names import unmangle_function
from nsysroof.match.rules import load_rules

RULES = load_rules()


@pytest.mark.parametrize(
    ("mangled", "function"),
    [
        ("_ZN4vllm15rms_norm_kernelIN3c104HalfEEEvPT_PKS3_fii", "vllm::rms_norm_kernel"),
        ("_Z9mul_mat_qIL9ggml_type8ELi64ELb0EEvPKc", "mul_mat_q"),
        ("_ZL12rms_norm_f32ILi1024EEvPKfPf", "rms_norm_f32"),
        ("_ZN12_GLOBAL__N_115store_kv_kernelEPKvS1_", "store_kv_kernel"),
        ("_ZN2ns10abcdefgh", "ns::abcdefgh"),  # cut within the identifier
        ("_Z", "_Z"),
        ("_ZNSt4pairE", "_ZNSt4pairE"),  # begins with a substitution: no identifier to read
    ],
)
def test_the_function_of_a_mangled_name(mangled: str, function: str) -> None:
    assert unmangle_function(mangled) == function


def test_a_length_without_end_is_read_like_any_other_text() -> None:
    assert RULES.classify("_Z" + 6000 * "9").klass == "unknown"


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        (
            "_ZN4vllm18act_and_mul_kernelIN3c108BFloat16EXadL_ZNS_11silu_kernelIS2_EET_RKS4_EELb1EEEvPS4_",
            "activation_glu",
        ),
        (
            "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_11FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_",
            "fill",
        ),
        (
            "_ZN2at6native13reduce_kernelILi512ELi1ENS0_8ReduceOpIfNS0_9ArgMaxOpsIfEEjlLi4EEEEEvT1_",
            "sampling",
        ),
        ("_ZN7deep_ep12internode_ll8dispatchILb1ELi3ELi10ELi7168EEEvPvPfPiS4_S2_", "ep_dispatch"),
        ("_Z13mul_mat_vec_qIL9ggml_type12ELi1ELb0ELb0EEvPKvS2_PKiPf", "gemv_wq"),
        ("_ZN12tensorrt_llm7kernels20fusedQKNormRopeKernelILi128ELb0EEEvPv", "qk_norm_rope"),
    ],
)
def test_mangled_names_get_the_operator_of_the_demangled(name: str, operator: str) -> None:
    assert RULES.classify(name).klass == operator


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        (
            "void at::native::vectorized_elementwise_kernel<4, at::native::(anonymous namespace)::silu_kernel(at::TensorIt...",
            "activation",
        ),
        (
            "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashA...",
            "attention_mixed",
        ),
        (
            "void flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<(flashinfer::MaskMo...",
            "attention_prefill",
        ),
        ("_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupl...", "gemm"),
        ("void flash_bwd_dot_do_o_kernel<true, Flash_bwd_kerne...", "attention_bwd"),
        ("rms_norm_kernel.kd", "rmsnorm"),
        ("_ZN4vllm15rms_norm_kernelIN3c108BFloat16EEEvPT_PKS3_ [clone .kd]", "rmsnorm"),
    ],
)
def test_names_cut_or_with_a_suffix_are_known(name: str, operator: str) -> None:
    assert RULES.classify(name).klass == operator


@pytest.mark.parametrize(
    ("name", "operator"),
    [
        ("triton_tem_fused_addmm_1", "gemm"),
        ("triton_tem_fused_flex_attention_backward_2", "attention_bwd"),
        ("triton_tem_fused_convolution_5", "conv"),
        ("triton_poi_fused_max_pool2d_with_indices_1", "pool"),
        ("triton_poi_fused__native_batch_norm_legit_no_training_relu_3", "batchnorm"),
        ("triton_per_fused__log_softmax_nll_loss_forward_2", "loss"),
        ("triton_red_fused_native_layer_norm_backward_1", "norm_bwd"),
        ("triton_poi_fused_threshold_backward_2", "backward_other"),
        ("triton_red_fused_add_native_layer_norm_3", "layernorm"),
        ("triton_per_fused__to_copy_mean_mul_pow_rsqrt_4", "rmsnorm"),
        ("triton_poi_fused_add_cat_cos_mul_neg_sin_slice_0", "rope"),
        ("triton_poi_fused_mul_silu_split_3", "activation_glu"),
        ("triton_poi_fused_relu_2", "activation"),
        ("triton_red_fused__softmax_div_1", "softmax"),
        ("triton_red_fused_argmax_0", "sampling"),
        ("triton_red_fused_abs_amax_clamp_div_0", "quantize"),
        ("triton_poi_fused_embedding_0", "embedding"),
        ("triton_poi_fused_index_put_3", "scatter"),
        ("triton_poi_fused_cat_6", "concat"),
        ("triton_poi_fused__to_copy_clone_4", "copy_cast"),
        ("triton_poi_fused_clone_transpose_7", "copy_cast"),
        ("triton_poi_fused_zeros_0", "fill"),
        ("triton_red_fused_sum_0", "reduction"),
        ("triton_poi_fused_add_mul_2", "elementwise"),
    ],
)
def test_an_inductor_fusion_is_what_the_rest_of_it_serves(name: str, operator: str) -> None:
    assert RULES.classify(name).klass == operator


@pytest.mark.parametrize(
    "name",
    [
        "volta_fp16_s884cudnn_fp16_256x64_sliced1x2_ldg8_relu_idx_f2f_exp_interior_nhwc_tn_v1",
        "void cudnn::cnn::convNd_grouped_direct_kernel<float>(int)",
        "persistRNN_addBias",
        "void RNN_blockPersist_fp_LSTM_HMMA<float>(int)",
        "void iamax_kernel<float>(int)",
        "void syhemvl_generic_diag<float>(int)",
        "void batch_trsm_left_kernel<double>(int)",
        "void fbgemm_gpu::invert_permute_kernel<int>(int)",
        "lru_cache_insert_byte_kernel",
        "permute_pooled_embs_kernel",
        "void vision::ops::box_iou_rotated_cuda_kernel<float>(int)",
        "void softmax_bw_small_kernel<float>(int)",
        "void cudnn::finalizeBNStats_1C11_packed_kernel(int)",
        "_fused_neighborhood_attention_grad_qk_kernel",
        "rasterizeImagecoordsKernelGPU",
    ],
)
def test_families_outside_language_models_are_no_operator_of_theirs(name: str) -> None:
    found = RULES.classify(name)
    assert found.klass == "unknown" or not found.entry.llm
