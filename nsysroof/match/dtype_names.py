"""The names of element types in kernel names, and the peak keys they stand for."""

from __future__ import annotations

import re
from typing import TypeAlias

Attribute: TypeAlias = str | int | bool
"""The value of one decoded attribute."""

DECODE_TILE = 32
"""A token tile of at most this size hints at decode (kernel-name survey, phase hints)."""
PREFILL_TILE = 96
"""A token tile of at least this size hints at prefill."""

_ELEMENT_TYPES = (
    (r"__nv_bfloat162?|nv_bfloat16|BFloat16|bfloat16_t|bfloat16\b|\bbf16\b|hip_bfloat16", "bf16"),
    (r"__half2?\b|c10::Half|half_t|\bhalf\b|\bfp16\b|\bf16\b", "fp16"),
    (r"e4m3|e5m2|fp8", "fp8"),
    (r"e2m1|fp4|nvfp4|mxfp4", "fp4"),
    (r"\bsigned char|\bint8", "int8"),
    (r"\bfloat\b|\bf32\b|\bfp32\b", "fp32"),
    (r"\bdouble\b|\bfp64\b", "fp64"),
)
_ANY_ELEMENT = re.compile("|".join(f"(?P<t{i}>{p})" for i, (p, _) in enumerate(_ELEMENT_TYPES)))

SHORT_TYPES = {
    "bf16": "bf16",
    "f16": "fp16",
    "fp16": "fp16",
    "f32": "fp32",
    "fp32": "fp32",
    "f64": "fp64",
    "tf32": "tf32",
    "e4m3": "fp8",
    "e5m2": "fp8",
    "f8": "fp8",
    "fp8": "fp8",
    "e2m1": "fp4",
    "i8": "int8",
    "s8": "int8",
    "u8": "int8",
    "int8": "int8",
    "i32": "int32",
    "s32": "int32",
}
"""Short type names of GEMM tags to peak keys; int32 is an accumulator only."""


def first_type(text: str) -> str | None:
    """Return the peak key of the first element type in a name, None where there is none.

    >>> first_type("vllm::act_and_mul_kernel<c10::BFloat16, float>"), first_type("plan_kernel")
    ('bf16', None)
    """
    match = _ANY_ELEMENT.search(text)
    if match is None:
        return None
    return next(key for i, (_, key) in enumerate(_ELEMENT_TYPES) if match[f"t{i}"] is not None)


def split_types(run: str) -> list[str]:
    """Return the peak keys of types written without a separator.

    >>> split_types("e4m3bf16"), split_types("bf16bf16"), split_types("e4m3e5m2f32")
    (['fp8', 'bf16'], ['bf16', 'bf16'], ['fp8', 'fp8', 'fp32'])
    """
    names = sorted(SHORT_TYPES, key=lambda name: (-len(name), name))
    return [SHORT_TYPES[name] for name in re.findall("|".join(names), run)]


def phase_of_tile(tokens: int) -> str | None:
    """Return the phase that a token tile hints at.

    >>> phase_of_tile(8), phase_of_tile(64), phase_of_tile(128)
    ('decode', None, 'prefill')
    """
    if tokens <= DECODE_TILE:
        return "decode"
    return "prefill" if tokens >= PREFILL_TILE else None


def flag(argument: str) -> bool | None:
    """Return a boolean template argument, None where it is none."""
    return {"true": True, "false": False}.get(argument.strip())
