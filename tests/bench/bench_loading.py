"""How long and how much memory the kernels of a long export take to load.

    python tests/bench/bench_loading.py [EXPORT] [--kernels 5000000] [--mode mixed] [--runs 3]

Without EXPORT a synthetic one is written into a temporary folder first. Each run is a process of
its own, imports included, with the file in the page cache; peaks are those of the whole process.
"""

from __future__ import annotations

import argparse
import resource
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
COLUMNS = (
    "start", "end", "deviceId", "globalPid", "contextId", "streamId", "correlationId",
    "demangledName", "graphNodeId", "gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ",
)  # fmt: skip


def load_kernels(path: str) -> None:
    """Load the kernels, as the analysis does first."""
    from nsysroof.trace import open_trace  # noqa: PLC0415  the import is part of the time

    assert open_trace(path).kernels.height


def load_everything(path: str) -> None:
    """Load all frames and the verdict."""
    from nsysroof.trace import open_trace  # noqa: PLC0415  the import is part of the time

    trace = open_trace(path)
    assert trace.capture().kernels
    assert trace.api_calls.width
    assert trace.ranges.width
    assert trace.overheads.width


def scan_bare(path: str) -> None:
    """Let SQLite step over the same columns in C: no reader above SQLite on one core is faster."""
    _query(path, f"SELECT {', '.join(f'max([{name}])' for name in COLUMNS)} FROM {KERNEL}")


def group_by_name(path: str) -> None:
    """Let SQLite group the kernels by name, the smallest of the usual reports."""
    _query(
        path,
        "SELECT demangledName, count(*), sum(end - start), min(end - start), max(end - start)"
        f" FROM {KERNEL} GROUP BY demangledName",
    )


METHODS: dict[str, Callable[[str], None]] = {
    "SQLite, bare scan of 15 columns": scan_bare,
    "SQLite, one GROUP BY name": group_by_name,
    "`open_trace(path).kernels`": load_kernels,
    "all frames and the verdict": load_everything,
}


def _query(path: str, statement: str) -> None:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        assert connection.execute(statement).fetchall()
    finally:
        connection.close()


def measure(path: Path, method: str) -> tuple[float, float, int]:
    """Return wall time and processor time in s and the peak in bytes of one process."""
    command = [sys.executable, __file__, str(path), "--only", method]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    wall, processor, peak = done.stdout.split()
    return float(wall), float(processor), int(peak)


def report(path: Path, runs: int) -> None:
    """Print a table of all methods; they take turns, so that other load falls on all of them."""
    with path.open("rb") as file:  # into the page cache, and not into the peak of this process,
        while file.read(1 << 20):  # which the measured ones inherit
            pass
    results = [[measure(path, method) for method in METHODS] for _ in range(runs)]
    print(f"{path.name}: {path.stat().st_size / 1e6:,.0f} MB, {runs} runs\n")
    print("| method | wall s, median (least) | processor s, least | peak MB |\n|---|---|---|---|")
    for method, figures in zip(METHODS, zip(*results, strict=True), strict=True):
        walls = [wall for wall, _, _ in figures]
        processor = min(processor for _, processor, _ in figures)
        peak = max(peak for _, _, peak in figures) / 1e6
        median = statistics.median(walls)
        print(f"| {method} | {median:.2f} ({min(walls):.2f}) | {processor:.2f} | {peak:,.0f} |")


def main() -> None:
    """Read the command line, write an export where none is given, and measure."""
    parser = argparse.ArgumentParser(description="Measure the loading of a long export.")
    parser.add_argument("export", type=Path, nargs="?")
    parser.add_argument("--kernels", type=int, default=5_000_000)
    parser.add_argument("--mode", choices=["mixed", "graph", "eager"], default="mixed")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", choices=METHODS, help="one method in this process")
    given = parser.parse_args()
    if given.only:
        begin = time.perf_counter()
        METHODS[given.only](str(given.export))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        print(time.perf_counter() - begin, time.process_time(), peak)
        return
    if given.export:
        report(given.export, given.runs)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{given.mode}.sqlite"
        size = ["--kernels", str(given.kernels), "--mode", given.mode]
        subprocess.run(
            [sys.executable, "-m", "fixtures.bulk", str(path), *size], check=True, cwd=ROOT
        )
        report(path, given.runs)


if __name__ == "__main__":
    main()
