"""Prefill, decode or both: what the attention kernels of a step say."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from nsysroof.match.rules import KernelClass

PHASES = ("prefill", "decode", "mixed", "other")

_PREFILL = ("attention_prefill", "mla_prefill", "linear_attn_prefill")
_DECODE = ("attention_decode", "mla_decode", "linear_attn_decode")
_EITHER = ("attention_mixed", "linear_attn_mixed")


def attention_names(classes: Sequence[KernelClass]) -> list[int]:
    """Return the names whose class is attention proper, one launch per layer and step."""
    wanted = (*_PREFILL, *_DECODE, *_EITHER)
    return [name for name, kernel in enumerate(classes) if kernel.klass in wanted]


def step_phases(
    kernels: pl.DataFrame,
    steps: pl.DataFrame,
    classes: Sequence[KernelClass],
    *,
    stated: str | None,
    known: pl.Series | None = None,
) -> pl.DataFrame:
    """Return the steps with a ``phase``.

    What a schedule or the engine says of a step holds. Elsewhere a step with prefill attention alone prefills, with decode attention alone decodes, with both
    is mixed. Where the names fit both, it is the phase that the user states; without a word of
    the user a replayed step decodes, and so do steps that repeat. A step without attention is
    ``other``.

    Args:
        kernels: Kernels with ``gpu``, ``step`` and ``name``.
        steps: Schema ``STEPS``.
        classes: Class of each name.
        stated: The phase that the user named, None for ``auto``.
        known: Phase of each of the steps, null where nobody told it.
    """
    told_by_name = pl.Series("told", [_phase(kernel) for kernel in classes], dtype=pl.String)
    stepped = kernels.select("gpu", "step", "name").filter(pl.col("step").is_not_null())
    told = (
        stepped.with_columns(told_by_name.gather(stepped["name"]))
        .filter(pl.col("told").is_not_null())
        .group_by("gpu", "step")
        .agg(
            (pl.col("told") == "prefill").any().alias("prefill"),
            (pl.col("told") == "decode").any().alias("decode"),
        )
    )
    silent = ~pl.col("prefill") & ~pl.col("decode")
    decided = (
        pl.when(pl.col("prefill").is_null())
        .then(pl.lit("other"))
        .when(pl.col("prefill") & pl.col("decode"))
        .then(pl.lit("mixed"))
        .when("prefill")
        .then(pl.lit("prefill"))
        .when(silent & pl.lit(stated is not None))
        .then(pl.lit(stated))
        .when(pl.col("decode") | pl.col("replayed") | (silent & (pl.len() > 1)))
        .then(pl.lit("decode"))
        .otherwise(pl.lit("other"))
    )
    phased = (
        steps.join(told, on=["gpu", "step"], how="left", maintain_order="left")
        .with_columns(decided.alias("phase"))
        .drop("prefill", "decode")
    )
    return phased if known is None else phased.with_columns(phase=known.fill_null(phased["phase"]))


def _phase(kernel: KernelClass) -> str | None:
    if kernel.klass in _PREFILL:
        return "prefill"
    if kernel.klass in _DECODE:
        return "decode"
    if kernel.klass in _EITHER:
        return str(kernel.attributes.get("phase", "either"))
    return None
