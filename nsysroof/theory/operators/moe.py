"""Mixture of experts: which experts a step touches, and what their products cost."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, exp, fsum, lgamma, log

from nsysroof.theory.cost import Cost
from nsysroof.theory.dtypes import FLOAT_BYTES
from nsysroof.theory.operators.gemm import LinearFormat

FORMULA = (
    "flop = 2*rows*n*k; weight = U*n*k at the format; U = E_gpu*(1-(1-top_k/E)^tokens) expected"
)


def expected_experts(experts: int, top_k: int, tokens: int, *, ep: int = 1) -> float:
    """Return the expected number of distinct experts that a step touches on one GPU.

    Each token picks ``top_k`` different experts of ``experts`` uniformly: one is missed by one
    token with probability 1 - k/E exactly, so U = E/ep·(1 - (1 - k/E)^T). Real routing is skewed
    and touches fewer: an expectation, not a hard bound.

    >>> [round(expected_experts(128, 8, t), 1) for t in (1, 2, 4, 8, 16, 32, 64, 128)]
    [8.0, 15.5, 29.1, 51.6, 82.4, 111.8, 125.9, 128.0]
    """
    return float(experts / ep * (1 - (1 - top_k / experts) ** tokens))


def fewest_experts(experts: int, top_k: int, *, ep: int = 1) -> int:
    """Return the fewest distinct experts on one GPU: all tokens choose the same ones.

    With expert parallelism a GPU may be left with what does not fit on the others, even none.

    >>> fewest_experts(128, 8), fewest_experts(128, 8, ep=8), fewest_experts(8, 6, ep=2)
    (8, 0, 2)
    """
    return max(0, top_k - (experts - experts // ep))


def most_experts(experts: int, top_k: int, tokens: int, *, ep: int = 1) -> int:
    """Return the most distinct experts on one GPU: no two tokens share one.

    >>> most_experts(128, 8, 4), most_experts(128, 8, 64), most_experts(128, 8, 64, ep=4)
    (32, 128, 32)
    """
    return min(experts // ep, top_k * tokens)


def same_group_experts(experts: int, top_k: int, tokens: int, *, groups: int, kept: int) -> float:
    """Return the expected distinct experts where every token keeps the same groups of experts.

    Routers that are limited to ``kept`` of ``groups`` groups leave E·kept/groups experts to choose
    from. Under uniform routing each token keeps other groups, and the expectation over all experts
    stands; where all tokens agree, as synthetic inputs make them, the rest is never read.

    >>> round(same_group_experts(256, 8, 128, groups=8, kept=4), 2)
    127.97
    >>> round(expected_experts(256, 8, 128), 2)
    251.6
    """
    return expected_experts(experts * kept // groups, top_k, tokens)


def padding_factor(rows_per_expert: Sequence[int], block: int) -> float:
    """Return the rows that tiles of ``block`` rows multiply, over those that hold a token.

    An expert with r rows takes ⌈r/block⌉ tiles. It explains a loss and is no part of the bound.

    >>> padding_factor([1] * 8, 16), padding_factor([16, 17, 0], 16)
    (16.0, 1.4545454545454546)
    """
    rows = sum(rows_per_expert)
    if rows == 0:
        raise ValueError("no expert has a row")
    return sum(ceil(each / block) for each in rows_per_expert) * block / rows


def expected_padding_factor(experts: int, top_k: int, tokens: int, block: int) -> float:
    """Return the padding factor to expect of uniform routing.

    The rows of one expert are binomial: each of T tokens chooses it with probability k/E.

    >>> round(expected_padding_factor(128, 8, 1, 16), 6)
    16.0
    >>> round(expected_padding_factor(128, 8, 4096, 64), 3)
    1.121
    """
    share = top_k / experts
    if top_k == experts:
        return ceil(tokens / block) * block / tokens
    chances = (_binomial(tokens, rows, share) for rows in range(1, tokens + 1))
    tiles = fsum(ceil(rows / block) * chance for rows, chance in enumerate(chances, start=1))
    return tiles * block / (tokens * share)


def _binomial(trials: int, hits: int, chance: float) -> float:
    ways = lgamma(trials + 1) - lgamma(hits + 1) - lgamma(trials - hits + 1)
    return exp(ways + hits * log(chance) + (trials - hits) * log(1 - chance))


def imbalance(loads: Sequence[float]) -> float:
    """Return how much longer the busiest GPU takes than the mean: max over mean of the loads.

    >>> imbalance([3, 1, 1, 1])
    2.0
    """
    mean = fsum(loads) / len(loads)
    if mean <= 0:
        raise ValueError("no GPU has a load")
    return max(loads) / mean


def grouped_gemm(
    rows: float,
    n: int,
    k: int,
    *,
    experts: float,
    fmt: LinearFormat,
    read_rows: float | None = None,
    write_rows: float | None = None,
    bias: bool = False,
) -> Cost:
    """Return the cost of ``rows`` token-expert pairs against ``experts`` distinct matrices.

    FLOP = 2·rows·n·k; each distinct expert's ``n x k`` matrix and scales are read once.

    Args:
        rows: Token-expert pairs on this GPU.
        n: Output width.
        k: Reduction width.
        experts: Distinct experts on this GPU, which may be an expectation.
        fmt: The formats.
        read_rows: Rows of input actually read, where tokens are gathered; None: ``rows``.
        write_rows: Rows written, where the sum over experts is fused in; None: ``rows``.
        bias: Each expert adds a bias of ``n`` values.

    >>> from nsysroof.theory.dtypes import activation_format, weight_format
    >>> bf16 = LinearFormat(
    ...     weights=weight_format("bf16"), activations=activation_format("bf16"), output="bf16")
    >>> grouped_gemm(8, 1536, 2048, experts=8, fmt=bf16, read_rows=1).weight
    50331648
    """
    read = rows if read_rows is None else read_rows
    write = rows if write_rows is None else write_rows
    one = fmt.weights.payload_bytes(n, k) + (n * fmt.output_bytes if bias else 0)
    scales = experts * fmt.weights.scale_bytes(n, k) + read * fmt.activations.scale_bytes(1, k)
    return Cost(
        flop={fmt.activations.peak: round(2 * rows * n * k)},
        weight=round(experts * one),
        scale=round(scales),
        act_read=round(read * fmt.activations.payload_bytes(1, k)),
        act_write=round(write * n * fmt.output_bytes),
    )


def topk(tokens: int, experts: int, top_k: int) -> Cost:
    """Return the cost of choosing experts: read FP32 scores, write a weight and an id per choice.

    >>> topk(1, 128, 8).memory_bytes
    576
    """
    return Cost(
        flop={"fp32": 5 * tokens * experts},
        act_read=tokens * experts * 4,
        act_write=tokens * top_k * 8,
    )


def align(tokens: int, top_k: int) -> Cost:
    """Return the traffic of sorting token-expert pairs by expert: ids in, order out.

    >>> align(4, 8).memory_bytes
    256
    """
    return Cost(act_read=tokens * top_k * 4, act_write=tokens * top_k * 4)


def permute(tokens: float, top_k: float, hidden: int, *, dtype: str) -> Cost:
    """Return the traffic of laying tokens out by expert: each is read once, written per choice.

    >>> permute(1, 8, 2048, dtype="bf16").act_write
    32768
    """
    size = FLOAT_BYTES[dtype]
    return Cost(
        act_read=round(tokens * hidden * size), act_write=round(tokens * top_k * hidden * size)
    )


def combine(rows: float, tokens: int, hidden: int, *, dtype: str) -> Cost:
    """Return the cost of the weighted sum over experts: read every pair's row, write each token.

    >>> combine(8, 1, 2048, dtype="bf16").memory_bytes
    36864
    """
    size = FLOAT_BYTES[dtype]
    return Cost(
        flop={"fp32": round(2 * rows * hidden)},
        act_read=round(rows * hidden * size),
        act_write=tokens * hidden * size,
    )


def load_experts(misses: float, expert_bytes: int) -> Cost:
    """Return the cost of bringing ``misses`` experts from the host over its link.

    >>> load_experts(1, 3 * 2048 * 768 * 2).link
    9437184
    """
    return Cost(link=round(misses * expert_bytes))
