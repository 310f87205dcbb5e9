from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsysroof.errors import InputError
from nsysroof.match.classes import UNKNOWN, kernel_classes
from nsysroof.match.rulefile import BUILT_IN, read_rule_file
from nsysroof.match.rules import RuleSet, check_meaning, load_rules, rule_files

RULES = load_rules()
FILES = {name: read_rule_file(BUILT_IN / name) for name in rule_files()}

USER_RULE = """
[[rule]]
id = "mine.norm"
class = "rmsnorm"
words = 'house_norm'
examples = ["house_norm_kernel"]
"""


def kinds(name: str) -> list[set[str]]:
    return [set(group) for group in RULES.classify(name).implements]


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("file", FILES)
def test_each_example_matches_its_rule_first(file: str) -> None:
    pairs = [(rule.id, name) for rule in FILES[file].rule for name in rule.examples]
    assert len(pairs) >= len(FILES[file].rule)
    matched = RULES.classify_many([name for _, name in pairs])["rule"].to_list()
    wrong = [(pair, got) for pair, got in zip(pairs, matched, strict=True) if got != pair[0]]
    assert wrong == []


@pytest.mark.parametrize("file", FILES)
def test_no_counterexample_matches_its_rule(file: str) -> None:
    pairs = [(rule.id, name) for rule in FILES[file].rule for name in rule.not_examples]
    matched = RULES.classify_many([name for _, name in pairs])["rule"].to_list()
    wrong = [pair for pair, got in zip(pairs, matched, strict=True) if got == pair[0]]
    assert wrong == []


def test_rules_are_complete_and_distinct() -> None:
    ids = [rule.id for rule in RULES.rules]
    assert len(ids) == len(set(ids))
    for rule in RULES.rules:
        assert rule.examples, rule.id
        check_meaning(rule, where="built in")


@pytest.mark.parametrize(
    ("name", "klass"),
    [
        ("nvjet_tst_128x128_64x4_1x2_h_bz_coopA", "gemm"),
        (
            "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_bf16_128x64_64x4_tn_align8>(T1::Params)",
            "gemm",
        ),
        ("void cutlass::device_kernel<(anonymous namespace)::c…", "gemm"),
        ("sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize64x64x128", "gemm"),
        ("ampere_fp16_s16816gemm_fp16_128x64_ldg8_f2f_stages_32x6_tn", "gemm"),
        ("bmm_E2m1_E2m1E2m1_Fp32", "moe_grouped_gemm"),
        ("triton_red_fused_3", "elementwise"),
        ("kernel_unified_attention_2d", "attention_mixed"),
    ],
)
def test_o39_every_large_family_is_recognised(name: str, klass: str) -> None:
    assert RULES.classify(name).klass == klass


def test_o39_a_cut_cute_dsl_name_stays_unknown_but_is_named_by_a_rule() -> None:
    seen = RULES.classify("kernel_cutlass_kernel_flashinf_3…")
    assert (seen.klass, seen.rule) == (UNKNOWN, "cute_dsl.cut")
    assert seen.implements == ()


@pytest.mark.parametrize(
    "name",
    [
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "ncclKernel_AllReduce_TREE_LL128_Sum_half(ncclDevComm*, unsigned long, ncclWork*)",
        "ncclSymkDevKernel_AllReduce_RSxLDMC_AGxSTMC_sum_bf16",
    ],
)
def test_o40_a_collective_states_no_algorithm_protocol_or_operation(name: str) -> None:
    seen = RULES.classify(name)
    assert seen.klass == "allreduce"
    assert dict(seen.attributes) == {}


@pytest.mark.parametrize(
    ("name", "klass"),
    [
        ("flash_fwd_kernel", "attention_prefill"),
        (
            "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x128_1x",
            "attention_bwd",
        ),
        ("chunk_gated_delta_rule_bwd_kernel_dhu_blockdim64", "backward_other"),
        ("_rms_norm_backward_kernel", "norm_bwd"),
        (
            "void cudnn::cnn::wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int)",
            "conv_bwd",
        ),
        ("volta_scudnn_128x64_relu_medium_nn_v1", "conv"),
        ("kOptimizer32bit2State", "optimizer"),
        ("liger_cross_entropy_forward_kernel", "loss"),
    ],
)
def test_training_and_vision_are_told_apart_from_inference(name: str, klass: str) -> None:
    assert RULES.classify(name).klass == klass


@pytest.mark.parametrize(
    ("name", "klass"),
    [
        # One wrapper, seven meanings: the class inside decides.
        (
            "void cutlass::device_kernel<flash::FlashAttnFwdCombine<cute::tuple<cute::C<8>>>>",
            "attention_combine",
        ),
        (
            "void cutlass::device_kernel<cutlass::fmha::kernel::Sm100FmhaMlaKernelTmaWarpspecialized<int>>",
            "mla_decode",
        ),
        (
            "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int, int, int>>>",
            "gemm",
        ),
        (
            "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape<int>>>",
            "moe_grouped_gemm",
        ),
        (
            "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalINS1_17GroupProblemShapeIN4cute5tuple",
            "moe_grouped_gemm",
        ),
        (
            "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tupleIJiiiiEEENS2_10collective",
            "gemm",
        ),
        # The reduction of a split product, not the product.
        (
            "void cublasLt::splitKreduce_kernel<32, 16, int, float, __nv_bfloat16>",
            "gemm_splitk_reduce",
        ),
        (
            "sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize64x256x8_stage3_execute_split_k_kernel__5x_cublas",
            "gemm_splitk_reduce",
        ),
        # Words of quantisation and activation in the name of a product.
        ("_w8a8_triton_block_scaled_mm", "gemm"),
        ("nvjet_qqtst_128x256_128x6_2x1_2cta_v_bz_gelubias_TNT", "gemm"),
        # gemma is no gemm, upscale no groupscale.
        ("_gemma_rmsnorm_kernel", "rmsnorm"),
        ("void turbomind::BlockscaleToGroupscale_Kernel<float, __half>(__half*)", "weight_repack"),
        # LayerNorm in the name, gated RMSNorm in fact.
        ("_layer_norm_fwd_1pass_kernel", "rmsnorm_gated"),
    ],
)
def test_ambiguous_names(name: str, klass: str) -> None:
    assert RULES.classify(name).klass == klass


@pytest.mark.parametrize(
    ("name", "klass", "first"),
    [
        (
            "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_1",
            "rmsnorm_add",
            {"residual_add", "rms_norm"},
        ),
        ("triton_red_fused__to_copy_mean_mul_pow_rsqrt_0", "rmsnorm", {"rms_norm"}),
        ("triton_poi_fused_mul_silu_slice_1", "activation_glu", {"activation"}),
        ("triton_poi_fused_cat_cos_mul_neg_sin_2", "rope", {"rope"}),
        ("triton_red_fused_2", "elementwise", {"qk_norm"}),
        ("triton_poi_fused_3", "elementwise", {"rope"}),
    ],
)
def test_inductor_names_tell_their_operators(name: str, klass: str, first: set[str]) -> None:
    seen = RULES.classify(name)
    assert seen.klass == klass
    assert seen.implements[0] == first


def test_an_inductor_name_without_operators_is_of_low_confidence() -> None:
    assert RULES.classify("triton_red_fused_2").attributes["confidence"] == "low"
    assert {"residual_add", "rms_norm"} in RULES.classify("triton_red_fused_2").implements


def test_fusions_in_the_name_reach_the_operators() -> None:
    gate_up = "bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_transOut_swiGlu_sm100f"
    down = "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_transOut_sm100f"
    assert kinds(gate_up) == [{"moe_gemm", "activation"}, {"moe_gemm"}]
    assert kinds(down) == [{"moe_gemm"}]
    assert kinds("void mul_mat_vec_q<(ggml_type)12, 1, true, false>")[0] == {"gemm", "activation"}
    enhanced = "BatchQKApplyRotaryPosIdsCosSinCacheEnhancedKernel"
    assert kinds(enhanced) == [{"rope", "kv_write"}, {"rope"}]


def test_nsys_and_torch_spellings_get_the_same_rule() -> None:
    nsys = "void at::native::vectorized_elementwise_kernel<(int)4, at::native::FillFunctor<c10::BFloat16>, std::array<char *, (unsigned long)1>>(int, T2, T3)"
    torch = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<c10::BFloat16>, std::array<char*, 1ul> >(int, at::native::FillFunctor<c10::BFloat16>)"
    assert RULES.classify(nsys).rule == RULES.classify(torch).rule == "aten.fill"


def test_an_unknown_name_has_no_rule_and_no_roles() -> None:
    seen = RULES.classify("zzz")
    assert (seen.klass, seen.rule, seen.roles, seen.implements) == (UNKNOWN, None, (), ())
    assert seen.entry is kernel_classes()[UNKNOWN]


def test_a_users_rule_comes_first(tmp_path: Path) -> None:
    name = "void vllm::rms_norm_kernel<c10::Half, 8, 3, true>(c10::Half*)"
    text = USER_RULE.replace("'house_norm'", "'rms_norm_kernel'").replace("house_norm_kernel", name)
    rules = load_rules(write(tmp_path, text))
    assert rules.classify(name).rule == "mine.norm"
    assert RULES.classify(name).rule == "norm.rms"
    assert rules.rules[1:] == RULES.rules


@pytest.mark.parametrize(
    ("change", "slug", "said"),
    [
        (("words", "wrods"), "unreadable-rules", "wrods"),
        (("class =", "klass ="), "unreadable-rules", "klass"),
        (('examples = ["house_norm_kernel"]', ""), "unreadable-rules", "examples"),
        (("words = 'house_norm'", ""), "bad-rule", "mine.norm"),
        (("'house_norm'", "'house_(?!norm)'"), "bad-rule", "look-around"),
        (("'house_norm'", "'house_('"), "bad-rule", "mine.norm"),
        (('"rmsnorm"', '"rms_norm"'), "bad-rule", "rms_norm"),
        (("words", 'decode = "nvjett"\nwords'), "bad-rule", "nvjett"),
        (("words", 'implements = [["gemn"]]\nwords'), "bad-rule", "gemn"),
        (('"house_norm_kernel"', '"house_rope"'), "bad-rule", "house_rope"),
        (("examples", "not_examples = ['my_house_norm']\nexamples"), "bad-rule", "my_house_norm"),
        (("[[rule]]", "[[rule"), "unreadable-rules", "valid"),
    ],
)
def test_a_wrong_rule_file_is_refused_by_name(
    tmp_path: Path, change: tuple[str, str], slug: str, said: str
) -> None:
    path = write(tmp_path, USER_RULE.replace(*change, 1))
    with pytest.raises(InputError) as raised:
        load_rules(path)
    assert raised.value.slug == slug
    assert said in raised.value.message
    assert raised.value.where == str(path)


def test_a_missing_rule_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError) as raised:
        load_rules(tmp_path / "none.toml")
    assert raised.value.slug == "unreadable-rules"


def test_rules_without_files_know_nothing() -> None:
    assert RuleSet([]).classify("nvjet_tst_64x8_64x16_4x1_v_bz_TNT").klass == UNKNOWN


FRAGMENTS = st.sampled_from(
    [
        "void ", "cutlass::device_kernel<", "nvjet_tst_64x8_64x16_", "splitK", "fmhaSm100fKernel_Qkv",
        "Marlin<1125899906909960, ", "GemmType)2", "bmm_E2m1_", "flash_fwd_splitkv_kernel<", "true, ",
        "CollectiveMainloopFwdSm90<2, ", "ncclDevKernel_", "rms_norm", "quant", "_bwd", ">>", "(int)4",
        "mul_mat_vec_q<(ggml_type)14, ", "topkGating<4, 8, ", "triton_red_fused_", "sm90_xmma_gemm_",
        "ampere_s16816gemm_", "deep_gemm::fp8_gemm_kernel<", "7168, ", "Flash_fwd_kernel_traits<64, ",
    ]
)  # fmt: skip
NAMES = st.one_of(st.text(max_size=40), st.lists(FRAGMENTS, max_size=6).map("".join))


@settings(max_examples=40)
@given(st.lists(NAMES, max_size=12))
def test_any_names_classify_alike_together_again_and_alone(names: list[str]) -> None:
    together = RULES.classify_each(names)
    many = RULES.classify_many(names)
    assert many["name"].to_list() == names
    assert many["class"].to_list() == [seen.klass for seen in together]
    assert many["rule"].to_list() == [seen.rule for seen in together]
    assert RULES.classify_many(pl.Series(names, dtype=pl.String())).equals(many)
    assert [RULES.classify(name) for name in names[:3]] == together[:3]
    for seen in together:
        assert seen.klass in kernel_classes()


def test_the_rule_of_the_documentation_works(tmp_path: Path) -> None:
    page = Path(__file__).parents[2].joinpath("docs/rules.md").read_text(encoding="utf-8")
    block = page.partition("[[rule]]")[2].partition("\n\n")[0]
    text = "[[rule]]" + block.replace("\n    ", "\n")
    rules = load_rules(write(tmp_path, text))
    assert rules.classify("ns::fusedHouseNormKernel<8>(T2*)").rule == "house.norm"
    assert rules.classify("house_norm_rope_kernel").rule == "fused.norm_rope"
