from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path

from nsysroof.cli.options import PhaseChoice, SelectionOptions, TheoryOptions
from nsysroof.cli.origin import command_of
from nsysroof.report.saved import load_report
from tests.cli.conftest import Library, Outcome

Command = Callable[..., Outcome]


def test_only_what_was_said_is_repeated() -> None:
    found = command_of(Path("run.sqlite"), None, TheoryOptions(), SelectionOptions())
    assert found == "nsysroof analyze run.sqlite"


def test_every_kind_of_option_is_spelled_as_typed() -> None:
    theory = TheoryOptions(
        gpu="/data/secret/mine.toml",
        batch=8,
        context="1024,2048",
        phase=PhaseChoice.PREFILL,
        floor_us=2.5,
        peak=["bw=3.9e12", "bf16=850e12"],
        roofs=Path("/home/alice/roofs.toml"),
    )
    selection = SelectionOptions(window="1-2", step_range="step .*", strict=True)
    found = command_of(Path("/home/alice/run.sqlite"), "/home/alice/config.json", theory, selection)
    assert shlex.split(found) == [
        "nsysroof", "analyze", "run.sqlite", "--model", "config.json", "--gpu", "mine.toml",
        "--batch", "8", "--context", "1024,2048", "--phase", "prefill", "--floor-us", "2.5",
        "--peak", "bw=3.9e12", "--peak", "bf16=850e12", "--roofs", "roofs.toml",
        "--window", "1-2", "--step-range", "step .*",
    ]  # fmt: skip
    assert "alice" not in found


def test_the_command_in_a_report_makes_the_same_report(
    library: Library, command: Command, tmp_path: Path
) -> None:
    said = ["--model", "llama-3.1-8b", "--batch", "8", "--tp", "2", "--peak", "bw=3e12"]
    first = command("analyze", "run.sqlite", *said, "-o", tmp_path / "a.json")
    assert first.code == 0
    made_by = load_report(tmp_path / "a.json").command
    assert made_by == f"nsysroof analyze run.sqlite {' '.join(said)}"
    again = shlex.split(made_by)[1:]
    assert command(*again, "-o", tmp_path / "b.json").code == 0
    assert library.options[0] == library.options[1]
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
