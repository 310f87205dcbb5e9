"""The grammars of products with quantised weights: Marlin, DeepGEMM, ggml, triton_kernels."""

from __future__ import annotations

import re

from nsysroof.match.dtype_names import SHORT_TYPES, Attribute, first_type

Attributes = dict[str, Attribute | None]

_GGML_TYPES = {
    0: "f32",
    1: "f16",
    2: "q4_0",
    3: "q4_1",
    6: "q5_0",
    7: "q5_1",
    8: "q8_0",
    9: "q8_1",
    10: "q2_k",
    11: "q3_k",
    12: "q4_k",
    13: "q5_k",
    14: "q6_k",
    15: "q8_k",
    16: "iq2_xxs",
    17: "iq2_xs",
    18: "iq3_xxs",
    19: "iq1_s",
    20: "iq4_nl",
    21: "iq3_s",
    22: "iq2_s",
    23: "iq4_xs",
    29: "iq1_m",
    30: "bf16",
    34: "tq1_0",
    35: "tq2_0",
    39: "mxfp4",
}
"""ggml's enumeration of weight formats; forks add private numbers, which stay undecoded."""

_MARLIN = re.compile(
    r"Marlin<(?P<types>(?:[\w:]+, )+?)(?P<threads>\d{2,3}), (?P<m>\d), (?P<n>\d+), (?P<k>\d+), "
    r"(?P<m8>true|false), (?P<stages>\d+), (?P<group>-?\d+), (?P<zp>true|false)>"
)
_DEEP_GEMM_OLD = re.compile(
    r"fp8_gemm_kernel<(\d+), (\d+), (\d+), (\d+), (\d+), \d+, \d+, (\d+), (\d+)"
)
_DEEP_GEMM_NEW = re.compile(
    r"_1d1d_impl<\([^)]*\)\d, \([^)]*\)\d, \d+, \d+, (\d+), (\d+), (\d+), (\d+), (\d+), (\d+)"
)
_GEMM_TYPE = re.compile(r"GemmType\)(\d)")
_OGS = re.compile(
    r"matmul_ogs_[A-Z]+_(?P<a>\w+?)x(?P<b>\w+?)x(?P<w>\w+?)_(?P<m>\d+)x(?P<n>\d+)x(?P<k>\d+)x(?P<s>\d+)(?P<act>_swiglu)?"
)


def scalar_type_name(packed: int) -> str:
    """Return the short name of a packed scalar type, as Marlin's template arguments carry them.

    Bits 0-7 exponent, 8-15 mantissa, 16 signed, 17-48 bias.

    >>> scalar_type_name(1125899906843648), scalar_type_name(1125899907892224)
    ('u4', 'u4b8')
    >>> scalar_type_name(1125899906909960), scalar_type_name(2814749767172868)
    ('bf16', 'fp8')
    """
    exponent, mantissa = packed & 0xFF, packed >> 8 & 0xFF
    signed, bias = packed >> 16 & 1, packed >> 17 & 0xFFFFFFFF
    floats = {
        (8, 7): "bf16",
        (5, 10): "fp16",
        (4, 3): "fp8",
        (5, 2): "fp8",
        (2, 1): "fp4",
        (8, 0): "e8m0",
    }
    if exponent:
        return floats.get((exponent, mantissa), f"e{exponent}m{mantissa}")
    name = f"{'s' if signed else 'u'}{mantissa + signed}"
    return f"{name}b{bias}" if bias else name


def decode_marlin(text: str) -> Attributes:
    """Decode ``Marlin<a, b, [c, s,] threads, m, n, k blocks, m8, stages, group blocks, zp>``.

    Blocks are 16 wide; one block of tokens hints at decode, ``m8`` halves it.

    >>> seen = decode_marlin("marlin::Marlin<1125899906909960, 562949953487106, 1125899906909960, 2814749767106568, 128, 1, 4, 8, true, 4, 2, false>(int4 const*)")
    >>> seen["dtype"], seen["weights"], seen["tile_m"], seen["tile_n"], seen["group_size"]
    ('bf16', 'mxfp4', 64, 8, 32)
    """
    match = _MARLIN.search(text)
    if match is None:
        return {}
    types = [_marlin_type(part) for part in match["types"].rstrip(", ").split(", ")]
    blocks = int(match["m"])
    group = int(match["group"])
    return {
        "dtype": types[0],
        "weights": _marlin_weights(types),
        "tile_m": 16 * int(match["n"]),
        "tile_n": 8 if match["m8"] == "true" else 16 * blocks,
        "tile_k": 16 * int(match["k"]),
        "stages": int(match["stages"]),
        "group_size": 16 * group if group > 0 else group,
        "phase": "decode" if blocks == 1 else None,
    }


def _marlin_type(argument: str) -> str | None:
    if argument.isdigit():
        name = scalar_type_name(int(argument))
        return "int8" if name == "s8" else name
    return first_type(argument)


def _marlin_weights(types: list[str | None]) -> str | None:
    """Return the weight format from types a, b, c and s (scales)."""
    weight = types[1] if len(types) > 1 else None
    scale = types[3] if len(types) > 3 else None
    if weight == "fp4":
        return {"e8m0": "mxfp4", "fp8": "nvfp4"}.get(scale or "")
    if weight == "fp8":
        return "mxfp8" if scale == "e8m0" else "fp8"
    return {"u4": "awq", "u4b8": "gptq", "u8b128": "int8"}.get(weight or "", weight)


def decode_deep_gemm(text: str) -> Attributes:
    """Decode the literal N and K of DeepGEMM, its tile, groups and type of grouping.

    GemmType 1 is grouped-contiguous (prefill), 2 grouped-masked (decode); newer kernels carry 0
    where a size is passed at run time.

    >>> seen = decode_deep_gemm("deep_gemm::fp8_gemm_kernel<7168, 2048, 256, 112, 128, 0, 32, 4, 3, 128, 128, 1, true, (deep_gemm::GemmType)2>(x)")
    >>> seen["n"], seen["k"], seen["experts"], seen["phase"]
    (7168, 2048, 4, 'decode')
    """
    kind = _GEMM_TYPE.search(text)
    number = None if kind is None else int(kind[1])
    base: Attributes = {
        "dtype": "fp8" if "fp8" in text else first_type(text),
        "weights": "fp8-block" if "fp8" in text else None,
        "phase": {1: "prefill", 2: "decode"}.get(number or 0),
    }
    old = _DEEP_GEMM_OLD.search(text)
    if old is not None:
        n, k, tokens, features, depth, groups, stages = (int(part) for part in old.groups())
        return base | {
            "n": n,
            "k": k,
            "tile_m": features,
            "tile_n": tokens,
            "tile_k": depth,
            "stages": stages,
            "experts": groups if number else None,
        }
    new = _DEEP_GEMM_NEW.search(text)
    if new is not None:
        _, n, k, tokens, features, depth = (int(part) for part in new.groups())
        base |= {"n": n or None, "k": k or None}
        base |= {"tile_m": features, "tile_n": tokens, "tile_k": depth}
    return base


def decode_ggml_matmul(text: str) -> Attributes:
    """Decode the weight format and the columns of llama.cpp's products, and its fused GLU.

    >>> decode_ggml_matmul("mul_mat_vec_q<(ggml_type)14, 1, false, false>")
    {'weights': 'q6_k', 'tile_n': 1, 'fused_activation': None, 'dtype': 'int8', 'phase': 'decode'}
    """
    named = re.match(r"mul_mat_(?:vec_)?(i?q\d_\w+?|mxfp4|tq\d_\d)(?:<|$)", text)
    typed = re.search(r"\(ggml_type\)(\d+)(?:, (\d+))?(?:, (true|false))?", text)
    vector = text.startswith("mul_mat_vec")
    weights = named[1].lower() if named else None
    columns, fused = None, None
    if typed is not None:
        weights = _GGML_TYPES.get(int(typed[1]))
        columns = None if typed[2] is None else int(typed[2])
        # The third argument of the vector product is the fused gate, of the other need_check.
        fused = "glu" if vector and typed[3] == "true" else None
    return {
        "weights": weights,
        "tile_n": columns,
        "fused_activation": fused,
        "dtype": "int8",
        "phase": "decode" if vector else None,
    }


def decode_matmul_ogs(text: str) -> Attributes:
    """Decode triton_kernels' ``_matmul_ogs_<layouts>_<A>x<B>x<W>_<M>x<N>x<K>x<splits>[_swiglu]``.

    >>> seen = decode_matmul_ogs("_matmul_ogs_NNT_bf16xbf16xmxfp4_16x256x128x1_swiglu")
    >>> seen["weights"], seen["tile_m"], seen["tile_n"], seen["split_k"], seen["fused_activation"]
    ('mxfp4', 256, 16, False, 'swiglu')
    """
    match = _OGS.search(text)
    if match is None:
        return {"fused_activation": "swiglu" if "swiglu" in text else None}
    return {
        "dtype": SHORT_TYPES.get(match["a"]),
        "weights": match["w"],
        "tile_m": int(match["n"]),
        "tile_n": int(match["m"]),
        "tile_k": int(match["k"]),
        "split_k": int(match["s"]) > 1,
        "fused_activation": "swiglu" if match["act"] else None,
    }


def decode_moe_triton(text: str) -> Attributes:
    """Decode the weight format of expert products that carry it in their name.

    >>> decode_moe_triton("moe_q4_K<c10::Half, true>(void const*)")["weights"]
    'q4_k'
    """
    ggml = re.search(r"\bmoe_(?:vec_)?(i?q\d_\w+?)(?:<|$)", text)
    wna16 = re.search(r"moe_wna16_gemm_kernel<[\w:]+, (\d+), ", text)
    bits = None if wna16 is None else f"int{wna16[1]}"
    activation = re.search(r"swiglu|silu|geglu", text, re.IGNORECASE)
    return {
        "weights": ggml[1].lower() if ggml else bits,
        "fused_activation": None if activation is None else activation[0].lower(),
    }
