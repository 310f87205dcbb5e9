"""The trace is read back with the messages of Perfetto's own package."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

from nsysroof.errors import UsageError
from nsysroof.report.to_perfetto import RENDERER
from nsysroof.slices import Slices
from tests.report import sample
from tests.report.slices_sample import SLICES


@dataclass
class Event:
    """A slice put together from its begin and end, with its texts looked up."""

    track: str
    start_ns: int
    end_ns: int
    name: str
    notes: dict[str, Any]


@dataclass
class Read:
    """What a viewer would make of a trace."""

    parents: dict[str, str]
    events: list[Event]
    counts: list[tuple[str, int, float]]


def read(slices: Slices, path: Path) -> Read:
    RENDERER.save_slices(slices, path)
    trace = pb.Trace.FromString(path.read_bytes())
    tracks: dict[int, Any] = {}
    tables: dict[str, dict[int, str]] = {"names": {}, "keys": {}, "texts": {}}
    open_: dict[int, Event] = {}
    found = Read({}, [], [])
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == 1
        stored = packet.interned_data
        tables["names"] |= {entry.iid: entry.name for entry in stored.event_names}
        tables["keys"] |= {entry.iid: entry.name for entry in stored.debug_annotation_names}
        tables["texts"] |= {
            entry.iid: entry.str.decode() for entry in stored.debug_annotation_string_values
        }
        if packet.HasField("track_descriptor"):
            tracks[packet.track_descriptor.uuid] = packet.track_descriptor
        if not packet.HasField("track_event"):
            continue
        event = packet.track_event
        track = tracks[event.track_uuid]  # described before it is used
        if event.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
            assert event.track_uuid not in open_
            notes = {
                tables["keys"][n.name_iid]: value(n, tables["texts"])
                for n in event.debug_annotations
            }
            begun = Event(track.name, packet.timestamp, 0, tables["names"][event.name_iid], notes)
            open_[event.track_uuid] = begun
        elif event.type == pb.TrackEvent.TYPE_SLICE_END:
            ended = open_.pop(event.track_uuid)
            ended.end_ns = packet.timestamp
            found.events.append(ended)
        else:
            assert event.type == pb.TrackEvent.TYPE_COUNTER
            assert track.HasField("counter")
            found.counts.append((track.name, packet.timestamp, event.double_counter_value))
    assert open_ == {}
    found.parents = {
        track.name: tracks[track.parent_uuid].name for track in tracks.values() if track.parent_uuid
    }
    return found


def value(note: Any, texts: dict[int, str]) -> Any:
    kind = note.WhichOneof("value")
    return texts[note.string_value_iid] if kind == "string_value_iid" else getattr(note, kind)


def test_slices_lie_on_the_track_of_their_stream_below_their_gpu(tmp_path: Path) -> None:
    found = read(SLICES, tmp_path / "run.pftrace")
    core, helper, copy = found.events[2:]
    assert core == Event(
        track="stream 7 of process 11",
        start_ns=1_000_000_001,
        end_ns=1_000_003_001,
        name="attn.core",
        notes={
            "kernel": sample.FLASH,
            "step": 0,
            "ratio": 2.0,
            "bound_us": 2.0,
            "operator_us": 4.0,
        },
    )
    assert helper.track == "stream 7 of process 11, running beside it (1)"
    assert found.parents[core.track] == "GPU 0"
    assert found.parents[copy.track] == "GPU 1"


def test_steps_gaps_and_traffic_have_tracks(tmp_path: Path) -> None:
    found = read(SLICES, tmp_path / "run.pftrace")
    step, gap = found.events[:2]
    assert (step.track, step.name) == ("steps", "step 0")
    assert (gap.track, gap.name, gap.end_ns - gap.start_ns) == ("idle", "cause unknown", 1_999)
    assert found.counts == [
        ("memory traffic, GB/s", 1_000_000_001, 3_000.0),
        ("memory traffic, % of peak", 1_000_000_001, 75.0),
        ("memory traffic, GB/s", 1_000_003_001, 0.0),
        ("memory traffic, % of peak", 1_000_003_001, 0.0),
    ]


def test_a_text_is_stored_once(tmp_path: Path) -> None:
    many = replace(SLICES, slices=[SLICES.slices[0]] * 50)
    RENDERER.save_slices(many, tmp_path / "run.pftrace")
    assert (tmp_path / "run.pftrace").read_bytes().count(sample.FLASH.encode()) == 1


def test_hostile_names_and_equal_bytes(tmp_path: Path) -> None:
    worst = replace(
        SLICES,
        slices=[replace(SLICES.slices[0], kernel=name, name=name) for name in sample.WORST_NAMES],
    )
    found = read(worst, tmp_path / "a.pftrace")
    RENDERER.save_slices(worst, tmp_path / "b.pftrace")
    assert (tmp_path / "a.pftrace").read_bytes() == (tmp_path / "b.pftrace").read_bytes()
    assert [event.name for event in found.events[2:]] == list(sample.WORST_NAMES)
    assert [event.notes["kernel"] for event in found.events[2:]] == list(sample.WORST_NAMES)


def test_without_the_package_the_hint_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "perfetto.protos.perfetto.trace", None)
    with pytest.raises(UsageError) as caught:
        RENDERER.save_slices(SLICES, tmp_path / "run.pftrace")
    assert caught.value.slug == "no-perfetto"
    assert "nsysroof[perfetto]" in caught.value.hint
