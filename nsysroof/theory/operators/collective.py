"""Collectives: the bytes that must leave or enter a GPU over its links in one direction.

``size`` is the full logical buffer: what every rank holds before an all-reduce, the whole output
of an all-gather, the whole input of a reduce-scatter, what one rank sends in an all-to-all.
"""

from __future__ import annotations

from math import ceil

from nsysroof.theory.cost import Cost


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


def expected_destinations(ranks: int, choices: int) -> float:
    """Return how many distinct GPUs the ``choices`` experts of one token lie on, on average.

    A token that goes to several experts of one GPU is sent there once: R·(1-(1-1/R)^k).

    >>> round(expected_destinations(8, 8), 3)
    5.251
    """
    return float(ranks * (1 - (1 - 1 / ranks) ** choices))
