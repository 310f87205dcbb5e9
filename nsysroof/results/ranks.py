"""The ranks of a run side by side: where each one's steps go, and which one the others wait for."""

from __future__ import annotations

from nsysroof.results.base import Plain


class RankRow(Plain, frozen=True, kw_only=True):
    """One GPU of several: its steps outside and inside collectives.

    Per step, in the mean: wall = work + collective + idle, where ``collective`` is the time in
    which nothing but collectives ran, and ``work`` that with anything else; wall - collective is
    the rank's own time. ``wait_ns_per_step`` and ``transfer_ns_per_step`` split the collectives as
    ``CollectiveRow`` does, those beside other work included. ``behind_ns`` is how much more own
    time a step takes than on the quickest rank, the median over steps; ``slowest`` marks at most one
    rank. ``decided_by`` tells what was compared: ``own_time``, or ``step_wall`` where no rank shows a
    collective; null where ranks cannot be compared. Everything is null without steps.
    """

    gpu: int
    name: str | None
    pids: list[int]
    steps: int
    wall_p50_ns: int | None = None
    tokens_per_s: float | None = None
    work_ns_per_step: float | None = None
    collective_ns_per_step: float | None = None
    wait_ns_per_step: float | None = None
    transfer_ns_per_step: float | None = None
    idle_ns_per_step: float | None = None
    idle_cause: str | None = None
    idle_cause_ns_per_step: float | None = None
    behind_ns: int | None = None
    slowest: bool = False
    decided_by: str | None = None  # own_time | step_wall
