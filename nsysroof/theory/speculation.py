"""Speculative decoding: how many tokens a step yields, and when drafting pays.

Floors are those of a *step*, one pass over the weights. A step that verifies drafted tokens yields
more than one token per sequence; how many is best measured, and estimated here where it is not.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum

from nsysroof.errors import UsageError


def expected_tokens(acceptance: float, drafted: int) -> float:
    """Return the tokens per step and sequence where each draft is accepted with one probability.

    A draft counts only if all before it were accepted: (1 - a^(d+1)) / (1 - a), the verified token
    included.

    Raises:
        UsageError: ``acceptance`` is no share, or nothing can be drafted.

    >>> [round(expected_tokens(a, d), 3) for a, d in ((0.6, 3), (0.7, 4), (0.8, 5))]
    [2.176, 2.773, 3.689]
    """
    if drafted < 0:
        raise _unusable(f"{drafted} drafted tokens")
    return expected_tokens_by_position([acceptance] * drafted)


def expected_tokens_by_position(acceptances: Sequence[float]) -> float:
    """Return the tokens per step where the draft at each position has its own acceptance.

    1 + sum over j of the product of the first j. Published multi-token prediction accepts 1.92,
    2.58 and 2.82 tokens with 1, 2 and 3 drafts: 0.92, 0.72 and 0.36 by position, far from one
    constant.

    Raises:
        UsageError: A value is no share.

    >>> round(expected_tokens_by_position([0.92, 0.66 / 0.92, 0.24 / 0.66]), 2)
    2.82
    """
    terms, chance = [1.0], 1.0
    for acceptance in acceptances:
        if not 0 <= acceptance <= 1:
            raise _unusable(f"an acceptance of {acceptance:g}")
        chance *= acceptance
        terms.append(chance)
    return fsum(terms)


def speed_up(
    tokens: float, drafted: int, *, draft_share: float, verify_share: float = 1.0
) -> float:
    """Return the speed-up over plain decoding: tokens / (drafts·c + v).

    Args:
        tokens: Tokens per step and sequence.
        drafted: Drafted tokens per step.
        draft_share: Time of one draft over that of a plain step (c).
        verify_share: Time of the verifying step over that of a plain one (v): near 1 while the
            step is bound by weights, more with experts, since more tokens touch more of them.

    >>> round(speed_up(2.773, 4, draft_share=0.05), 2)
    2.31
    """
    return tokens / (drafted * draft_share + verify_share)


def _unusable(what: str) -> UsageError:
    return UsageError(
        f"{what} cannot be",
        hint="give the share of drafts that are accepted, 0 to 1: one, or one per position",
        slug="bad-acceptance",
        where="--acceptance",
    )
