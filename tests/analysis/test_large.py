"""A capture of production size (O12): 1.3 million kernels within a minute and below 1 GB."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from fixtures.bulk import Mode, generate

ROOT = Path(__file__).parents[2]


def test_o12_a_long_capture_is_read_in_place(tmp_path: Path) -> None:
    path = tmp_path / "long.sqlite"
    assert generate(path, steps=1625, kernels_per_step=800, mode=Mode.GRAPH) == 1_300_000
    before = hashlib.sha256(path.read_bytes()).digest()
    command = [sys.executable, "-m", "nsysroof", "analyze", str(path), "-f", "json"]
    begin = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        found = json.loads(process.stdout.read())
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    assert time.monotonic() - begin < 60
    assert usage.ru_maxrss * 1024 < 1_000_000_000
    assert sum(row["instances"] for row in found["kernels"]) == 1_300_000
    assert (found["steps"]["count"], found["steps"]["source"]) == (1625, "graph")
    (line,) = found["timeline"]
    assert line["window_ns"] == line["sum_ns"] - line["overlap_ns"] + line["idle_ns"]
    # No copy of the file, and no side files of SQLite.
    assert [entry.name for entry in tmp_path.iterdir()] == ["long.sqlite"]
    assert hashlib.sha256(path.read_bytes()).digest() == before
