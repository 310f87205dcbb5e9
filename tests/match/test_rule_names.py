from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysroof.match.names import spell_names


def spelled(name: str) -> str:
    return str(spell_names(pl.Series([name]))["text"][0])


@pytest.mark.parametrize(
    ("nsys", "torch"),
    [
        ("void k<(int)4, (bool)1>(T1 *)", "void k<4, true>(T1*)"),
        ("void k<(unsigned int)128, (unsigned long)3>()", "void k<128u, 3ul>()"),
        ("void k<(bool)0, (long)-2>()", "void k<false, -2>()"),
        ("void <unnamed>::softmax<float>()", "void (anonymous namespace)::softmax<float>()"),
        (
            "f<[lambda(c10::BFloat16) (instance 1)]>()",
            "f<{lambda(c10::BFloat16)#1}>()",
        ),
        ("void f<g<h<int>>>(const T1 *, T2 *)", "void f<g<h<int> > >(T1 const*, T2*)"),
        (
            "void k<std::array<char *, (unsigned long)2>>(int)",
            "void k<std::array<char*, 2ul> >(int)",
        ),
        (
            "void at_cuda_detail::cub::DeviceScanInitKernel<int>()",
            "void cub::CUB_200700_700_750_NS::DeviceScanInitKernel<int>()",
        ),
    ],
)
def test_nsys_and_torch_spell_one_kernel(nsys: str, torch: str) -> None:
    assert nsys != torch
    assert spelled(nsys) == spelled(torch)


def test_enumerations_keep_their_type() -> None:
    name = "void vllm::f<(vllm::Fp8KVCacheDataType)0>(int)"
    assert spelled(name) == "vllm::f<(vllm::Fp8KVCacheDataType)0>(int)"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        (
            "void tensorrt_llm::kernels::fusedQKNormRopeKernel<64, true>(int)",
            "tensorrt_llm::kernels::fused_qk_norm_rope_kernel",
        ),
        ("BatchPrefillWithPagedKVCacheKernel", "batch_prefill_with_paged_kv_cache_kernel"),
        ("FP8PrefillWithKVCacheKernel", "fp8_prefill_with_kv_cache_kernel"),
        ("UnpackRoPEAppend", "unpack_rope_append"),
        ("InterleavedSwiGLUKernel", "interleaved_swiglu_kernel"),
        ("fusedMoELoRAKernel", "fused_moe_lora_kernel"),
        ("GatedReLUKernel", "gated_relu_kernel"),
        (
            "std::enable_if<(((8)>(0))), void>::type vllm::fused_add_rms_norm_kernel<c10::Half>(int)",
            "vllm::fused_add_rms_norm_kernel",
        ),
        (
            "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(int)",
            "multimem_all_reduce_kernel",
        ),
        ("reshape_and_cache_kernel_flash", "reshape_and_cache_kernel_flash"),
    ],
)
def test_words_are_the_function_name_alone(name: str, words: str) -> None:
    assert spell_names(pl.Series([name]))["words"].to_list() == [words]


def test_a_mangled_name_keeps_its_text_and_gives_its_first_identifiers() -> None:
    name = "_ZN7cutlass13device_kernelINS_4gemm6kernel13GemmUniversalIN4cute5tuple"
    row = spell_names(pl.Series([name])).row(0, named=True)
    assert row["text"] == name
    assert row["words"].endswith("device_kernel")


@given(st.lists(st.text(), max_size=5))
def test_any_text_can_be_spelled_together_as_alone(names: list[str]) -> None:
    views = spell_names(pl.Series(names, dtype=pl.String()))
    assert views["name"].to_list() == names
    assert [spelled(name) for name in names] == views["text"].to_list()
