"""The ranks of a run side by side, and their collectives."""

from __future__ import annotations

from collections.abc import Sequence

from nsysroof.report.blocks import Block, Grid, Row, Section, count, name, number, word
from nsysroof.report.pages.capture import findings_block
from nsysroof.results import CollectiveRow, FileCollectiveRow, FileRankRow, RankRow, Ranks
from nsysroof.units import format_bytes, format_rate, format_ratio, format_us, format_us_exact

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
_NO_STEPS = "{}, none with a step that is analysed: there is nothing to compare per step."
_PLACES = {False: (number("GPU"),), True: (number("rank"), number("file"), number("GPU"))}
_AXES = (
    "Files on one axis share a clock: offset is added to the times of a file to have those of the "
    "first file on its axis. Across axes no times are subtracted."
)
_WAITS = (
    "wait: until the last rank came; by percentile, the shortest tenth stands for mere transfer."
)

_RATES = (
    "algorithm: message over transfer; bus: that times what a ring sends of it through a link. Small "
    "messages take the latency of their rounds, whatever the link."
)


def ranks_sections(
    ranks: Sequence[RankRow], collectives: Sequence[CollectiveRow]
) -> tuple[Section, ...]:
    """Return the table of ranks where there are several, and that of their collectives."""
    several = (_ranks(ranks),) if len(ranks) > 1 else ()
    return (*several, *((_collectives(collectives),) if collectives else ()))


def run_sections(run: Ranks) -> tuple[Section, ...]:
    """Return the page of a run in several files: the files, the findings, the ranks."""
    return (_files(run), *ranks_sections(run.ranks, run.collectives))


def _files(run: Ranks) -> Section:
    columns = (
        number("file"),
        name("name", least=16),
        word("GPUs"),
        number("steps"),
        number("axis"),
        word("clock"),
        number("offset µs"),
    )
    rows = tuple(
        Row(
            cells=(
                f"{file.file}",
                file.name,
                ", ".join(map(str, file.gpus)) or "–",
                f"{file.steps:,}",
                f"{file.axis}",
                file.clock or "–",
                format_us_exact(file.offset_ns),
            )
        )
        for file in run.files
    )
    blocks: list[Block] = [Grid(columns=columns, rows=rows), _AXES]
    if run.common_steps is not None:
        blocks.append(f"{count(run.common_steps, 'step')} that all ranks ran at the same time.")
    blocks.append(findings_block(run.findings))
    return Section(title="Files of the run", blocks=tuple(blocks))


def _ranks(ranks: Sequence[RankRow]) -> Section:
    columns = (
        *_PLACES[isinstance(ranks[0], FileRankRow)],
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
    if not any(row.steps for row in ranks):
        return Section(title="Ranks", blocks=(_NO_STEPS.format(count(len(ranks), "rank")),))
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
        *_place(row),
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


def _place(row: RankRow | CollectiveRow) -> tuple[str, ...]:
    if isinstance(row, FileRankRow | FileCollectiveRow):
        return (f"{row.rank}", f"{row.file}", f"{row.gpu}")
    return (f"{row.gpu}",)


def _collectives(collectives: Sequence[CollectiveRow]) -> Section:
    columns = (
        name("role", least=16),
        *_PLACES[isinstance(collectives[0], FileCollectiveRow)],
        number("n"),
        number("wait µs"),
        number("transfer µs"),
        number("skew µs"),
        number("wait/step"),
        number("transfer/step"),
        word("by"),
    )
    grid = Grid(columns=columns, rows=tuple(_collective(row) for row in collectives))
    return Section(title="Collectives", blocks=(grid, _WAITS, *_rates(collectives)))


def _collective(row: CollectiveRow) -> Row:
    cells = (
        row.role,
        *_place(row),
        f"{row.instances:,}",
        format_us(row.wait_ns),
        format_us(row.transfer_ns),
        format_us(row.skew_ns),
        format_us(row.wait_ns_per_step),
        format_us(row.transfer_ns_per_step),
        row.method,
    )
    return Row(cells=cells)


def _rates(collectives: Sequence[CollectiveRow]) -> tuple[Block, ...]:
    """Return how fast each role moved its message on the rank where that took longest."""
    slowest: dict[str, CollectiveRow] = {}
    for row in collectives:
        known = slowest.get(row.role)
        if row.bytes is not None and (known is None or row.transfer_ns > known.transfer_ns):
            slowest[row.role] = row
    if not slowest:
        return ()
    columns = (
        name("role", least=16),
        word("operation"),
        number("ranks"),
        number("message"),
        number("algorithm"),
        number("bus"),
        number("link"),
        number("transfer/bound"),
    )
    rows = tuple(
        Row(
            cells=(
                row.role,
                row.operation or "–",
                "–" if row.ranks is None else f"{row.ranks}",
                format_bytes(row.bytes),
                format_rate(row.algorithm_bytes_per_s, "B"),
                format_rate(row.bus_bytes_per_s, "B"),
                format_rate(row.peak_bytes_per_s, "B"),
                format_ratio(row.ratio),
            )
        )
        for row in slowest.values()
    )
    return (Grid(columns=columns, rows=rows), _RATES)
