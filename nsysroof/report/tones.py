"""Which colour a thing has; the style sheet gives the colours, told apart by the colour-blind."""

from __future__ import annotations

FAMILIES = {
    "attn": "attention",
    "moe": "experts",
    "mlp": "MLP",
    "ssm": "state space",
    "link": "communication",
    "other": "embedding, head, sampling",
    "unexplained": "unexplained",
    "copy": "copies and fills",
}
"""Tones and what they stand for, in the order of a legend."""

_LINKS = ("all_reduce", "dispatch", "all_gather", "reduce_scatter", "all_to_all", "load_experts")


def tone_of_role(role: str) -> str:
    """Return the tone of an operator by the block of the model that it belongs to.

    >>> tone_of_role("moe.gate_up"), tone_of_role("attn.all_reduce"), tone_of_role("lm_head")
    ('moe', 'link', 'other')
    """
    first = role.partition("+")[0].removeprefix("draft.")
    if first.rpartition(".")[2] in _LINKS:
        return "link"
    block = first.partition(".")[0]
    return block if block in {"attn", "moe", "mlp", "ssm"} else "other"
