"""The cause of every idle nanosecond by the rules of docs/design.md, for each by itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.timeline.many.bitmap import Bitmap, Cells, Times, columns
from tests.timeline.many.cases import COPIES, Call, Case, Overhead, Work
from tests.timeline.many.steps import Step

CAUSES = (
    "in_graph", "between_graphs", "host_late", "sync", "dependency", "profiler",
    "outside_steps", "unknown",
)  # fmt: skip
_NEVER = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """An idle stretch between two activities with one cause, None where it cannot be judged."""

    start: int
    end: int
    cause: str | None
    before: str
    after: str


def judge_idle(case: Case, bitmap: Bitmap, steps: Sequence[Step]) -> list[Idle]:
    """Return every idle stretch, in the order of time."""
    places = np.flatnonzero(bitmap.idle)
    cells, weights = bitmap.cells[places], bitmap.weights[places]
    starts, ends = columns(bitmap.work)
    # The activity that ended last before, and the next to start; the first of several.
    befores = np.where(ends <= cells, ends, -_NEVER).argmax(axis=0).tolist()
    afters = np.where(starts > cells, starts, _NEVER).argmin(axis=0).tolist()
    causes = _judge_cells(case, bitmap, steps, cells, list(zip(befores, afters, strict=True)))
    found: list[Idle] = []
    pair = None
    for at, cause in enumerate(causes):
        p, n = befores[at], afters[at]
        start, end = int(cells[at]), int(cells[at] + weights[at])
        if pair == (p, n, cause) and found[-1].end == start:
            start = found.pop().start
        pair = (p, n, cause)
        before, after = _told(bitmap.work[p]), _told(bitmap.work[n])
        found.append(Idle(start=start, end=end, cause=cause, before=before, after=after))
    return found


def sum_causes(idle: Sequence[Idle], start: int, end: int) -> dict[str, int]:
    """Return the idle ns inside [start, end) by cause."""
    totals = dict.fromkeys(CAUSES, 0)
    for row in idle:
        totals[row.cause or "unknown"] += max(min(row.end, end) - max(row.start, start), 0)
    return totals


def _judge_cells(
    case: Case,
    bitmap: Bitmap,
    steps: Sequence[Step],
    cells: Times,
    pairs: Sequence[tuple[int, int]],
) -> list[str | None]:
    """Return the cause of each idle cell: the first rule that holds."""
    stepped = _inside(cells, steps) if steps else np.ones(cells.size, dtype=bool)
    syncs = [call for call in case.calls if call.kind in ("synchronize", "blocking_copy")]
    waiting = {pid: _inside(cells, [c for c in syncs if c.pid == pid]) for pid in case.devices}
    profiled = {
        pid: _inside(cells, [o for o in case.overheads if o.pid == pid]) for pid in case.devices
    }
    judged = {(p, n): _judge_pair(case, bitmap.work[p], bitmap.work[n]) for p, n in set(pairs)}
    causes: list[str | None] = []
    for at, (p, n) in enumerate(pairs):
        pid = bitmap.work[n].pid
        if profiled[pid][at]:
            causes.append("profiler")
        elif not stepped[at]:
            causes.append("outside_steps")
        elif judged[p, n] == "late":
            causes.append("sync" if waiting[pid][at] else "host_late")
        else:
            causes.append(judged[p, n])
    return causes


def _judge_pair(case: Case, p: Work, n: Work) -> str | None:
    """Return what P and N alone tell; ``late`` where N was launched late."""
    replays = _is_replayed(case, p) and _is_replayed(case, n)
    if replays and n.correlation is not None and _key(p) == _key(n):
        return "in_graph"
    launches = [call.start for call in _calls_of(case, n) if call.kind != "synchronize"]
    if not launches:
        return None
    if min(launches) >= p.end:
        return "late"
    return "between_graphs" if replays else "dependency"


def _is_replayed(case: Case, work: Work) -> bool:
    launched = any(call.kind == "graph_launch" for call in _calls_of(case, work))
    return work.kind == "replay" or work.node is not None or launched


def _calls_of(case: Case, work: Work) -> list[Call]:
    if work.correlation is None:
        return []
    return [call for call in case.calls if _key(call) == _key(work)]


def _key(row: Work | Call) -> tuple[int, int | None]:
    return (row.pid, row.correlation)


def _inside(cells: Times, rows: Sequence[Step | Call | Overhead]) -> Cells:
    inside = np.zeros(cells.size, dtype=bool)
    for row in rows:
        inside |= (row.start <= cells) & (cells < row.end)
    return inside


def _told(work: Work) -> str:
    """Return how a report names an activity."""
    names = {"copy": f"copy {COPIES.get(work.label)}", "fill": "fill", "replay": "graph replay"}
    return names.get(work.kind, work.label)
