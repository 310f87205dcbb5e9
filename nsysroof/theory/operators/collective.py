"""Collectives: the bytes that must leave or enter a GPU over its links in one direction.

A bound takes the fewest of them; an algorithm may take more, and needs rounds of messages that each
cost a latency. ``size`` is the full logical buffer: what every rank holds before an all-reduce, the whole output
of an all-gather, the whole input of a reduce-scatter, what one rank sends in an all-to-all.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from math import ceil, fsum, log2
from typing import NamedTuple

from nsysroof.theory.cost import Cost


class Algorithm(StrEnum):
    """How ranks exchange data."""

    RING = "ring"
    TREE = "tree"
    ONE_SHOT = "one-shot"  # every rank reads all others
    TWO_SHOT = "two-shot"  # reduce-scatter, then all-gather, each in one round
    IN_SWITCH = "in-switch"  # the switch adds up


class Exchange(NamedTuple):
    """Rounds that wait for each other, and the link bytes of one rank in one direction."""

    rounds: int
    link_bytes: int


def exchange(operation: str, algorithm: Algorithm, size: int, ranks: int) -> Exchange:
    """Return what an algorithm takes for one operation.

    Time is rounds·alpha + link_bytes/beta: ``roofline.exchange_ns``.

    Args:
        operation: all_reduce, all_gather, reduce_scatter, all_to_all, broadcast or reduce.
        algorithm: How it is done.
        size: Bytes of the full logical buffer.
        ranks: GPUs that take part.

    Raises:
        ValueError: The algorithm does not do that operation.

    >>> exchange("all_reduce", Algorithm.RING, 16384, 8)
    Exchange(rounds=14, link_bytes=28672)
    >>> exchange("all_reduce", Algorithm.TREE, 16384, 8)
    Exchange(rounds=6, link_bytes=32768)
    """
    others = ceil((ranks - 1) * size / ranks)
    twice = ceil(2 * (ranks - 1) * size / ranks)
    ways = {
        ("all_reduce", Algorithm.RING): Exchange(2 * (ranks - 1), twice),
        ("all_reduce", Algorithm.TREE): Exchange(2 * ceil(log2(ranks)), 2 * size),
        ("all_reduce", Algorithm.ONE_SHOT): Exchange(1, (ranks - 1) * size),
        ("all_reduce", Algorithm.TWO_SHOT): Exchange(2, twice),
        ("all_reduce", Algorithm.IN_SWITCH): Exchange(1, size),
        ("all_gather", Algorithm.RING): Exchange(ranks - 1, others),
        ("all_gather", Algorithm.ONE_SHOT): Exchange(1, others),
        ("reduce_scatter", Algorithm.RING): Exchange(ranks - 1, others),
        ("reduce_scatter", Algorithm.ONE_SHOT): Exchange(1, others),
        ("all_to_all", Algorithm.ONE_SHOT): Exchange(1, others),
        ("broadcast", Algorithm.RING): Exchange(ranks - 1, size),
        ("broadcast", Algorithm.TREE): Exchange(ceil(log2(ranks)), size),
        ("reduce", Algorithm.RING): Exchange(ranks - 1, size),
        ("reduce", Algorithm.TREE): Exchange(ceil(log2(ranks)), size),
    }
    found = ways.get((operation, algorithm))
    if found is None:
        raise ValueError(f"no {algorithm} way to {operation}")
    return found


BUS_FACTORS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce")
"""Operations whose bus bandwidth nccl-tests defines."""


def bus_factor(operation: str, ranks: int) -> float:
    """Return bus bandwidth over algorithm bandwidth (size over time), as nccl-tests defines them.

    >>> bus_factor("all_reduce", 8), bus_factor("all_gather", 8), bus_factor("broadcast", 8)
    (1.75, 0.875, 1.0)
    """
    if operation == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if operation not in ("broadcast", "reduce") else 1.0


class AlphaBeta(NamedTuple):
    """A latency in ns and a rate in bytes per second that measured times were fitted with."""

    alpha_ns: float
    bytes_per_s: float


def fit_alpha_beta(times_ns: Sequence[tuple[int, float]]) -> AlphaBeta | None:
    """Return the line t = alpha + size/beta through (size, ns) points, or None without one.

    Relative errors count, so that small messages set alpha and large ones beta: weighted least
    squares with weights 1/t².

    >>> fit_alpha_beta([(1_000, 11_000.0), (100_000, 110_000.0)])
    AlphaBeta(alpha_ns=10000.0, bytes_per_s=1000000000.0)
    """
    points = [(size, ns, ns**-2) for size, ns in times_ns if ns > 0]
    weight = fsum(w for _, _, w in points)
    if not points:
        return None
    mean_size = fsum(size * w for size, _, w in points) / weight
    mean_ns = fsum(ns * w for _, ns, w in points) / weight
    spread = fsum(w * (size - mean_size) ** 2 for size, _, w in points)
    slope = fsum(w * (size - mean_size) * (ns - mean_ns) for size, ns, w in points)
    if spread <= 0 or slope <= 0:
        return None
    per_byte = slope / spread
    return AlphaBeta(mean_ns - per_byte * mean_size, 1e9 / per_byte)


def all_reduce(size: int, ranks: int, *, in_switch: bool) -> Cost:
    """Return the cost of an all-reduce: 2(n-1)/n·S over the link, S where the switch adds up.

    >>> all_reduce(536_870_912, 8, in_switch=False).link
    939524096
    >>> all_reduce(536_870_912, 8, in_switch=True).link
    536870912
    """
    return Cost(link=size if in_switch else ceil(2 * (ranks - 1) * size / ranks))


def all_gather(size: int, ranks: int) -> Cost:
    """Return the cost of an all-gather: every GPU receives (n-1)/n·S.

    >>> all_gather(800, 8).link
    700
    """
    return Cost(link=ceil((ranks - 1) * size / ranks))


def reduce_scatter(size: int, ranks: int) -> Cost:
    """Return the cost of a reduce-scatter: every GPU sends (n-1)/n·S.

    >>> reduce_scatter(800, 8).link
    700
    """
    return all_gather(size, ranks)


def all_to_all(size: int, ranks: int) -> Cost:
    """Return the cost of an all-to-all: (n-1)/n of what a rank sends leaves it.

    >>> all_to_all(800, 8).link
    700
    """
    return all_gather(size, ranks)


def expected_destinations(ranks: int, choices: int, *, groups: int = 1, kept: int = 1) -> float:
    """Return how many distinct GPUs the ``choices`` experts of one token lie on, on average.

    A token that goes to several experts of one GPU is sent there once: R·(1-(1-1/R)^k). Where
    experts lie in ``groups`` and a token keeps ``kept`` of them, R counts the GPUs of those.

    >>> round(expected_destinations(8, 8), 3), round(expected_destinations(8, 8, groups=8, kept=4), 3)
    (5.251, 3.6)
    """
    reached = ranks if groups == 1 else min(ranks, kept * max(1, ranks // groups))
    return float(reached * (1 - (1 - 1 / reached) ** choices))
