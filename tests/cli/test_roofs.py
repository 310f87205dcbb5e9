from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome

Command = Callable[..., Outcome]


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    case = {
        "name": "host_to_device_memcpy_ce",
        "status": "Passed",
        "bandwidth_matrix": [["417.93"]],
    }
    top = {"version": "v0.8", "GPU Device list": ["0: NVIDIA GH200 480GB (0)"], "testcases": [case]}
    path = tmp_path / "bw.json"
    path.write_text(json.dumps({"nvbandwidth": top}))
    return path


def test_roofs_come_as_toml(command: Command, copies: Path) -> None:
    result = command("roofs", "import", copies)
    assert (result.code, result.err) == (0, "")
    assert tomllib.loads(result.out)["roofs"] == {"h2d": 417.93e9}


def test_imported_roofs_stand_beside_the_bounds(
    command: Command, copies: Path, tmp_path: Path
) -> None:
    roofs = tmp_path / "roofs.toml"
    written = command("roofs", "import", copies, "-o", roofs)
    assert (written.code, written.out) == (0, "")
    assert written.err.splitlines()[-1] == f"wrote {roofs}"
    estimate = ("estimate", "qwen3-30b-a3b", "--gpu", "gh200-96", "--context", "4096")
    result = command(*estimate, "--expert-misses", "1", "--roofs", roofs, "-f", "json")
    rows = {row["role"]: row for row in json.loads(result.out)["operators"]}
    load = rows["moe.load_experts"]
    # One expert of 9,437,184 B: 20.97 us at the data sheet's 450 GB/s, 22.58 at the measured 418.
    assert load["bound_ns"] == pytest.approx(9_437_184 / 450)
    assert load["reachable_ns"] == pytest.approx(9_437_184 / 417.93)


def test_files_are_not_overwritten(command: Command, copies: Path, tmp_path: Path) -> None:
    taken = tmp_path / "roofs.toml"
    taken.write_text("mine")
    result = command("roofs", "import", copies, "-o", taken)
    assert result.code == 2
    assert "[output-exists]" in result.err
    assert command("roofs", "import", copies, "-o", copies, "--force").code == 2
    assert command("roofs", "import", copies, "-o", taken, "--force").code == 0
    assert "h2d" in taken.read_text()


def test_other_files_say_what_to_give(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("nothing")
    result = command("roofs", "import", path)
    assert result.code == 2
    assert "[bad-measurement]" in result.err
    assert "nvbandwidth -j" in result.err


def test_help_tells_the_formats(command: Command) -> None:
    result = command("roofs", "import", "--help")
    assert result.code == 0
    assert "nvbandwidth -j" in result.out
    assert "roofs" in command("--help").out
