"""Statements about a GH200 and Qwen3-30B-A3B, each recomputed by hand and then by the package.

GH200 with 96 GB: 132 SMs, 1.98 GHz at most, tensor peaks rated at 1.83 GHz, 4.0e12 B/s; bf16 989e12
FLOP/s, rounded down as the statements do.
"""

from __future__ import annotations

import pytest

from nsysroof.theory.cost import Cost
from nsysroof.theory.dtypes import activation_format, weight_format
from nsysroof.theory.estimate import estimate
from nsysroof.theory.feasibility import gpus_for, next_tp
from nsysroof.theory.formula import RATES
from nsysroof.theory.gpus import find_gpu, resolve_peaks
from nsysroof.theory.models.decoder import operators
from nsysroof.theory.models.spec import find_model
from nsysroof.theory.models.weights import count_parameters, quoted_active_bytes, weight_bytes
from nsysroof.theory.offload import GATHER_RATES
from nsysroof.theory.operators.copy import blocks_to_fill, bytes_in_flight, gather_rate
from nsysroof.theory.operators.gemm import LinearFormat, gemm
from nsysroof.theory.operators.norm import rms_norm
from nsysroof.theory.peaks import Peaks
from nsysroof.theory.roofline import bound, ridge_point
from nsysroof.theory.workload import Workload

GH200 = find_gpu("gh200-96")
PEAKS = resolve_peaks(GH200, user={"bf16": 989e12})
MODEL = find_model("qwen3-30b-a3b")
BF16 = LinearFormat(
    weights=weight_format("bf16"), activations=activation_format("bf16"), output="bf16"
)


def _ns(cost: Cost, peaks: Peaks = PEAKS, link: str = "nvlink") -> float:
    found = bound(cost, peaks, link=link).spec_ns
    assert found is not None
    return found


def _host(bytes_per_s: float) -> Peaks:
    return resolve_peaks(GH200, user={"h2d": bytes_per_s})


def test_peaks_follow_from_sms_and_clocks() -> None:
    hopper = RATES["9.0"]
    assert hopper["fp32"] == 128 * 2
    assert 132 * hopper["fp32"] * 1.98e9 / 1e12 == pytest.approx(66.908, abs=5e-4)
    assert 132 * hopper["bf16" if "bf16" in hopper else "fp16"] * 1.83e9 / 1e12 == pytest.approx(
        989.43, abs=5e-3
    )
    assert 132 * hopper["tf32"] * 1.83e9 / 1e12 == pytest.approx(494.71, abs=6e-3)
    peaks = GH200.dense_peaks()
    assert peaks.value("fp32") == pytest.approx(66.908e12, rel=2e-3)
    assert peaks.value("bf16") == pytest.approx(989.43e12, rel=1e-4)
    assert peaks.value("tf32") == pytest.approx(494.71e12, rel=1e-4)
    # At the highest clock the formula gives 1,070.5 TFLOP/s, 8.24 % more than any data sheet.
    trap = 132 * hopper["fp16"] * 1.98e9
    assert trap / 1e12 == pytest.approx(1070.5, abs=0.1)
    assert trap / 989e12 - 1 == pytest.approx(0.0824, abs=1e-4)


def test_link_to_the_host_is_half_of_both_directions() -> None:
    assert GH200.dense_peaks().value("c2c") == 900e9 / 2


def test_ridge_and_batch_at_which_a_product_turns() -> None:
    assert ridge_point("bf16", PEAKS) == pytest.approx(247.25)
    assert gemm(1, 5120, 2048, fmt=BF16).weight / 2 / (5120 * 2048) == 1.0
    # With activations the product turns at 298 rows, not 247.
    turning = [
        m for m in (247, 297, 298, 299) if bound(gemm(m, 5120, 2048, fmt=BF16), PEAKS).limiter
        == "compute"
    ]  # fmt: skip
    assert turning == [298, 299]


def test_intensity_of_a_square_product() -> None:
    cost = gemm(4096, 4096, 4096, fmt=BF16)
    assert cost.total_flop / cost.memory_bytes == pytest.approx(1365.3, abs=0.05)
    # At one FLOP per byte the roof is the bandwidth itself: 4 TFLOP/s.
    one = Cost(flop={"bf16": 10**12}, weight=10**12)
    assert one.total_flop / (_ns(one) / 1e9) / 1e12 == pytest.approx(4.0)


def test_reading_a_billion_integers_from_the_host() -> None:
    floor = _ns(Cost(weight=4 * 10**9), resolve_peaks(None, user={"bw": 512e9}))
    assert floor / 1e6 == pytest.approx(7.8125)
    # A nanosecond for them would be 7.8 million times faster than the roof.
    assert floor / 1.0 == pytest.approx(7.8e6, rel=2e-3)


def test_layer_is_bound_by_memory_a_hundred_times_over() -> None:
    found = estimate(MODEL, PEAKS, Workload.create(context=4096))
    core = ("attn.qkv_proj", "attn.core", "attn.o_proj", "moe.router", "moe.gate_up", "moe.down")
    rows = [row for row in found.operators if row.role in core]
    compute = sum(row.flop for row in rows) / 989e12 * 1e9
    assert compute / found.layer.bound_ns == pytest.approx(0.0059886, abs=5e-7)
    attention = next(row for row in rows if row.role == "attn.core")
    assert attention.flop / attention.bytes.kv_read == 8.0


def test_small_kernels_against_the_weights() -> None:
    assert rms_norm(1, 2048, dtype="bf16", residual=True).memory_bytes == 20_480
    step = estimate(MODEL, PEAKS, Workload.create(context=4096), floor_ns=3000).step
    assert step.small_kernels_ns is not None
    assert step.small_kernels_ns / step.serial_ns == pytest.approx(0.71046, abs=1e-5)
    assert (step.serial_ns + step.small_kernels_ns) / 1e6 == pytest.approx(2.77, abs=5e-3)


def test_method_2_with_quoted_and_with_read_parameters() -> None:
    # 3.3e9 active parameters in bf16 are 6.6 GB, 1.65 ms; 3.353e9 to be exact. They count an
    # embedding of 0.311e9 that is not read, and no cache: 3.042e9 are read, 1.52 ms, and 0.403 GB.
    assert _ns(Cost(weight=6_600_000_000)) / 1e6 == pytest.approx(1.65)
    counts = count_parameters(MODEL)
    assert counts.active_with_embedding / 1e9 == pytest.approx(3.353, abs=5e-4)
    assert counts.active_with_head / 1e9 == pytest.approx(3.042, abs=5e-4)
    assert (counts.active_with_embedding - counts.active_with_head) / 1e9 == pytest.approx(
        0.311, abs=5e-4
    )
    step = estimate(MODEL, PEAKS, Workload.create(context=4096)).step
    quoted = quoted_active_bytes(MODEL, Workload.create(context=4096))
    assert quoted == 2 * counts.active_with_embedding
    assert step.quoted_active_ns == pytest.approx(quoted / 4.0e12 * 1e9)
    assert _ns(Cost(weight=2 * counts.active_with_head)) / 1e6 == pytest.approx(1.52, abs=2e-3)
    assert step.weights_once_ns / 1e6 == pytest.approx(1.6216, abs=5e-5)
    assert pytest.approx(0.403, abs=5e-4) == 48 * 8_388_608 / 1e9


def test_all_experts_once() -> None:
    assert weight_bytes(MODEL, Workload.create(context=1)) / 1e9 == pytest.approx(61.064, abs=5e-4)
    assert _ns(Cost(weight=61_000_000_000)) / 1e6 == pytest.approx(15.25)
    # A large batch reads all but the embedding: 30.22e9 parameters, 60.4 GB, 15.11 ms.
    read = 2 * (count_parameters(MODEL).total - 151_936 * 2048)
    assert read / 1e9 == pytest.approx(60.4, abs=0.05)
    assert _ns(Cost(weight=read)) / 1e6 == pytest.approx(15.11, abs=6e-3)


def test_layer_against_the_l2_cache() -> None:
    # One layer's active weights are 113.8 MB; 50 MiB of L2 hold the O projection alone.
    layer = operators(MODEL, Workload.create(context=4096))
    weights = sum(
        op.cost.weight for op in layer if op.layer == 0 and op.kind in ("gemm", "moe_gemm")
    )
    router = sum(op.cost.weight for op in layer if op.layer == 0 and op.kind == "router_gemm")
    assert (weights + router) / 1e6 == pytest.approx(113.8, abs=0.05)
    l2 = find_gpu("h100-sxm").l2_bytes
    assert l2 == 50 * 2**20
    assert 4096 * 2048 * 2 < l2 < weights


def test_a_trillion_parameters_in_bf16() -> None:
    size = 2 * 10**12
    assert gpus_for(size, 96 * 10**9) == 21
    assert GH200.reported_bytes == 97_871 * 2**20
    assert gpus_for(size, 97_871 * 2**20) == 20
    assert next_tp(find_model("glm-4.5"), 21) == 24  # 96 heads
    assert _ns(Cost(weight=size)) / 1e9 == pytest.approx(0.5)
    every = resolve_peaks(None, user={"bw": 21 * 4.0e12})
    assert every.value("bw") == 84e12
    step = _ns(Cost(weight=size), every)
    assert step / 1e6 == pytest.approx(23.81, abs=5e-3)
    assert 1e9 / step == pytest.approx(42.0, abs=0.01)
    assert _ns(Cost(weight=size // 2), every) / step == pytest.approx(0.5)


def test_kimi_k2_multiplies_a_thirtieth_of_its_parameters() -> None:
    counts = count_parameters(find_model("kimi-k2"))
    assert counts.active_with_embedding / counts.total == pytest.approx(1 / 31.2, rel=2e-3)
    assert counts.active_with_head / counts.total == pytest.approx(1 / 32.4, rel=2e-3)
    assert counts.active_with_embedding / 1e9 == pytest.approx(32.86, abs=5e-3)
    assert counts.total / 1e9 == pytest.approx(1026.4, abs=0.05)


EXPERT = 3 * 2048 * 768 * 2


def test_one_expert_over_the_link() -> None:
    assert EXPERT == 9_437_184
    load = Cost(link=EXPERT)
    times = [_ns(load, _host(rate), link="h2d") / 1e3 for rate in (450e9, 202e9, 408e9)]
    assert times == pytest.approx([20.972, 46.7, 23.1], abs=0.05)


def test_about_220_is_not_the_bf16_rate() -> None:
    few = {fmt: rates[0] / 1e9 for fmt, rates in GATHER_RATES.items()}
    many = {fmt: rates[1] / 1e9 for fmt, rates in GATHER_RATES.items()}
    assert few == {"bf16": 202.0, "mxfp4": 212.0, "nvfp4": 222.0}
    assert many == {"bf16": 408.0, "mxfp4": 408.0, "nvfp4": 410.0}
    assert sum(few.values()) / 3 == pytest.approx(212)
    assert min(few, key=lambda fmt: abs(few[fmt] - 220)) == "nvfp4"
    assert pytest.approx(0.48889, abs=1e-5) == 220 / 450
    assert pytest.approx(0.92889, abs=1e-5) == 418 / 450
    gains = {fmt: many[fmt] / few[fmt] for fmt in few}
    assert gains == pytest.approx({"bf16": 2.0198, "mxfp4": 1.9245, "nvfp4": 1.8468}, abs=5e-5)
    assert [many["bf16"] / 450, many["bf16"] / 418] == pytest.approx([0.907, 0.976], abs=5e-4)
    assert [many["nvfp4"] / 450, many["nvfp4"] / 418] == pytest.approx([0.911, 0.981], abs=5e-4)


def test_bytes_in_flight_explain_the_gather() -> None:
    assert bytes_in_flight(blocks=8, threads=1024, bytes_per_thread=1) == 8192
    assert bytes_in_flight(blocks=8, threads=1024, bytes_per_thread=16) == 128 * 1024
    both = bytes_in_flight(blocks=2 * 8, threads=1024, bytes_per_thread=16)
    round_trip = both / 202e9 * 1e9
    assert round_trip / 1e3 == pytest.approx(1.2977, abs=5e-5)
    # Another machine, measured apart: 64 KiB per block at 48 GB/s.
    assert pytest.approx(1.3653, abs=5e-5) == 65_536 / 48e9 * 1e6
    many = bytes_in_flight(blocks=2 * 32, threads=1024, bytes_per_thread=16)
    assert many / (round_trip * 1e-9) / 1e9 == pytest.approx(808, abs=0.5)
    assert gather_rate(many, round_trip, 418e9) == 418e9
    per_bank = blocks_to_fill(418e9, round_trip, threads=1024, bytes_per_thread=2 * 16)
    assert per_bank == 17
    assert 418e9 * round_trip * 1e-9 / (1024 * 32) == pytest.approx(16.554, abs=5e-4)


def test_blocks_that_fill_a_slower_link() -> None:
    # PCIe 4 x16 carries 31.508 GB/s, which the catalogue rounds to 31.5; at the
    # 31 of the statement and 1.3 us the knee lies at 2.46 blocks.
    assert find_gpu("a100-pcie-80").dense_peaks().value("h2d") == pytest.approx(31.508e9, rel=3e-4)
    assert pytest.approx(2.5, abs=0.05) == 31.508e9 * 1.2977e-6 / (1024 * 16)
    assert blocks_to_fill(31.508e9, 1297.7, threads=1024, bytes_per_thread=16) == 3
