"""Which rank the others wait for, and how far it is behind.

Collectives make the steps of all ranks equally long, so the wall time hides who is late. What a
rank does outside collectives is its own: the last one to enter spends the least time in them.
That needs no clock but the rank's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nsysroof.analysis.rank_time import IDLE, RankTime
from nsysroof.analysis.steps import spread
from nsysroof.findings import finding
from nsysroof.results import Finding, RankRow
from nsysroof.timeline.intervals import Times
from nsysroof.units import format_share, format_us

_LEAST_STEPS = 5
_ENOUGH_STEPS = 10
_LEAST_SHARE = 0.01  # of a step: below it nothing is won by knowing
_GRAVE_SHARE = 0.05
_TOLD = 3
_OF_THE_HOST = frozenset(IDLE + cause for cause in ("host_late", "sync"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """How far the slowest rank is behind, by position in the list of ranks.

    ``lag_ns`` is how much more own time a step takes than on ``after``, the next slowest, the
    median over steps; ``share`` of the step's wall. ``causes`` are what it spends more on than the
    other ranks, in ns per step, the most first.
    """

    slowest: int
    after: int
    lag_ns: int
    share: float
    causes: tuple[tuple[str, int], ...]


def what_compares(times: Sequence[RankTime]) -> str | None:
    """Return what can be compared: collectives must show on all ranks or on none."""
    measured = [time for time in times if time.steps]
    waiting = {bool(time.collective.any()) for time in measured}
    if len(measured) <= 1 or len(waiting) > 1:
        return None
    return "own_time" if waiting.pop() else "step_wall"


def find_lag(times: Sequence[RankTime]) -> tuple[list[int | None], Lag | None]:
    """Return how far each rank is behind the quickest, ns per step, and the slowest if there is one.

    A rank is the slowest where its own time exceeds the next one's by 1 % of a step in the median,
    and by anything in nine steps of ten. Below ten steps the median must exceed the difference's
    spread (p90 - p10) too; below five nothing is evident.

    Args:
        times: The ranks; two or more have steps. Of one without steps nothing is known.
    """
    own = [time.own for time in times]
    medians = {at: p50(one) for at, one in enumerate(own) if one.size}
    order = sorted(medians, key=lambda at: (-medians[at], at))
    behind = [_lag_ns(one, own[order[-1]]) if at in medians else None for at, one in enumerate(own)]
    slowest, after = order[:2]
    lag_ns = _lag_ns(own[slowest], own[after])
    wall_ns = p50(times[slowest].wall)
    share = lag_ns / wall_ns if wall_ns else 0.0
    if share < _LEAST_SHARE or not _is_evident(own[slowest], own[after]):
        return behind, None
    others = [times[at] for at in order[1:]]
    causes = _causes(times[slowest], others)
    lag = Lag(slowest=slowest, after=after, lag_ns=lag_ns, share=share, causes=causes)
    return behind, lag


def slow_rank(
    rows: Sequence[RankRow], lag: Lag | None, *, labels: Sequence[str] | None = None
) -> list[Finding]:
    """The rank that the others wait for, by how much, and what it spends the time on.

    ``labels`` say which rank is meant; None: its GPU.
    """
    if lag is None:
        return []
    called = labels or [f"GPU {row.gpu}" for row in rows]
    outside = " outside collectives" if rows[lag.slowest].decided_by == "own_time" else ""
    spent = ", ".join(f"{what} (+{format_us(ns)} µs)" for what, ns in lag.causes)
    return [
        finding(
            slug="slow-rank",
            severity="warning" if lag.share >= _GRAVE_SHARE else "note",
            text=f"{called[lag.slowest]} is the slowest of {len(rows)} ranks: "
            f"{format_us(lag.lag_ns)} µs per step more than {called[lag.after]}{outside}, "
            f"{format_share(lag.share)} of the step; "
            + (f"it spends more on {spent}" if spent else "no kernel and no idle time stands out"),
            hint=_hint(lag.causes[0][0] if lag.causes else None),
        )
    ]


def p50(values: Times) -> int:
    """Return the p50 by nearest rank of at least one value."""
    return spread(np.sort(values).tolist()).p50


def _lag_ns(one: Times, other: Times) -> int:
    """Return by how much one rank takes longer than another.

    Ranks with equally many steps are compared step by step, so that what changes for both (a
    growing context, another batch) is no noise.
    """
    return p50(one - other) if one.size == other.size else p50(one) - p50(other)


def _is_evident(one: Times, other: Times) -> bool:
    """Return whether it is more than noise that one rank takes longer than another.

    Of ranks that differ by chance alone, normal noise lets the rule name one in less than 1 % of
    captures of any length.
    """
    steps = min(one.size, other.size)
    if steps < _LEAST_STEPS:
        return False
    if one.size != other.size:
        return _lag_ns(one, other) > max(_spread_ns(one), _spread_ns(other))
    found = spread(np.sort(one - other).tolist())
    return found.p10 > 0 and (steps >= _ENOUGH_STEPS or found.p50 > found.p90 - found.p10)


def _spread_ns(values: Times) -> int:
    found = spread(np.sort(values).tolist())
    return found.p90 - found.p10


def _causes(slowest: RankTime, others: Sequence[RankTime]) -> tuple[tuple[str, int], ...]:
    """Return what takes longer than in the median of the other ranks, the most first."""
    theirs = [other.usual for other in others]
    more = []
    for what, ns in slowest.usual.items():
        usual = sorted(one.get(what, 0) for one in theirs)
        more.append((what, ns - usual[(len(usual) - 1) // 2]))
    more.sort(key=lambda pair: (-pair[1], pair[0]))
    return tuple((what, ns) for what, ns in more[:_TOLD] if ns > 0)


def _hint(cause: str | None) -> str:
    if cause is None:
        return "compare the ranks in the timeline"
    if cause in _OF_THE_HOST:
        return "see what delays its process: core binding, other load on the CPU, Python"
    if cause.startswith(IDLE):
        return "`nsysroof gaps TRACE --device N` lists its idle time"
    return "compare clocks, power and temperature of the GPUs, and whether it has more work"
