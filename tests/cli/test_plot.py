from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome

Command = Callable[..., Outcome]
FIXTURE = Path(__file__).parents[2] / "fixtures" / "qwen3-30b-a3b-gh200.sqlite"
THEORY = ("--model", "qwen3-30b-a3b", "--batch", "1", "--context", "4096")


@pytest.fixture
def saved(command: Command, tmp_path: Path) -> Path:
    assert command("analyze", FIXTURE, *THEORY, "-o", tmp_path / "run.json").code == 0
    return tmp_path / "run.json"


@pytest.mark.parametrize("kind", ["roofline", "step", "timeline", "gaps", "batch"])
def test_a_report_and_its_trace_give_the_same_picture(
    command: Command, saved: Path, kind: str, tmp_path: Path
) -> None:
    first, second = tmp_path / "a.svg", tmp_path / "b.svg"
    result = command("plot", saved, kind, "-o", first)
    assert (result.code, result.out, result.err) == (0, "", f"wrote {first}\n")
    assert command("plot", FIXTURE, kind, *THEORY, "-o", second).code == 0
    assert first.read_bytes() == second.read_bytes()
    assert first.read_text(encoding="utf-8").startswith("<?xml")


def test_mistakes_are_told_before_anything_is_read(command: Command, tmp_path: Path) -> None:
    result = command("plot", "none.sqlite", "step", "-o", tmp_path / "a.pdf")
    assert (result.code, "[unknown-format]" in result.err) == (2, True)
    (tmp_path / "a.png").write_bytes(b"mine")
    result = command("plot", "none.sqlite", "step", "-o", tmp_path / "a.png")
    assert (result.code, "[output-exists]" in result.err) == (2, True)
    assert command("plot", "none.sqlite", "pie", "-o", tmp_path / "b.png").code == 2
    assert (tmp_path / "a.png").read_bytes() == b"mine"
