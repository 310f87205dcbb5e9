"""The spelling of kernel names: what nsys, torch and c++filt write differently becomes one text.

Two views of a name are matched by the rules. The *text* is the whole demangled name in one
spelling. The *words* are the qualified function name alone, without return type, template
arguments and parameters, in lower-case words joined by underscores.
"""

from __future__ import annotations

import re

import polars as pl

VIEWS = pl.Schema({"name": pl.String(), "text": pl.String(), "words": pl.String()})

_INTEGER = r"(?:(?:un)?signed )?(?:int|short|char|long long|long)"
_TEXT_STEPS: tuple[tuple[str, str], ...] = (
    (r"^\s+|\s+$", ""),
    (r"(?:\(anonymous namespace\)|<unnamed>|\(anonymous\)|\{anonymous\})::", ""),
    (r"\(bool\)1\b", "true"),
    (r"\(bool\)0\b", "false"),
    (rf"\({_INTEGER}\)(-?[0-9])", "$1"),
    (r"\b([0-9]+)(?:ull|ul|ll|u|l)\b", "$1"),
    (r"\[lambda(\([^\[\]]*\)) \(instance ([0-9]+)\)\]", "{lambda$1#$2}"),
    (r"\bconst ([A-Za-z_][A-Za-z0-9_:]*)", "$1 const"),
    (r" +([>*&])", "$1"),
    (r"\b(?:at_cuda_detail|at::cuda(?:::detail)?)::cub::", "cub::"),
    (r"\b(cub|thrust)::(?:CUB|THRUST)_[0-9A-Z_]+::", "$1::"),
    (r"^(?:void|std::enable_if<.*?>::type) ", ""),
)
"""Replacements in order; linear-time syntax, so no look-around."""

# RoPE, MoE, SwiGLU: one word each, though their capitals stand like those of two.
_WORDS_STEPS: tuple[tuple[str, str], ...] = (
    (r"[<(].*$", ""),
    (r"([a-z])GLU", "${1}glu"),
    (r"([a-z])LU", "${1}lu"),
    (r"RoPE", "Rope"),
    (r"MoE", "Moe"),
    (r"LoRA", "Lora"),
    (r"([a-z])([A-Z])", "${1}_$2"),
    (r"([0-9])([A-Z][a-z])", "${1}_$2"),
    (r"([A-Z])([A-Z][a-z])", "${1}_$2"),
)

_LENGTH = re.compile(r"[1-9][0-9]{0,3}")
"""The length before an identifier of a mangled name; none is longer than 9,999 letters."""


def spell_names(names: pl.Series) -> pl.DataFrame:
    """Return the views of each name: columns name (as given), text and words, in input order.

    >>> spell_names(pl.Series(["void ns::fusedQKNorm<(int)4, (bool)1>(const T1 *)"])).row(0)[1:]
    ('ns::fusedQKNorm<4, true>(T1 const*)', 'ns::fused_qk_norm')
    >>> spell_names(pl.Series(["std::enable_if<!T7, void>::type gemvx::kernel<int, (bool)0>(T13)"]))["text"][0]
    'gemvx::kernel<int, false>(T13)'
    """
    text = names.cast(pl.String()).rename("text")
    for pattern, replacement in _TEXT_STEPS:
        text = text.str.replace_all(pattern, replacement)
    words = _unmangle_all(text).rename("words")
    for pattern, replacement in _WORDS_STEPS:
        words = words.str.replace_all(pattern, replacement)
    return pl.DataFrame([names.rename("name"), text, words.str.to_lowercase()], schema=VIEWS)


def _unmangle_all(text: pl.Series) -> pl.Series:
    mangled = text.str.starts_with("_Z").fill_null(value=False)
    if not mangled.any():
        return text
    # Few names stay mangled, so that one by one is cheap.
    names = [unmangle_function(name) for name in text.filter(mangled)]
    return text.clone().scatter(mangled.arg_true(), names)


def unmangle_function(name: str) -> str:
    """Return the qualified function of a mangled name; template arguments and parameters go.

    An identifier stands behind its length: ``_ZN2ns3fooIiEEvi`` is ``ns::foo``. Anonymous
    namespaces are left out. A name that begins otherwise is returned as it is.

    >>> unmangle_function("_ZN4vllm15rms_norm_kernelIN3c104HalfEEEvPT_PKS3_fii")
    'vllm::rms_norm_kernel'
    >>> unmangle_function("_Z9mul_mat_qIL9ggml_type8ELi64EEvPKc")
    'mul_mat_q'
    """
    at = len(name) - len(name[2:].lstrip("NLKV"))
    parts = []
    while length := _LENGTH.match(name, at):
        at = length.end() + int(length[0])
        parts.append(name[length.end() : at])
    kept = [part for part in parts if not part.startswith("_GLOBAL__N_")]
    return "::".join(kept) or name
