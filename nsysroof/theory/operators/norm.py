"""Normalisations: a few FLOP per value, so their bytes are the cost."""

from __future__ import annotations

from nsysroof.theory.cost import Cost
from nsysroof.theory.dtypes import FLOAT_BYTES


def rms_norm(tokens: int, hidden: int, *, dtype: str, residual: bool = False) -> Cost:
    """Return the cost of an RMS norm over ``tokens x hidden``: 4 FLOP per value.

    With ``residual`` it is the fused add + norm: 5 FLOP, and the residual is read and written too.

    >>> rms_norm(1, 2048, dtype="bf16", residual=True).memory_bytes
    20480
    """
    size, streams = FLOAT_BYTES[dtype], 2 if residual else 1
    return Cost(
        flop={"fp32": (5 if residual else 4) * tokens * hidden},
        weight=hidden * size,
        act_read=streams * tokens * hidden * size,
        act_write=streams * tokens * hidden * size,
    )


def gated_norm(tokens: int, width: int, *, weights: int, dtype: str) -> Cost:
    """Return the cost of an RMS norm whose result is scaled by the SiLU of a gate.

    4 FLOP per value for the norm and 5 for the gate; values and gates are read.

    Args:
        tokens: Rows.
        width: Values per row, and gates.
        weights: Norm weights, shared by heads where there are fewer than values.
        dtype: Dtype of all of them.

    >>> c = gated_norm(1, 4096, weights=128, dtype="bf16")
    >>> c.act_read, c.act_write, c.weight, c.total_flop
    (16384, 8192, 256, 36864)
    """
    size = FLOAT_BYTES[dtype]
    return Cost(
        flop={"fp32": 9 * tokens * width},
        weight=weights * size,
        act_read=2 * tokens * width * size,
        act_write=tokens * width * size,
    )


def layer_norm(tokens: int, hidden: int, *, dtype: str) -> Cost:
    """Return the cost of a layer norm: 8 FLOP per value, weight and bias.

    >>> layer_norm(2, 768, dtype="fp16").weight
    3072
    """
    size = FLOAT_BYTES[dtype]
    return Cost(
        flop={"fp32": 8 * tokens * hidden},
        weight=2 * hidden * size,
        act_read=tokens * hidden * size,
        act_write=tokens * hidden * size,
    )


def qk_norm(tokens: int, width: int, *, weights: int, dtype: str) -> Cost:
    """Return the cost of normalising queries and keys of ``width`` values per token in place.

    >>> c = qk_norm(1, (32 + 4) * 128, weights=2 * 128, dtype="bf16")
    >>> c.act_read, c.act_write, c.weight
    (9216, 9216, 512)
    """
    size = FLOAT_BYTES[dtype]
    return Cost(
        flop={"fp32": 4 * tokens * width},
        weight=weights * size,
        act_read=tokens * width * size,
        act_write=tokens * width * size,
    )
