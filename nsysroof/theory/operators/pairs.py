"""Which keys the queries of a step look at: counted in closed form, never enumerated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


def causal_pairs(queries: int, prefix: int, window: int | None = None) -> int:
    """Return how many (query, key) pairs ``queries`` tokens after ``prefix`` tokens look at.

    Without a window q·P + q(q+1)/2; with one, query i sees min(P + i + 1, window) keys.

    >>> causal_pairs(7, 11), causal_pairs(7, 11, window=5)
    (105, 35)
    """
    if window is None or prefix + queries <= window:
        return queries * prefix + queries * (queries + 1) // 2
    growing = max(0, min(queries, window - prefix))
    return causal_pairs(growing, prefix) + (queries - growing) * window


@dataclass(frozen=True, slots=True, kw_only=True)
class Mask:
    """Which keys of its sequence a query sees; the default is all up to itself.

    Attributes:
        window: At most this many, the latest.
        sink_tokens: And the first tokens of the sequence, however far back.
        chunk: Only those of its own chunk of the sequence, up to itself.
        causal: None after itself; an image encoder looks both ways.

    >>> Mask(window=5).pairs(7, 11), Mask(window=5, sink_tokens=2).pairs(7, 11)
    (35, 49)
    >>> Mask(chunk=2).pairs(3, 1), Mask(causal=False).pairs(7, 11)
    (5, 126)
    """

    window: int | None = None
    sink_tokens: int = 0
    chunk: int | None = None
    causal: bool = True

    def pairs(self, queries: int, prefix: int) -> int:
        """Return the (query, key) pairs of ``queries`` tokens after ``prefix`` tokens."""
        if not self.causal:
            return queries * (prefix + queries)
        if self.chunk is not None:
            return _chunk_pairs(prefix + queries, self.chunk) - _chunk_pairs(prefix, self.chunk)
        near = causal_pairs(queries, prefix, self.window)
        if self.window is None or not self.sink_tokens:
            return near
        # Query i has P + i + 1 - window keys behind its window, of which it sees the first few.
        late = queries - max(0, self.window - prefix)
        behind = max(0, prefix - self.window)
        return near + (causal_pairs(late, behind, self.sink_tokens) if late > 0 else 0)

    def latest(self, queries: int, prefix: int) -> int:
        """Return the distinct keys at the end of the sequence that the queries see.

        >>> Mask().latest(7, 11), Mask(window=5).latest(7, 11), Mask(chunk=8).latest(1, 8)
        (18, 11, 1)
        """
        if self.chunk is not None:
            return prefix + queries - prefix // self.chunk * self.chunk
        if self.window is None:
            return prefix + queries
        return min(prefix + queries, queries + self.window - 1)

    def sinks(self, queries: int, prefix: int) -> int:
        """Return the distinct first keys that the queries see beside the latest ones.

        >>> Mask(window=5, sink_tokens=2).sinks(7, 11), Mask(window=50, sink_tokens=2).sinks(7, 11)
        (2, 0)
        """
        return min(self.sink_tokens, prefix + queries - self.latest(queries, prefix))


def _chunk_pairs(tokens: int, chunk: int) -> int:
    """Return the pairs of the first ``tokens`` tokens, each with those of its chunk so far."""
    whole, rest = divmod(tokens, chunk)
    return whole * (chunk * (chunk + 1) // 2) + rest * (rest + 1) // 2


def distinct_keys(
    mask: Mask, queries: Sequence[int], prefixes: Sequence[int], *, shared_prefix: int = 0
) -> int:
    """Return the distinct cached keys that a step reads over its sequences.

    Args:
        mask: Which keys each query sees.
        queries: New tokens of each sequence.
        prefixes: Tokens of each sequence already cached.
        shared_prefix: Tokens at the start that all sequences have in common and in one place:
            they are read once, P + sum(S - P).

    >>> distinct_keys(Mask(), [1, 1], [4095, 4095]), distinct_keys(
    ...     Mask(), [1, 1], [4095, 4095], shared_prefix=4000)
    (8192, 4192)
    """
    own = common = sinks = 0
    for q, prefix in zip(queries, prefixes, strict=True):
        latest, first = mask.latest(q, prefix), mask.sinks(q, prefix)
        reach = max(0, shared_prefix - (prefix + q - latest))
        inside = min(first, shared_prefix)
        own += latest - reach + first - inside
        common, sinks = max(common, reach), max(sinks, inside)
    return own + min(shared_prefix, common + sinks)
