"""Questions that users asked, each with its right answer, where theory alone gives it."""

from __future__ import annotations

from typing import Any

import pytest

from nsysroof.theory.cost import Cost
from nsysroof.theory.dtypes import kv_bytes
from nsysroof.theory.estimate import estimate
from nsysroof.theory.gpus import detect_gpu, find_gpu, resolve_peaks
from nsysroof.theory.models.decoder import operators
from nsysroof.theory.models.spec import ModelSpec, find_model
from nsysroof.theory.offload import doubtful_roof, hit_rate
from nsysroof.theory.operators.attention import attention
from nsysroof.theory.operators.copy import blocks_to_fill, copy
from nsysroof.theory.operators.moe import expected_experts, most_experts
from nsysroof.theory.peaks import Peak, Peaks, parse_peaks
from nsysroof.theory.roofline import bound, step_bounds, tiles, wave_efficiency, waved_ns
from nsysroof.theory.workload import Workload


def _bandwidth(gb_per_s: float) -> Peaks:
    return Peaks(entries={"bw": Peak(gb_per_s * 1e9, "test")})


def _ns(cost: Cost, peaks: Peaks) -> float:
    found = bound(cost, peaks).spec_ns
    assert found is not None
    return found


def test_resident_is_not_read_o28() -> None:
    # 15.743 GB of weights are read per token of an 18.2 GB file, and 33,792 B per token of context.
    cache = kv_bytes(33_792 * 4096, "int8")
    read = Cost(weight=15_743_000_000, kv_read=cache)
    assert cache / 1e9 == pytest.approx(0.138, abs=5e-4)
    per_token_ns = 1e9 / 37.44
    reachable = step_bounds([read], _bandwidth(854.2)).weights_once_ns
    advertised = step_bounds([read], _bandwidth(936.2)).weights_once_ns
    assert reachable is not None
    assert advertised is not None
    assert reachable / per_token_ns == pytest.approx(0.696, abs=5e-4)
    assert advertised / per_token_ns == pytest.approx(0.635, abs=5e-4)
    whole_file = _ns(Cost(weight=18_210_500_000), _bandwidth(936.2))
    assert whole_file / per_token_ns == pytest.approx(0.728, abs=5e-4)


def test_embedding_table_is_not_read_o28() -> None:
    # An untied table of 151,936 x 2,048 is resident; a token reads one row of it.
    step = operators(find_model("qwen3-30b-a3b"), Workload.create(context=1))
    embed = step[0]
    assert embed.role == "embed"
    assert embed.cost.memory_bytes == 4 + 2 * 2048 * 2


@pytest.mark.parametrize(
    ("experts", "top_k", "expected"),
    [
        (256, 8, [8, 15.75, 30.53, 57.42, 101.96, 163.31]),
        (128, 8, [8, 15.5, 29.12, 51.62, 82.42, 111.77]),
        (512, 10, [10, 19.8, 38.84, 74.74, 138.57, 239.64]),
    ],
)
def test_distinct_experts_of_a_batch_o29(experts: int, top_k: int, expected: list[float]) -> None:
    found = [expected_experts(experts, top_k, tokens) for tokens in (1, 2, 4, 8, 16, 32)]
    assert found == pytest.approx(expected, abs=6e-3)


def test_eight_tokens_read_seven_times_the_experts_o29() -> None:
    assert expected_experts(256, 8, 8) / expected_experts(256, 8, 1) == pytest.approx(
        7.18, abs=5e-3
    )


@pytest.mark.parametrize(
    ("megabytes", "us", "reachable", "advertised"),
    [
        (8.91, 23.4, 0.446, 0.407),
        (5.58, 16.4, 0.398, 0.363),
        (26.74, 38.2, 0.819, 0.748),
        (397.31, 595.6, 0.781, 0.713),
    ],
)
def test_kernels_of_a_routed_model_o29(
    megabytes: float, us: float, reachable: float, advertised: float
) -> None:
    cost = Cost(weight=round(megabytes * 1e6))
    assert _ns(cost, _bandwidth(854.2)) / (us * 1e3) == pytest.approx(reachable, abs=1e-3)
    assert _ns(cost, _bandwidth(936.2)) / (us * 1e3) == pytest.approx(advertised, abs=1e-3)


def test_all_experts_are_not_the_expected_ones_o30() -> None:
    # min(E, top_k x tokens) overstates what is read: it made kernels faster than their roof.
    assert most_experts(128, 8, 16) == 128
    assert expected_experts(128, 8, 16) == pytest.approx(82.42, abs=5e-3)


def test_right_model_gives_a_right_floor_o30() -> None:
    # The fused experts of Qwen3-30B-A3B, one token on an H100: no floor is above the 16.3 us that
    # one of its two kernels took; a dense 7B had 53.9 us.
    found = estimate(
        find_model("qwen3-30b-a3b"), find_gpu("h100-sxm"), Workload.create(context=512)
    )
    rows = {row.role: row for row in found.operators}
    assert rows["moe.down"].bound_ns == pytest.approx(7.5e3, rel=0.01)
    assert 16.3e3 / rows["moe.down"].bound_ns > 1
    assert rows["moe.gate_up"].bound_ns < 16.3e3


def test_cache_is_read_once_per_kv_head_o33() -> None:
    # GH200, FP8 cache, 8 query heads to one KV head of 128, 32 sequences of 32,768.
    cost = attention([1] * 32, [32_767] * 32, heads=8, kv_heads=1, head_dim=128, kv="fp8")
    assert cost.kv_read == 268_435_456
    floor = _ns(Cost(kv_read=cost.kv_read), _bandwidth(4000))
    assert floor / 1e3 == pytest.approx(67.1, abs=0.05)
    assert [111.9e3 / floor, 81.3e3 / floor] == pytest.approx([1.67, 1.21], abs=5e-3)
    # 16 blocks on 128 SMs fill an eighth of them.
    assert wave_efficiency(16, 128) == 0.125


OFFLOADED: dict[str, Any] = {
    "model_type": "qwen2_moe",
    "torch_dtype": "bfloat16",
    "hidden_size": 2048,
    "num_hidden_layers": 40,
    "num_attention_heads": 16,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "intermediate_size": 512,
    "num_experts": 256,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 512,
    "shared_expert_intermediate_size": 512,
    "vocab_size": 248320,
    "tie_word_embeddings": False,
}


def test_hit_rate_follows_from_link_bytes_o45() -> None:
    # 40 layers x 8 experts x 3 x 512 x 2,048 one-byte weights; 9.8 GB/s at 13.1 tokens/s crossed.
    step = Workload.create(context=512, weights="fp8", activations="bf16", expert_misses=8)
    found = operators(ModelSpec.from_config(OFFLOADED), step)
    routed = sum(op.cost.link for op in found if op.role == "moe.load_experts")
    scales = 40 * 8 * 2 * 4
    assert routed - scales == 1_006_632_960
    shared = sum(
        op.cost.weight for op in found if op.role.startswith("moe.shared.") and "proj" in op.role
    )
    assert shared / 1e9 == pytest.approx(0.1258, abs=1e-4)
    crossed = 9.8e9 / 13.1
    assert 1 - crossed / routed == pytest.approx(0.257, abs=1e-3)
    link = resolve_peaks(None, user={"h2d": 12.3e9})
    capped = bound(Cost(link=routed), link, link="h2d").spec_ns
    assert capped is not None
    assert 1e9 / capped == pytest.approx(12.2, abs=0.05)


def test_hit_rate_without_a_model_o45() -> None:
    assert hit_rate(9.8e9 / 13.1, 1_006_632_960) == pytest.approx(0.257, abs=1e-3)
    # More over the link than the experts hold: something else crossed it too.
    assert hit_rate(2e9, 1_006_632_960) is None
    assert hit_rate(0, 0) is None


def test_a_benchmark_far_above_serving_is_no_roof_o45() -> None:
    # 0.67 tokens/s x 3.07 GB are 2.06 GB/s; the benchmark said 56.2.
    reached = 0.67 * 3.07e9
    assert reached / 1e9 == pytest.approx(2.06, abs=5e-3)
    doubt = doubtful_roof(56.2e9, reached)
    assert doubt is not None
    assert "27 times" in doubt
    assert doubtful_roof(56.2e9, 46e9) is None


def test_offloaded_token_by_its_copies_o44() -> None:
    # 256 tokens in 7.06 s: 27.58 ms each, 730 copies of 0.80 MB, 586 MB at 51 GB/s in 11.49 ms.
    token_ms, copies, moved = 7.06 / 256 * 1e3, 186_786 / 256, 150e9 / 256
    assert token_ms == pytest.approx(27.58, abs=5e-3)
    assert copies == pytest.approx(730, abs=0.5)
    assert moved / 1e6 == pytest.approx(586, abs=0.5)
    assert moved / copies / 1e6 == pytest.approx(0.80, abs=5e-3)
    busy_ms = moved / 51e9 * 1e3
    assert busy_ms == pytest.approx(11.49, abs=5e-3)
    assert busy_ms / token_ms == pytest.approx(0.417, abs=1e-3)
    link = resolve_peaks(find_gpu("rtx5090"))
    floor = bound(copy(round(moved), kind="h2d"), link, link="h2d").spec_ns
    assert floor is not None
    assert busy_ms * 1e6 / floor == pytest.approx(1.24, abs=5e-3)


def test_dilution_is_not_the_kernels_fault_o37() -> None:
    # 52 ms of weight kernels at 76 % of 273 GB/s, and 19 ms of other work: 71 ms. Over the step the
    # same bytes look like 56 %; the kernels' own ratio stays 1.32.
    moved = Cost(weight=round(0.76 * 273e9 * 52e-3))
    floor_ms = _ns(moved, _bandwidth(273)) / 1e6
    assert 52 / floor_ms == pytest.approx(1.316, abs=1e-3)
    assert floor_ms / 71 == pytest.approx(0.557, abs=1e-3)
    assert pytest.approx([0.73, 0.27], abs=5e-3) == [52 / 71, 19 / 71]


def test_waves_from_a_grid_o35() -> None:
    # 352 tiles of 128 x 192 over 4096 x 2112 on 132 SMs: three waves, 141.1 us; 1.267 after them.
    assert tiles(4096, 2112, tile_m=128, tile_n=192) == 352
    floor = 124.017e9 / 989e12 * 1e9
    assert floor / 1e3 == pytest.approx(125.4, abs=0.05)
    waved = waved_ns(floor, 352, 132)
    assert waved is not None
    assert waved / 1e3 == pytest.approx(141.1, abs=0.05)
    assert 178.7e3 / waved == pytest.approx(1.267, abs=1e-3)
    # One block per SM takes tile after tile: waves say nothing of it.
    assert waved_ns(floor, 132, 132) is None


def test_slice_with_the_bandwidth_that_the_card_reports_o27() -> None:
    # 30 of 148 SMs; two eighths of the 7.672 TB/s that the card itself reports are 1,918 GB/s.
    part = detect_gpu("NVIDIA B200 MIG 1g.45gb", sm_count=30)
    assert part is not None
    peaks = resolve_peaks(part, device_bandwidth=7.672e12)
    assert (peaks.value("bw") or 0.0) / 1e9 == pytest.approx(1918, abs=0.5)
    assert "2/8 of it for the slice" in peaks["bw"].source
    assert (peaks.value("bf16") or 0.0) / 2250e12 == pytest.approx(0.203, abs=5e-4)
    # 1 GB in 600 us is 1,667 GB/s: 86.9 % of the slice, not 21.7 % of the card.
    measured = 1e9 / 600e-6
    assert measured / (peaks.value("bw") or 1.0) == pytest.approx(0.869, abs=5e-4)
    assert measured / 7.672e12 == pytest.approx(0.217, abs=5e-4)
    # A slice that reports its own share keeps it.
    assert resolve_peaks(part, device_bandwidth=1.9e12).value("bw") == 1.9e12


def test_clock_share_scales_what_is_not_stated_o26() -> None:
    # 1,508 of 1,695 MHz: 0.8897. The memory keeps its roof, and so does a peak that the user gives.
    user = parse_peaks(["sm-clock=1508/1695", "fp16=60e12"])
    capped = resolve_peaks(find_gpu("rtx3090"), user=user)
    assert (capped.value("bf16") or 0.0) / 71e12 == pytest.approx(0.8897, abs=5e-5)
    assert capped.value("bw") == 936e9
    assert capped.value("fp16") == 60e12
    assert "89.0% of its SM clock" in capped["bf16"].source
    # A product at 95 % of the full peak is 106.8 % of the capped one: the clock cannot have been it.
    assert 0.95 * 71e12 / (capped.value("bf16") or 1.0) == pytest.approx(1.068, abs=5e-4)


def test_few_blocks_cannot_fill_a_link_o46() -> None:
    # 48 GB/s per block with 64 KiB in flight; the link does 210 GB/s: 4.4 blocks are needed.
    round_trip_ns = 65_536 / 48e9 * 1e9
    assert blocks_to_fill(210e9, round_trip_ns, threads=1024, bytes_per_thread=64) == 5
    moved = Cost(link=97_000_000)
    link = resolve_peaks(None, user={"h2d": 210e9})
    best = bound(moved, link, link="h2d").spec_ns
    assert best is not None
    assert 1e6 / best == pytest.approx(2.16, abs=5e-3)


def test_wrong_dtype_makes_a_model_faster_than_its_roof() -> None:
    # gpt-oss-20b on a GB10: 79.7 tokens/s were measured; with everything outside the experts in
    # bf16 the roof would be 74, so those tensors were not in bf16.
    found = estimate(find_model("gpt-oss-20b"), find_gpu("gb10"), Workload.create(context=32))
    assert found.step.tokens_per_s == pytest.approx(74, abs=1.5)
    assert found.step.tokens_per_s < 79.74


def test_floors_of_a_real_decode_step() -> None:
    # Llama-3.1-8B on a B300, 16 sequences holding 8,209 tokens.
    contexts = [513] * 15 + [8209 - 15 * 513]
    found = estimate(
        find_model("llama-3.1-8b"), find_gpu("b300"), Workload.create(context=contexts)
    )
    rows = {row.role: row.bound_ns / 1e3 for row in found.operators}
    expected = {
        "attn.qkv_proj": 6.33,
        "attn.core": 4.20,
        "attn.o_proj": 4.23,
        "mlp.gate_up_proj": 29.5,
        "mlp.down_proj": 14.8,
        "lm_head": 131.9,
    }
    assert {role: rows[role] for role in expected} == pytest.approx(expected, rel=0.01)
