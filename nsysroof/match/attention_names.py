"""The grammars of attention names: FlashAttention 2 and 3, TRT-LLM, cuDNN, FlashInfer, llama.cpp."""

from __future__ import annotations

import re

from nsysroof.match.dtype_names import Attribute, first_type, flag

Attributes = dict[str, Attribute | None]

_FA2_TRAITS = re.compile(
    r"Flash_fwd_kernel_traits<(\d+), (\d+), (\d+), [^<>]*?(?:<[^<>]*>)?[^<>]*>"
)
_FA3_MAINLOOP = re.compile(
    r"CollectiveMainloopFwdSm90<\d+, cute::tuple<[^()]*?>, "
    r"cute::tuple<cute::C<(?P<m>\d+)>, cute::C<(?P<n>\d+)>, cute::C<(?P<d>\d+)>>, (?P<dv>\d+), "
    r"(?P<type>[\w:]+), [\w:]+, cutlass::arch::Sm90, (?P<flags>(?:(?:true|false)(?:, )?)+)"
)
_FA3_AMPERE = re.compile(
    r"CollectiveMainloopFwdSm80<\d+, \d+, (?:true|false), "
    r"cute::tuple<cute::C<(?P<m>\d+)>, cute::C<(?P<n>\d+)>, cute::C<(?P<d>\d+)>>, (?P<dv>\d+), "
    r"(?P<type>[\w:]+), [\w:]+, cutlass::arch::Sm\d+, (?P<flags>(?:(?:true|false)(?:, )?)+)"
)
_TRTLLM_TYPES = {
    "Bfloat16": "bf16",
    "Fp16": "fp16",
    "E4m3": "fp8",
    "E2m1": "fp4",
    "E5m2": "fp8",
}
_TRTLLM_TYPE = "|".join(_TRTLLM_TYPES)
_TRTLLM = re.compile(
    rf"fmhaSm\w+?Kernel_Q(?P<joint>kv)?(?P<q>{_TRTLLM_TYPE})(?:Kv(?P<kv>{_TRTLLM_TYPE}))?"
    rf"O(?P<o>{_TRTLLM_TYPE})H(?:Qk(?P<qk>\d+)HV(?P<v>\d+)|(?P<d>\d+))"
)
_DECODE_QUERY_TILE = 64  # FA3 picks a query tile of 64 for decode, 128 or 192 for prefill


def decode_fa2(text: str) -> Attributes:
    """Decode ``flash_fwd[_splitkv]_kernel<traits<D, BM, BN, ...>, flags...>``.

    Flags without split: dropout, causal, local, alibi, even MN, even K, softcap, return softmax;
    with split: causal, local, alibi, even MN, even K, softcap, Split, Append KV.

    >>> seen = decode_fa2("flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<64, 64, 256, 4, false, false, cutlass::half_t>, true, false, false, false, true, true, true, false>(flash::Flash_fwd_params)")
    >>> seen["head_dim"], seen["causal"], seen["split_kv"], seen["phase"]
    (64, True, True, 'decode')
    """
    traits = _FA2_TRAITS.search(text)
    if traits is None:
        return {}
    seen: Attributes = {
        "dtype": first_type(text),
        "kv_dtype": first_type(text),  # queries and cache have one type
        "head_dim": int(traits[1]),
        "tile_q": int(traits[2]),
        "tile_kv": int(traits[3]),
    }
    flags = [flag(part) for part in re.findall(r", (true|false)", text[traits.end() :])]
    if "combine" in text or not flags:
        return seen
    if "splitkv" in text and len(flags) >= 8:
        split = flags[6]
        return seen | {
            "causal": flags[0],
            "window": flags[1],
            "split_kv": split,
            "appends_kv": flags[7],
            "phase": "decode" if split else None,
        }
    if "splitkv" not in text and len(flags) >= 3:
        return seen | {"causal": flags[1], "window": flags[2]}
    return seen


def decode_fa3(text: str) -> Attributes:
    """Decode the mainloop of FlashAttention 3.

    The first seven flags are causal, local, softcap, varlen, paged, append KV, has Qv; the last
    three pack GQA, Split, V column-major (forks add flags between them).

    >>> seen = decode_fa3("FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2, cute::tuple<cute::C<1>, cute::C<1>, cute::C<1>>, cute::tuple<cute::C<64>, cute::C<192>, cute::C<64>>, 64, cutlass::bfloat16_t, float, cutlass::arch::Sm90, false, false, false, true, true, false, false, false, true, true, true, true, false, cutlass::bfloat16_t, 1>>")
    >>> seen["head_dim"], seen["tile_q"], seen["paged"], seen["split_kv"], seen["phase"]
    (64, 64, True, True, 'decode')
    """
    match = _FA3_MAINLOOP.search(text)
    ampere = match is None
    match = match or _FA3_AMPERE.search(text)
    if match is None:
        return {}
    flags = [flag(part) for part in match["flags"].strip(", ").split(", ")]
    head, value = int(match["d"]), int(match["dv"])
    seen: Attributes = {
        "dtype": first_type(match["type"]),
        "kv_dtype": first_type(match["type"]),  # queries and cache have one type
        "head_dim": head,
        "head_dim_v": value,
        "tile_q": int(match["m"]),
        "tile_kv": int(match["n"]),
    }
    names = ("causal", "window", "softcap", "varlen", "paged", "appends_kv", "has_qv")
    seen |= dict(zip(names, flags, strict=False))
    if ampere or len(flags) < 12:
        return seen
    phase = "decode" if int(match["m"]) == _DECODE_QUERY_TILE else "prefill"
    return seen | {"packs_gqa": flags[-3], "split_kv": flags[-2], "phase": phase}


def decode_trtllm_fmha(text: str) -> Attributes:
    """Decode ``fmhaSm..Kernel_Q[kv]<T>[Kv<T>]O<T>H<D>...<mask>...Q<tile>Kv<tile>...``.

    >>> seen = decode_trtllm_fmha("fmhaSm100fKernel_QE4m3KvE2m1OE4m3H64PagedKvSlidingOrChunkedCausalP16MultiCtasKvVarSeqQ16Kv128StaticSwapsAbForGen")
    >>> seen["dtype"], seen["kv_dtype"], seen["head_dim"], seen["window"], seen["split_kv"]
    ('fp8', 'fp4', 64, True, True)
    """
    match = _TRTLLM.match(text)
    if match is None:
        return {}
    query = _TRTLLM_TYPES[match["q"]]
    page = re.search(r"(?:Causal|Dense|Custom|Sparse)P(\d+)", text)
    tiles = re.search(r"Q(\d+)Kv(\d+)", text)
    return {
        "dtype": query,
        "kv_dtype": query if match["joint"] else _TRTLLM_TYPES.get(match["kv"] or ""),
        "dtype_out": _TRTLLM_TYPES[match["o"]],
        "head_dim": int(match["qk"] or match["d"]),
        "head_dim_v": int(match["v"] or match["d"]),
        "paged": "PagedKv" in text,
        "page": None if page is None else int(page[1]),
        "causal": "Causal" in text,
        "window": "SlidingOrChunkedCausal" in text,
        "split_kv": "MultiCtasKv" in text,
        "tile_q": None if tiles is None else int(tiles[1]),
        "tile_kv": None if tiles is None else int(tiles[2]),
        "phase": "prefill" if "Context" in text else "decode" if "ForGen" in text else None,
    }


def decode_cudnn_sdpa(text: str) -> Attributes:
    """Decode ``..._sdpa_sm90_flash_fprop_wgmma_f16_knob_<k>_<BM>x<BN>x<D>_...``; f16 covers bf16.

    >>> decode_cudnn_sdpa("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x")
    {'tile_q': 64, 'tile_kv': 128, 'head_dim': 128}
    """
    match = re.search(r"_(\d+)x(\d+)x(\d+)_\d", text)
    if match is None:
        return {}
    return {"tile_q": int(match[1]), "tile_kv": int(match[2]), "head_dim": int(match[3])}


def decode_fmha_v2(text: str) -> Attributes:
    """Decode ``fmha_v2_flash_attention_<T>_<BM>_<BN>_S_[layout_]<D>[_causal]..._sm<cc>_kernel``.

    >>> decode_fmha_v2("fmha_v2_flash_attention_bf16_64_32_S_q_paged_kv_128_causal_tma_ws_sm90_kernel")
    {'dtype': 'bf16', 'tile_q': 64, 'tile_kv': 32, 'head_dim': 128, 'causal': True, 'paged': True}
    """
    match = re.search(r"attention_([a-z0-9]+?)_(?:fp32_)?(\d+)_(\d+)_S_(?:[a-z_]*?)(\d+)", text)
    if match is None:
        return {}
    return {
        "dtype": {"bf16": "bf16", "fp16": "fp16", "e4m3": "fp8"}.get(match[1]),
        "tile_q": int(match[2]),
        "tile_kv": int(match[3]),
        "head_dim": int(match[4]),
        "causal": "_causal" in text,
        "paged": "paged_kv" in text,
    }


def decode_flashinfer_prefill(text: str) -> Attributes:
    """Decode FlashInfer's ``KernelTraits<mask, CTA_TILE_Q, _, _, D_QK/16, D_VO/16, ...>``.

    A query tile of 16 is tensor-core decode.

    >>> seen = decode_flashinfer_prefill("flashinfer::BatchPrefillWithPagedKVCacheKernel<flashinfer::KernelTraits<(flashinfer::MaskMode)1, 16, 1, 1, 8, 8, 1, 4, (flashinfer::PosEncodingMode)0, __nv_bfloat16>>")
    >>> seen["causal"], seen["head_dim"], seen["phase"]
    (True, 128, 'decode')
    """
    match = re.search(r"KernelTraits<\([\w:]*MaskMode\)(\d), (\d+), \d+, \d+, (\d+), (\d+),", text)
    if match is None:
        return {}
    tile = int(match[2])
    return {
        "causal": match[1] == "1",
        "tile_q": tile,
        "head_dim": 16 * int(match[3]),
        "head_dim_v": 16 * int(match[4]),
        "dtype": first_type(text[match.end() :]),
        "kv_dtype": _cache_type(text),
        "phase": "decode" if tile == 16 else "prefill",
    }


def decode_flashinfer_decode(text: str) -> Attributes:
    """Decode FlashInfer's ``BatchDecodeParams<query, cache, output, index>``.

    >>> decode_flashinfer_decode("flashinfer::BatchDecodeWithPagedKVCacheKernel<2, 4, 8, flashinfer::BatchDecodeParams<__nv_bfloat16, __nv_fp8_e4m3, __nv_bfloat16, int>>")
    {'dtype': 'bf16', 'kv_dtype': 'fp8'}
    """
    return {"dtype": first_type(text), "kv_dtype": _cache_type(text)}


def decode_vllm_cache(text: str) -> Attributes:
    """Decode vLLM's cache writes ``<input, cache, (vllm::Fp8KVCacheDataType)n>``; 0: no FP8.

    >>> decode_vllm_cache("vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, unsigned char, (vllm::Fp8KVCacheDataType)1>(x)")
    {'dtype': 'bf16', 'kv_dtype': 'fp8'}
    >>> decode_vllm_cache("k_set_rows<float, long, __half>(float const*)")
    {'dtype': 'fp32', 'kv_dtype': None}
    """
    match = re.search(r"<[^<>]*?, ([\w:]+|unsigned char), \([\w:]*KVCacheDataType\)(\d)", text)
    cache = None if match is None else first_type(match[1]) if match[2] == "0" else "fp8"
    return {"dtype": first_type(text), "kv_dtype": cache}


def _cache_type(text: str) -> str | None:
    """Return the second type of FlashInfer's parameters, the cache's."""
    match = re.search(r"Params<[\w:]+, ([\w:]+), ", text)
    return None if match is None else first_type(match[1])


def decode_ggml_attention(text: str) -> Attributes:
    """Decode ``flash_attn_ext_*<DKQ, DV, ncols1, ...>`` and ``flash_attn_ext_vec<D, ncols, ...>``.

    >>> decode_ggml_attention("flash_attn_ext_f16<128, 128, 2, 4, false, false>")
    {'head_dim': 128, 'head_dim_v': 128}
    """
    match = re.match(r"flash_attn_(?:ext_vec|vec_ext)\w*<(\d+), ", text)
    if match is not None:
        return {"head_dim": int(match[1]), "head_dim_v": int(match[1])}
    match = re.match(r"flash_attn_\w+<(\d+), (\d+), ", text)
    if match is None:
        return {}
    return {"head_dim": int(match[1]), "head_dim_v": int(match[2])}
