"""Copies against the links they cross: by kind, by size, by host memory, hidden or not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from nsysroof.results import LinkPart, LinkRow
from nsysroof.timeline.activity import Activity
from nsysroof.timeline.intervals import Intervals, covered_before, union
from nsysroof.timeline.steps import assign_steps
from nsysroof.units import format_share

_KINDS = ("d2d", "d2h", "h2d", "p2p")
_HOST_SIDE = {"h2d": "src", "d2h": "dst"}
_SMALL = 64_000  # bytes: below, a copy takes its latency of a few µs whatever the link
_LARGE = 1_000_000  # bytes: from here on the link is all that matters
_SIZES = ("<64 kB", "<1 MB", ">=1 MB")
_NEAR_PEAK = 1.5  # peak over rate up to which nothing but fewer bytes helps
_WORTH_TELLING = 0.1  # share of the step, or of the bytes
_LENGTH = pl.col("end_ns") - pl.col("start_ns")


@dataclass(frozen=True, slots=True, kw_only=True)
class _PerStep:
    """Means over the analysed steps of one GPU; all None without steps."""

    copies: float | None = None
    bytes: float | None = None
    busy_ns: float | None = None
    share: float | None = None


def link_rows(
    copies: pl.DataFrame,
    peaks: Mapping[str, float],
    *,
    activities: pl.DataFrame,
    steps: pl.DataFrame,
) -> list[LinkRow]:
    """Return all copies of one kind and GPU against the peak of their link.

    A copy within the device reads and writes its bytes, so it is held against twice its bytes at
    the memory bandwidth. Small copies have no ratio: their latency says nothing of the link.

    Args:
        copies: Schema ``COPIES``.
        peaks: Bytes per second by key: ``h2d``, ``d2h``, ``p2p``, ``bw``.
        activities: Schema ``ACTIVITIES``: the kernels and replays that may run beside them.
        steps: The analysed steps, schema ``STEPS``.
    """
    wanted = copies.filter(pl.col("kind").is_in(list(_KINDS)))
    wanted = wanted.with_columns(assign_steps(wanted, steps))
    computing: dict[int, Intervals] = {}
    rows = []
    for (gpu, kind), part in sorted(wanted.partition_by("gpu", "kind", as_dict=True).items()):
        number = int(str(gpu))
        if number not in computing:
            running = pl.col("activity").is_in([int(Activity.KERNEL), int(Activity.REPLAY)])
            own = activities.select("gpu", "activity", "start_ns", "end_ns")
            computing[number] = _union(own.filter(running & (pl.col("gpu") == number)))
        own_steps = steps.filter(pl.col("gpu") == number)
        peak = peaks.get("bw" if kind == "d2d" else str(kind))
        rows.append(_row(str(kind), number, part, peak, computing[number], own_steps))
    return rows


def _row(
    kind: str,
    gpu: int,
    part: pl.DataFrame,
    peak: float | None,
    computing: Intervals,
    steps: pl.DataFrame,
) -> LinkRow:
    copying = _union(part)
    busy, moved = copying.total_ns, int(part["bytes"].sum())
    small = moved < _SMALL * part.height
    ratio = None if small else _ratio(kind, moved, busy, peak)
    per_step = _per_step(part, steps)
    parts = _parts(kind, part, peak)
    return LinkRow(
        kind=kind,
        gpu=gpu,
        copies=part.height,
        bytes=moved,
        busy_ns=busy,
        bytes_per_s=_rate(moved, busy),
        peak_bytes_per_s=peak,
        ratio=ratio,
        overlapped_share=_common_ns(copying, computing) / busy if busy else None,
        copies_per_step=per_step.copies,
        bytes_per_step=per_step.bytes,
        busy_ns_per_step=per_step.busy_ns,
        step_share=per_step.share,
        parts=parts,
        note="; ".join(_notes(kind, moved, busy, ratio, per_step.share, parts, small=small)),
    )


def _notes(
    kind: str,
    moved: int,
    busy: int,
    ratio: float | None,
    step_share: float | None,
    parts: list[LinkPart],
    *,
    small: bool,
) -> list[str]:
    if small:
        return [f"{_SMALL // 1000} kB or less on average: latency, not the link"]
    notes = []
    if kind == "d2d" and busy:
        notes.append(f"reads and writes: {2 * moved / busy:,.1f} GB/s of memory traffic")
    elif ratio is not None and ratio <= _NEAR_PEAK and (step_share or 0) >= _WORTH_TELLING:
        notes.append(
            f"{format_share(step_share)} of the step, at {format_share(1 / ratio)} of the link's "
            "peak: fewer bytes help, fewer copies do not"
        )
    pageable = sum(part.bytes for part in parts if part.memory == "pageable")
    if pageable >= _WORTH_TELLING * moved and moved:
        notes.append(
            f"{format_share(pageable / moved)} of the bytes in pageable host memory, which is "
            "copied through a staging buffer: pin it"
        )
    return notes


def _parts(kind: str, part: pl.DataFrame, peak: float | None) -> list[LinkPart]:
    """Return the copies by size and host memory, small ones first."""
    small, medium, large = (pl.lit(label) for label in _SIZES)
    rest = pl.when(pl.col("bytes") < _LARGE).then(medium).otherwise(large)
    size = pl.when(pl.col("bytes") < _SMALL).then(small).otherwise(rest)
    side = _HOST_SIDE.get(kind)
    memory = pl.col(side) if side else pl.lit(None, dtype=pl.String)
    labelled = part.with_columns(size=size, memory=memory)
    found = labelled.partition_by("size", "memory", as_dict=True)
    order = sorted(found, key=lambda key: (_SIZES.index(str(key[0])), str(key[1] or "")))
    rows = []
    for key in order:
        busy, moved = _union(found[key]).total_ns, int(found[key]["bytes"].sum())
        rows.append(
            LinkPart(
                size=str(key[0]),
                memory=None if key[1] is None else str(key[1]),
                copies=found[key].height,
                bytes=moved,
                busy_ns=busy,
                bytes_per_s=_rate(moved, busy),
                ratio=None if key[0] == _SIZES[0] else _ratio(kind, moved, busy, peak),
            )
        )
    return rows


def _per_step(part: pl.DataFrame, steps: pl.DataFrame) -> _PerStep:
    if not steps.height:
        return _PerStep()
    inside = part.filter(pl.col("step").is_in(steps["step"].implode()))
    busy = _union(inside).total_ns
    wall = int(steps.select(_LENGTH.sum()).item())
    return _PerStep(
        copies=inside.height / steps.height,
        bytes=int(inside["bytes"].sum()) / steps.height,
        busy_ns=busy / steps.height,
        share=busy / wall if wall else None,
    )


def _ratio(kind: str, moved: int, busy: int, peak: float | None) -> float | None:
    crossed = 2 * moved if kind == "d2d" else moved
    return busy * peak / (crossed * 1e9) if peak and crossed else None


def _rate(moved: int, busy: int) -> float | None:
    return moved / busy * 1e9 if busy else None


def _common_ns(one: Intervals, other: Intervals) -> int:
    """Return the time that two unions have in common."""
    return int((covered_before(one.ends, other) - covered_before(one.starts, other)).sum())


def _union(frame: pl.DataFrame) -> Intervals:
    return union(frame["start_ns"].to_numpy(), frame["end_ns"].to_numpy())
