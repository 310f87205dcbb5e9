"""Perfetto's own trace format, for ui.perfetto.dev and its SQL; needs the extra ``perfetto``.

Names and other texts are stored once and referred to by number.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nsysroof.errors import UsageError
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

_SEQUENCE = 1
_PER_GPU = 8  # track ids set aside for a GPU's own tracks
_FIRST_STREAM = 1_000_000


class PerfettoRenderer:
    """Writes the timeline of a capture."""

    suffixes: tuple[str, ...] = (".pftrace", ".perfetto-trace")

    def save_slices(self, slices: Slices, path: Path) -> None:
        """Create the file ``path``; the same slices give the same bytes.

        Raises:
            UsageError: ``no-perfetto`` where the extra is not installed.
        """
        writer = _Writer(_messages())
        with path.open("wb") as file:
            for packet in writer.packets(slices):
                trace = writer.proto.Trace(packet=[packet])
                file.write(trace.SerializeToString(deterministic=True))


def _messages() -> Any:
    try:
        from perfetto.protos.perfetto.trace import perfetto_trace_pb2  # noqa: PLC0415  an extra
    except ImportError as error:
        raise UsageError(
            "the perfetto package is not installed",
            hint="pip install 'nsysroof[perfetto]', or give -o a name ending in .trace.json.gz",
            slug="no-perfetto",
        ) from error
    return perfetto_trace_pb2


@dataclass(slots=True)
class _Writer:
    """Makes packets; remembers which texts were stored under which number."""

    proto: Any
    names: dict[str, int] = field(default_factory=dict)
    keys: dict[str, int] = field(default_factory=dict)
    texts: dict[str, int] = field(default_factory=dict)

    def packets(self, slices: Slices) -> Iterator[Any]:
        """Yield the packets of a trace: tracks, then events by time of each track."""
        yield self._first()
        for gpu in sorted({track.gpu for track in slices.tracks}):
            yield from self._gpu_tracks(gpu)
        for number, track in enumerate(slices.tracks):
            yield self._track(_FIRST_STREAM + number, _of(track.gpu, 0), track_name(track))
        for step in slices.steps:
            yield from self._slice(
                _of(step.gpu, 1), step.start_ns, step.end_ns, f"step {step.step}", {}
            )
        for idle in slices.idle:
            yield from self._slice(
                _of(idle.gpu, 2), idle.start_ns, idle.end_ns, idle_name(idle), {}
            )
        for one in slices.slices:
            yield from self._slice(
                _FIRST_STREAM + one.track, one.start_ns, one.end_ns, one.name, dict(details(one))
            )
        for rate in slices.rates:
            yield self._count(_of(rate.gpu, 3), rate.at_ns, rate.bytes_per_s / 1e9)
            if rate.share is not None:
                yield self._count(_of(rate.gpu, 4), rate.at_ns, rate.share * 100)

    def _first(self) -> Any:
        packet = self._packet()
        packet.sequence_flags = self.proto.TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
        packet.first_packet_on_sequence = True
        return packet

    def _gpu_tracks(self, gpu: int) -> Iterator[Any]:
        yield self._track(_of(gpu, 0), None, f"GPU {gpu}")
        yield self._track(_of(gpu, 1), _of(gpu, 0), STEPS_TRACK)
        yield self._track(_of(gpu, 2), _of(gpu, 0), IDLE_TRACK)
        for place, name in ((3, RATE_TRACK), (4, SHARE_TRACK)):
            packet = self._track(_of(gpu, place), _of(gpu, 0), name)
            packet.track_descriptor.counter.SetInParent()
            yield packet

    def _packet(self) -> Any:
        return self.proto.TracePacket(trusted_packet_sequence_id=_SEQUENCE)

    def _track(self, number: int, parent: int | None, name: str) -> Any:
        packet = self._packet()
        packet.track_descriptor.uuid = number
        packet.track_descriptor.name = name
        if parent is not None:
            packet.track_descriptor.parent_uuid = parent
        return packet

    def _event(self, track: int, at_ns: int, kind: int) -> Any:
        packet = self._packet()
        packet.timestamp = at_ns
        packet.sequence_flags = self.proto.TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        packet.track_event.type = kind
        packet.track_event.track_uuid = track
        return packet

    def _slice(
        self,
        track: int,
        start_ns: int,
        end_ns: int,
        name: str,
        values: dict[str, int | float | str],
    ) -> Iterator[Any]:
        kinds = self.proto.TrackEvent
        begin = self._event(track, start_ns, kinds.TYPE_SLICE_BEGIN)
        stored = begin.interned_data
        begin.track_event.name_iid = _stored(name, self.names, stored.event_names, "name")
        for key, value in values.items():
            note = begin.track_event.debug_annotations.add()
            note.name_iid = _stored(key, self.keys, stored.debug_annotation_names, "name")
            if isinstance(value, str):
                texts = stored.debug_annotation_string_values
                note.string_value_iid = _stored(value, self.texts, texts, "str")
            elif isinstance(value, int):
                note.int_value = value
            else:
                note.double_value = value
        yield begin
        yield self._event(track, end_ns, kinds.TYPE_SLICE_END)

    def _count(self, track: int, at_ns: int, value: float) -> Any:
        packet = self._event(track, at_ns, self.proto.TrackEvent.TYPE_COUNTER)
        packet.track_event.double_counter_value = value
        return packet


def _of(gpu: int, place: int) -> int:
    """Return the id of one of a GPU's own tracks; 0 would mean none."""
    return (gpu + 1) * _PER_GPU + place


def _stored(text: str, known: dict[str, int], table: Any, attribute: str) -> int:
    """Return the number of a text, which is stored with the event that needs it first."""
    if text not in known:
        known[text] = len(known) + 1
        entry = table.add()
        entry.iid = known[text]
        setattr(entry, attribute, text.encode() if attribute == "str" else text)
    return known[text]


RENDERER = PerfettoRenderer()
