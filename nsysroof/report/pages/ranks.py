"""The ranks of a run side by side, and their collectives."""

from __future__ import annotations

from collections.abc import Sequence

from nsysroof.report.blocks import Block, Grid, Row, Section, name, number, word
from nsysroof.results import CollectiveRow, RankRow
from nsysroof.units import format_us

_DECISIONS = {
    "own_time": "behind: work and idle time of a step beyond those of the quickest rank, which waits "
    "as long in collectives.",
    "step_wall": "behind: what a step takes longer than on the quickest rank; no collective shows "
    "on any of them.",
}
_NOT_COMPARED = (
    "Not compared: collectives show on some ranks only, idle time cannot be known, or fewer than two "
    "ranks have steps."
)
_WAITS = (
    "wait: until the last rank came; by percentile, the shortest tenth stands for mere transfer."
)


def ranks_sections(
    ranks: Sequence[RankRow], collectives: Sequence[CollectiveRow]
) -> tuple[Section, ...]:
    """Return the table of ranks and that of their collectives; nothing where there is one rank."""
    if len(ranks) <= 1:
        return ()
    return (_ranks(ranks), *((_collectives(collectives),) if collectives else ()))


def _ranks(ranks: Sequence[RankRow]) -> Section:
    columns = (
        number("GPU"),
        number("steps"),
        number("wall"),
        number("work"),
        number("collectives"),
        number("wait"),
        number("idle"),
        name("most idle", least=12, optional=True),
        number("behind"),
        word("slowest"),
    )
    decided = next((row.decided_by for row in ranks if row.decided_by), None)
    blocks: list[Block] = [
        "µs per step; wall: median step, the rest in the mean. collectives: nothing else ran.",
        Grid(columns=columns, rows=tuple(_rank(row) for row in ranks)),
        _DECISIONS.get(decided, decided) if decided else _NOT_COMPARED,
    ]
    return Section(title="Ranks", blocks=tuple(blocks))


def _rank(row: RankRow) -> Row:
    cause = f"{row.idle_cause} {format_us(row.idle_cause_ns_per_step)}" if row.idle_cause else "–"
    cells = (
        f"{row.gpu}",
        f"{row.steps:,}",
        format_us(row.wall_p50_ns),
        format_us(row.work_ns_per_step),
        format_us(row.collective_ns_per_step),
        format_us(row.wait_ns_per_step),
        format_us(row.idle_ns_per_step),
        cause,
        format_us(row.behind_ns),
        "yes" if row.slowest else "no",
    )
    return Row(cells=cells)


def _collectives(collectives: Sequence[CollectiveRow]) -> Section:
    columns = (
        name("role", least=16),
        number("GPU"),
        number("n"),
        number("wait µs"),
        number("transfer µs"),
        number("skew µs"),
        number("wait/step"),
        number("transfer/step"),
        word("by"),
    )
    grid = Grid(columns=columns, rows=tuple(_collective(row) for row in collectives))
    return Section(title="Collectives", blocks=(grid, _WAITS))


def _collective(row: CollectiveRow) -> Row:
    cells = (
        row.role,
        f"{row.gpu}",
        f"{row.instances:,}",
        format_us(row.wait_ns),
        format_us(row.transfer_ns),
        format_us(row.skew_ns),
        format_us(row.wait_ns_per_step),
        format_us(row.transfer_ns_per_step),
        row.method,
    )
    return Row(cells=cells)
