"""From logits to a token: passes over ``rows x vocab`` numbers."""

from __future__ import annotations

from nsysroof.theory.cost import Cost

LOGIT_BYTES = 4
KEY_BYTES = 4
"""A logit as a 32-bit key of a radix sort, and its token id."""


def argmax(rows: int, vocab: int, *, size: int = LOGIT_BYTES) -> Cost:
    """Return the cost of picking the largest logit of each row: one read.

    >>> argmax(1, 151936).act_read
    607744
    """
    return Cost(flop={"fp32": rows * vocab}, act_read=rows * vocab * size, act_write=4 * rows)


def softmax(rows: int, vocab: int) -> Cost:
    """Return the cost of probabilities in FP32: 5 FLOP per value, one read and one write.

    >>> softmax(1, 1000).memory_bytes
    8000
    """
    size = rows * vocab * LOGIT_BYTES
    return Cost(flop={"fp32": 5 * rows * vocab}, act_read=size, act_write=size)


def logits_pass(rows: int, vocab: int) -> Cost:
    """Return the cost of one penalty, temperature or bias over the logits in place.

    >>> logits_pass(2, 1000).memory_bytes
    16000
    """
    size = rows * vocab * LOGIT_BYTES
    return Cost(flop={"fp32": rows * vocab}, act_read=size, act_write=size)


def sort(rows: int, vocab: int, *, passes: int = 4) -> Cost:
    """Return the traffic of sorting the logits of each row, as a full top-k or top-p does.

    A radix sort reads and writes key and token id of every logit once per 8-bit digit. Samplers
    that reject instead of sorting only read the logits a few times: no part of a bound.

    >>> sort(1, 1000).memory_bytes
    64000
    """
    size = passes * rows * vocab * 2 * KEY_BYTES
    return Cost(act_read=size, act_write=size)
