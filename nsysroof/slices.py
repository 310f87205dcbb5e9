"""What ran when, as plain data for timeline viewers: tracks, slices, idle time and a counter."""

from __future__ import annotations

import msgspec


class Track(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a timeline.

    Slices of a track never overlap: kernels of one stream that run at once have a ``lane`` each.
    """

    gpu: int
    pid: int
    stream: int | None
    lane: int


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """One activity on a track.

    ``name`` is the role of an operator, else the kernel's name or the kind of copy. ``bound_ns``
    and ``ratio`` are of the whole operator instance, helpers included, which took
    ``instance_ns``; null where nothing is known, or where the kernel only helps another.
    """

    track: int  # index into the tracks
    start_ns: int
    end_ns: int
    activity: str  # operator | unexplained | copy | fill | replay
    name: str
    kernel: str | None = None
    step: int | None = None
    instance_ns: int | None = None
    bound_ns: float | None = None
    ratio: float | None = None


class Idle(msgspec.Struct, frozen=True, kw_only=True):
    """A stretch in which nothing ran on a GPU; ``cause`` is null where it cannot be judged."""

    gpu: int
    start_ns: int
    end_ns: int
    cause: str | None


class StepSpan(msgspec.Struct, frozen=True, kw_only=True):
    """One analysed step of a GPU, from its first kernel to its last end."""

    gpu: int
    step: int
    start_ns: int
    end_ns: int


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """Memory traffic of a GPU from a moment on, by the bytes that the theory counts.

    ``share`` is that of the peak bandwidth, null where no peak is known.
    """

    gpu: int
    at_ns: int
    bytes_per_s: float
    share: float | None


class Slices(msgspec.Struct, frozen=True, kw_only=True):
    """The timeline of a capture: all lists in order of GPU and time."""

    tool_version: str
    title: str
    peak_bytes_per_s: float | None
    tracks: list[Track]
    slices: list[Slice]
    idle: list[Idle]
    steps: list[StepSpan]
    rates: list[Rate]
