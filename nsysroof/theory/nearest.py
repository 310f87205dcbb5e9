"""Which catalogued names a mistyped one may have meant."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

MOST = 3


def did_you_mean(name: str, known: Sequence[str], *, otherwise: str) -> str:
    """Return a hint with the nearest names, those that continue it first.

    >>> did_you_mean("h200", ["h100-sxm", "h200-nvl", "h200-sxm"], otherwise="see the list")
    'did you mean h200-nvl or h200-sxm or h100-sxm'
    """
    longer = [key for key in sorted(known) if key.startswith(name)]
    close = get_close_matches(name, known, n=MOST, cutoff=0.4)
    near = list(dict.fromkeys([*longer, *close]))[:MOST]
    return f"did you mean {' or '.join(near)}" if near else otherwise
