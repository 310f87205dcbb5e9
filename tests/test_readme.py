"""The README shows real output, and its commands work as they stand there."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import shlex
import struct
import sys
import termios
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
COLUMNS = 100


def on_a_terminal(arguments: list[str]) -> str:
    """Run the command line on a terminal of 100 columns and return what it shows."""
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 60, COLUMNS, 0, 0))
        environment = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES")}
        environment |= {"NO_COLOR": "1", "TERM": "dumb", "PYTHONWARNINGS": "ignore"}
        os.chdir(ROOT)
        os.execve(sys.executable, [sys.executable, "-m", "nsysroof", *arguments], environment)
    shown = b""
    while True:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # the other end is closed
            break
        if not chunk:
            break
        shown += chunk
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, shown.decode()
    return shown.decode().replace("\r\n", "\n")


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_the_output_of_the_first_command_is_the_real_one() -> None:
    block = re.search(r"```console\n\$ (.*?nsysroof analyze .*?)\n(.*?)\n```", README, re.DOTALL)
    assert block is not None
    command = block[1].rpartition("&& ")[2]
    shown = on_a_terminal(shlex.split(command)[1:])
    assert shown.rstrip("\n") == block[2]
    assert max(map(len, shown.splitlines())) <= COLUMNS


def test_the_library_example_runs() -> None:
    block = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert block is not None
    code = block[1].replace("fixtures/", f"{ROOT}/fixtures/")
    names: dict[str, object] = {}
    exec(compile(code, "README.md", "exec"), names)
    worst = names["worst"]
    assert (getattr(worst, "role", None), round(getattr(worst, "ratio", 0.0), 2)) == (
        "moe.down",
        3.0,
    )


def test_the_commands_of_the_readme_exist() -> None:
    named = set(re.findall(r"^\$ nsysroof (\w+)", README, re.MULTILINE))
    assert named == {"info", "analyze", "estimate", "plot", "whatif", "check"}
    for name in sorted(named):
        assert "Usage" in on_a_terminal([name, "--help"])


def test_every_document_that_it_links_exists() -> None:
    links = re.findall(r"\]\(([^)#]+)\)", README)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
