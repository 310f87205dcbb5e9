"""GPUs: what exports say of them, and which one a process meant by its device number."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from fixtures.builder import ExportBuilder
from nsysroof.trace import GpuFacts, Trace

Open = Callable[[ExportBuilder], Trace]
INT_MAX = 2**31 - 1


def slugs(trace: Trace) -> set[str]:
    return {finding.slug for finding in trace.capture().findings}


def test_facts_of_a_described_gpu(opened: Open) -> None:
    export = ExportBuilder().gpu(
        2,
        "NVIDIA H200",
        memory_bandwidth=4_814_000_000_000,
        total_memory=150_000_000_000,
        l2_bytes=62_914_560,
        sm_count=132,
        clock_hz=1_980_000_000,
        compute=(9, 0),
    )
    assert opened(export).gpus == (
        GpuFacts(
            gpu=2,
            name="NVIDIA H200",
            sm_count=132,
            memory_bytes=150_000_000_000,
            bytes_per_s=4_814_000_000_000,
            l2_bytes=62_914_560,
            clock_hz=1_980_000_000,
            compute_capability=(9, 0),
        ),
    )


def test_zero_and_null_mean_not_told(opened: Open) -> None:
    export = ExportBuilder().gpu(0, "NVIDIA B200", memory_bandwidth=0, l2_bytes=0, sm_count=0)
    assert opened(export).gpus == (GpuFacts(gpu=0, name="NVIDIA B200"),)


def test_gpus_come_by_number_with_those_that_are_not_described(opened: Open) -> None:
    export = ExportBuilder().gpu(3, "C").gpu(1, "B").process(4000, cuda_devices=[5, 1])
    trace = opened(export.kernel("k", 1, 2, device=0).copy("h2d", 8, 1, 2, device=1))
    assert [(facts.gpu, facts.name) for facts in trace.gpus] == [(1, "B"), (3, "C"), (5, None)]
    listed = [(d.gpu, d.name, d.kernels) for d in trace.capture().devices]
    assert listed == [(1, "B", 0), (3, "C", 0), (5, None, 1)]
    assert "no-gpu-info" in slugs(trace)


def test_devices_are_mapped_per_process(opened: Open) -> None:
    """Two processes with one visible GPU each: both call it device 0."""
    export = ExportBuilder().gpu(0, "A").gpu(1, "A")
    export.process(11, cuda_devices=[1]).process(22, cuda_devices=[0])
    export.kernel("k", 1, 2, pid=11).kernel("k", 3, 4, pid=22).fill(8, 5, 6, pid=11)
    trace = opened(export)
    assert trace.kernels.select("gpu", "pid").rows() == [(0, 22), (1, 11)]
    assert trace.fills["gpu"].to_list() == [1]
    assert slugs(trace) == {"missing-launch-rows"}


def test_without_a_device_table_the_cuda_order_of_the_gpus_counts(opened: Open) -> None:
    export = ExportBuilder()
    for gpu, ordinal in ((0, 1), (1, 0)):
        export.row("TARGET_INFO_GPU", vmId=1, id=gpu, name=f"GPU {gpu}", cuDevice=ordinal)
    export.kernel("k", 1, 2, device=0)
    trace = opened(export)
    assert trace.kernels["gpu"].to_list() == [1]
    assert "device-mapping-assumed" not in slugs(trace)


def test_assumed_mapping_is_noted_with_several_processes(opened: Open) -> None:
    export = ExportBuilder().kernel("k", 1, 2, pid=11).kernel("k", 3, 4, pid=22, device=3)
    trace = opened(export)
    assert trace.kernels["gpu"].to_list() == [0, 3]
    [note] = [f for f in trace.capture().findings if f.slug == "device-mapping-assumed"]
    assert note.severity == "note"
    assert note.text.startswith("for 2 of 2 processes")


def gpu_info(**changes: object) -> str:
    entry = {
        "Id": 1, "Name": "NVIDIA A100", "CuDevice": 0, "SmCount": 108, "ClockRate": 1_410_000_000,
        "TotalMemory": "85094825984", "MemoryBandwidth": "1935360000000", "L2CacheSize": 41943040,
        "ComputeMajor": 8, "ComputeMinor": 0, "Uuid": "d7e17efe", "MigEnabled": False,
    }  # fmt: skip
    return json.dumps({"Gpus": [entry | changes]})


def test_gpus_from_the_system_description(opened: Open) -> None:
    export = ExportBuilder().system_env("GpuInfo", gpu_info()).kernel("k", 1, 2)
    trace = opened(export)
    assert trace.gpus == (
        GpuFacts(
            gpu=1,
            name="NVIDIA A100",
            sm_count=108,
            memory_bytes=85_094_825_984,
            bytes_per_s=1_935_360_000_000,
            l2_bytes=41_943_040,
            clock_hz=1_410_000_000,
            compute_capability=(8, 0),
        ),
    )
    assert trace.kernels["gpu"].to_list() == [1]


@pytest.mark.parametrize("value", ["{}", "4", "", '{"Gpus": 3}', '{"Gpus": [7]}', "\n\x10binary"])
def test_useless_system_descriptions(opened: Open, value: str) -> None:
    trace = opened(ExportBuilder().system_env("GpuInfo", value).kernel("k", 1, 2))
    assert trace.gpus == (GpuFacts(gpu=0),)
    [warning] = [f for f in trace.capture().findings if f.slug == "no-gpu-info"]
    assert warning.severity == "warning"
    assert "--gpu" in warning.hint


def test_mig_by_name_uuid_or_system_description(opened: Open) -> None:
    named = ExportBuilder().gpu(0, "NVIDIA B200 MIG 1g.45gb")
    assert opened(named).gpus[0].mig
    plain = ExportBuilder().gpu(0, "NVIDIA B200", uuid="e56ad157")
    assert not opened(plain).gpus[0].mig
    by_uuid = ExportBuilder().gpu(0, "NVIDIA B200", uuid="MIG-e56ad157")
    assert opened(by_uuid).gpus[0].mig
    described = ExportBuilder().system_env("GpuInfo", gpu_info(MigEnabled=True))
    assert opened(described).gpus[0].mig


def test_slice_has_the_multiprocessors_that_the_process_saw(opened: Open) -> None:
    export = ExportBuilder().gpu(0, "NVIDIA B200", sm_count=148)
    export.row("TARGET_INFO_CUDA_DEVICE", gpuId=0, cudaId=0, pid=4000, numMultiprocessors=30)
    assert opened(export).gpus[0].sm_count == 30


def test_replay_that_begins_on_the_host_is_on_the_only_gpu_of_its_process(opened: Open) -> None:
    export = ExportBuilder().process(4000, cuda_devices=[3]).kernel("k", 1, 2)
    trace = opened(export.graph_trace(10, 20, device=INT_MAX, context=INT_MAX))
    assert trace.replays["gpu"].to_list() == [3]


def test_replay_without_a_device_is_set_aside_where_two_could_be_meant(opened: Open) -> None:
    export = ExportBuilder().kernel("k", 1, 2, device=0).kernel("k", 1, 2, device=1)
    trace = opened(export.graph_trace(10, 20, device=INT_MAX))
    assert trace.replays.is_empty()
    texts = [f.text for f in trace.capture().findings if f.slug == "bad-timestamps"]
    assert texts == ["set aside: 1 of 1 graph replay records (100.0 %: unknown-device 1)"]


def test_a_process_on_a_gpu_that_cannot_be_is_mapped_by_its_own_number(opened: Open) -> None:
    export = ExportBuilder().gpu(0, "A").gpu(1, "A").process(11, cuda_devices=[-5])
    export.process(22, cuda_devices=[1]).kernel("k", 1, 2, pid=11).kernel("k", 3, 4, pid=22)
    trace = opened(export)
    assert trace.kernels.select("gpu", "pid").rows() == [(0, 11), (1, 22)]
    assert "device-mapping-assumed" in slugs(trace)
