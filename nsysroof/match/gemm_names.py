"""The grammars of GEMM names: nvjet, cuBLAS, CUTLASS tags and templates, TRT-LLM's batched GEMM.

Column-major libraries put the weights first, so the first tile size counts output features and
the second tokens (checked on published H100 and B200 grids for nvjet).
"""

from __future__ import annotations

import re

from nsysroof.match.dtype_names import (
    SHORT_TYPES,
    Attribute,
    first_type,
    phase_of_tile,
    split_types,
)

Attributes = dict[str, Attribute | None]

_NVJET_LETTERS = {
    "h": "fp16",
    "t": "bf16",
    "s": "fp32",
    "q": "fp8",
    "r": "fp8",
    "o": "fp4",
    "b": "int8",
    "u": "int8",
    "i": "int32",
}
_NVJET = re.compile(
    r"nvjet(?:_sm\d+)?_(?P<types>[a-z]{3}|[a-z]{5})(?P<tf32>_tf32)?"
    r"_(?:mma_)?(?P<m>\d+)x(?P<n>\d+)(?:x(?P<k>\d+)_(?P<st>\d+)|_(?P<k2>\d+)x(?P<st2>\d+))"
    r"(?:_(?P<cluster>\d+x\d+)(?=_))?"
)
_LEGACY = re.compile(
    r"(?:trt_)?[a-z]+_(?:(?P<out>fp16|bf16|int8|fp32)_)?"
    r"(?P<acc>[shidcz])(?P<mma>\d*)(?P<gemm>gemm)_(?:(?P<inn>fp16|bf16|int8|fp32)_)?(?P<m>\d+)x(?P<n>\d+)"
)
_XMMA = re.compile(
    r"xmma_(?:sparse_)?gemm_(?P<io>[a-z0-9]+)_(?P<op>[a-z0-9]+)_[a-z0-9]+_[a-z]{2}_"
    r".*?tilesize(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)(?:_stage(?P<st>\d+))?"
)
_TAG2 = re.compile(
    r"cutlass_\d+_(?:wmma_)?(?P<unit>tensorop|simt)_(?:(?P<out>[a-z]+\d+)_)?"
    r"(?P<acc>[shidcz])(?P<mma>\d*)gemm_(?:(?P<epi>relu|gelu|drelu|dgelu|bgrada|bgradb|grouped)_)?"
    r"(?:(?P<inn>[a-z]+\d+)_)?(?P<m>\d+)x(?P<n>\d+)_(?P<k>\d+)x(?P<st>\d+)"
)
_TAG3 = re.compile(
    r"cutlass3x_sm\d+_[a-z]+_[a-z]\d+x\d+x\d+[a-z0-9]*?gemm_(?P<scaled>block_scaled_)?"
    r"(?P<a>[a-z0-9]+)_(?P<b>[a-z0-9]+)_(?P<acc>[a-z0-9]+)_(?P<c>[a-z0-9]+)_(?P<d>[a-z0-9]+)"
    r"_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)"
)
_BMM = re.compile(
    r"b?(?:b|ge)mm_(?P<c>[A-Z][A-Za-z]*\d*(?:m\d)?)_(?P<ab>[A-Za-z0-9]+)(?:_cast[A-Za-z0-9]+)?"
    r"(?:_.*?_t(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)(?:u2)?_s(?P<st>\d+))?"
)
_BMM_TYPE = re.compile(r"Mx(?:E2m1|E4m3|Int4)|E2m1|E4m3|E5m2|Bfloat16|Fp16|Fp32|Int4")
_BMM_FORMATS = {
    "E2m1": ("fp4", "nvfp4"),
    "MxE2m1": ("fp4", "mxfp4"),
    "MxE4m3": ("fp8", "mxfp8"),
    "MxInt4": ("int4", "int4"),
    "Int4": ("int4", "int4"),
    "E4m3": ("fp8", "fp8"),
    "E5m2": ("fp8", "fp8"),
    "Bfloat16": ("bf16", "bf16"),
    "Fp16": ("fp16", "fp16"),
    "Fp32": ("fp32", "fp32"),
}


def decode_nvjet(text: str) -> Attributes:
    """Decode ``nvjet[_smNN]_<types>_<M>x<N>_<K>x<stages>_<cluster>_..._<trans>``.

    Three letters are A = B, accumulator, C = D; five are A, B, C, accumulator, D.

    >>> seen = decode_nvjet("nvjet_tss_64x8_64x16_1x2_h_bz_splitK_TNT")
    >>> seen["dtype"], seen["dtype_out"], seen["tile_m"], seen["tile_n"], seen["split_k"]
    ('bf16', 'fp32', 64, 8, True)
    """
    match = _NVJET.match(text)
    if match is None:
        cut = re.match(r"nvjet(?:_sm\d+)?_([hstqrobui]{3}|[hstqrobui]{5})(?:_|$)", text)
        return {} if cut is None else {"dtype": _NVJET_LETTERS[cut[1][0]]}
    letters = [_NVJET_LETTERS.get(letter) for letter in match["types"]]
    a, b, accumulate, out = _nvjet_types(letters)
    dtype = "tf32" if match["tf32"] else a
    tile_m, tile_n = int(match["m"]), int(match["n"])
    return {
        "dtype": dtype,
        "dtype_b": b,
        "accumulate": accumulate,
        "dtype_out": out,
        "weights": _block_scaled(text, dtype),
        "tile_m": tile_m,
        "tile_n": tile_n,
        "tile_k": int(match["k"] or match["k2"]),
        "stages": int(match["st"] or match["st2"]),
        "cluster": match["cluster"],
        "split_k": "_splitK" in text,
        "bias": bool(re.search(r"_(relu|gelu)?bias", text)),
        "fused_activation": _first_of(text, ("relubias", "gelubias"), cut="bias"),
        "phase": phase_of_tile(min(tile_m, tile_n)),
    }


def _nvjet_types(letters: list[str | None]) -> tuple[str | None, ...]:
    if len(letters) == 3:
        a, accumulate, out = letters
        return a, a, accumulate, out
    a, b, _, accumulate, out = letters
    return a, b, accumulate, out


def _block_scaled(text: str, dtype: str | None) -> str | None:
    if "UE4M3" in text:
        return "nvfp4"
    if "UE8M0" in text:
        return "mxfp4" if dtype == "fp4" else "mxfp8"
    if re.search(r"[AB](?:vec|blk)128", text):
        return "fp8-block"
    return {"fp4": "nvfp4"}.get(dtype or "", dtype)


def decode_cublas_legacy(text: str) -> Attributes:
    """Decode ``<arch>_[out_]<acc><mma>gemm_[in_]<M>x<N>_...``; without out the result is fp32.

    >>> seen = decode_cublas_legacy("ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_64x3_tn")
    >>> seen["dtype"], seen["accumulate"], seen["tile_m"], seen["tile_k"], seen["stages"]
    ('bf16', 'fp32', 128, 64, 3)
    """
    match = _LEGACY.match(text)
    if match is None:
        return {}
    accumulate = {"s": "fp32", "h": "fp16", "i": "int32", "d": "fp64"}.get(match["acc"])
    stages = re.search(r"_stages_(\d+)x(\d+)", text)
    return {
        "dtype": _legacy_input(match["acc"], match["mma"], match["inn"] or match["out"]),
        "accumulate": accumulate,
        "dtype_out": SHORT_TYPES.get(match["out"] or "", accumulate),
        "tile_m": int(match["m"]),
        "tile_n": int(match["n"]),
        "tile_k": None if stages is None else int(stages[1]),
        "stages": None if stages is None else int(stages[2]),
    }


def _legacy_input(accumulate: str, mma: str, named: str | None) -> str | None:
    if named is not None:
        return SHORT_TYPES[named]
    if accumulate == "s" and mma == "1688":
        return "tf32"  # an MMA of single precision without an input type is TF32
    if accumulate == "s" and mma == "884":
        return "fp16"  # Volta's only tensor-core input
    return {"s": "fp32", "h": "fp16", "d": "fp64", "i": "int8"}.get(accumulate)


def decode_xmma(text: str) -> Attributes:
    """Decode ``smNN_xmma_gemm_<in><out>_<op><acc>_<scale>_<ab>_n_tilesize<M>x<N>x<K>_...``.

    >>> seen = decode_xmma("sm90_xmma_gemm_e4m3bf16_e4m3f32_f32_tn_n_tilesize64x256x128_gelu_x")
    >>> seen["dtype"], seen["dtype_out"], seen["accumulate"], seen["fused_activation"]
    ('fp8', 'bf16', 'fp32', 'gelu')
    """
    match = _XMMA.search(text)
    if match is None:
        return {}
    storage, operands = split_types(match["io"]), split_types(match["op"])
    tile_m, tile_n = int(match["m"]), int(match["n"])
    return {
        "dtype": operands[0] if operands else None,
        "dtype_out": storage[-1] if storage else None,
        "accumulate": operands[-1] if operands else None,
        "tile_m": tile_m,
        "tile_n": tile_n,
        "tile_k": int(match["k"]),
        "stages": None if match["st"] is None else int(match["st"]),
        "bias": "_bias" in text,
        "fused_activation": _first_of(text, ("_gelu_", "_relu_"), cut="_"),
    }


def decode_cutlass2(text: str) -> Attributes:
    """Decode the tag of ``cutlass::Kernel2<cutlass_80_tensorop_...>``.

    A relu tag is also used with the activation switched off, so it claims none.

    >>> seen = decode_cutlass2("cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_128x64_32x6_tn_align8>")
    >>> seen["dtype"], seen["dtype_out"], seen["tile_m"], seen["tile_n"], seen["stages"]
    ('bf16', 'bf16', 128, 64, 6)
    """
    match = _TAG2.search(text)
    if match is None:
        return {}
    accumulate = {"s": "fp32", "h": "fp16", "i": "int32", "d": "fp64"}.get(match["acc"])
    named = match["inn"] or match["out"]
    simt = match["unit"] == "simt" and match["acc"] == "s"
    dtype = SHORT_TYPES.get(named) if named else _legacy_input(match["acc"], match["mma"], None)
    return {
        "dtype": "fp32" if simt else dtype,
        "accumulate": accumulate,
        "dtype_out": SHORT_TYPES.get(match["out"] or "", accumulate),
        "tile_m": int(match["m"]),
        "tile_n": int(match["n"]),
        "tile_k": int(match["k"]),
        "stages": int(match["st"]),
        "fused_activation": "gelu" if match["epi"] == "gelu" else None,
    }


def decode_cutlass3x(text: str) -> Attributes:
    """Decode ``cutlass3x_smNN_<op>_<inst>gemm_<A>_<B>_<acc>_<C>_<D>_<M>x<N>x<K>_...``.

    >>> seen = decode_cutlass3x("cutlass3x_sm100_tensorop_s128x64x32gemm_f8_f8_f32_f16_f16_128x64x128_0_tnn_align16_2sm_bias_f16_relu")
    >>> seen["dtype"], seen["accumulate"], seen["dtype_out"], seen["tile_k"], seen["bias"]
    ('fp8', 'fp32', 'fp16', 128, True)
    """
    match = _TAG3.search(text)
    if match is None:
        return {}
    dtype = _scaled_operand(match["a"])
    return {
        "dtype": dtype,
        "dtype_b": _scaled_operand(match["b"]),
        "accumulate": SHORT_TYPES.get(match["acc"]),
        "dtype_out": _scaled_operand(match["d"]),
        "weights": _scaled_format(match["a"]) if match["scaled"] else dtype,
        "tile_m": int(match["m"]),
        "tile_n": int(match["n"]),
        "tile_k": int(match["k"]),
        "bias": "_bias" in text,
        "stream_k": "_stream_k" in text,
        "fused_activation": _first_of(text, ("_gelu", "_relu"), cut="_"),
    }


def _scaled_operand(name: str) -> str | None:
    return SHORT_TYPES.get(name.rpartition("x")[2])  # ue8m0xe4m3: scale type x data type


def _scaled_format(name: str) -> str | None:
    scale, _, data = name.rpartition("x")
    formats = {("ue4m3", "e2m1"): "nvfp4", ("ue8m0", "e2m1"): "mxfp4"}
    return formats.get((scale, data), "mxfp8" if scale == "ue8m0" else None)


def decode_cutlass3(text: str) -> Attributes:
    """Decode what the templates of CUTLASS 3 show: operand type, block scaling, activation.

    >>> decode_cutlass3("cutlass::device_kernel<vllm::cutlass_3x_gemm_sm90_fp8<cutlass::float_e4m3_t, cutlass::half_t>>")["weights"]
    'fp8'
    """
    dtype = _template_operand(text)
    lowered = text.lower()
    weights = dtype
    if dtype == "fp4":
        weights = "mxfp4" if "ue8m0" in lowered else "nvfp4"
    elif dtype == "fp8" and re.search(r"blockwise|blockscal", lowered):
        weights = "fp8-block"
    if re.search(r"integer_subbyte(?:<4|ILi4)|uint4b8|int4b_t", text):
        weights = "int4"
    return {
        "dtype": dtype,
        "weights": weights,
        "fused_activation": _first_of(lowered, ("swiglu", "silu", "gelu")),
    }


def _template_operand(text: str) -> str | None:
    if re.search(r"float_e2m1|nv_float4|mx_float4|nvfp4|fp4", text):
        return "fp4"
    if re.search(r"float_e4m3|float_e5m2|_fp8|fp8_", text):
        return "fp8"
    if re.search(r"<signed char|WithVisitorIa|int8", text):
        return "int8"
    return first_type(text)


def decode_trtllm_bmm(text: str) -> Attributes:
    """Decode ``bmm_<C>_<A><B>_<acc>_..._t<M>x<N>x<K>_s<stages>_..._[swiGlu_]...``.

    With ``transOut`` A are the weights: tile M counts features and tile N tokens.

    >>> seen = decode_trtllm_bmm("bmm_MxE4m3_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_rM_TN_transOut_swiGlu_sm100f")
    >>> seen["weights"], seen["dtype"], seen["tile_n"], seen["fused_activation"], seen["phase"]
    ('mxfp4', 'fp8', 16, 'swiglu', 'decode')
    """
    match = _BMM.match(text)
    if match is None:
        return {}
    operands = _BMM_TYPE.findall(match["ab"])
    if len(operands) != 2:
        return {}
    weights, activations = operands if "transOut" in text or "_t" not in text else operands[::-1]
    tile_n = None if match["n"] is None else int(match["n"])
    block_scaled = weights == "E4m3" and "dsFp8" in text
    return {
        "dtype": _BMM_FORMATS[activations][0],
        "weights": "fp8-block" if block_scaled else _BMM_FORMATS[weights][1],
        "dtype_out": _BMM_FORMATS.get(match["c"], (None, None))[0],
        "accumulate": "fp32" if "_Fp32" in text else None,
        "tile_m": None if match["m"] is None else int(match["m"]),
        "tile_n": tile_n,
        "tile_k": None if match["k"] is None else int(match["k"]),
        "stages": None if match["st"] is None else int(match["st"]),
        "bias": "_bias" in text,
        "fused_activation": _first_of(text, ("swiGlu", "geGlu", "relu2")),
        "phase": None if tile_n is None else phase_of_tile(tile_n),
    }


def _first_of(text: str, words: tuple[str, ...], *, cut: str = "") -> str | None:
    found = next((word for word in words if word in text), None)
    return None if found is None else found.replace(cut, "").lower()
