"""Chrome's JSON for timeline viewers (Perfetto UI, chrome://tracing), gzipped.

A GPU is a process of the viewer, a stream one of its threads; times keep every nanosecond.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from nsysroof.report.slice_labels import (
    IDLE_TRACK,
    RATE_TRACK,
    SHARE_TRACK,
    STEPS_TRACK,
    details,
    idle_name,
    track_name,
)
from nsysroof.slices import Slices

_STEPS, _IDLE, _FIRST_STREAM = 1, 2, 3  # threads of a GPU, in the order that a viewer shows
_LEVEL = 6


class ChromeRenderer:
    """Writes the timeline of a capture."""

    suffixes: tuple[str, ...] = (".trace.json.gz",)

    def save_slices(self, slices: Slices, path: Path) -> None:
        """Create the file ``path``; the same slices give the same bytes."""
        with path.open("wb") as file, gzip.GzipFile("", "wb", _LEVEL, file, mtime=0) as stream:
            head = {"title": slices.title, "made_by": f"nsysroof {slices.tool_version}"}
            stream.write(b'{"displayTimeUnit":"ns","otherData":')
            stream.write(msgspec.json.encode(head))
            stream.write(b',"traceEvents":[\n')
            for number, event in enumerate(_events(slices)):
                stream.write(b",\n" if number else b"")
                stream.write(msgspec.json.encode(event))
            stream.write(b"\n]}\n")


def _events(slices: Slices) -> Iterator[dict[str, Any]]:
    yield from _names(slices)
    for step in slices.steps:
        yield _complete(step.gpu, _STEPS, step.start_ns, step.end_ns, f"step {step.step}", "step")
    for one in slices.slices:
        track = slices.tracks[one.track]
        thread = _FIRST_STREAM + one.track
        event = _complete(track.gpu, thread, one.start_ns, one.end_ns, one.name, one.activity)
        yield event | {"args": dict(details(one))}
    for idle in slices.idle:
        name = idle_name(idle)
        yield _complete(idle.gpu, _IDLE, idle.start_ns, idle.end_ns, name, "idle")
    for rate in slices.rates:
        values = {RATE_TRACK: rate.bytes_per_s / 1e9}
        if rate.share is not None:
            values[SHARE_TRACK] = rate.share * 100
        for name, value in values.items():
            yield {
                "ph": "C",
                "pid": _process(rate.gpu),
                "ts": rate.at_ns / 1e3,
                "name": name,
                "args": {"value": value},
            }


def _names(slices: Slices) -> Iterator[dict[str, Any]]:
    for gpu in sorted({track.gpu for track in slices.tracks}):
        yield _meta("process_name", gpu, 0, name=f"GPU {gpu}")
        yield from _thread(gpu, _STEPS, STEPS_TRACK)
        yield from _thread(gpu, _IDLE, IDLE_TRACK)
    for number, track in enumerate(slices.tracks):
        yield from _thread(track.gpu, _FIRST_STREAM + number, track_name(track))


def _thread(gpu: int, thread: int, name: str) -> Iterator[dict[str, Any]]:
    yield _meta("thread_name", gpu, thread, name=name)
    yield _meta("thread_sort_index", gpu, thread, sort_index=thread)


def _process(gpu: int) -> int:
    """Return a process id; viewers take 0 for the idle task."""
    return gpu + 1


def _meta(kind: str, gpu: int, thread: int, **values: str | int) -> dict[str, Any]:
    return {"ph": "M", "pid": _process(gpu), "tid": thread, "name": kind, "args": values}


def _complete(
    gpu: int, thread: int, start_ns: int, end_ns: int, name: str, category: str
) -> dict[str, Any]:
    return {
        "ph": "X",
        "pid": _process(gpu),
        "tid": thread,
        "ts": start_ns / 1e3,
        "dur": (end_ns - start_ns) / 1e3,
        "name": name,
        "cat": category,
    }


RENDERER = ChromeRenderer()
