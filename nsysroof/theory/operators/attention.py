"""Attention over a KV cache: pairs of query and key, and the cache read once per KV head.

Decode and prefill share one formula, since a decode step is a chunk of few tokens after a long
prefix; what differs is which side binds.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import NamedTuple

from nsysroof.theory.cost import Cost
from nsysroof.theory.dtypes import FLOAT_BYTES, kv_bytes
from nsysroof.theory.operators.pairs import Mask, causal_pairs, distinct_keys

FORMULA = "flop = 2*heads*(head_dim+value_dim)*pairs; kv = kv_heads*(head_dim+value_dim)*tokens"
MLA_FORMULA = "flop = 2*heads*(2*kv_lora+rope)*pairs; kv = (kv_lora+rope)*tokens, for all heads"


def attention(
    queries: Sequence[int],
    prefixes: Sequence[int],
    *,
    heads: int,
    kv_heads: int,
    head_dim: int,
    value_dim: int | None = None,
    mask: Mask | None = None,
    shared_prefix: int = 0,
    kv: str = "bf16",
    dtype: str = "bf16",
    compute: str | None = None,
    sinks: bool = False,
) -> Cost:
    """Return the cost of attention, summed over the sequences and never over a mean.

    FLOP = 2·heads·(head_dim + value_dim)·pairs; the cache is read once per KV head, not once per
    query head; queries in and outputs out at ``dtype``.

    Args:
        queries: New tokens of each sequence.
        prefixes: Tokens of each sequence already cached.
        heads: Query heads on this GPU.
        kv_heads: KV heads on this GPU.
        head_dim: Width of a query and key head.
        value_dim: Width of a value head; None: as ``head_dim``.
        mask: Which keys a query sees; None: all up to itself.
        shared_prefix: Tokens at the start that all sequences share; their keys are read once.
        kv: Format of the cache.
        dtype: Dtype of queries and outputs.
        compute: Peak key of the arithmetic; None: ``dtype``.
        sinks: One learned logit per head is read.

    >>> decode = attention([1], [4095], heads=32, kv_heads=4, head_dim=128)
    >>> decode.kv_read, decode.total_flop
    (8388608, 67108864)
    >>> attention([4096], [0], heads=32, kv_heads=4, head_dim=128).total_flop
    137472507904
    """
    width = head_dim + (head_dim if value_dim is None else value_dim)
    seen = Mask() if mask is None else mask
    pairs = sum(seen.pairs(q, p) for q, p in zip(queries, prefixes, strict=True))
    keys = distinct_keys(seen, queries, prefixes, shared_prefix=shared_prefix)
    tokens, size = sum(queries), FLOAT_BYTES[dtype]
    return Cost(
        flop={compute or dtype: 2 * heads * width * pairs},
        weight=heads * size if sinks else 0,
        kv_read=kv_bytes(kv_heads * width * keys, kv),
        act_read=tokens * heads * head_dim * size,
        act_write=tokens * heads * (width - head_dim) * size,
    )


class Paged(NamedTuple):
    """Cached tokens rounded up to whole pages, and the bytes of the tables that list the pages."""

    tokens: int
    table_bytes: int


def paged(lengths: Sequence[int], page: int) -> Paged:
    """Return what sequences occupy in pages of ``page`` tokens, with a 4-byte entry per page.

    Good kernels read the valid tokens only, so the bound keeps those; a kernel that reads whole
    pages moves this much.

    >>> paged([4097], 16)
    Paged(tokens=4112, table_bytes=1028)
    """
    pages = sum(ceil(length / page) for length in lengths)
    return Paged(tokens=pages * page, table_bytes=4 * pages)


def split_kv_partials(tokens: int, *, heads: int, value_dim: int, splits: int) -> Cost:
    """Return the traffic of a split-KV attention's partial results, written once and read once.

    Each of ``splits`` partials holds value_dim + 1 FP32 numbers per token and head. They usually
    stay in L2, so they are no part of the bound.

    >>> split_kv_partials(1, heads=32, value_dim=128, splits=8).act_write
    132096
    """
    size = tokens * heads * splits * (value_dim + 1) * 4
    return Cost(act_read=size, act_write=size)


def mla_decode(
    queries: Sequence[int],
    prefixes: Sequence[int],
    *,
    heads: int,
    kv_lora: int,
    rope: int,
    token_bytes: int,
    dtype: str = "bf16",
    compute: str | None = None,
    topk: int | None = None,
    shared_prefix: int = 0,
) -> Cost:
    """Return the cost of weight-absorbed latent attention: one latent shared by all heads.

    FLOP = 2·heads·(2·kv_lora + rope)·pairs; the latent is replicated under tensor parallelism.

    Args:
        queries: New tokens of each sequence.
        prefixes: Tokens already cached.
        heads: Heads on this GPU.
        kv_lora: Width of the latent.
        rope: Width of the rotary part.
        token_bytes: Bytes of one cached token (1,152 in bf16; 656 in FlashMLA's FP8 layout).
        dtype: Dtype of queries and outputs.
        compute: Peak key of the arithmetic; None: ``dtype``.
        topk: A sparse indexer picked this many keys per query. The bound takes the fewest distinct
            ones: all queries of a sequence pick the same.
        shared_prefix: Tokens at the start that all sequences share; read once.

    >>> c = mla_decode([1], [4095], heads=128, kv_lora=512, rope=64, token_bytes=1152)
    >>> c.kv_read, c.total_flop
    (4718592, 1140850688)
    """
    pairs = sum(causal_pairs(q, p, topk) for q, p in zip(queries, prefixes, strict=True))
    if topk is None:
        keys = distinct_keys(Mask(), queries, prefixes, shared_prefix=shared_prefix)
    else:
        lengths = [q + p for q, p in zip(queries, prefixes, strict=True)]
        keys = _fewest_picked(lengths, topk, shared_prefix)
    tokens, size = sum(queries), FLOAT_BYTES[dtype]
    return Cost(
        flop={compute or dtype: 2 * heads * (2 * kv_lora + rope) * pairs},
        kv_read=keys * token_bytes,
        act_read=tokens * heads * (kv_lora + rope) * size,
        act_write=tokens * heads * kv_lora * size,
    )


def _fewest_picked(lengths: Sequence[int], topk: int, shared_prefix: int) -> int:
    picked = [min(length, topk) for length in lengths]
    shared = [min(keys, shared_prefix) for keys in picked]
    return sum(picked) - sum(shared) + max(shared)


def indexer(
    queries: Sequence[int],
    prefixes: Sequence[int],
    *,
    heads: int,
    head_dim: int,
    key_bytes: int,
    dtype: str,
    shared_prefix: int = 0,
) -> Cost:
    """Return the cost of scoring every cached key for a sparse attention.

    FLOP = 2·heads·head_dim·pairs; one key of ``key_bytes`` per cached token is read; a score of
    4 bytes per pair is written.

    >>> indexer([1], [4095], heads=64, head_dim=128, key_bytes=132, dtype="fp8").kv_read
    540672
    """
    pairs = sum(causal_pairs(q, p) for q, p in zip(queries, prefixes, strict=True))
    keys = distinct_keys(Mask(), queries, prefixes, shared_prefix=shared_prefix)
    return Cost(
        flop={dtype: 2 * heads * head_dim * pairs},
        kv_read=keys * key_bytes,
        act_read=sum(queries) * heads * (head_dim + 4),
        act_write=4 * pairs,
    )


def kv_write(tokens: int, values: int, *, kv: str, dtype: str) -> Cost:
    """Return the cost of appending ``values`` numbers per token to the cache.

    Reads them at ``dtype``, writes them at the cache's format, reads an 8-byte slot per token.

    >>> c = kv_write(1, 4 * 256, kv="bf16", dtype="bf16")
    >>> c.act_read, c.kv_write
    (2056, 2048)
    """
    return Cost(
        act_read=tokens * values * FLOAT_BYTES[dtype] + 8 * tokens,
        kv_write=kv_bytes(tokens * values, kv),
    )
