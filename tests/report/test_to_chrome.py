from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from nsysroof.report.base import ANALYSIS_FORMATS, TraceRenderer, any_renderer, renderer_for
from nsysroof.report.to_chrome import RENDERER
from tests.report import sample
from tests.report.slices_sample import SLICES


def events(folder: Path, phase: str) -> list[dict[str, Any]]:
    path = folder / "run.trace.json.gz"
    if not path.exists():
        RENDERER.save_slices(SLICES, path)
    document = json.loads(gzip.decompress(path.read_bytes()))
    assert document["displayTimeUnit"] == "ns"
    return [event for event in document["traceEvents"] if event["ph"] == phase]


def test_the_ending_means_it_although_it_ends_in_gz() -> None:
    chosen = renderer_for(Path("run.trace.json.gz"), ANALYSIS_FORMATS)
    assert chosen is any_renderer("chrome", ANALYSIS_FORMATS) is RENDERER
    assert isinstance(chosen, TraceRenderer)


def test_slices_keep_every_nanosecond_and_say_what_is_known(tmp_path: Path) -> None:
    core, helper, copy = [
        event for event in events(tmp_path, "X") if event["cat"] in {"operator", "copy"}
    ]
    assert (core["ts"], core["dur"], core["name"]) == (1_000_000.001, 3.0, "attn.core")
    assert core["args"] == {
        "kernel": sample.FLASH,
        "step": 0,
        "ratio": 2.0,
        "bound_us": 2.0,
        "operator_us": 4.0,
    }
    assert helper["args"] == {"kernel": sample.NVJET, "step": 0}
    assert (copy["name"], copy["args"]) == ("copy h2d", {})


def test_slices_that_overlap_lie_on_threads_of_their_own(tmp_path: Path) -> None:
    core, helper, copy = [
        event for event in events(tmp_path, "X") if event["cat"] in {"operator", "copy"}
    ]
    assert core["pid"] == helper["pid"] != copy["pid"]
    assert core["tid"] != helper["tid"]
    names = {
        (event["pid"], event["tid"]): event["args"]["name"]
        for event in events(tmp_path, "M")
        if event["name"] == "thread_name"
    }
    assert names[core["pid"], core["tid"]] == "stream 7 of process 11"
    assert names[helper["pid"], helper["tid"]] == "stream 7 of process 11, running beside it (1)"
    assert names[copy["pid"], copy["tid"]] == "no stream of process 12"
    assert all(key[0] > 0 and key[1] > 0 for key in names)  # viewers take 0 for the idle task


def test_gaps_steps_and_traffic_have_tracks(tmp_path: Path) -> None:
    (gap,) = [event for event in events(tmp_path, "X") if event["cat"] == "idle"]
    assert (gap["name"], gap["dur"]) == ("cause unknown", 1.999)
    (step,) = [event for event in events(tmp_path, "X") if event["cat"] == "step"]
    assert (step["name"], step["dur"]) == ("step 0", 3.0)
    counts = [(e["name"], e["ts"], e["args"]["value"]) for e in events(tmp_path, "C")]
    assert counts == [
        ("memory traffic, GB/s", 1_000_000.001, 3_000.0),
        ("memory traffic, % of peak", 1_000_000.001, 75.0),
        ("memory traffic, GB/s", 1_000_003.001, 0.0),
        ("memory traffic, % of peak", 1_000_003.001, 0.0),
    ]


def test_without_a_peak_there_is_no_share(tmp_path: Path) -> None:
    rates = [replace(rate, share=None) for rate in SLICES.rates]
    RENDERER.save_slices(replace(SLICES, rates=rates), tmp_path / "run.trace.json.gz")
    assert {event["name"] for event in events(tmp_path, "C")} == {"memory traffic, GB/s"}


def test_hostile_names_and_equal_bytes(tmp_path: Path) -> None:
    worst = [replace(SLICES.slices[0], kernel=name, name=name) for name in sample.WORST_NAMES]
    for file in ("a", "b"):
        RENDERER.save_slices(replace(SLICES, slices=worst), tmp_path / file)
    content = (tmp_path / "a").read_bytes()
    assert content == (tmp_path / "b").read_bytes()
    shown = [
        event["name"]
        for event in json.loads(gzip.decompress(content))["traceEvents"]
        if event.get("cat") == "operator"
    ]
    assert shown == list(sample.WORST_NAMES)
