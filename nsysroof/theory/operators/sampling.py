"""From logits to a token: passes over ``rows x vocab`` numbers."""

from __future__ import annotations

from nsysroof.theory.cost import Cost

LOGIT_BYTES = 4


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
