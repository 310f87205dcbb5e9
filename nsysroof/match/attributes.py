"""What a kernel name says beyond its class: dtypes, tiles, split-K, head size, formats, phase.

A rule names a decoder of ``DECODERS``; each takes the normalised text and returns what it can
read, ``None`` for what it cannot. Attributes mean the same everywhere: ``dtype`` is a peak key
(bf16, fp16, fp8, fp4, int8 …) of the operands, ``dtype_out`` of the result, ``weights`` the format
of the weights in the words of ``--weights``; ``kv_dtype`` the peak key of the cache's elements; ``tile_m`` counts output features and ``tile_n``
tokens; ``phase`` is a hint, decode or prefill.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from types import MappingProxyType

from nsysroof.match.attention_names import (
    decode_cudnn_sdpa,
    decode_fa2,
    decode_fa3,
    decode_flashinfer_decode,
    decode_flashinfer_prefill,
    decode_fmha_v2,
    decode_ggml_attention,
    decode_trtllm_fmha,
    decode_vllm_cache,
)
from nsysroof.match.dtype_names import Attribute, first_type
from nsysroof.match.gemm_names import (
    decode_cublas_legacy,
    decode_cutlass2,
    decode_cutlass3,
    decode_cutlass3x,
    decode_nvjet,
    decode_trtllm_bmm,
    decode_xmma,
)
from nsysroof.match.quantised_names import (
    decode_deep_gemm,
    decode_ggml_matmul,
    decode_marlin,
    decode_matmul_ogs,
    decode_moe_triton,
)

Attributes = dict[str, Attribute | None]

_LITERAL_INTEGERS = re.compile(r"[<,]\s*(\d+)(?=[,>])")


def decode_types(text: str) -> Attributes:
    """Return the first element type of the template arguments, or of the name, as ``dtype``.

    >>> decode_types("ns::copy<c10::BFloat16, float>(c10::BFloat16*)")
    {'dtype': 'bf16'}
    """
    name, _, arguments = text.partition("<")
    dtype = first_type(arguments) or first_type(name)
    return {} if dtype is None else {"dtype": dtype}


def decode_world_size(text: str) -> Attributes:
    """Return the number of ranks of a custom collective, its first integral argument.

    >>> decode_world_size("vllm::cross_device_reduce_1stage<__nv_bfloat16, 2>(vllm::RankData*)")
    {'world_size': 2, 'fusion_pattern': None}
    """
    if "multimem" in text or "mscclpp" in text:  # there the integer is an alignment or a pattern
        return {}
    match = re.match(r"[\w:]+<(?:\([\w:]+\)(\d+), )?(?:[\w:]+, )?(\d+)[,>]", text)
    if match is None:
        return {}
    pattern = None if match[1] is None else int(match[1])
    return {"world_size": int(match[2]), "fusion_pattern": pattern}


def decode_deep_ep(text: str) -> Attributes:
    """Return hidden size, experts per token and FP8 flag of a low-latency DeepEP kernel.

    >>> decode_deep_ep("deep_ep::internode_ll::dispatch<true, 3, 10, 7168>(void*)")
    {'hidden': 7168, 'topk': None, 'dtype': 'fp8'}
    """
    match = re.search(r"internode_ll::(dispatch|combine)<([^<>]*)>", text)
    if match is None:
        return {}
    arguments = [part.strip() for part in match[2].split(",")]
    hidden = next(
        (i for i, part in enumerate(arguments) if part.isdigit() and int(part) >= 512), -1
    )
    if hidden < 0:
        return {}
    rest = arguments[hidden + 1 :]
    return {
        "hidden": int(arguments[hidden]),
        "topk": int(rest[0]) if rest and rest[0].isdigit() and match[1] == "combine" else None,
        "dtype": "fp8" if match[1] == "dispatch" and arguments[0] == "true" else None,
    }


def decode_topk_experts(text: str) -> Attributes:
    """Return the expert count of a gating kernel.

    ``topkGating*<[T,] values per thread, experts, ...>`` and
    ``customMoeRoutingKernel<T, T, Index, experts, top-k, ...>``.

    >>> decode_topk_experts("topkGatingSoftmax<__nv_bfloat16, 8, 128, 4, 16>")
    {'experts': 128}
    """
    match = re.search(r"topkGating\w*<(?:[A-Za-z_][\w:]*, )?\d+, (\d+), ", text)
    if match is not None:
        return {"experts": int(match[1])}
    match = re.search(r"customMoeRoutingKernel<(?:[A-Za-z_][\w:]*, ){3}(\d+), (\d+)", text)
    if match is not None:
        return {"experts": int(match[1]), "topk": int(match[2])}
    return {}


def decode_router_gemm(text: str) -> Attributes:
    """Return tokens, experts and hidden size of ``router_gemm_kernel<T, block, vec, M, N, K>``.

    >>> decode_router_gemm("router_gemm_kernel_bf16_output<__nv_bfloat16, 128, 8, 3, 384, 7168>")
    {'tokens': 3, 'n': 384, 'k': 7168, 'experts': 384}
    """
    match = re.search(r"router_gemm_kernel\w*<[A-Za-z_][\w:]*, \d+, \d+, (\d+), (\d+), (\d+)", text)
    if match is None:
        return {}
    tokens, n, k = (int(part) for part in match.groups())
    return {"tokens": tokens, "n": n, "k": k, "experts": n}


def decode_fused_a_gemm(text: str) -> Attributes:
    """Return tokens, N and K of ``fused_a_gemm_kernel<batch, N, K, ...>``.

    >>> decode_fused_a_gemm("fused_a_gemm_kernel<1, 2112, 7168, 16, 8, 256, 16>(__nv_bfloat16*)")
    {'tokens': 1, 'n': 2112, 'k': 7168}
    """
    match = re.search(r"fused_a_gemm_kernel<(\d+), (\d+), (\d+)", text)
    if match is None:
        return {}
    tokens, n, k = (int(part) for part in match.groups())
    return {"tokens": tokens, "n": n, "k": k}


def decode_qk_norm_rope(text: str) -> Attributes:
    """Return the head size of a query-key norm kernel, its first integral argument.

    >>> decode_qk_norm_rope("tensorrt_llm::kernels::fusedQKNormRopeKernel<64, true>(__nv_bfloat16*)")
    {'head_dim': 64}
    """
    arguments = _LITERAL_INTEGERS.search(text.partition("(")[0])
    return {} if arguments is None else {"head_dim": int(arguments[1])}


DECODERS: Mapping[str, Callable[[str], Attributes]] = MappingProxyType(
    {
        "bmm": decode_trtllm_bmm,
        "cublas_legacy": decode_cublas_legacy,
        "cudnn_sdpa": decode_cudnn_sdpa,
        "cutlass2": decode_cutlass2,
        "cutlass3": decode_cutlass3,
        "cutlass3x": decode_cutlass3x,
        "deep_ep": decode_deep_ep,
        "deep_gemm": decode_deep_gemm,
        "fa2": decode_fa2,
        "fa3": decode_fa3,
        "flashinfer_decode": decode_flashinfer_decode,
        "flashinfer_prefill": decode_flashinfer_prefill,
        "fmha": decode_trtllm_fmha,
        "fmha_v2": decode_fmha_v2,
        "fused_a_gemm": decode_fused_a_gemm,
        "ggml_attention": decode_ggml_attention,
        "ggml_matmul": decode_ggml_matmul,
        "marlin": decode_marlin,
        "matmul_ogs": decode_matmul_ogs,
        "moe_triton": decode_moe_triton,
        "nvjet": decode_nvjet,
        "qk_norm_rope": decode_qk_norm_rope,
        "router_gemm": decode_router_gemm,
        "topk_experts": decode_topk_experts,
        "vllm_cache": decode_vllm_cache,
        "world_size": decode_world_size,
        "xmma": decode_xmma,
    }
)
"""The decoders that a rule may name."""
