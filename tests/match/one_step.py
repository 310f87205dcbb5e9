"""One step as a frame of kernels, and the roles that were found for them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import polars as pl

from nsysroof.match.assign import Placement


def kernels_of_step(names: Sequence[int], times_ns: Sequence[int]) -> pl.DataFrame:
    """Return the kernels of a replayed step on one stream, one after another without a gap."""
    ends = list(accumulate(times_ns))
    return pl.DataFrame(
        {
            "gpu": [0] * len(names),
            "step": [0] * len(names),
            "stream": [7] * len(names),
            "start_ns": [end - ns for end, ns in zip(ends, times_ns, strict=True)],
            "end_ns": ends,
            "name": list(names),
            "replayed": [True] * len(names),
        }
    )


def roles_of(placement: Placement) -> list[str | None]:
    """Return the roles of each kernel, joined by a plus sign, None where it has no operator."""
    return [
        None
        if cover is None
        else "+".join(placement.operators[at].role for at in placement.covers[cover])
        for cover in placement.kernels["covers"]
    ]
