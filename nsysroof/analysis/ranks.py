"""The ranks side by side, and the one that the others wait for.

Collectives make the steps of all ranks equally long, so the wall time hides who is late. What a
rank does outside collectives is its own: the last one to enter spends the least time in them.
That needs no clock but the rank's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl
from msgspec import structs

from nsysroof.analysis.collectives import collective_rows
from nsysroof.analysis.measured import Measured
from nsysroof.analysis.rank_time import IDLE, RankTime, mean, rank_times, waiting_instances
from nsysroof.analysis.steps import spread
from nsysroof.findings import finding
from nsysroof.results import CollectiveRow, Finding, RankRow
from nsysroof.timeline.intervals import Times
from nsysroof.units import format_share, format_us

_LEAST_STEPS = 3
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


def compare_ranks(
    found: Measured, gaps: pl.DataFrame, *, group_size: int, idle_known: bool
) -> tuple[list[RankRow], Lag | None]:
    """Return the ranks of a capture as ``rank_rows`` does, none where it has a single GPU.

    Args:
        found: What was measured.
        gaps: Schema ``GAPS``.
        group_size: As for ``collective_rows``.
        idle_known: As for ``rank_rows``.
    """
    if len(found.picked.gpus) <= 1:
        return [], None
    waiting = waiting_instances(found)
    workload = found.theory.workload
    return rank_rows(
        rank_times(found, gaps),
        names={device.gpu: device.name for device in found.picked.devices},
        collectives=collective_rows(
            waiting,
            waiting["role"].unique().to_list(),
            group_size=group_size,
            shared_clock=True,
        ),
        tokens=workload.yielded_tokens if workload else None,
        idle_known=idle_known,
    )


def rank_rows(
    times: Sequence[RankTime],
    *,
    names: Mapping[int, str | None],
    collectives: Sequence[CollectiveRow],
    tokens: float | None,
    idle_known: bool,
) -> tuple[list[RankRow], Lag | None]:
    """Return one row per rank, and how far the slowest is behind where one is.

    A rank is named slowest where its own time exceeds the next one's by 1 % of a step, and by more
    than the difference varies (p90 - p10) from step to step, over three steps or more.

    Args:
        times: The ranks.
        names: The name of each GPU.
        collectives: Their collectives, by GPU.
        tokens: Tokens that a step yields, None where not known.
        idle_known: False where the capture hides work: nothing is compared then.
    """
    decided_by = _comparable(times) if idle_known else None
    behind, lag = _compared(times) if decided_by else ([None] * len(times), None)
    rows = [
        _row(
            time,
            name=names.get(time.gpu),
            collectives=[row for row in collectives if row.gpu == time.gpu],
            tokens=tokens,
            idle_known=idle_known,
            behind_ns=behind_ns,
            slowest=lag is not None and at == lag.slowest,
            decided_by=decided_by if time.steps else None,
        )
        for at, (time, behind_ns) in enumerate(zip(times, behind, strict=True))
    ]
    return rows, lag


def slow_rank(rows: Sequence[RankRow], lag: Lag | None) -> list[Finding]:
    """The rank that the others wait for, by how much, and what it spends the time on."""
    if lag is None:
        return []
    slowest, after = rows[lag.slowest], rows[lag.after]
    outside = " outside collectives" if slowest.decided_by == "own_time" else ""
    spent = ", ".join(f"{what} (+{format_us(ns)} µs)" for what, ns in lag.causes)
    return [
        finding(
            slug="slow-rank",
            severity="warning" if lag.share >= _GRAVE_SHARE else "note",
            text=f"GPU {slowest.gpu} is the slowest of {len(rows)} ranks: {format_us(lag.lag_ns)} µs "
            f"per step more than GPU {after.gpu}{outside}, {format_share(lag.share)} of the step; "
            + (f"it spends more on {spent}" if spent else "no kernel and no idle time stands out"),
            hint=_hint(lag.causes[0][0] if lag.causes else None),
        )
    ]


def _hint(cause: str | None) -> str:
    if cause is None:
        return "compare the ranks in the timeline"
    if cause in _OF_THE_HOST:
        return "see what delays its process: core binding, other load on the CPU, Python"
    if cause.startswith(IDLE):
        return "`nsysroof gaps TRACE --device N` lists its idle time"
    return "compare clocks, power and temperature of the GPUs, and whether it has more work"


def _comparable(times: Sequence[RankTime]) -> str | None:
    """Return what can be compared: collectives must show on all ranks or on none."""
    measured = [time for time in times if time.steps]
    waiting = {bool(time.collective.any()) for time in measured}
    if len(measured) <= 1 or len(waiting) > 1:
        return None
    return "own_time" if waiting.pop() else "step_wall"


def _compared(times: Sequence[RankTime]) -> tuple[list[int | None], Lag | None]:
    own = [time.own for time in times]
    medians = {at: _p50(one) for at, one in enumerate(own) if one.size}
    order = sorted(medians, key=lambda at: (-medians[at], at))
    behind = [
        _differences(one, own[order[-1]])[0] if at in medians else None
        for at, one in enumerate(own)
    ]
    slowest, after = order[:2]
    lag_ns, noise_ns = _differences(own[slowest], own[after])
    share = lag_ns / _p50(times[slowest].wall)
    steps = min(own[at].size for at in (slowest, after))
    if steps < _LEAST_STEPS or share < _LEAST_SHARE or lag_ns <= noise_ns:
        return behind, None
    others = [times[at] for at in order[1:]]
    causes = _causes(times[slowest], others)
    lag = Lag(slowest=slowest, after=after, lag_ns=lag_ns, share=share, causes=causes)
    return behind, lag


def _differences(one: Times, other: Times) -> tuple[int, int]:
    """Return by how much one rank takes longer, and how much that varies from step to step.

    Ranks with equally many steps are compared step by step, so that what changes for both (a
    growing context, another batch) is no noise.
    """
    if one.size == other.size:
        found = spread(np.sort(one - other).tolist())
        return found.p50, found.p90 - found.p10
    a, b = spread(np.sort(one).tolist()), spread(np.sort(other).tolist())
    return a.p50 - b.p50, max(a.p90 - a.p10, b.p90 - b.p10)


def _causes(slowest: RankTime, others: Sequence[RankTime]) -> tuple[tuple[str, int], ...]:
    """Return what takes longer than in the median of the other ranks, the most first."""
    more = []
    for what, ns in slowest.spent_on.items():
        usual = sorted(other.spent_on.get(what, 0) for other in others)
        more.append((what, ns - usual[(len(usual) - 1) // 2]))
    more.sort(key=lambda pair: (-pair[1], pair[0]))
    return tuple((what, ns) for what, ns in more[:_TOLD] if ns > 0)


def _row(
    time: RankTime,
    *,
    name: str | None,
    collectives: Sequence[CollectiveRow],
    tokens: float | None,
    idle_known: bool,
    behind_ns: int | None,
    slowest: bool,
    decided_by: str | None,
) -> RankRow:
    row = RankRow(
        gpu=time.gpu,
        name=name,
        pids=list(time.pids),
        steps=time.steps,
        behind_ns=behind_ns,
        slowest=slowest,
        decided_by=decided_by,
    )
    if not time.steps:
        return row
    wall = _p50(time.wall)
    idle = max(time.idle_by_cause.items(), key=lambda cause: (cause[1], cause[0]), default=None)
    idle = idle if idle_known else None
    return structs.replace(
        row,
        wall_p50_ns=wall,
        tokens_per_s=None if tokens is None else tokens / wall * 1e9,
        work_ns_per_step=mean(time.work),
        collective_ns_per_step=mean(time.collective),
        wait_ns_per_step=_sum([row.wait_ns_per_step for row in collectives]),
        transfer_ns_per_step=_sum([row.transfer_ns_per_step for row in collectives]),
        idle_ns_per_step=mean(time.idle) if idle_known else None,
        idle_cause=idle[0] if idle else None,
        idle_cause_ns_per_step=idle[1] / time.steps if idle else None,
    )


def _sum(values: Sequence[float]) -> float | None:
    return sum(values) if values else None


def _p50(values: Times) -> int:
    return spread(np.sort(values).tolist()).p50
