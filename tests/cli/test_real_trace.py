"""The whole program on a labelled decode step of a real server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome

Command = Callable[..., Outcome]
TRACE = Path(__file__).parents[2] / "../shared/traces/llm/llama-8b-sglang-b300-decode-bs16.sqlite"

pytestmark = pytest.mark.skipif(not TRACE.exists(), reason="the shared traces are not here")
THEORY = ("--model", "llama-3.1-8b", "--batch", "16", "--context", "1024")


def test_the_budget_of_the_step_adds_up_to_the_nanosecond(command: Command) -> None:
    result = command("analyze", TRACE, *THEORY, "-f", "json")
    assert (result.code, result.err) == (0, "")
    report = json.loads(result.out)
    budget = report["budget"]
    parts = ("bound_ns", "over_bound_ns", "fixed_ns", "unexplained_ns", "copy_ns", "idle_ns")
    assert budget["wall_ns"] == sum(budget[part] for part in parts) - budget["overlap_ns"]
    for account in report["timeline"]:
        spent = account["sum_ns"] - account["overlap_ns"] + account["idle_ns"]
        assert account["window_ns"] == spent
        assert sum(account["idle_by_cause"].values()) == account["idle_ns"]


def test_all_formats_can_be_written_and_are_the_same_twice(
    command: Command, tmp_path: Path
) -> None:
    for ending in ("json", "tsv", "csv", "md", "txt"):
        first, second = tmp_path / f"1.{ending}", tmp_path / f"2.{ending}"
        for path in (first, second):
            assert command("analyze", TRACE, *THEORY, "-o", path).code == 0
        assert first.read_bytes() == second.read_bytes()


def test_kernels_and_gaps_agree_with_the_report(command: Command) -> None:
    report = json.loads(command("analyze", TRACE, *THEORY, "-f", "json").out)
    kernels = command("kernels", TRACE, *THEORY).out.splitlines()
    assert len(kernels) == 1 + len(report["kernels"])
    gaps = json.loads(command("gaps", TRACE, "-f", "json").out)["gaps"]
    idle = sum(gap["end_ns"] - gap["start_ns"] for gap in gaps)
    assert idle == report["timeline"][0]["idle_ns"]


def test_info_tells_what_was_recorded(command: Command) -> None:
    info = json.loads(command("info", TRACE, "-f", "json").out)
    # counted in the file: 393 kernel rows, all of GPU 0, one graph launch
    assert info["capture"]["kernels"] == 393
    assert info["capture"]["graph_launches"] == 1
    assert info["steps"]["count"] == 1
