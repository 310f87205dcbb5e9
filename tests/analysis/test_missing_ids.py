"""Exports that do not say which process or launch a row belongs to: no guess, and no crash."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.builder import ExportBuilder
from nsysroof.analysis import Options, analyze
from nsysroof.results import Report
from nsysroof.trace import open_trace

KERNEL, RUNTIME = "CUPTI_ACTIVITY_KIND_KERNEL", "CUPTI_ACTIVITY_KIND_RUNTIME"


def replayed() -> ExportBuilder:
    """Three replays of two nodes, 1 µs each and 0.2 µs apart, in steps of 10 µs."""
    export = ExportBuilder().gpu(0, "NVIDIA H100 80GB HBM3")
    for step in range(3):
        at, launch = 100_000 + 10_000 * step, 1 + step
        export.launch("cudaGraphLaunch", at - 3_000, at - 2_000, correlation=launch)
        for node in range(2):
            start = at + 1_200 * node
            where = {"graph_node": (2 << 32) + node, "correlation": launch}
            export.kernel(f"node_{node}", start, start + 1_000, **where)  # type: ignore[arg-type]
    export.api("cudaStreamSynchronize", 102_200, 105_000, correlation=90)
    return export


def report_of(export: ExportBuilder, tmp_path: Path) -> Report:
    return analyze(open_trace(export.write(tmp_path / "run.sqlite")), Options())


def test_with_all_ids_the_idle_time_has_causes(tmp_path: Path) -> None:
    (account,) = report_of(replayed(), tmp_path).timeline
    assert account.idle_by_cause is not None
    found = {cause: ns for cause, ns in account.idle_by_cause.items() if ns}
    # Each hole of 7,800 ns ends 3,000 ns after the launch; a call covers 2,800 of the first.
    assert found == {"in_graph": 600, "sync": 2_800, "host_late": 2 * 7_800 - 2_800}


@pytest.mark.parametrize(
    ("table", "column", "in_graph"),
    [(KERNEL, "globalPid", 0), (KERNEL, "correlationId", 0), (RUNTIME, "globalTid", 600)],
)
def test_without_an_id_nothing_is_joined_and_the_cause_is_unknown(
    tmp_path: Path, table: str, column: str, in_graph: int
) -> None:
    report = report_of(replayed().drop_column(table, column), tmp_path)
    (account,) = report.timeline
    assert (account.window_ns, account.busy_ns, account.idle_ns) == (22_200, 6_000, 16_200)
    assert account.idle_by_cause is not None
    found = {cause: ns for cause, ns in account.idle_by_cause.items() if ns}
    assert found == {"unknown": 16_200 - in_graph} | ({"in_graph": 600} if in_graph else {})
    slugs = {finding.slug for finding in report.capture.findings}
    assert {"missing-columns", "missing-launch-rows"} <= slugs


def test_a_gpu_without_a_number_is_not_described(tmp_path: Path) -> None:
    report = report_of(replayed().drop_column("TARGET_INFO_GPU", "id"), tmp_path)
    assert [(device.gpu, device.name) for device in report.capture.devices] == [(0, None)]
    assert "no-gpu-info" in {finding.slug for finding in report.capture.findings}
