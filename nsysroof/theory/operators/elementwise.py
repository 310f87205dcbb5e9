"""Element-wise operators: rotary embedding, activations, residual adds, gates, table look-ups."""

from __future__ import annotations

from enum import StrEnum

from nsysroof.theory.cost import Cost
from nsysroof.theory.dtypes import FLOAT_BYTES


def rope(tokens: int, width: int, *, rotary: int, heads: int, dtype: str) -> Cost:
    """Return the cost of rotating queries and keys in place: 6 FLOP per rotated value.

    Reads and writes ``width`` values per token and reads cos and sin of ``rotary`` values.

    Args:
        tokens: Rows.
        width: (query heads + KV heads) x head_dim.
        rotary: Rotated values of each head.
        heads: Query heads + KV heads.
        dtype: Dtype of the values.

    >>> c = rope(1, 36 * 128, rotary=128, heads=36, dtype="bf16")
    >>> c.act_read, c.act_write, c.total_flop
    (9472, 9216, 27648)
    """
    size = FLOAT_BYTES[dtype]
    return Cost(
        flop={"fp32": 6 * tokens * heads * rotary},
        act_read=tokens * (width + rotary) * size,
        act_write=tokens * width * size,
    )


class Activation(StrEnum):
    """What stands between the two products of a feed-forward block."""

    GATED = "gated"  # SwiGLU, GeGLU: half of the first product scales the other half
    GELU = "gelu"
    RELU2 = "relu2"  # the square of a ReLU


_FLOP_PER_OUTPUT = {Activation.GATED: 5, Activation.GELU: 8, Activation.RELU2: 2}


def activation(tokens: int, width: int, *, kind: Activation, dtype: str) -> Cost:
    """Return the cost of an activation that writes ``width`` values per token.

    Gated: 5 FLOP per output, reads 2·width. GELU: 8 FLOP, ReLU²: 2 FLOP, read width.

    >>> c = activation(8, 768, kind=Activation.GATED, dtype="bf16")
    >>> c.act_read, c.act_write, c.total_flop
    (24576, 12288, 30720)
    """
    size = FLOAT_BYTES[dtype]
    reads = 2 if kind is Activation.GATED else 1
    return Cost(
        flop={"fp32": _FLOP_PER_OUTPUT[kind] * tokens * width},
        act_read=reads * tokens * width * size,
        act_write=tokens * width * size,
    )


def residual_add(tokens: int, hidden: int, *, dtype: str) -> Cost:
    """Return the cost of adding two ``tokens x hidden`` matrices into one.

    >>> residual_add(1, 2048, dtype="bf16").memory_bytes
    12288
    """
    size = FLOAT_BYTES[dtype]
    return Cost(
        flop={"fp32": tokens * hidden},
        act_read=2 * tokens * hidden * size,
        act_write=tokens * hidden * size,
    )


def gate(tokens: int, width: int, *, gates: int, dtype: str) -> Cost:
    """Return the cost of scaling ``width`` values per token by the sigmoid of ``gates`` values.

    >>> gate(1, 4096, gates=4096, dtype="bf16").memory_bytes
    24576
    """
    size = FLOAT_BYTES[dtype]
    return Cost(
        flop={"fp32": tokens * (4 * gates + width)},
        act_read=tokens * (width + gates) * size,
        act_write=tokens * width * size,
    )


def embedding(tokens: int, hidden: int, *, dtype: str, tables: int = 1) -> Cost:
    """Return the cost of looking up rows: ``tokens`` rows are read, never the table.

    Each row comes with a 4-byte token id; with learned positions there are two tables.

    >>> c = embedding(1, 2048, dtype="bf16")
    >>> c.act_read, c.act_write
    (4100, 4096)
    """
    size = FLOAT_BYTES[dtype]
    return Cost(
        act_read=tables * tokens * (hidden * size + 4),
        act_write=tokens * hidden * size,
    )


def cast(elements: int, *, source: str, target: str) -> Cost:
    """Return the cost of converting values from one dtype to another: read all, write all.

    >>> cast(151936, source="bf16", target="fp32").memory_bytes
    911616
    """
    return Cost(act_read=elements * FLOAT_BYTES[source], act_write=elements * FLOAT_BYTES[target])
