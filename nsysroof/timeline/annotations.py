"""What an engine writes into the text of an NVTX range about the step inside it.

Two engines annotate their steps. One tells requests and tokens of the context (prefill) and of the
generation (decode) part, in three forms over its versions::

    execute_16_context_0(sq0sk0sqsq0sqsk0)_generation_16(sq16sk8193sqsq16sqsk8193)
    execute_context_1(888_788544)_generation_0(0)
    execute_context_0(0)_generation_64(64)

``sq`` is the sum of new (query) tokens over the requests, ``sk`` the sum of their KV lengths,
``sqsq`` and ``sqsk`` are sums of products; a bare number is the new tokens, and what follows it
does not tell the KV length for sure. The other engine writes ``step[DECODE bs=16]``,
``step[EXTEND bs=2 toks=107]`` or ``step[MIXED bs=2]``. No other text is taken for a step.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

PREFIXES = ("execute_", "step[")
"""How the text of every range begins that may be an annotation."""

_PART = r"(\d+)\((?:(\d+)(?:_\d+)?|sq(\d+)sk(\d+)sqsq\d+sqsk\d+)\)"
_PARTS = re.compile(rf"execute_(?:\d+_)?context_{_PART}_generation_{_PART}")
_STEP = re.compile(r"step\[(DECODE|EXTEND|MIXED) bs=(\d+)(?: toks=(\d+))?\]")
_PHASES = {"DECODE": "decode", "EXTEND": "prefill", "MIXED": "mixed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What one step works on, as far as it is told; None where it is not.

    Attributes:
        phase: ``prefill``, ``decode`` or ``mixed``.
        requests: Sequences in the step.
        contexts: KV length of each sequence including the new tokens.
        queries: New tokens of each sequence, in the same order.
        told_by: Whose word it is.
    """

    phase: str | None
    requests: int
    contexts: tuple[int, ...] | None
    queries: tuple[int, ...] | None
    told_by: str

    @property
    def mean_context(self) -> float | None:
        """The KV length of a sequence in the mean."""
        return sum(self.contexts) / len(self.contexts) if self.contexts else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    requests: int
    new_tokens: int
    kv_tokens: int | None


def parse_annotation(text: str) -> Content | None:
    """Return what an annotation tells, None where the text is none or the step is empty.

    Sums over requests are shared out evenly: sequences differ by one token at most.

    >>> told = parse_annotation(
    ...     "execute_16_context_0(sq0sk0sqsq0sqsk0)_generation_16(sq16sk8193sqsq16sqsk8193)"
    ... )
    >>> told.phase, told.requests, told.contexts[:2], sum(told.contexts)
    ('decode', 16, (513, 512), 8193)
    >>> parse_annotation("execute_context_1(888_788544)_generation_0(0)").queries
    (888,)
    >>> parse_annotation("cub::DeviceScan") is None
    True
    """
    whole = _STEP.fullmatch(text)
    if whole:
        return _of_step(text, whole)
    found = _PARTS.fullmatch(text)
    if not found:
        return None
    fields = found.groups()
    prefill, decode = _part(fields[:4]), _part(fields[4:])
    parts = [part for part in (prefill, decode) if part.requests]
    if not parts or any(part.new_tokens < part.requests for part in parts):
        return None
    phase = "mixed" if len(parts) > 1 else "prefill" if prefill.requests else "decode"
    lengths: tuple[int, ...] | None = ()
    for part in parts:
        # A KV length that does not hold the new tokens counts something else.
        if lengths is None or part.kv_tokens is None or part.kv_tokens < part.new_tokens:
            lengths = None
        else:
            lengths += share_out(part.kv_tokens, part.requests)
    return Content(
        phase=phase,
        requests=sum(part.requests for part in parts),
        contexts=lengths,
        queries=tuple(q for part in parts for q in share_out(part.new_tokens, part.requests)),
        told_by=f"the NVTX range {text!r}",
    )


def step_marks(texts: Iterable[str]) -> list[str]:
    """Return the texts that mark steps: of the forms present, the one that tells most.

    One step may carry two annotations; the KV lengths are in one of them alone.

    >>> step_marks(["step[DECODE bs=2]", "nccl:_all_gather_base", "execute_context_0(0)_generation_2(2)"])
    ['execute_context_0(0)_generation_2(2)']
    """
    found = [text for text in sorted(texts) if parse_annotation(text) is not None]
    telling = [text for text in found if not text.startswith("step[")]
    return telling or found


def share_out(total: int, count: int) -> tuple[int, ...]:
    """Return a sum as that many integers that differ by one at most.

    >>> share_out(10, 4)
    (3, 3, 2, 2)
    """
    each, more = divmod(total, count)
    return (each + 1,) * more + (each,) * (count - more)


def _part(fields: tuple[str | None, ...]) -> _Part:
    requests, bare, queries, kv = fields
    return _Part(
        requests=int(requests or 0),
        new_tokens=int(bare or queries or 0),
        kv_tokens=None if kv is None else int(kv),
    )


def _of_step(text: str, found: re.Match[str]) -> Content | None:
    kind, requests = found[1], int(found[2])
    if not requests:
        return None
    # A decode step may verify several drafts of each sequence, so its tokens are not told.
    tokens = int(found[3]) if found[3] else None
    shared = None if tokens is None or tokens < requests else share_out(tokens, requests)
    return Content(
        phase=_PHASES[kind],
        requests=requests,
        contexts=None,
        queries=shared,
        told_by=f"the NVTX range {text!r}",
    )
