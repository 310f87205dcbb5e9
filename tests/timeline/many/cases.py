"""One timeline of a few processes and GPUs, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

KERNELS = tuple(f"synthetic_kernel_{letter}" for letter in "abcdefgh")
COPIES = {"h2d": "h2d", "d2h": "d2h", "d2d": "d2d", "p2p": "p2p", "h2h": "other"}
"""What the builder calls a kind of copy, and what a report calls it."""

STEP_RANGE = "^step"
"""Which NVTX ranges are steps."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One activity of a GPU; ``label`` is the kernel's name, or the kind of a copy."""

    kind: str  # kernel | copy | fill | replay
    label: str
    start: int
    end: int
    gpu: int
    pid: int
    context: int
    stream: int
    correlation: int | None
    node: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One host call; ``kind`` is a key of ``CALLS``."""

    kind: str
    name: str
    start: int
    end: int
    pid: int
    tid: int
    correlation: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """One NVTX range, ``end`` None where it never ended."""

    text: str
    start: int
    end: int | None
    pid: int
    tid: int
    kind: str = "push_pop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """Time that the profiler took in a process."""

    start: int
    end: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One timeline; ``devices`` are the physical GPUs of each process by CUDA ordinal."""

    devices: dict[int, list[int]]
    work: list[Work] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    overheads: list[Overhead] = field(default_factory=list)

    @property
    def gpus(self) -> list[int]:
        """The GPUs with activity, ascending."""
        return sorted({work.gpu for work in self.work})

    def edges(self) -> set[int]:
        """Return every time at which something begins or ends."""
        rows: list[Work | Call | Mark | Overhead] = [*self.work, *self.calls, *self.marks]
        rows += self.overheads
        ends = {row.end for row in rows if row.end is not None}
        return {row.start for row in rows} | ends

    def stretched(self, at: int, by: int) -> Case:
        """Return the case with every time after ``at`` later by ``by``."""
        return Case(
            devices=self.devices,
            work=_later(self.work, at, by),
            calls=_later(self.calls, at, by),
            marks=_later(self.marks, at, by),
            overheads=_later(self.overheads, at, by),
        )


_Row = TypeVar("_Row", Work, Call, Mark, Overhead)


def _later(rows: Sequence[_Row], at: int, by: int) -> list[_Row]:
    def moved(time: int) -> int:
        return time + by if time > at else time

    ends = (None if row.end is None else moved(row.end) for row in rows)
    return [
        replace(row, start=moved(row.start), end=end) for row, end in zip(rows, ends, strict=True)
    ]
