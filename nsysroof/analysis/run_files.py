"""The ranks of a run that lies in several files, one for each rank or node.

Each file is measured by itself; nothing is joined across files but steps and the entries into
collectives, and these only where the files share a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import polars as pl
from msgspec import structs

from nsysroof import __version__
from nsysroof.analysis import findings as find
from nsysroof.analysis.bus_rates import with_rates
from nsysroof.analysis.lag import slow_rank
from nsysroof.analysis.measured import measure
from nsysroof.analysis.operators import OperatorGroup
from nsysroof.analysis.options import Options
from nsysroof.analysis.rank_time import RankTime, waiting_instances
from nsysroof.analysis.ranks import Rank, rank_rows, ranks_of
from nsysroof.analysis.run_axis import PlacedRank, find_axes, run_collectives, steps_in_common
from nsysroof.errors import Inconclusive
from nsysroof.results import (
    CollectiveRow,
    FileCollectiveRow,
    FileRankRow,
    Finding,
    RankFile,
    Ranks,
)
from nsysroof.theory.peaks import Peaks
from nsysroof.trace import Trace
from nsysroof.trace.clock import Alignment, Clock

_NOTE = "note"
_Axes = Sequence[tuple[int, Alignment]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    """What is kept of a file once it is measured: of all kernels only those in collectives."""

    name: str
    called: str
    clock: Clock
    nsys_version: str | None
    phase: str | None
    findings: list[Finding]
    ranks: list[Rank]
    instances: pl.DataFrame
    groups: list[OperatorGroup]
    peaks: Peaks


def compare_files(traces: Iterable[tuple[str, Trace]], options: Options) -> Ranks:
    """Return the ranks of a run in several files.

    Args:
        traces: The name of each file and what is in it; read one after another.
        options: What is known of the run; holds for every file.

    Raises:
        Inconclusive: ``one-rank`` where there are not two ranks to compare.
        UsageError: Options that do not fit a trace or one another.
        InputError: A file cannot be read.
    """
    files = [_measure(at, name, trace, options) for at, (name, trace) in enumerate(traces)]
    phase = next((file.phase for file in files if file.phase), None)
    axes = find_axes([file.clock for file in files])
    ranks = _placed(files, axes, phase)
    if len(ranks) <= 1:
        raise Inconclusive(
            f"{len(ranks)} GPU with activity in all files: there are no ranks to compare",
            hint="give the files of all ranks; `nsysroof info TRACE` tells what one holds",
            slug="one-rank",
        )
    told = max(options.tp, options.ep)
    collectives = [
        rated
        for row in run_collectives(ranks, group_size=told if told > 1 else len(ranks))
        for file in [files[ranks[row.gpu].file]]
        for rated in with_rates([row], file.groups, file.peaks)
    ]
    common = steps_in_common(ranks)
    compared = [
        replace(
            one.rank,
            time=one.rank.time.only(common[at]) if common else one.rank.time,
            collectives=[row for row in collectives if row.gpu == at],
        )
        for at, one in enumerate(ranks)
    ]
    rows, lag = rank_rows(compared)
    labels = [_label(at, one, files) for at, one in enumerate(ranks)]
    findings = [
        *(one for file in files for one in file.findings),
        *find.clocks_differ([file.called for file in files], axes),
        *_phases_differ(files, phase),
        *find.ranks_missing(options.tp, len(ranks)),
        *slow_rank(rows, lag, labels=labels),
    ]
    return Ranks(
        tool_version=__version__,
        phase=phase,
        common_steps=common[0].size if common else None,
        files=[_file_row(at, file, *axes[at]) for at, file in enumerate(files)],
        ranks=[
            FileRankRow(**structs.asdict(row), rank=at, file=ranks[at].file)
            for at, row in enumerate(rows)
        ],
        collectives=[_collective_row(row, ranks[row.gpu]) for row in collectives],
        findings=find.in_order(findings),
    )


def _measure(number: int, name: str, trace: Trace, options: Options) -> _File:
    found = measure(trace, options)
    called = f"{name} (file {number})"  # files of several folders may have one name
    return _File(
        name=name,
        called=called,
        clock=trace.clock,
        nsys_version=found.capture.nsys_version,
        phase=found.analysed.phase,
        findings=[
            structs.replace(one, text=f"{called}: {one.text}")
            for one in found.capture.findings
            if one.severity != _NOTE
        ],
        ranks=ranks_of(found),
        instances=waiting_instances(found).filter(pl.col("step").is_not_null()),
        groups=found.groups,
        peaks=found.hardware.peaks,
    )


def _placed(files: Sequence[_File], axes: _Axes, phase: str | None) -> list[PlacedRank]:
    """Return the ranks of all files in order; the steps of another phase do not count."""
    return [
        PlacedRank(
            rank=rank
            if file.phase == phase
            else replace(rank, time=RankTime(gpu=rank.time.gpu, pids=rank.time.pids)),
            file=at,
            axis=axis,
            offset_ns=alignment.offset_ns or 0,
            instances=file.instances.filter(pl.col("gpu") == rank.time.gpu),
        )
        for at, (file, (axis, alignment)) in enumerate(zip(files, axes, strict=True))
        for rank in file.ranks
    ]


def _phases_differ(files: Sequence[_File], phase: str | None) -> list[Finding]:
    others = sorted({file.phase for file in files if file.phase and file.phase != phase})
    names = [file.called for file in files if file.phase in others]
    return find.phases_differ(names, others, phase) if others and phase else []


def _label(at: int, placed: PlacedRank, files: Sequence[_File]) -> str:
    return f"rank {at} (GPU {placed.rank.time.gpu} of {files[placed.file].called})"


def _collective_row(row: CollectiveRow, placed: PlacedRank) -> FileCollectiveRow:
    own = structs.asdict(row) | {"gpu": placed.rank.time.gpu}
    return FileCollectiveRow(**own, rank=row.gpu, file=placed.file)


def _file_row(at: int, file: _File, axis: int, alignment: Alignment) -> RankFile:
    times = [rank.time for rank in file.ranks]
    return RankFile(
        file=at,
        name=file.name,
        nsys_version=file.nsys_version,
        gpus=[time.gpu for time in times],
        steps=max((time.steps for time in times), default=0),
        axis=axis,
        clock=str(alignment.kind) if alignment.kind else None,
        offset_ns=alignment.offset_ns or 0,
    )
