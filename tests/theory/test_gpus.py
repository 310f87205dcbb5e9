"""The catalogue against independent figures, and devices recognised by the names they report."""

from __future__ import annotations

from pathlib import Path

import pytest

from nsysroof.errors import InputError, UsageError
from nsysroof.theory.formula import RATES
from nsysroof.theory.gpus import (
    Gpu,
    detect_gpu,
    find_gpu,
    formula_gpu,
    gpu_keys,
    resolve_peaks,
)

GPUS = [find_gpu(key) for key in gpu_keys()]
MIB = 2**20

DEVICE_NAMES = {
    "Tesla V100-SXM2-32GB": "v100-sxm2",
    "Tesla V100-PCIE-16GB": "v100-pcie",
    "Tesla V100S-PCIE-32GB": "v100s",
    "Tesla T4": "t4",
    "NVIDIA A10": "a10",
    "NVIDIA A10G": "a10g",
    "NVIDIA A30": "a30",
    "NVIDIA A40": "a40",
    "NVIDIA A100-SXM4-40GB": "a100-sxm-40",
    "NVIDIA A100-SXM4-80GB": "a100-sxm-80",
    "A100-SXM4-80GB": "a100-sxm-80",
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40",
    "NVIDIA A100 80GB PCIe": "a100-pcie-80",
    "NVIDIA A800-SXM4-80GB": "a800",
    "NVIDIA RTX A6000": "a6000",
    "NVIDIA GeForce RTX 3090": "rtx3090",
    "NVIDIA L4": "l4",
    "NVIDIA L40": "l40",
    "NVIDIA L40S": "l40s",
    "NVIDIA GeForce RTX 4090": "rtx4090",
    "NVIDIA RTX 6000 Ada Generation": "rtx6000ada",
    "NVIDIA GeForce RTX 5090": "rtx5090",
    "NVIDIA RTX PRO 6000 Blackwell Workstation Edition": "rtxpro6000-ws",
    "NVIDIA RTX PRO 6000 Blackwell Server Edition": "rtxpro6000-se",
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "NVIDIA H100 PCIe": "h100-pcie",
    "NVIDIA H100 NVL": "h100-nvl",
    "NVIDIA H800": "h800-sxm",
    "NVIDIA H20": "h20",
    "NVIDIA H20-3e": "h20-3e",
    "NVIDIA H200": "h200-sxm",
    "NVIDIA H200 NVL": "h200-nvl",
    "NVIDIA GH200 480GB": "gh200-96",
    "NVIDIA GH200 120GB": "gh200-96",
    "GH200 120GB": "gh200-96",
    "NVIDIA GH200 144G HBM3e": "gh200-144",
    "NVIDIA B200": "b200",
    "NVIDIA GB200": "gb200",
    "NVIDIA B300 SXM6 AC": "b300",
    "NVIDIA GB300": "gb300",
    "NVIDIA GB10": "gb10",
    "Orin": "orin",
    "NVIDIA Thor": "thor",
    "NVIDIA A100-SXM4-40GB MIG 3g.20gb": "a100-sxm-40",
    "NVIDIA GeForce RTX 4090 D": None,
    "NVIDIA GeForce RTX 3090 Ti": None,
    "NVIDIA PG506-230": None,
}

# Sold at another rate than SMs x clock would give, each for the reason beside it.
OFF_FORMULA = {
    ("a10g", "int8"),  # sold at half rate
    ("l40", "fp16"),  # sold at half the rate of its die
    ("l40", "bf16"),
    ("l40", "tf32"),
    ("l40", "fp8"),
    ("l40", "int8"),
}
OFF_FORMULA_GPUS = {
    "b100",  # sold at a lower clock
    "gb10",  # ratios of one published figure
    "h20",  # export part, cut per SM
    "h20-3e",
    "rtxpro6000-se",  # the headline assumes a higher clock
    "thor",  # other clock for its CUDA cores
}
HALF_RATE_GPUS = {"a10g", "rtx3090", "rtx4090", "rtx5090"}


def _value(gpu: Gpu, key: str, accumulate: str | None = None) -> float:
    peak = gpu.peak(key, accumulate=accumulate)
    assert peak is not None
    return peak.value


@pytest.mark.parametrize(("name", "key"), DEVICE_NAMES.items())
def test_device_names_lead_to_their_part(name: str, key: str | None) -> None:
    found = detect_gpu(name)
    assert (found.key if found else None) == key


def test_every_gpu_is_reached_by_a_device_name() -> None:
    assert set(gpu_keys()) - {"b100"} == {key for key in DEVICE_NAMES.values() if key}
    b100 = detect_gpu("NVIDIA B100")
    assert b100 is not None
    assert b100.key == "b100"


@pytest.mark.parametrize("gpu", GPUS, ids=lambda g: g.key)
def test_every_peak_is_dense_and_sourced(gpu: Gpu) -> None:
    assert all(peak.dense and peak.source for peak in gpu.peaks)
    assert {"bw", "fp32", "bf16"} <= set(gpu.dense_peaks())


@pytest.mark.parametrize(
    "gpu",
    [g for g in GPUS if g.key not in OFF_FORMULA_GPUS and g.tensor_clock_hz],
    ids=lambda g: g.key,
)
def test_peaks_follow_from_sms_and_clock(gpu: Gpu) -> None:
    assert gpu.tensor_clock_hz is not None
    rates = RATES[gpu.compute_capability]
    checked = 0
    for key in ("fp32", "fp16", "tf32", "fp8", "int8"):
        peak = gpu.peak(key)
        if peak is None or (gpu.key, key) in OFF_FORMULA:
            continue
        rate = rates[key]
        if gpu.key in HALF_RATE_GPUS and key in ("fp16", "tf32", "fp8"):
            rate //= 2
        clock = gpu.clock_hz if key == "fp32" else gpu.tensor_clock_hz
        assert peak.value == pytest.approx(gpu.sm_count * rate * clock, rel=0.015), key
        checked += 1
    assert checked


def test_sparse_and_foreign_peaks_stay_out_o23() -> None:
    # 480 TFLOP/s is 48.5 % of the dense H100 peak; 24.3 % would be of the sparse one.
    h100 = find_gpu("h100-sxm")
    assert 480e12 / _value(h100, "bf16") == pytest.approx(0.485, abs=5e-4)
    assert _value(find_gpu("h100-pcie"), "bf16") == 756.4e12
    assert _value(h100, "tf32") == 494.7e12
    # Two traps of public lists: T4 FP16 is not its INT8 figure, A10G is not an A10.
    assert _value(find_gpu("t4"), "fp16") == 65e12
    assert _value(find_gpu("a10g"), "bf16") == 70e12


def test_accumulate_width_changes_the_peak_o25() -> None:
    gpu = find_gpu("rtx5090")
    assert _value(gpu, "fp16") == 209.5e12
    assert _value(gpu, "fp16", "fp16") == 419e12


def test_user_peak_beats_the_device_and_the_catalogue_o24() -> None:
    orin = find_gpu("orin")
    catalogue = resolve_peaks(orin)
    device = resolve_peaks(orin, device_bandwidth=204e9)
    user = resolve_peaks(orin, device_bandwidth=204e9, user={"bw": 152.8e9})
    assert [p.value("bw") for p in (catalogue, device, user)] == [204.8e9, 204e9, 152.8e9]
    assert user["bw"].source.startswith("user")
    assert catalogue["bw"].source.startswith("catalogue orin")


def test_peak_that_looks_sparse_is_remarked() -> None:
    peaks = resolve_peaks(find_gpu("h100-sxm"), user={"bf16": 1979e12, "fp8": 1900e12})
    assert [note for note in peaks.notes if "sparsity" in note] == [
        "--peak bf16=1.979e+15 is twice the dense 9.894e+14: it looks like the figure with 2:4 sparsity"
    ]


def test_peaks_without_a_gpu_hold_only_what_was_stated() -> None:
    assert dict(resolve_peaks(None, user={"bw": 1e12})) == {"bw": (1e12, "user: --peak")}


def test_mig_slice_is_judged_by_its_share_o27() -> None:
    part = detect_gpu("NVIDIA B200 MIG 1g.45gb", sm_count=30)
    assert part is not None
    # 30 of 148 SMs and a quarter of 8.0 TB/s; the device's own 7.672 TB/s would give 1,918 GB/s.
    assert _value(part, "bf16") == pytest.approx(2250e12 * 30 / 148)
    assert _value(part, "bw") == 2000e9
    assert part.memory_bytes == [45 * 10**9]
    assert "MIG slice 1g.45gb" in part.notes[-1]
    # 1 GB in 600 us is 1,667 GB/s: 83 % of the slice, not 21 % of the card.
    assert 1e9 / 600e-6 / _value(part, "bw") == pytest.approx(0.833, abs=1e-3)


def test_mig_slice_without_its_sms_says_so() -> None:
    part = detect_gpu("NVIDIA A100-SXM4-40GB MIG 3g.20gb")
    assert part is not None
    assert _value(part, "bw") == 1555e9 / 2
    assert _value(part, "bf16") == 312e12
    assert "not in the trace" in part.notes[-1]


def test_unreadable_mig_profile_is_refused() -> None:
    assert detect_gpu("NVIDIA A100-SXM4-40GB MIG custom") is None


def test_variants_are_told_apart_by_memory() -> None:
    found = detect_gpu("NVIDIA GH200 480GB", sm_count=132, memory_bytes=146831 * MIB)
    assert found is not None
    assert found.key == "gh200-144"
    by_size = detect_gpu("NVIDIA H100", sm_count=114, memory_bytes=81559 * MIB)
    assert by_size is not None
    assert by_size.key == "h100-pcie"
    assert detect_gpu("NVIDIA H100") is None


def test_other_sm_count_keeps_the_rate_per_sm() -> None:
    found = detect_gpu("NVIDIA A100-SXM-64GB", sm_count=124)
    assert found is not None
    assert _value(found, "bf16") == pytest.approx(312e12 * 124 / 108)
    assert _value(found, "bw") == 2039e9
    assert "124 SMs, not 108" in found.notes[-1]


def test_unknown_part_has_formula_peaks_without_bandwidth() -> None:
    gpu = formula_gpu("NVIDIA PG506-230", compute_capability="8.0", sm_count=124, clock_hz=1410e6)
    assert gpu is not None
    peaks = gpu.dense_peaks()
    assert peaks["bf16"].value == 124 * 2048 * 1410e6
    assert "formula" in peaks["bf16"].source
    assert "bw" not in peaks
    assert formula_gpu("x", compute_capability="99.0", sm_count=1, clock_hz=1e9) is None


def test_geforce_formula_halves_fp32_accumulation() -> None:
    gpu = formula_gpu(
        "NVIDIA GeForce RTX 4090 D", compute_capability="8.9", sm_count=114, clock_hz=2520e6
    )
    assert gpu is not None
    assert _value(gpu, "bf16") == 114 * 512 * 2520e6
    assert _value(gpu, "int8") == 114 * 2048 * 2520e6


def test_unknown_gpu_suggests_near_keys() -> None:
    with pytest.raises(UsageError, match="unknown GPU 'h200'") as caught:
        find_gpu("h200")
    assert "h200-sxm" in caught.value.hint


def test_gpu_file_with_an_unknown_field_is_named(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('key = "mine"\nbandwith = 4e12\n', encoding="utf-8")
    with pytest.raises(InputError, match="bandwith"):
        find_gpu(str(path))


def test_gpu_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(
        """
key = "mine"
name = "Mine"
architecture = "Hopper"
compute_capability = "9.0"
sm_count = 100
clock_hz = 1.5e9
memory_bytes = [64_000_000_000]
l2_bytes = 1024

[[peaks]]
key = "bw"
value = 2.0e12
unit = "memory"
source = "measured"
confidence = "high"
""",
        encoding="utf-8",
    )
    gpu = find_gpu(str(path))
    assert (gpu.key, gpu.capacity_bytes) == ("mine", 64_000_000_000)
    assert gpu.dense_peaks().value("bw") == 2.0e12


def test_missing_gpu_file_is_an_input_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the GPU file"):
        find_gpu(str(tmp_path / "none.toml"))
