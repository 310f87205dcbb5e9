"""Recurrent layers: a state of fixed size is read and written, whatever the context is.

A decode step updates the state once per token; a prefill runs a chunked scan whose products make
it a small matrix multiplication. Sizes are per GPU: heads and groups already divided.
"""

from __future__ import annotations

from nsysroof.theory.cost import Cost
from nsysroof.theory.dtypes import FLOAT_BYTES

SCAN_CHUNK = 128
"""Tokens per chunk of a scan, the middle of the 64 to 256 that kernels use."""


def conv_step(batch: int, tokens: int, *, channels: int, taps: int, dtype: str) -> Cost:
    """Return the cost of a short causal convolution with its ``taps - 1`` cached columns.

    >>> conv_step(1, 1, channels=6144, taps=4, dtype="bf16").state
    73728
    """
    size = FLOAT_BYTES[dtype]
    return Cost(
        flop={"fp32": 2 * tokens * taps * channels},
        weight=(taps + 1) * channels * size,
        state=2 * batch * channels * (taps - 1) * size,
        act_read=tokens * channels * size,
        act_write=tokens * channels * size,
    )


def mamba2(
    batch: int,
    tokens: int,
    *,
    heads: int,
    head_dim: int,
    groups: int,
    state: int,
    state_dtype: str,
    dtype: str,
) -> Cost:
    """Return the cost of a Mamba-2 state update: 5 FLOP per state value and token.

    The state of heads·head_dim·state values is read and written once per sequence. A chunked scan
    (more tokens than sequences) costs (4·state + 2·chunk) FLOP per channel in tensor products.

    >>> c = mamba2(1, 1, heads=64, head_dim=64, groups=8, state=128, state_dtype="fp32",
    ...            dtype="bf16")
    >>> c.state, c.total_flop
    (4194304, 2621440)
    """
    inner = heads * head_dim
    size = FLOAT_BYTES[dtype]
    if tokens == batch:
        flop = {"fp32": 5 * tokens * inner * state}
    else:
        flop = {dtype: tokens * inner * (4 * state + 2 * SCAN_CHUNK)}
    return Cost(
        flop=flop,
        weight=3 * heads * size,
        state=2 * batch * inner * state * FLOAT_BYTES[state_dtype],
        act_read=tokens * (inner + 2 * groups * state + heads) * size,
        act_write=tokens * inner * size,
    )


def delta_rule(
    batch: int,
    tokens: int,
    *,
    key_heads: int,
    value_heads: int,
    key_dim: int,
    value_dim: int,
    state_dtype: str,
    dtype: str,
) -> Cost:
    """Return the cost of a gated delta-rule update: 8 FLOP per state value and token.

    >>> c = delta_rule(1, 1, key_heads=16, value_heads=32, key_dim=128, value_dim=128,
    ...                state_dtype="fp32", dtype="bf16")
    >>> c.state, c.total_flop
    (4194304, 4194304)
    """
    values = value_heads * key_dim * value_dim
    size = FLOAT_BYTES[dtype]
    width = 2 * key_heads * key_dim + value_heads * value_dim
    compute = "fp32" if tokens == batch else dtype
    return Cost(
        flop={compute: 8 * tokens * values},
        weight=2 * value_heads * size,
        state=2 * batch * values * FLOAT_BYTES[state_dtype],
        act_read=tokens * (width + 2 * value_heads) * size,
        act_write=tokens * value_heads * value_dim * size,
    )


def lightning(
    batch: int, tokens: int, *, heads: int, head_dim: int, state_dtype: str, dtype: str
) -> Cost:
    """Return the cost of linear attention with a decaying state: 5 FLOP per state value and token.

    A decay, an outer product of key and value, and the query's read-out: as Mamba-2 with a state
    as wide as a head.

    >>> c = lightning(1, 1, heads=64, head_dim=128, state_dtype="fp32", dtype="bf16")
    >>> c.state, c.total_flop, c.act_read
    (8388608, 5242880, 49152)
    """
    inner, size = heads * head_dim, FLOAT_BYTES[dtype]
    if tokens == batch:
        flop = {"fp32": 5 * tokens * inner * head_dim}
    else:
        flop = {dtype: tokens * inner * (4 * head_dim + 2 * SCAN_CHUNK)}
    return Cost(
        flop=flop,
        state=2 * batch * inner * head_dim * FLOAT_BYTES[state_dtype],
        act_read=3 * tokens * inner * size,
        act_write=tokens * inner * size,
    )
