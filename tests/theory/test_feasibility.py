"""What fits and on how many GPUs, and what explains losses beside a bound."""

from __future__ import annotations

import random

import pytest

from nsysroof.errors import UsageError
from nsysroof.theory.feasibility import divides_heads, fitting_tp, must_fit, next_tp, share_bytes
from nsysroof.theory.gpus import detect_gpu, find_gpu, resolve_peaks
from nsysroof.theory.models.decoder import operators
from nsysroof.theory.models.spec import find_model
from nsysroof.theory.models.weights import cache_bytes, share_of_weights, weight_bytes
from nsysroof.theory.offload import offload
from nsysroof.theory.operators.collective import Algorithm, exchange, fit_alpha_beta
from nsysroof.theory.operators.moe import expected_padding_factor, imbalance, padding_factor
from nsysroof.theory.workload import Workload

GIB = 2**30


@pytest.mark.parametrize(
    ("key", "least", "tp"),
    [
        ("llama-3.1-405b", 11, 16),  # 128 heads, 8 KV heads
        ("kimi-k2", 21, 32),  # 64 heads
        ("glm-4.5", 20, 24),  # 96 heads, 8 KV heads
        ("qwen2.5-7b", 3, 4),  # 28 heads, 4 KV heads
        ("qwen2.5-7b", 5, 28),  # 7 divides its heads, but neither 7 nor 14 their 4 KV heads
        ("gpt2", 1, 1),
        ("falcon-7b", 2, 71),  # 71 heads, one KV head
    ],
)
def test_next_number_of_gpus_that_divides_the_heads(key: str, least: int, tp: int) -> None:
    assert next_tp(find_model(key), least) == tp


def test_more_gpus_than_heads_divide_nothing() -> None:
    model = find_model("gpt2")
    assert next_tp(model, 13) is None
    assert next_tp(model, None) is None
    assert not divides_heads(model, 24)


def test_shares_count_what_is_replicated() -> None:
    # Qwen3-30B-A3B over 8: 4 KV heads on 8 GPUs, so every second one holds a copy; norms, routers
    # and the projections of copied heads are on all.
    model, step = find_model("qwen3-30b-a3b"), Workload.create(context=4096, tp=8)
    assert cache_bytes(model, step, per_gpu=True) == 2 * cache_bytes(model, step) // 8
    copied = (
        48
        * (
            4 * 2 * 128 * 2048  # K and V of four more heads
            + 7 * 128 * 2048  # the router, seven times more
            + 7 * (2 * 2048 + 2 * 128)  # norms
        )
        + 7 * 2048
    )
    assert share_of_weights(model, step) * 8 == weight_bytes(model, step) + 2 * copied


def test_latents_are_cached_whole_on_every_gpu() -> None:
    model = find_model("deepseek-v3")
    step = Workload.create(context=4096, tp=16)
    assert cache_bytes(model, step, per_gpu=True) == cache_bytes(model, step)


def test_a_share_may_not_fit_where_the_sum_would() -> None:
    # 400 sequences of 8,192 tokens: 61 x 1,152 B each, 230 GB that no tensor parallelism divides.
    model = find_model("deepseek-v3")
    step = Workload.create(batch=400, context=8192)
    found = must_fit(model, step, find_gpu("h200-sxm").dense_peaks())
    assert found.kv_bytes == 400 * 8192 * 61 * 1152
    assert found.gpus_needed == 7
    assert found.next_tp == 8
    assert found.fitting_tp is None
    small = must_fit(model, Workload.create(context=8192), find_gpu("h200-sxm").dense_peaks())
    assert (small.gpus_needed, small.fitting_tp) == (5, 8)


def test_experts_over_all_ranks_are_a_share_each() -> None:
    model = find_model("qwen3-30b-a3b")
    alone = share_bytes(model, Workload.create(context=4096))
    spread = share_bytes(model, Workload.create(context=4096, dp=8, ep=8))
    experts = 128 * 3 * 2048 * 768 * 2 * 48
    assert alone - spread == experts * 7 // 8
    step = Workload.create(context=4096, dp=8, ep=8)
    assert must_fit(model, step, find_gpu("h100-sxm").dense_peaks()).fitting_tp is None


def test_a_traced_device_has_one_size() -> None:
    gpu = detect_gpu("NVIDIA GH200 480GB", sm_count=132, memory_bytes=97_871 * 2**20)
    assert gpu is not None
    peaks = gpu.dense_peaks()
    assert peaks.capacity_bytes == peaks.nominal_bytes == 97_871 * 2**20


def test_unknown_memory_leaves_counts_open() -> None:
    # V100 come with 16 or 32 GB.
    found = must_fit(
        find_model("llama-3.1-8b"), Workload.create(context=64), find_gpu("v100-sxm2").dense_peaks()
    )
    assert (found.capacity_bytes, found.gpus_needed, found.next_tp) == (None, None, None)
    assert (found.fitting_tp, found.share_fits) == (None, None)
    assert found.share_bytes == found.weight_bytes + found.kv_bytes


def test_recurrent_states_must_fit_too() -> None:
    # 36 layers keep 2,146,304 B for each of 64 sequences.
    found = must_fit(
        find_model("qwen3-next-80b-a3b"),
        Workload.create(batch=64, context=1000),
        find_gpu("h200-sxm").dense_peaks(),
    )
    assert found.state_bytes == 64 * 36 * 2_146_304


def test_a_tp_that_fits_has_room_for_its_share() -> None:
    model, capacity = find_model("llama-3.1-70b"), 80 * GIB
    tp = fitting_tp(model, Workload.create(batch=64, context=8192), capacity)
    assert tp == 4
    fits = share_bytes(model, Workload.create(batch=64, context=8192, tp=4))
    half = share_bytes(model, Workload.create(batch=64, context=8192, tp=2))
    assert fits <= capacity < half


def test_nothing_is_offloaded_unless_it_is_said() -> None:
    model, peaks = find_model("qwen3-30b-a3b"), find_gpu("gh200-96").dense_peaks()
    plain = Workload.create(context=64)
    assert offload(operators(model, plain), plain, peaks) is None
    none = Workload.create(context=64, expert_misses=0)
    found = offload(operators(model, none), none, peaks)
    assert found is not None
    assert (found.hit_rate, found.link_bytes_per_token) == (1.0, 0)
    assert found.cap_tokens_per_s is None


def test_fewer_tokens_than_bytes_suggest_are_no_hit_rate() -> None:
    # Ten experts cannot be missed of the eight that a token needs.
    step = Workload.create(context=64, expert_misses=10)
    found = offload(
        operators(find_model("qwen3-30b-a3b"), step), step, find_gpu("gh200-96").dense_peaks()
    )
    assert found is not None
    assert found.hit_rate is None


def test_a_machine_without_a_host_link_needs_one_stated() -> None:
    peaks = resolve_peaks(find_gpu("orin"))
    step = Workload.create(context=64, expert_misses=1)
    assert offload(operators(find_model("qwen3-30b-a3b"), step), step, peaks) is None


def test_padding_of_uniform_routing_by_monte_carlo() -> None:
    rng, trials, total = random.Random(0), 300, 0.0
    for _ in range(trials):
        rows = [0] * 32
        for _ in range(100):
            for expert in rng.sample(range(32), 4):
                rows[expert] += 1
        total += padding_factor(rows, 16)
    assert expected_padding_factor(32, 4, 100, 16) == pytest.approx(total / trials, rel=0.01)
    assert expected_padding_factor(8, 8, 100, 64) == 128 / 100


def test_no_rows_and_no_loads_have_no_factor() -> None:
    with pytest.raises(ValueError, match="no expert has a row"):
        padding_factor([0, 0], 16)
    with pytest.raises(ValueError, match="no GPU has a load"):
        imbalance([0.0, 0.0])


def test_algorithms_do_only_what_they_can() -> None:
    with pytest.raises(ValueError, match="tree way to all_to_all"):
        exchange("all_to_all", Algorithm.TREE, 8, 8)
    assert exchange("all_gather", Algorithm.RING, 800, 8) == (7, 700)
    assert exchange("broadcast", Algorithm.TREE, 800, 8) == (3, 800)


def test_times_that_do_not_grow_have_no_rate() -> None:
    assert fit_alpha_beta([]) is None
    assert fit_alpha_beta([(8, 10.0)]) is None
    assert fit_alpha_beta([(8, 20.0), (80, 10.0)]) is None


def test_parallel_degrees_that_do_not_divide_have_no_share() -> None:
    with pytest.raises(UsageError):
        share_bytes(find_model("gpt2"), Workload.create(context=64, tp=5))
