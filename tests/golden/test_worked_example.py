"""Qwen3-30B-A3B in bf16 on a GH200 with 96 GB: one sequence, 4,096 tokens of context, by hand.

Widths: hidden 2,048; 32 query and 4 KV heads of 128; 128 experts of 768, 8 per token; 48 layers;
vocabulary 151,936. Memory 4.0e12 B/s, bf16 989.4e12 FLOP/s.
"""

from __future__ import annotations

import pytest

from nsysroof.results import Estimate, EstimateRow
from nsysroof.theory.estimate import estimate
from nsysroof.theory.gpus import find_gpu, resolve_peaks
from nsysroof.theory.models.spec import find_model
from nsysroof.theory.workload import Workload

MODEL = find_model("qwen3-30b-a3b")
GH200 = find_gpu("gh200-96")


def _estimate(batch: int = 1, floor_ns: float | None = None) -> Estimate:
    step = Workload.create(batch=batch, context=4096)
    return estimate(MODEL, GH200, step, floor_ns=floor_ns)


FOUND = _estimate(floor_ns=3000)
ROWS = {row.role: row for row in FOUND.operators}


def _resident(row: EstimateRow) -> int:
    return row.bytes.weight + row.bytes.scale + row.bytes.kv_read


@pytest.mark.parametrize(
    ("role", "size", "us"),
    [
        ("attn.qkv_proj", 2048 * 5120 * 2, 5.2),
        ("attn.core", 2 * 4 * 128 * 4096 * 2, 2.1),
        ("attn.o_proj", 4096 * 2048 * 2, 4.2),
        ("moe.router", 2048 * 128 * 2, 0.1),
        ("moe.gate_up", 8 * 2048 * 1536 * 2, 12.6),
        ("moe.down", 8 * 768 * 2048 * 2, 6.3),
        ("lm_head", 2048 * 151936 * 2, 155.6),
    ],
)
def test_bytes_and_time_of_each_operator(role: str, size: int, us: float) -> None:
    assert _resident(ROWS[role]) == size
    # The row adds activations, at most 0.1 % of a single token's weights.
    assert round(size / 4.0e12 * 1e6, 1) == us
    assert ROWS[role].bound_ns == pytest.approx(size / 4.0e12 * 1e9, rel=0.01)


def test_layer() -> None:
    assert FOUND.layer.layers == 48
    assert FOUND.layer.bytes == 122_159_104
    assert FOUND.layer.bound_ns == pytest.approx(30_539.776, abs=1e-6)
    assert FOUND.layer.small_kernels == 8
    # In and out: QKV 2,048 + 5,120, attention 2 x 4,096, O 4,096 + 2,048, router 2,048 + 128,
    # gate/up 2,048 + 8 x 1,536, down 8 x 768 + 8 x 2,048, two bytes each.
    values = 7168 + 8192 + 6144 + 2176 + 2048 + 12288 + 6144 + 16384
    assert FOUND.layer.activation_bytes == 2 * values
    with_activations = (122_159_104 + 2 * values) / 4.0e12 * 1e9
    assert FOUND.layer.bound_with_activations_ns == pytest.approx(with_activations)


def test_step() -> None:
    # 48 layers and the LM head: 48 x 30,539.776 + 155,582.464.
    assert FOUND.step.serial_ns == pytest.approx(1_621_491.712, abs=1e-3)
    assert round(FOUND.step.serial_ns / 1e6, 2) == 1.62
    assert round(FOUND.step.tokens_per_s, 1) == 616.7


def test_small_kernels_at_their_floor() -> None:
    assert FOUND.step.small_kernels_ns == 48 * 8 * 3000 == 1_152_000
    assert FOUND.step.tokens_per_s_with_small_kernels == pytest.approx(361, abs=0.5)
    assert _estimate().step.small_kernels_ns is None


def test_the_three_floors_are_in_order() -> None:
    step = FOUND.step
    # Read once: the active weights of 3.0419e9 numbers, and 48 x 8,388,608 B of KV; plus a row of
    # KV that is written.
    once = 3_041_867_776 * 2 + 48 * 8_388_608 + 48 * 2048
    assert step.weights_once_ns == pytest.approx(once / 4.0e12 * 1e9)
    assert step.weights_once_ns <= step.hard_ns <= step.serial_with_activations_ns * (1 + 1e-12)


def test_every_operator_is_bound_by_memory() -> None:
    assert {row.limiter for row in _estimate().operators} == {"memory"}


def test_memory_of_the_model() -> None:
    assert FOUND.memory.weight_bytes == 30_532_122_624 * 2
    assert FOUND.memory.kv_bytes == 98_304 * 4096
    assert FOUND.memory.gpus_needed == 1
    assert FOUND.parameters["total"] == 30_532_122_624
    assert FOUND.parameters["active_with_embedding"] == 3_353_032_704


@pytest.mark.parametrize(
    ("batch", "expected", "step_ms"),
    [
        (1, 8.0, 1.62),
        (2, 15.5, 2.57),
        (4, 29.1, None),
        (8, 51.6, 7.27),
        (16, 82.4, 11.56),
        (32, 111.8, 16.49),
        (64, 125.9, 21.32),
        (128, 128.0, 27.99),
    ],
)
def test_experts_and_step_grow_with_the_batch(
    batch: int, expected: float, step_ms: float | None
) -> None:
    found = _estimate(batch)
    assert found.experts is not None
    assert round(found.experts["expected"], 1) == expected
    assert found.experts["minimum"] == 8
    assert found.experts["maximum"] == min(128, 8 * batch)
    if step_ms is not None:
        assert found.step.weights_once_ns / 1e6 == pytest.approx(step_ms, abs=0.006)


def test_user_peaks_move_the_bound() -> None:
    peaks = resolve_peaks(GH200, user={"bw": 3.9e12})
    found = estimate(MODEL, peaks, Workload.create(context=4096))
    assert found.layer.bound_ns == pytest.approx(30_539.776 * 4.0 / 3.9)
    used = {peak.key: peak for peak in found.assumptions.peaks}
    assert used["bw"].source == "user: --peak"
    assert used["bf16"].value == 989.4e12


def test_ridge_of_bf16() -> None:
    assert FOUND.ridge["bf16"] == pytest.approx(989.4 / 4.0)


def test_a_dense_model_of_a_trillion_weights_needs_21_gpus() -> None:
    # 2 TB over 96 GB each; all of them read it in 2e12 / (21 x 4.0e12) s = 23.8 ms.
    assert GH200.capacity_bytes == 96_000_000_000
    assert -(-2 * 10**12 // GH200.capacity_bytes) == 21
