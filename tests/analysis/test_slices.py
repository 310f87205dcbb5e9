"""The timeline of the planted captures, held against what was planted."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from nsysroof import Options, open_trace
from nsysroof.analysis.slices import trace_slices
from nsysroof.slices import Slices

FIXTURES = Path(__file__).parents[2] / "fixtures"
QWEN, LLAMA = "qwen3-30b-a3b-gh200", "llama-3.1-8b-h100-tp2"
OPTIONS = {
    QWEN: Options(model="qwen3-30b-a3b", batch=1, context=(4096,)),
    LLAMA: Options(model="llama-3.1-8b", batch=8, context=(1024,), tp=2),
}


@pytest.fixture(scope="module", params=[QWEN, LLAMA])
def capture(request: pytest.FixtureRequest) -> tuple[Slices, dict[str, Any]]:
    truth = json.loads((FIXTURES / f"{request.param}.truth.json").read_text(encoding="utf-8"))
    trace = open_trace(FIXTURES / f"{request.param}.sqlite")
    return trace_slices(trace, OPTIONS[request.param]), truth


def test_every_kernel_is_a_slice_with_its_planted_role(
    capture: tuple[Slices, dict[str, Any]],
) -> None:
    slices, truth = capture
    planted = Counter((start, gpu, role) for start, gpu, role in truth["kernels"])
    found = Counter(
        (
            one.start_ns,
            slices.tracks[one.track].gpu,
            one.name if one.activity == "operator" else None,
        )
        for one in slices.slices
        if one.kernel is not None
    )
    assert found == planted


def test_ratios_of_instances_have_the_planted_median(
    capture: tuple[Slices, dict[str, Any]],
) -> None:
    slices, truth = capture
    for role, planted in truth["ratios"].items():
        ratios = [one.ratio for one in slices.slices if one.name == role and one.ratio is not None]
        assert median(ratios) == pytest.approx(planted["ratio"], rel=0.01), role


def test_slices_of_one_track_never_overlap(capture: tuple[Slices, dict[str, Any]]) -> None:
    slices, _ = capture
    reached = dict.fromkeys(range(len(slices.tracks)), 0)
    for one in slices.slices:
        assert one.start_ns >= reached[one.track]
        reached[one.track] = one.end_ns


def test_gaps_add_up_to_the_planted_idle_time(capture: tuple[Slices, dict[str, Any]]) -> None:
    slices, truth = capture
    for account in truth["timeline"]:
        idle = [gap for gap in slices.idle if gap.gpu == account["gpu"]]
        assert sum(gap.end_ns - gap.start_ns for gap in idle) == account["idle_ns"]


def test_steps_begin_where_they_were_planted(capture: tuple[Slices, dict[str, Any]]) -> None:
    slices, truth = capture
    for gpu, starts in truth["steps"]["starts_by_gpu"].items():
        assert [step.start_ns for step in slices.steps if step.gpu == int(gpu)] == starts


def test_traffic_is_the_bytes_of_an_instance_over_its_time(
    capture: tuple[Slices, dict[str, Any]],
) -> None:
    slices, truth = capture
    assert slices.peak_bytes_per_s == truth["bytes_per_s"]
    at = {rate.at_ns: rate for rate in slices.rates if rate.gpu == 0}
    head = next(one for one in slices.slices if one.name == "lm_head")
    ns = head.end_ns - head.start_ns
    expected = truth["ratios"]["lm_head"]["bytes"] / ns * 1e9
    rate = at[head.start_ns]
    assert rate.bytes_per_s == pytest.approx(expected)
    assert rate.share == pytest.approx(expected / truth["bytes_per_s"])
    assert at[head.end_ns].bytes_per_s == 0.0


def test_a_window_limits_what_is_shown() -> None:
    trace = open_trace(FIXTURES / f"{QWEN}.sqlite")
    options = Options(model="qwen3-30b-a3b", batch=1, context=(4096,), window=(0.01, 0.03))
    slices = trace_slices(trace, options)
    first = 53_013_800  # the first kernel of the capture
    starts = [one.start_ns for one in slices.slices]
    assert min(starts) >= first + 10_000_000
    assert max(starts) < first + 30_000_000
    assert 3_000 < len(starts) < 4_000  # four of the twenty steps of 874 kernels
