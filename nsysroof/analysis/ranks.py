"""The ranks of a run side by side: where the steps of each go."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from nsysroof.analysis.collectives import collective_rows
from nsysroof.analysis.lag import Lag, find_lag, p50, what_compares
from nsysroof.analysis.measured import WORK_HIDDEN, Measured
from nsysroof.analysis.rank_time import RankTime, mean, rank_times, waiting_instances
from nsysroof.results import CollectiveRow, RankRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """One rank as measured.

    ``tokens`` is what a step yields, None where not known; ``idle_known`` is false where the capture
    hides work, so that nothing can be compared.
    """

    time: RankTime
    name: str | None = None
    collectives: Sequence[CollectiveRow] = ()
    tokens: float | None = None
    idle_known: bool = True


def compare_ranks(found: Measured, *, group_size: int) -> tuple[list[RankRow], Lag | None]:
    """Return the ranks of a capture as ``rank_rows`` does, none where it has a single GPU.

    Args:
        found: What was measured.
        group_size: As for ``collective_rows``.
    """
    if len(found.picked.gpus) <= 1:
        return [], None
    waiting = waiting_instances(found)
    collectives = collective_rows(
        waiting,
        waiting["role"].unique().to_list(),
        group_size=group_size,
        shared_clock=True,
        gpus=found.picked.gpus,
    )
    return rank_rows(
        [
            replace(rank, collectives=[row for row in collectives if row.gpu == rank.time.gpu])
            for rank in ranks_of(found)
        ]
    )


def ranks_of(found: Measured) -> list[Rank]:
    """Return the ranks of a capture without their collectives."""
    names = {device.gpu: device.name for device in found.picked.devices}
    workload = found.theory.workload
    return [
        Rank(
            time=time,
            name=names.get(time.gpu),
            tokens=workload.yielded_tokens if workload else None,
            idle_known=found.capture.graph_mode != WORK_HIDDEN,
        )
        for time in rank_times(found)
    ]


def rank_rows(ranks: Sequence[Rank]) -> tuple[list[RankRow], Lag | None]:
    """Return one row per rank, and how far the slowest is behind where one is.

    Ranks whose capture hides work are not compared.
    """
    times = [rank.time for rank in ranks]
    decided_by = what_compares(times) if all(rank.idle_known for rank in ranks) else None
    behind, lag = find_lag(times) if decided_by else ([None] * len(ranks), None)
    rows = [
        _row(
            rank,
            behind_ns=behind_ns,
            slowest=lag is not None and at == lag.slowest,
            decided_by=decided_by if rank.time.steps else None,
        )
        for at, (rank, behind_ns) in enumerate(zip(ranks, behind, strict=True))
    ]
    return rows, lag


def _row(rank: Rank, *, behind_ns: int | None, slowest: bool, decided_by: str | None) -> RankRow:
    time = rank.time
    row = RankRow(
        gpu=time.gpu,
        name=rank.name,
        pids=list(time.pids),
        steps=time.steps,
        behind_ns=behind_ns,
        slowest=slowest,
        decided_by=decided_by,
    )
    if not time.steps:
        return row
    wall = p50(time.wall)
    idle = max(time.idle_by_cause.items(), key=lambda cause: (cause[1], cause[0]), default=None)
    idle = idle if rank.idle_known else None
    return structs.replace(
        row,
        wall_p50_ns=wall,
        tokens_per_s=rank.tokens / wall * 1e9 if rank.tokens is not None and wall else None,
        work_ns_per_step=mean(time.work),
        collective_ns_per_step=mean(time.collective),
        wait_ns_per_step=_sum([row.wait_ns_per_step for row in rank.collectives]),
        transfer_ns_per_step=_sum([row.transfer_ns_per_step for row in rank.collectives]),
        idle_ns_per_step=mean(time.idle) if rank.idle_known else None,
        idle_cause=idle[0] if idle else None,
        idle_cause_ns_per_step=idle[1] / time.steps if idle else None,
    )


def _sum(values: Sequence[float]) -> float | None:
    return sum(values) if values else None
