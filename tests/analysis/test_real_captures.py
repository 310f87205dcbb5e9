"""Real exports of many versions: a report or a clear error, and the file stays as it was."""

from __future__ import annotations

import hashlib
import sqlite3
from functools import cache
from pathlib import Path

import pytest

from nsysroof.analysis import Options, analyze
from nsysroof.results import Report
from nsysroof.trace import open_trace

REAL = Path(__file__).parents[2] / "../shared/traces"
FILES = sorted(REAL.rglob("*.sqlite"))
pytestmark = pytest.mark.skipif(not FILES, reason="the real captures are not here")


@cache
def report(name: str, **options: str) -> Report:
    return analyze(open_trace(REAL / f"{name}.sqlite"), Options(**options))  # type: ignore[arg-type]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_gives_a_report_and_stays_as_it_was(path: Path) -> None:
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    beside = sorted(path.parent.iterdir())
    found = analyze(open_trace(path), Options())
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert sorted(path.parent.iterdir()) == beside
    for line in found.timeline:
        assert line.window_ns == line.sum_ns - line.overlap_ns + (line.window_ns - line.busy_ns)
        if line.idle_by_cause is not None:
            assert sum(line.idle_by_cause.values()) == line.idle_ns
    # The kernel rows add up to what was used, whatever it is called.
    assert sum(row.instances for row in found.kernels) == found.capture.kernels_used


def test_o17_a_second_of_copying_is_not_idle() -> None:
    found = report("h100x2-video-inference-3.25.0", gpu="h100-sxm")
    first, second = found.timeline
    assert first.kernel_window is not None
    assert second.kernel_window is not None
    # Kernels alone leave 938.100 ms without a kernel; with copies 6.538 ms are idle.
    assert first.kernel_window.window_ns == 156_320_780_944 - 155_360_295_935
    assert first.kernel_window.no_kernel_ns / 1e6 == pytest.approx(938.100, abs=5e-4)
    assert first.kernel_window.busy_ns / 1e6 == pytest.approx(953.947, abs=5e-4)
    assert first.kernel_window.idle_ns is not None
    assert first.kernel_window.idle_ns / 1e6 == pytest.approx(6.538, abs=5e-4)
    assert second.kernel_window.idle_ns is not None
    assert second.kernel_window.idle_ns / 1e6 == pytest.approx(6.436, abs=5e-4)
    links = {(row.gpu, row.kind): row for row in found.links}
    h2d, d2d = links[0, "h2d"], links[0, "d2d"]
    # 223 large copies of 25,475,252,224 B in 920.871 ms, and two tiny ones.
    assert h2d.copies == 225
    pinned = [part for part in h2d.parts if part.memory == "pinned"]
    assert sum(part.copies for part in pinned) == 223
    assert sum(part.bytes for part in pinned) == 25_475_252_224
    assert sum(part.busy_ns for part in pinned) / 1e6 == pytest.approx(920.871, abs=5e-4)
    assert h2d.overlapped_share == 0.0
    assert h2d.bytes_per_s == pytest.approx(27.66e9, rel=1e-3)
    assert (d2d.copies, d2d.bytes) == (225, 29_684_236_288)
    assert d2d.bytes_per_s == pytest.approx(1513.4e9, rel=1e-3)
    # Read and written it is 3026.9 GB/s, 90 % of the card's 3352.
    assert d2d.ratio == pytest.approx(1 / 0.90, rel=0.01)


def test_a_join_on_the_correlation_alone_would_find_more_than_there_is() -> None:
    found = report("h100x2-training-3.25.0")
    assert sum(row.instances for row in found.kernels) == 4_010
    assert found.steps.source is None


def test_o7_graph_level_rows_are_counted_once() -> None:
    found = report("rtx3060-graph-level-3.24.0")
    capture = found.capture
    assert (capture.graph_mode, capture.kernels, capture.copies) == ("graph", 3, 1)
    assert (capture.launches, capture.graph_launches) == (4 + 2, 2)
    assert capture.graph_replays == 2
    assert "graph-level-trace" in {finding.slug for finding in found.capture.findings}


def test_launches_without_kernels_are_said() -> None:
    found = report("rtx4090-wsl2-cudagraph-no-kernels-3.11.1")
    finding = next(f for f in found.capture.findings if f.slug == "no-kernels")
    assert finding.severity == "error"
    assert "no GPU kernel records" in finding.text
    assert "launch API calls were traced" in finding.text
    assert found.coverage.time_explained is None


def test_a_prefill_is_the_one_step_that_its_engine_annotates() -> None:
    found = report("llm/gpt-oss-120b-vllm-b200-tp8-prefill888")
    assert (found.steps.count, found.steps.source, found.steps.phase) == (1, "nvtx", "prefill")


def test_layers_that_repeat_in_a_prefill_are_no_steps(tmp_path: Path) -> None:
    # The same prefill of 36 layers without its annotation: nothing marks it.
    copy = tmp_path / "unmarked.sqlite"
    copy.write_bytes((REAL / "llm/gpt-oss-120b-vllm-b200-tp8-prefill888.sqlite").read_bytes())
    with sqlite3.connect(copy) as connection:
        connection.execute("DELETE FROM NVTX_EVENTS")
    connection.close()
    assert analyze(open_trace(copy), Options()).steps.count == 0
