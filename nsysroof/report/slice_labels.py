"""What timeline viewers show of tracks and slices, the same in each of their formats."""

from __future__ import annotations

from collections.abc import Iterator

from nsysroof.slices import Idle, Slice, Track

STEPS_TRACK = "steps"
IDLE_TRACK = "idle"
RATE_TRACK = "memory traffic, GB/s"
SHARE_TRACK = "memory traffic, % of peak"


def track_name(track: Track) -> str:
    """Return the name of a stream's track.

    >>> track_name(Track(gpu=0, pid=4711, stream=7, lane=1))
    'stream 7 of process 4711, running beside it (1)'
    """
    stream = "no stream" if track.stream is None else f"stream {track.stream}"
    beside = f", running beside it ({track.lane})" if track.lane else ""
    return f"{stream} of process {track.pid}{beside}"


def idle_name(idle: Idle) -> str:
    """Return the name of a gap: its cause."""
    return idle.cause or "cause unknown"


def details(one: Slice) -> Iterator[tuple[str, int | float | str]]:
    """Yield what is known of a slice beside its name and time."""
    known = {
        "kernel": one.kernel,
        "step": one.step,
        "ratio": one.ratio,
        "bound_us": None if one.bound_ns is None else one.bound_ns / 1e3,
        "operator_us": None if one.instance_ns is None else one.instance_ns / 1e3,
    }
    for key, value in known.items():
        if value is not None:
            yield key, value
