"""Prefill, decode or both: what the attention kernels of a step say, by name or by grid."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from nsysroof.match.rules import KernelClass
from nsysroof.trace.schema import unpack_grid

PHASES = ("prefill", "decode", "mixed", "other")

_PREFILL = ("attention_prefill", "mla_prefill", "linear_attn_prefill")
_DECODE = ("attention_decode", "mla_decode", "linear_attn_decode")
_EITHER = ("attention_mixed", "linear_attn_mixed")
_QUERY_TILES_IN_X = "fa2."  # rules of kernels whose grid.x counts tiles of queries


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

    What a schedule or the engine says of a step holds. Elsewhere a step with prefill attention
    alone prefills, with decode attention alone decodes, with both is mixed. Where the names fit
    both, a replayed step among eager ones decodes, and an eager one with several tiles of queries
    prefills; else it is the phase that the user states; without a word of the user a replayed step
    decodes, and so do steps that repeat where none is replayed. A step without attention, or of
    which nothing tells, is ``other``.

    Args:
        kernels: Kernels with ``gpu``, ``step``, ``name`` and ``grid``.
        steps: Schema ``STEPS``.
        classes: Class of each name.
        stated: The phase that the user named, None for ``auto``.
        known: Phase of each of the steps, null where nobody told it.
    """
    told = (
        _attention(kernels, classes)
        .group_by("gpu", "step")
        .agg(
            (pl.col("told") == "prefill").any().alias("prefill"),
            (pl.col("told") == "decode").any().alias("decode"),
            (pl.col("told") == "tiles").any().alias("tiles"),
        )
    )
    silent = ~pl.col("prefill") & ~pl.col("decode")
    eager = ~pl.col("replayed").any()
    decided = (
        pl.when(pl.col("prefill").is_null())
        .then(pl.lit("other"))
        .when(pl.col("prefill") & pl.col("decode"))
        .then(pl.lit("mixed"))
        .when("prefill")
        .then(pl.lit("prefill"))
        .when(silent & pl.col("replayed") & ~pl.col("replayed").all())
        .then(pl.lit("decode"))
        .when(silent & pl.col("tiles") & ~pl.col("replayed"))
        .then(pl.lit("prefill"))
        .when(silent & pl.lit(stated is not None))
        .then(pl.lit(stated))
        .when(pl.col("decode") | pl.col("replayed") | (silent & eager & (pl.len() > 1)))
        .then(pl.lit("decode"))
        .otherwise(pl.lit("other"))
    )
    phased = (
        steps.join(told, on=["gpu", "step"], how="left", maintain_order="left")
        .with_columns(decided.alias("phase"))
        .drop("prefill", "decode", "tiles")
    )
    return phased if known is None else phased.with_columns(phase=known.fill_null(phased["phase"]))


def _attention(kernels: pl.DataFrame, classes: Sequence[KernelClass]) -> pl.DataFrame:
    """Return ``gpu``, ``step`` and ``told`` of the attention kernels of steps, each kind once."""
    names = attention_names(classes)
    launched = (
        kernels.select("gpu", "step", "name", "grid")
        .filter(pl.col("name").is_in(names) & pl.col("step").is_not_null())
        .unique()
    )
    kinds = launched.select("name", "grid").unique().sort("name", "grid")
    told = [_phase(classes[name], unpack_grid(grid)) for name, grid in kinds.iter_rows()]
    kinds = kinds.with_columns(told=pl.Series(told, dtype=pl.String))
    return launched.join(kinds, on=["name", "grid"]).select("gpu", "step", "told")


def _phase(kernel: KernelClass, grid: Sequence[int]) -> str:
    if kernel.klass in _PREFILL:
        return "prefill"
    if kernel.klass in _DECODE:
        return "decode"
    told = str(kernel.attributes.get("phase", "either"))
    several_tiles = str(kernel.rule).startswith(_QUERY_TILES_IN_X) and grid[0] > 1
    return "tiles" if told == "either" and several_tiles else told
