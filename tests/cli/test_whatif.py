from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome

Command = Callable[..., Outcome]
FIXTURE = Path(__file__).parents[2] / "fixtures" / "qwen3-30b-a3b-gh200.sqlite"
MEASURED = ("--model", "qwen3-30b-a3b", "--from-batch", "1", "--from-context", "4096")


@pytest.fixture
def saved(command: Command, tmp_path: Path) -> Path:
    path = tmp_path / "run.json"
    theory = ("--model", "qwen3-30b-a3b", "--batch", "1", "--context", "4096")
    assert command("analyze", FIXTURE, *theory, "-o", path).code == 0
    return path


def test_a_trace_and_its_report_give_the_same_answer(command: Command, saved: Path) -> None:
    change = ("--peak", "bw=8e12", "-f", "json")
    from_trace = command("whatif", FIXTURE, *MEASURED, *change)
    from_report = command("whatif", saved, *change)
    assert (from_trace.code, from_trace.err) == (0, "")
    assert from_trace.out == from_report.out
    found = json.loads(from_trace.out)
    # The six operators above their roofs took 3,018.403 µs of 5,114.753; half of it is saved.
    assert found["expected_ns"] == pytest.approx(5_114_753 - 3_018_403 / 2)


def test_the_page_shows_both_steps_and_what_was_kept(command: Command, saved: Path) -> None:
    shown = command("whatif", saved, "--peak", "bw=8e12", "-f", "table").out
    assert "With peaks bw=8e12:" in shown
    assert "5,114.8" in shown
    assert "3,605.6" in shown
    assert "kept as measured: idle 789.4 µs" in " ".join(shown.split())
    lines = [line.split() for line in shown.splitlines()]
    down = next(line for line in lines if line[:1] == ["moe.down"])
    assert down[1:3] == ["907.5", "453.7"]  # 907.490 and 453.745


def test_every_format_takes_it(command: Command, saved: Path, tmp_path: Path) -> None:
    for ending in ("json", "tsv", "csv", "md", "txt", "html", "parquet", "db"):
        path = tmp_path / f"whatif.{ending}"
        assert command("whatif", saved, "--tp", "2", "-o", path).code == 0
        assert path.exists()
    rows = (tmp_path / "whatif.tsv").read_text(encoding="utf-8").splitlines()
    assert any(row.startswith("attn.all_reduce\t\t62400.0\t") for row in rows)  # 48 x 1.3 µs


def test_a_trace_without_its_workload_is_told_what_is_missing(command: Command) -> None:
    result = command("whatif", FIXTURE, "--tp", "2")
    assert (result.code, result.out) == (2, "")
    assert "[whatif-needs-step]" in result.err
