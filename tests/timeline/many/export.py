"""Many cases in one synthetic export; each has GPUs and processes that no other has."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from fixtures.builder import ExportBuilder, Place
from tests.timeline.many.cases import Call, Case, Mark, Overhead, Work


def write_cases(cases: Sequence[Case], random: Random) -> ExportBuilder:
    """Return one export that holds the cases, its rows in no order."""
    export = ExportBuilder().graph_mode("node")
    for case in cases:
        for pid, gpus in case.devices.items():
            export.process(pid, cuda_devices=gpus)
    rows = [
        (case, row)
        for case in cases
        for row in (*case.work, *case.calls, *case.marks, *case.overheads)
    ]
    random.shuffle(rows)
    for case, row in rows:
        match row:
            case Work():
                _write_work(export, row, case.devices[row.pid].index(row.gpu))
            case Call():
                export.api(
                    row.name,
                    row.start,
                    row.end,
                    correlation=row.correlation,
                    pid=row.pid,
                    tid=row.tid,
                )
            case Mark():
                export.nvtx(row.text, row.start, row.end, kind=row.kind, pid=row.pid, tid=row.tid)
            case Overhead():
                export.overhead("synthetic", row.start, row.end, pid=row.pid)
    return export


def _write_work(export: ExportBuilder, work: Work, device: int) -> None:
    place = Place(
        device=device,
        pid=work.pid,
        context=work.context,
        stream=work.stream,
        correlation=work.correlation,
    )
    match work.kind:
        case "kernel":
            export.kernel(work.label, work.start, work.end, graph_node=work.node, **place)
        case "copy":
            export.copy(work.label, 64, work.start, work.end, graph_node=work.node, **place)
        case "fill":
            export.fill(64, work.start, work.end, graph_node=work.node, **place)
        case _:
            export.graph_trace(work.start, work.end, **place)
