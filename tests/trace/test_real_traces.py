"""Real exports of eleven nsys versions: counts taken from the files with SQL, apart from us."""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest

from nsysroof.results import Capture
from nsysroof.trace import Trace, open_trace, schema
from nsysroof.trace.pages import Irregular, PagedTable

FILES = (
    "a100-cloverleaf-3.13.2",
    "a100-saxpy-mpi-2.9.1",
    "a100x2-no-cuda-3.25.0",
    "a2000-no-events-2021",
    "b200-moe-gate-3.16.1",
    "h100x2-training-3.25.0",
    "h100x2-video-inference-3.25.0",
    "rtx3060-graph-level-3.24.0",
    "rtx3080-wsl2-3.24.14",
    "rtx3090x8-jax-3.11.1",
    "rtx4090-wsl2-cudagraph-no-kernels-3.11.1",
    "rtx6000-sql-2021",
    "rtx6000-sql-3.11.1",
    "t4-toy-3.1.2",
    "llm/gpt-oss-120b-vllm-b200-tp8-prefill888",
    "llm/llama-8b-sglang-b300-decode-bs16",
)
FRAMES = {
    "kernels": schema.KERNELS,
    "names": schema.NAMES,
    "copies": schema.COPIES,
    "fills": schema.FILLS,
    "replays": schema.REPLAYS,
    "api_calls": schema.API_CALLS,
    "apis": schema.APIS,
    "ranges": schema.RANGES,
    "overheads": schema.OVERHEADS,
}


def load(folder: Path, name: str) -> tuple[Trace, Capture]:
    trace = open_trace(folder / f"{name}.sqlite")
    return trace, trace.capture()


def errors(capture: Capture) -> list[str]:
    return [finding.slug for finding in capture.findings if finding.severity == "error"]


@pytest.mark.parametrize("name", FILES)
def test_every_file_reads_and_stays_as_it_is(real_traces: Path, name: str) -> None:
    path = real_traces / f"{name}.sqlite"
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    entries = sorted(real_traces.rglob("*"))
    trace, capture = load(real_traces, name)
    for frame, wanted in FRAMES.items():
        assert getattr(trace, frame).schema == wanted, frame
    keys = ["gpu", "start_ns", "end_ns", "stream", "correlation", "name"]
    assert trace.kernels.equals(trace.kernels.sort(keys, maintain_order=True))
    assert capture.kernels == capture.kernels_used == trace.kernels.height
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert sorted(real_traces.rglob("*")) == entries


@pytest.mark.parametrize(
    ("name", "events"),
    [
        ("a100-cloverleaf-3.13.2", 4_639),
        ("b200-moe-gate-3.16.1", 13_208),
        ("rtx3060-graph-level-3.24.0", 37),
        ("rtx3080-wsl2-3.24.14", 12),
        ("rtx3090x8-jax-3.11.1", 804),
        ("rtx4090-wsl2-cudagraph-no-kernels-3.11.1", 13_283),
        ("rtx6000-sql-3.11.1", 476),
    ],
)
def test_rows_equal_the_events_that_the_profiler_counted(
    real_traces: Path, name: str, events: int
) -> None:
    _, capture = load(real_traces, name)
    assert capture.events_collected == capture.events_found == events


def test_video_inference(real_traces: Path) -> None:
    trace, capture = load(real_traces, "h100x2-video-inference-3.25.0")
    assert {one.gpu: one.kernels for one in trace.capture().devices if one.kernels} == {
        0: 1_721,
        1: 1_721,
    }
    assert (capture.graph_mode, capture.graph_kernels) == ("none", 0)
    assert trace.kernels["graph_node"].null_count() == 3_442
    assert capture.schema_version == "3.25.0"
    assert capture.nsys_version == "2026.2.1.210"
    [missing] = [f for f in capture.findings if f.slug == "missing-launch-rows"]
    assert missing.text.startswith("1,810 of 3,442 kernels")
    copies = trace.copies.filter(pl.col("gpu") == 0).group_by("kind").agg(pl.col("bytes").sum())
    totals = dict(copies.iter_rows())
    assert totals["d2d"] == 29_684_236_288
    assert 25_475_252_224 <= totals["h2d"] < 25_475_252_224 + 1_000_000
    assert trace.fills.height == 22
    slugs = {f.slug for f in capture.findings}
    assert {"no-gpu-info", "partial-export", "device-mapping-assumed"} <= slugs
    assert errors(capture) == []


def test_training_joins_by_process_and_correlation(real_traces: Path) -> None:
    trace, _ = load(real_traces, "h100x2-training-3.25.0")
    calls = trace.api_calls.select("pid", "correlation", "api")
    by_both = trace.kernels.join(calls, on=["pid", "correlation"], how="left")
    alone = trace.kernels.join(calls.drop("pid"), on="correlation", how="left")
    assert trace.kernels.height == by_both.height == 4_010
    assert alone.height > 4_010


def test_graph_level_trace(real_traces: Path) -> None:
    """4 direct and 2 graph launches, 3 kernels, 1 copy and 2 whole replays, each counted once."""
    trace, capture = load(real_traces, "rtx3060-graph-level-3.24.0")
    assert (capture.launches, capture.graph_launches) == (6, 2)
    assert (capture.kernels, capture.copies, capture.graph_replays) == (3, 1, 2)
    assert capture.graph_mode == "graph"
    assert errors(capture) == ["graph-level-trace"]
    assert trace.gpus[0].bytes_per_s == 360_048_000_000


def test_launches_without_kernel_records(real_traces: Path) -> None:
    _, capture = load(real_traces, "rtx4090-wsl2-cudagraph-no-kernels-3.11.1")
    assert errors(capture) == ["no-kernels", "graph-launches-unseen"]
    assert capture.graph_mode == "missing"
    # 426 cudaLaunchKernel, 102 cuLaunchKernel, 2 cuGraphLaunch
    assert capture.launches == 530
    text = next(f.text for f in capture.findings if f.slug == "no-kernels")
    assert text == "no GPU kernel records; 530 launch API calls were traced"


def test_files_of_2021_without_metadata(real_traces: Path) -> None:
    trace, capture = load(real_traces, "rtx6000-sql-2021")
    assert (capture.kernels, capture.copies, capture.fills, capture.launches) == (12, 48, 12, 12)
    assert capture.schema_version is None
    assert trace.gpus[0].name == "Quadro RTX 6000"
    _, empty = load(real_traces, "a2000-no-events-2021")
    assert errors(empty) == ["no-kernels"]


def test_calls_that_are_written_twice(real_traces: Path) -> None:
    trace, capture = load(real_traces, "a100-saxpy-mpi-2.9.1")
    assert (capture.kernels, capture.launches, capture.copies) == (5, 5, 15)
    assert trace.api_calls.height == 95 - 38
    assert trace.ranges.height == 22
    assert "" not in trace.ranges["text"].to_list()


def test_gpus_in_cuda_order(real_traces: Path) -> None:
    """CUDA device 0 is GPU 3 on this host: the device table is absent, cuDevice tells."""
    trace, _ = load(real_traces, "a100-cloverleaf-3.13.2")
    assert {one.gpu: one.kernels for one in trace.capture().devices if one.kernels} == {3: 1_312}
    assert [facts.bytes_per_s for facts in trace.gpus] == [2_039_040_000_000] * 4


def test_transcribed_decode_step_under_a_graph(real_traces: Path) -> None:
    """Its 356 graph kernels carry no node ids and are known by their launch call."""
    trace, capture = load(real_traces, "llm/llama-8b-sglang-b300-decode-bs16")
    assert (capture.kernels, capture.graph_kernels, capture.graph_launches) == (393, 356, 1)
    assert capture.graph_mode == "node"
    assert trace.gpus[0].bytes_per_s is None


def test_transcribed_eager_prefill(real_traces: Path) -> None:
    trace, capture = load(real_traces, "llm/gpt-oss-120b-vllm-b200-tp8-prefill888")
    assert (capture.kernels, capture.launches, capture.graph_mode) == (768, 768, "none")
    assert trace.copies.height == 161
    assert [device.kernels for device in capture.devices] == [768, 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("name", FILES)
def test_pages_hold_what_sqlite_answers(real_traces: Path, name: str) -> None:
    """Every integer of every table without a key; long texts beside them are left to SQLite."""
    path = real_traces / f"{name}.sqlite"
    decoded = 0
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        tables = connection.execute(
            "SELECT name, rootpage FROM sqlite_master WHERE type = 'table'"
        ).fetchall()
        for table, root in tables:
            told = connection.execute(f"PRAGMA table_info([{table}])").fetchall()
            integers = [column for _, column, kind, *_ in told if kind in {"INT", "INTEGER"}]
            if not integers or any(key for *_, key in told):
                continue
            columns = [column if column in integers else None for _, column, *_ in told]
            paged = PagedTable.of(path, root, columns)
            try:
                rows = [row for part in paged.ranges() for row in paged.integers(part).rows()]
            except Irregular:
                continue
            listed = ", ".join(f"[{column}]" for column in integers)
            assert rows == connection.execute(f"SELECT {listed} FROM [{table}]").fetchall(), table
            decoded += 1
    assert decoded
