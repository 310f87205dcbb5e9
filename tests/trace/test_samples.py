"""Sampled GPU metrics of synthetic exports: found by name, per GPU, in units that are known."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.builder import ExportBuilder
from nsysroof.trace import open_trace
from nsysroof.trace.samples import metric_of
from nsysroof.trace.schema import GPU_SAMPLES
from tests.trace.conftest import Open

SMS = "SMs Active [Throughput %]"
READ = "DRAM Read Bandwidth [Throughput %]"
WRITE = "DRAM Write Bandwidth [Throughput %]"
CLOCK = "GPC Clock Frequency [MHz]"
WARPS = "Compute Warps in Flight [Avg]"


def two_gpus() -> ExportBuilder:
    """GPU 0 numbers its metrics 0 to 2, GPU 1 the same numbers for other metrics."""
    export = ExportBuilder().gpu(0, "NVIDIA H100 80GB HBM3").gpu(1, "NVIDIA H100 80GB HBM3")
    export.metric_names(0, [CLOCK, SMS, READ]).metric_names(1, [WARPS, READ, SMS])
    export.metric_sample(0, 2_000, [1_710_000_000, 90, 40])
    export.metric_sample(0, 1_000, [1_980_000_000, 80, 30])
    export.metric_sample(1, 1_500, [-77, 55, 66])
    return export.kernel("k", 1_000, 2_000)


def test_names_are_looked_up_for_each_gpu(opened: Open) -> None:
    trace = opened(two_gpus())
    assert trace.sampled_metrics == {
        (0, "gpc_clock"),
        (0, "sm_active"),
        (0, "dram_read"),
        (1, "dram_read"),
        (1, "sm_active"),
    }
    found = trace.gpu_samples([0, 1], (0, 10_000))
    assert found.frame.schema == GPU_SAMPLES
    assert found.implausible == frozenset()
    assert found.frame.rows() == [
        (0, 1_000, "dram_read", 30),
        (0, 2_000, "dram_read", 40),
        (0, 1_000, "gpc_clock", 1_980_000_000),
        (0, 2_000, "gpc_clock", 1_710_000_000),
        (0, 1_000, "sm_active", 80),
        (0, 2_000, "sm_active", 90),
        (1, 1_500, "dram_read", 55),
        (1, 1_500, "sm_active", 66),
    ]


def test_only_the_window_and_the_gpus_asked_for_are_read(opened: Open) -> None:
    found = opened(two_gpus()).gpu_samples([0], (1_500, 2_000))
    assert {(row[0], row[1]) for row in found.frame.rows()} == {(0, 2_000)}


def test_parquet_gives_the_same(tmp_path: Path) -> None:
    export = two_gpus()
    sqlite = open_trace(export.write(tmp_path / "export.sqlite"))
    folder = open_trace(export.write_parquet(tmp_path / "export"))
    window = (1_000, 1_999)
    read = folder.gpu_samples([0, 1], window).frame
    assert read.rows() == sqlite.gpu_samples([0, 1], window).frame.rows()
    assert {row[1] for row in read.rows()} == {1_000, 1_500}


@pytest.mark.parametrize(
    ("name", "metric"),
    [
        ("SM Active [Throughput %]", "sm_active"),
        ("SM Issue [Throughput %]", "sm_issue"),
        ("Tensor Active [Throughput %]", "tensor_active"),
        ("Tensor Active / FP16 Active [Throughput %]", "tensor_active"),
        ("VRAM Read Bandwidth [Throughput %]", "dram_read"),
        ("VRAM Write Bandwidth [Throughput %]", "dram_write"),
        ("SYS Clock Frequency [MHz]", None),
        ("GR Active [Throughput %]", None),
        ("SMs Active", None),
        ("SMs Active [Avg Warps per Cycle]", None),
        ("GPC Clock Frequency [GHz]", None),
        ("Not DRAM Read Bandwidth [Throughput %]", None),
    ],
)
def test_names_count_whole_and_with_their_unit(name: str, metric: str | None) -> None:
    assert metric_of(name) == metric


def test_of_two_forms_of_one_metric_the_plain_one_counts(opened: Open) -> None:
    shared = "Tensor Active / FP16 Active [Throughput %]"
    export = ExportBuilder().metric_names(0, [shared, "Tensor Active [Throughput %]"])
    export.metric_sample(0, 10, [11, 22]).kernel("k", 1_000, 2_000)
    found = opened(export).gpu_samples([0], (0, 100))
    assert found.frame.rows() == [(0, 10, "tensor_active", 22)]


def test_a_metric_with_an_impossible_value_is_left_out_whole(opened: Open) -> None:
    export = ExportBuilder().metric_names(0, [SMS, READ, WRITE])
    export.metric_sample(0, 10, [50, 101, -1]).metric_sample(0, 20, [60, 5, 5])
    found = opened(export.kernel("k", 1_000, 2_000)).gpu_samples([0], (0, 100))
    assert found.implausible == {(0, "dram_read"), (0, "dram_write")}
    assert found.frame.rows() == [(0, 10, "sm_active", 50), (0, 20, "sm_active", 60)]


def test_without_the_tables_there_is_nothing(opened: Open) -> None:
    trace = opened(ExportBuilder().kernel("k", 1_000, 2_000))
    assert (trace.has_gpu_samples, trace.sampled_metrics) == (False, frozenset())
    assert trace.gpu_samples([0], (0, 100)).frame.height == 0


def test_a_table_without_its_times_has_no_samples(opened: Open) -> None:
    trace = opened(two_gpus().drop_column("GPU_METRICS", "timestamp"))
    assert trace.gpu_samples([0, 1], (0, 10_000)).frame.height == 0
    assert trace.count_gpu_samples() == 9
