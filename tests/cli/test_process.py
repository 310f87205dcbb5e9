"""The command as a process of its own: exit codes, pipes, terminals, start-up."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

START = [sys.executable, "-m", "nsysroof"]
HEAVY = ("polars", "pyarrow", "matplotlib", "numpy", "sqlite_utils", "adbc_driver_sqlite", "rich")


def nsysroof(*arguments: str | Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*START, *map(str, arguments)],
        check=False,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        env={**os.environ, **environment},
        timeout=60,
    )


def on_terminal(*arguments: str, columns: int = 100, **environment: str) -> tuple[int, str]:
    """Run on a pseudo-terminal and return the exit code and all that it shows."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    plain = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    with subprocess.Popen(
        [*START, *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env={**plain, "TERM": "xterm", **environment},
    ) as process:
        os.close(slave)
        shown = b""
        while True:
            try:
                piece = os.read(master, 65536)
            except OSError:  # Linux: the other end is closed
                break
            if not piece:
                break
            shown += piece
    os.close(master)
    return process.returncode, shown.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("command", ["info", "analyze", "steps", "gaps", "kernels"])
def test_a_missing_trace_is_unreadable_input(command: str, tmp_path: Path) -> None:
    result = nsysroof(command, tmp_path / "none.sqlite")
    assert result.returncode == 2
    assert result.stdout == b""
    lines = result.stderr.decode().splitlines()
    assert lines[0].startswith("error: ")
    assert lines[-1].startswith("hint: ")
    assert len(lines) <= 3


@pytest.mark.parametrize(
    "arguments",
    [
        ["analyze"],
        ["analyze", "x.sqlite", "--no-such-option"],
        ["gpus", "-f", "docx"],
        ["no-such-command"],
    ],
)
def test_mistakes_exit_with_2(arguments: list[str]) -> None:
    result = nsysroof(*arguments)
    assert (result.returncode, result.stdout) == (2, b"")
    assert b"Traceback" not in result.stderr


def test_a_closed_pipe_is_quiet(tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("".join(f"some_kernel_{n}\n" for n in range(20_000)))
    with subprocess.Popen(
        [*START, "rules", "classify", str(names)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == b"name\tclass\troles\n"
        process.stdout.close()
        told = process.stderr.read()
    assert (process.returncode, told) == (141, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is full")
@pytest.mark.parametrize("fmt", ["table", "json"])
def test_a_full_disk_behind_stdout_is_an_error_of_the_user(fmt: str) -> None:
    with Path("/dev/full").open("wb") as full:
        result = subprocess.run(
            [*START, "gpus", "-f", fmt], check=False, stdout=full, stderr=subprocess.PIPE
        )
    assert result.returncode == 2
    assert result.stderr.decode().splitlines() == [
        "error: cannot write to standard output: No space left on device",
        "hint: give -o a file, or standard output a place that takes it   [cannot-write]",
    ]


@pytest.mark.parametrize("more", [[], ["-f", "json"]])
def test_a_closed_stdout_is_an_error_of_the_user(more: list[str]) -> None:
    result = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *START, "gpus", *more], check=False, capture_output=True
    )
    assert result.returncode == 2
    assert result.stderr.splitlines()[0] == (
        b"error: cannot write to standard output: it is closed"
    )


ESTIMATE = ["estimate", "qwen3-8b", "--gpu", "h100-sxm", "--context", "4096"]


@pytest.mark.parametrize(
    ("arguments", "first"),
    [
        (["--help"], b"Usage: nsysroof"),
        (["analyze", "--help"], b"Usage: nsysroof"),
        (["rules", "--help"], b"Usage: nsysroof"),
        ([*ESTIMATE, "-f", "json"], b"{"),
        ([*ESTIMATE, "-f", "tsv"], b"#"),
        (["gpus", "-f", "tsv"], b"key"),
        (["models", "-f", "json"], b"["),
    ],
)
def test_what_needs_no_trace_imports_nothing_heavy(arguments: list[str], first: bytes) -> None:
    script = (
        "import sys; from nsysroof.cli.main import run; code = run(sys.argv[1:]);"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)), file=sys.stderr); sys.exit(code)"
    )
    result = subprocess.run(
        [sys.executable, "-c", script, *arguments], check=True, capture_output=True
    )
    assert result.stderr == b"[]\n"
    assert result.stdout.startswith(first)


def test_a_terminal_gets_a_table_that_fits_and_a_pipe_tsv() -> None:
    code, shown = on_terminal("gpus", NO_COLOR="1")
    assert code == 0
    assert "\x1b" not in shown
    assert "\t" not in shown
    assert max(len(line) for line in shown.splitlines()) <= 100
    assert nsysroof("gpus").stdout.startswith(b"key\tname\t")


def test_colour_obeys_no_color() -> None:
    assert "\x1b[1mGPUs\x1b[0m" in on_terminal("gpus")[1]
    assert "\x1b" not in on_terminal("gpus", NO_COLOR="1")[1]
    assert b"\x1b" not in nsysroof("gpus", "-f", "table", FORCE_COLOR="1").stdout


def test_a_pipe_gets_utf_8_whatever_the_locale() -> None:
    result = nsysroof("gpus", "h100-sxm", "-f", "table", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert result.returncode == 0
    assert "–" in result.stdout.decode("utf-8")


def test_help_can_be_read_in_any_locale() -> None:
    result = nsysroof("analyze", "--help", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert result.returncode == 0
    assert b"--context" in result.stdout


def test_the_output_is_the_same_every_time() -> None:
    first, second = (nsysroof("gpus", "-f", "json", PYTHONHASHSEED=seed).stdout for seed in "12")
    assert first == second
