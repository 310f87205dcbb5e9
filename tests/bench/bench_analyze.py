"""How long and how much memory a whole analysis takes, beside SQL over the same file.

    python tests/bench/bench_analyze.py [EXPORT] [--steps 1250] [--kernels-per-step 800] [--runs 5]

Without EXPORT a synthetic one is written into a temporary folder first. Each figure is the median
of separate processes with the file in the page cache and the bytecode cached, as where the package
is installed; the peak is that of the whole process.
"""

from __future__ import annotations

import argparse
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
THEORY = ("--model", "qwen3-30b-a3b", "--batch", "1", "--context", "4096")

QUERIES = {
    "SQL: GROUP BY name": f"""
        SELECT s.value, count(*), sum(k.end - k.start), avg(k.end - k.start),
               min(k.end - k.start), max(k.end - k.start)
        FROM {KERNEL} k JOIN StringIds s ON s.id = k.demangledName GROUP BY s.value""",
    "SQL: gaps of each GPU": f"""
        SELECT deviceId, count(*), sum(start - reach) FROM (
            SELECT deviceId, start, max(end) OVER (PARTITION BY deviceId ORDER BY start
                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reach FROM {KERNEL})
        WHERE start > reach GROUP BY deviceId""",
    "SQL: gaps of each stream": f"""
        SELECT deviceId, streamId, count(*), sum(start - before) FROM (
            SELECT deviceId, streamId, start,
                   lag(end) OVER (PARTITION BY deviceId, streamId ORDER BY start) AS before
            FROM {KERNEL})
        WHERE start > before GROUP BY deviceId, streamId""",
    "SQL: exact median by name": f"""
        SELECT name, max(CASE WHEN place = total / 2 + 1 THEN ns END) FROM (
            SELECT demangledName AS name, end - start AS ns,
                   row_number() OVER (PARTITION BY demangledName ORDER BY end - start) AS place,
                   count(*) OVER (PARTITION BY demangledName) AS total FROM {KERNEL})
        GROUP BY name""",
}


def commands(path: Path) -> dict[str, list[str]]:
    """Return what is measured: each a command of its own process."""
    analyze = [sys.executable, "-m", "nsysroof", "analyze", str(path), "-f", "json"]
    return {
        "`nsysroof analyze`": analyze,
        "`nsysroof analyze` with a model": [*analyze, *THEORY],
        **{
            name: [sys.executable, __file__, str(path), "--query", query]
            for name, query in QUERIES.items()
        },
    }


def measure(command: list[str], runs: int) -> tuple[float, float, float, int]:
    """Return median and least wall time and median CPU time in s, and the largest peak in bytes."""
    results = []
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": ""}
    for _ in range(1 + runs):
        begin = time.perf_counter()
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=ROOT, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        assert process.returncode == 0, command
        wall = time.perf_counter() - begin
        results.append((wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024))
    walls, cpus, peaks = zip(*results[1:], strict=True)  # the first wrote the bytecode
    return statistics.median(walls), min(walls), statistics.median(cpus), max(peaks)


def report(path: Path, runs: int) -> None:
    """Print a table of all commands."""
    with path.open("rb") as file:  # into the page cache
        while file.read(1 << 20):
            pass
    print(f"{path.name}: {path.stat().st_size / 1e6:,.0f} MB, {runs} runs\n")
    print("| what | wall s, median (least) | CPU s | peak MB |\n|---|---:|---:|---:|")
    for name, command in commands(path).items():
        median, least, cpu, peak = measure(command, runs)
        print(
            f"| {name} | {median:.2f} ({least:.2f}) | {cpu:.2f} | {peak / 1e6:,.0f} |", flush=True
        )


def main() -> None:
    """Read the command line, write an export where none is given, and measure."""
    parser = argparse.ArgumentParser(description="Measure the analysis of a long export.")
    parser.add_argument("export", type=Path, nargs="?")
    parser.add_argument("--steps", type=int, default=1250)
    parser.add_argument("--kernels-per-step", type=int, default=800)
    parser.add_argument("--mode", choices=["mixed", "graph", "eager"], default="graph")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--query", help="run this query in this process")
    given = parser.parse_args()
    if given.query:
        connection = sqlite3.connect(f"file:{given.export}?mode=ro", uri=True)
        assert connection.execute(given.query).fetchall()
        connection.close()
        return
    if given.export:
        report(given.export, given.runs)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{given.mode}.sqlite"
        size = ["--steps", str(given.steps), "--kernels-per-step", str(given.kernels_per_step)]
        command = [sys.executable, "-m", "fixtures.bulk", str(path), "--mode", given.mode, *size]
        subprocess.run(command, check=True, cwd=ROOT)
        report(path, given.runs)


if __name__ == "__main__":
    main()
