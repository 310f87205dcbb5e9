"""What a shell sees besides results: progress, quiet, completion."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import pytest

from nsysroof.cli.progress import reading_line
from tests.cli.conftest import Outcome
from tests.report.render import Terminal

Command = Callable[..., Outcome]


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NSYSROOF_QUIET", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_a_long_read_shows_its_fraction_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [100.0]
    monkeypatch.setattr("nsysroof.cli.progress.time.monotonic", lambda: now[0])
    stream = Terminal()
    with reading_line(stream) as tell:
        assert tell is not None
        tell("KERNELS", 1, 4_000_000)
        assert stream.getvalue() == ""  # the first second
        now[0] = 101.5
        tell("KERNELS", 1_000_000, 4_000_000)
        now[0] = 101.55
        tell("KERNELS", 1_100_000, 4_000_000)  # a twentieth of a second later
    shown = "\r\x1b[2Kreading KERNELS: 1,000,000 of 4,000,000 rows, 25.0 %"
    assert stream.getvalue() == f"{shown}\r\x1b[2K"


def test_a_short_read_shows_nothing() -> None:
    stream = Terminal()
    with reading_line(stream) as tell:
        assert tell is not None
        tell("KERNELS", 10, 10)
    assert stream.getvalue() == ""


@pytest.mark.parametrize(("variable", "value"), [("NSYSROOF_QUIET", "1"), ("TERM", "dumb")])
def test_where_nobody_would_see_it_there_is_none(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    with reading_line(StringIO()) as tell:
        assert tell is None
    monkeypatch.setenv(variable, value)
    with reading_line(Terminal()) as tell:
        assert tell is None


@pytest.mark.usefixtures("library")
def test_quiet_writes_the_file_and_says_nothing(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NSYSROOF_QUIET", "")  # so that what the option sets is undone
    path = tmp_path / "run.json"
    result = command("analyze", "run.sqlite", "-o", path, "--quiet")
    assert (result.code, result.out, result.err) == (0, "", "")
    assert path.exists()


def completed(words: str, at: int) -> tuple[int, list[str]]:
    environment = {
        **os.environ,
        "_NSYSROOF_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(at),
    }
    found = subprocess.run(
        [sys.executable, "-c", "from nsysroof.cli.main import main; main()"],
        check=False,
        capture_output=True,
        env=environment,
        text=True,
    )
    return found.returncode, found.stdout.split()


def test_the_shell_completes_commands_and_options() -> None:
    assert completed("nsysroof an", 1) == (0, ["analyze"])
    code, options = completed("nsysroof estimate --new", 2)
    assert (code, options) == (0, ["--new-tokens"])
