"""Costs of single operators against values worked out apart from the package's own code.

Each number was printed by an independent implementation of the same formulas that checks itself
by brute force and Monte Carlo, and typed in here.
"""

from __future__ import annotations

import random

import pytest

from nsysroof.analysis.operators import fused_cost
from nsysroof.theory.cost import Cost
from nsysroof.theory.dtypes import WEIGHT_FORMATS, WeightFormat, activation_format, weight_format
from nsysroof.theory.gpus import resolve_peaks
from nsysroof.theory.models.decoder import operators
from nsysroof.theory.models.spec import find_model
from nsysroof.theory.operators.attention import (
    attention,
    kv_write,
    mla_decode,
    paged,
    split_kv_partials,
)
from nsysroof.theory.operators.collective import Algorithm, all_reduce, exchange
from nsysroof.theory.operators.copy import bytes_in_flight, copy, gather_rate
from nsysroof.theory.operators.elementwise import Activation, activation
from nsysroof.theory.operators.gemm import LinearFormat, gemm
from nsysroof.theory.operators.moe import combine, expected_experts, grouped_gemm, topk
from nsysroof.theory.operators.norm import rms_norm
from nsysroof.theory.operators.pairs import Mask, causal_pairs, distinct_keys
from nsysroof.theory.operators.state import conv_step, delta_rule, mamba2
from nsysroof.theory.roofline import exchange_ns, tile_efficiency, tiles, wave_efficiency
from nsysroof.theory.speculation import expected_tokens, expected_tokens_by_position
from nsysroof.theory.workload import Workload


def _format(weights: str | WeightFormat, activations: str) -> LinearFormat:
    fmt = weight_format(weights) if isinstance(weights, str) else weights
    return LinearFormat(weights=fmt, activations=activation_format(activations), output="bf16")


@pytest.mark.parametrize(
    ("weights", "activations", "weight", "scale", "act_read", "total"),
    [
        ("fp8-block", "fp8-block", 16_777_216, 4_224, 4_096, 16_793_728),
        ("awq", "bf16", 8_388_608, 327_680, 8_192, 8_732_672),
        ("gptq", "bf16", 8_388_608, 262_144, 8_192, 8_667_136),
        ("mxfp4", "bf16", 8_388_608, 524_288, 8_192, 8_929_280),
        ("nvfp4", "nvfp4", 8_388_608, 1_048_836, 2_048, 9_447_684),
        ("int8", "int8", 16_777_216, 16_388, 4_096, 16_805_892),
    ],
)
def test_quantised_gemm_of_4096(
    weights: str, activations: str, weight: int, scale: int, act_read: int, total: int
) -> None:
    cost = gemm(1, 4096, 4096, fmt=_format(weights, activations))
    assert cost.total_flop == 33_554_432
    assert (cost.weight, cost.scale, cost.act_read, cost.act_write) == (
        weight,
        scale,
        act_read,
        8_192,
    )
    assert cost.memory_bytes == total


@pytest.mark.parametrize(
    ("name", "group", "bits"),
    [
        ("awq", None, 4.15625),
        ("fp8-block", None, 8.001953125),
        ("gptq", None, 4.125),
        ("gptq", 64, 4.25),
        ("gptq", 32, 4.5),
        ("mxfp4", None, 4.25),
        ("mxfp8", None, 8.25),
        ("q4_0", None, 4.5),
        ("q4_k", None, 4.5),
        ("q8_0", None, 8.5),
        ("nf4", None, 4.126953125),
    ],
)
def test_bits_per_weight(name: str, group: int | None, bits: float) -> None:
    fmt = WEIGHT_FORMATS[name] if group is None else WEIGHT_FORMATS[name].grouped(group)
    size = fmt.payload_bytes(4096, 4096) + fmt.scale_bytes(4096, 4096)
    assert size * 8 / 4096**2 == pytest.approx(bits, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "group", "percent"),
    [
        ("awq", None, 3.91),
        ("gptq", None, 3.12),
        ("gptq", 64, 6.25),
        ("gptq", 32, 12.5),
        ("mxfp4", None, 6.25),
        ("nvfp4", None, 12.5),
        ("fp8-block", None, 0.02),
    ],
)
def test_scales_beside_their_weights(name: str, group: int | None, percent: float) -> None:
    fmt = WEIGHT_FORMATS[name] if group is None else WEIGHT_FORMATS[name].grouped(group)
    overhead = fmt.scale_bytes(4096, 4096) / fmt.payload_bytes(4096, 4096) * 100
    assert overhead == pytest.approx(percent, abs=6e-3)


def test_quantised_gemm_with_groups_of_32() -> None:
    fmt = WEIGHT_FORMATS["gptq"].grouped(32)
    cost = gemm(1, 4096, 4096, fmt=_format(fmt, "bf16"))
    assert (cost.weight, cost.scale, cost.memory_bytes) == (8_388_608, 1_048_576, 9_453_568)


def test_qkv_of_one_token() -> None:
    cost = gemm(1, 5120, 2048, fmt=_format("bf16", "bf16"))
    assert (cost.weight, cost.act_read, cost.act_write) == (20_971_520, 4_096, 10_240)
    assert (cost.memory_bytes, cost.total_flop) == (20_985_856, 20_971_520)
    assert cost.total_flop / cost.memory_bytes == pytest.approx(0.9993, abs=5e-5)


def test_qkv_of_64_tokens() -> None:
    cost = gemm(64, 5120, 2048, fmt=_format("bf16", "bf16"))
    assert (cost.act_read, cost.act_write, cost.memory_bytes) == (262_144, 655_360, 21_889_024)
    assert cost.flop == {"bf16": 1_342_177_280}


@pytest.mark.parametrize(
    ("kv_heads", "kv", "kv_read", "total"),
    [
        (4, "bf16", 8_388_608, 8_404_992),
        (32, "bf16", 67_108_864, 67_125_248),
        (1, "bf16", 2_097_152, 2_113_536),
        (4, "fp8", 4_194_304, 4_210_688),
    ],
)
def test_decode_reads_each_kv_head_once(kv_heads: int, kv: str, kv_read: int, total: int) -> None:
    cost = attention([1], [4095], heads=32, kv_heads=kv_heads, head_dim=128, kv=kv)
    assert (cost.kv_read, cost.total_flop, cost.memory_bytes) == (kv_read, 67_108_864, total)


def test_decode_window_of_gpt_oss() -> None:
    cost = attention([1], [4095], heads=64, kv_heads=8, head_dim=64, mask=Mask(window=128))
    assert (cost.kv_read, cost.total_flop, cost.memory_bytes) == (262_144, 2_097_152, 278_528)


def test_verify_of_four_tokens_reads_the_cache_once() -> None:
    cost = attention([4], [4092], heads=32, kv_heads=4, head_dim=128)
    assert (cost.kv_read, cost.total_flop) == (8_388_608, 268_337_152)
    assert (cost.act_read, cost.act_write, cost.memory_bytes) == (32_768, 32_768, 8_454_144)


def test_split_kv_partials() -> None:
    partials = split_kv_partials(1, heads=32, value_dim=128, splits=8)
    cost = attention([1], [4095], heads=32, kv_heads=4, head_dim=128) + partials
    assert (cost.act_read, cost.act_write) == (140_288, 140_288)
    assert (cost.kv_read, cost.total_flop, cost.memory_bytes) == (
        8_388_608,
        67_108_864,
        8_669_184,
    )


@pytest.mark.parametrize(
    ("token_bytes", "kv_read", "total"),
    [(1152, 4_718_592, 4_997_120), (656, 2_686_976, 2_965_504)],
)
def test_latent_decode_of_deepseek_v3(token_bytes: int, kv_read: int, total: int) -> None:
    cost = mla_decode([1], [4095], heads=128, kv_lora=512, rope=64, token_bytes=token_bytes)
    assert (cost.kv_read, cost.total_flop) == (kv_read, 1_140_850_688)
    assert (cost.act_read, cost.act_write, cost.memory_bytes) == (147_456, 131_072, total)


def test_prefill_whole_and_last_chunk() -> None:
    whole = attention([4096], [0], heads=32, kv_heads=4, head_dim=128)
    assert (whole.total_flop, whole.memory_bytes) == (137_472_507_904, 75_497_472)
    chunk = attention([512], [3584], heads=32, kv_heads=4, head_dim=128)
    assert (chunk.kv_read, chunk.memory_bytes) == (8_388_608, 16_777_216)
    assert (chunk.act_read, chunk.act_write) == (4_194_304, 4_194_304)
    # 512 x 3,584 + 512 x 513 / 2 pairs, 2 x 32 heads x 256.
    assert chunk.total_flop == 32_216_449_024


def _seen(mask: Mask, queries: int, prefix: int) -> list[tuple[int, int]]:
    """Return every (query position, key position) that a mask lets through, one by one."""
    pairs = []
    for p in range(prefix, prefix + queries):
        for key in range(prefix + queries):
            if mask.chunk is not None:
                sees = key <= p and key // mask.chunk == p // mask.chunk
            elif mask.window is not None:
                sees = key <= p and (key > p - mask.window or key < mask.sink_tokens)
            else:
                sees = key <= p or not mask.causal
            if sees:
                pairs.append((p, key))
    return pairs


@pytest.mark.parametrize(
    "mask",
    [
        Mask(),
        Mask(window=5),
        Mask(window=5, sink_tokens=2),
        Mask(window=12, sink_tokens=4),
        Mask(window=30, sink_tokens=4),
        Mask(chunk=3),
        Mask(chunk=4),
        Mask(chunk=20),
        Mask(causal=False),
    ],
    ids=repr,
)
@pytest.mark.parametrize(("queries", "prefix"), [(7, 11), (1, 17), (18, 0), (1, 0)])
def test_pairs_and_keys_by_brute_force(mask: Mask, queries: int, prefix: int) -> None:
    seen = _seen(mask, queries, prefix)
    assert mask.pairs(queries, prefix) == len(seen)
    assert distinct_keys(mask, [queries], [prefix]) == len({key for _, key in seen})


def test_pairs_of_the_reference() -> None:
    assert causal_pairs(7, 11) == 105
    assert causal_pairs(7, 11, window=5) == 35
    assert distinct_keys(Mask(window=5), [7], [11]) == 11
    # Four chunks of 256 cost the FLOP of 1,024 at once: 8 heads of 64, two products.
    chunks = sum(
        attention([256], [256 * i], heads=8, kv_heads=2, head_dim=64).total_flop for i in range(4)
    )
    whole = attention([1024], [0], heads=8, kv_heads=2, head_dim=64).total_flop
    assert chunks == whole == 1_074_790_400


@pytest.mark.parametrize("mask", [Mask(), Mask(window=6), Mask(window=6, sink_tokens=3)], ids=repr)
@pytest.mark.parametrize("shared", [0, 2, 9])
def test_shared_prefix_is_read_once_by_brute_force(mask: Mask, shared: int) -> None:
    queries, prefixes = [2, 1, 3], [10, 15, 9]
    read = set()
    for number, (q, prefix) in enumerate(zip(queries, prefixes, strict=True)):
        for _, key in _seen(mask, q, prefix):
            read.add((None if key < shared else number, key))
    found = distinct_keys(mask, queries, prefixes, shared_prefix=shared)
    assert found <= len(read)
    # Exact but where windows and sinks of different sequences overlap in the shared part.
    if not mask.sink_tokens:
        assert found == len(read)


def test_shared_prefix_of_a_batch() -> None:
    # Eight sequences of 4,096 that share 4,000: 4,000 + 8 x 96 tokens of 2,048 B.
    cost = attention([1] * 8, [4095] * 8, heads=32, kv_heads=4, head_dim=128, shared_prefix=4000)
    assert cost.kv_read == (4000 + 8 * 96) * 2048
    assert cost.total_flop == 8 * 67_108_864


def test_decode_of_4097_tokens_in_pages_of_16() -> None:
    # 257 pages hold 4,112 tokens; a kernel that reads whole pages moves 8,421,376 B, and 4 B per
    # page of the table. The bound keeps the 4,097 valid ones.
    pages = paged([4097], 16)
    assert pages.tokens * 2048 == 8_421_376
    assert pages.table_bytes == 1_028
    cost = attention([1], [4096], heads=32, kv_heads=4, head_dim=128)
    assert cost.total_flop == 67_125_248
    assert cost.kv_read == 4097 * 2048
    assert pages.tokens * 2048 + pages.table_bytes + cost.act_read + cost.act_write == 8_438_788


def test_kv_write_of_one_token() -> None:
    cost = kv_write(1, 4 * 256, kv="bf16", dtype="bf16")
    # 2,048 B in and out, and the 8-byte slot.
    assert (cost.act_read, cost.kv_write) == (2_048 + 8, 2_048)


def test_norm_and_activation() -> None:
    fused = rms_norm(1, 2048, dtype="bf16", residual=True)
    assert (fused.weight, fused.act_read, fused.act_write) == (4_096, 8_192, 8_192)
    assert (fused.total_flop, fused.memory_bytes) == (10_240, 20_480)
    act = activation(8, 768, kind=Activation.GATED, dtype="bf16")
    assert (act.act_read, act.act_write, act.total_flop) == (24_576, 12_288, 30_720)
    assert act.memory_bytes == 36_864


def _experts(
    tokens: int, hidden: int, width: int, experts: int, top_k: int, weights: str, inputs: str
) -> Cost:
    fmt, rows = _format(weights, inputs), tokens * top_k
    distinct = expected_experts(experts, top_k, tokens)
    up = grouped_gemm(rows, 2 * width, hidden, experts=distinct, fmt=fmt, read_rows=tokens)
    # The reference fuses the sum over experts into the second product.
    down = grouped_gemm(rows, hidden, width, experts=distinct, fmt=fmt, write_rows=tokens)
    return up + down


def _with_activation(cost: Cost, rows: int, width: int, experts: int, tokens: int) -> Cost:
    """Add what lies between the two products, and the 8-byte choices that route the rows."""
    act = activation(rows, width, kind=Activation.GATED, dtype="bf16")
    choices = topk(tokens, experts, rows // tokens).act_write
    memory = Cost(act_read=act.act_read, act_write=act.act_write)
    return cost + memory + Cost(scale=choices)


@pytest.mark.parametrize(
    ("tokens", "weight", "act", "flop", "total"),
    [
        (1, 75_497_472, 40_960, 75_497_472, 75_579_456),
        (16, 777_836_000, 655_360, 1_207_959_552, 779_148_150),
        (128, 1_207_650_000, 5_242_880, 9_663_676_416, 1_218_141_300),
    ],
)
def test_experts_of_qwen3_30b(tokens: int, weight: int, act: int, flop: int, total: int) -> None:
    products = _experts(tokens, 2048, 768, 128, 8, "bf16", "bf16")
    cost = _with_activation(products, 8 * tokens, 768, 128, tokens)
    # Those of 16 and 128 tokens were printed with six and eight digits.
    assert cost.weight == pytest.approx(weight, rel=3e-6)
    assert products.total_flop == flop
    assert (cost.act_read, cost.act_write) == (act, act)
    assert cost.memory_bytes == pytest.approx(total, rel=5e-8)


def test_experts_of_gpt_oss_in_mxfp4() -> None:
    products = _experts(1, 2880, 2880, 128, 4, "mxfp4", "bf16")
    assert (products.weight, products.scale) == (49_766_400, 3_110_400)
    assert products.total_flop == 199_065_600
    cost = _with_activation(products, 4, 2880, 128, 1)
    assert (cost.act_read, cost.act_write, cost.memory_bytes) == (74_880, 74_880, 53_026_592)


def test_experts_of_deepseek_v3_in_fp8() -> None:
    products = _experts(1, 7168, 2048, 256, 8, "fp8-block", "bf16")
    assert (products.weight, products.scale) == (352_321_536, 86_016)
    assert products.total_flop == 704_643_072
    cost = _with_activation(products, 8, 2048, 256, 1)
    assert (cost.act_read, cost.act_write, cost.memory_bytes) == (112_640, 112_640, 352_632_896)


def test_expected_experts_by_monte_carlo() -> None:
    rng = random.Random(0)
    trials = 4000
    total = sum(len({e for _ in range(6) for e in rng.sample(range(16), 3)}) for _ in range(trials))
    assert expected_experts(16, 3, 6) == pytest.approx(total / trials, rel=0.01)
    assert expected_experts(16, 3, 6) == pytest.approx(11.3968, abs=1e-4)


def test_combine_reads_every_pair() -> None:
    assert combine(8, 1, 2048, dtype="bf16").act_read == 32_768


def _state_kernel(key: str) -> Cost:
    """Return convolution, state update and gated norm of one recurrent layer as one kernel."""
    roles = ("ssm.conv", "ssm.state", "ssm.gate_norm")
    step = operators(find_model(key), Workload.create(context=4096))
    parts = [op for op in step if op.layer == 0 and op.role in roles]
    assert [op.role for op in parts] == list(roles)
    return fused_cost(parts)


def test_state_of_nemotron_nano() -> None:
    # 64 heads of 64 with 128 FP32 states each, and three columns of 6,144 convolved channels.
    cost = _state_kernel("nemotron-3-nano-30b-a3b")
    assert cost.state == 2 * 2_134_016
    assert (cost.act_read, cost.act_write) == (20_608, 8_192)
    assert cost.act_read + cost.act_write + cost.state == 4_296_832
    conv = conv_step(1, 1, channels=64 * 64 + 2 * 8 * 128, taps=4, dtype="bf16")
    update = mamba2(
        1, 1, heads=64, head_dim=64, groups=8, state=128, state_dtype="fp32", dtype="bf16"
    )
    assert (conv + update).total_flop == 2_670_592


def test_state_of_qwen3_next() -> None:
    # 32 value heads of 128 x 128 FP32 states, and three columns of 8,192 convolved channels.
    cost = _state_kernel("qwen3-next-80b-a3b")
    assert cost.state == 2 * 2_146_304
    assert (cost.act_read, cost.act_write) == (24_704, 8_192)
    assert cost.act_read + cost.act_write + cost.state == 4_325_504
    update = delta_rule(
        1,
        1,
        key_heads=16,
        value_heads=32,
        key_dim=128,
        value_dim=128,
        state_dtype="fp32",
        dtype="bf16",
    )
    assert update.total_flop == 4_194_304


@pytest.mark.parametrize(
    ("size", "algorithm", "us"),
    [
        (16_384, Algorithm.RING, 0.064),
        (16_384, Algorithm.ONE_SHOT, 0.255),
        (16_384, Algorithm.IN_SWITCH, 0.036),
        (536_870_912, Algorithm.RING, 2087.8),
        (536_870_912, Algorithm.IN_SWITCH, 1193.0),
    ],
)
def test_all_reduce_over_eight_gpus(size: int, algorithm: Algorithm, us: float) -> None:
    peaks = resolve_peaks(None, user={"nvlink": 450e9})
    found = exchange_ns(exchange("all_reduce", algorithm, size, 8), peaks)
    assert found is not None
    # Printed with three decimals below one microsecond and one above.
    assert found / 1e3 == pytest.approx(us, abs=5.1e-4 if us < 1 else 0.051)


def test_bounds_take_the_fewest_link_bytes() -> None:
    ring = exchange("all_reduce", Algorithm.RING, 16_384, 8)
    switch = exchange("all_reduce", Algorithm.IN_SWITCH, 16_384, 8)
    assert ring.link_bytes == all_reduce(16_384, 8, in_switch=False).link
    assert switch.link_bytes == all_reduce(16_384, 8, in_switch=True).link


@pytest.mark.parametrize(
    ("algorithm", "rounds"),
    [
        (Algorithm.RING, 14),
        (Algorithm.TREE, 6),
        (Algorithm.ONE_SHOT, 1),
        (Algorithm.TWO_SHOT, 2),
        (Algorithm.IN_SWITCH, 1),
    ],
)
def test_rounds_each_cost_a_latency(algorithm: Algorithm, rounds: int) -> None:
    peaks = resolve_peaks(None, user={"nvlink": 450e9})
    step = exchange("all_reduce", algorithm, 16_384, 8)
    plain, late = exchange_ns(step, peaks), exchange_ns(step, peaks, alpha_ns=1000)
    assert plain is not None
    assert late is not None
    assert late - plain == pytest.approx(rounds * 1000)


def test_measured_all_reduce_needs_the_switch() -> None:
    # 8 H200: 537 MB in 2,040 us is below the ring's bound, not below the switch's.
    ring = all_reduce(536_870_912, 8, in_switch=False).link / 450e9 * 1e6
    switch = all_reduce(536_870_912, 8, in_switch=True).link / 450e9 * 1e6
    assert switch < 2040 < ring


def test_gather_follows_littles_law() -> None:
    eight = bytes_in_flight(blocks=2 * 8, threads=1024, bytes_per_thread=16)
    assert eight == 262_144
    round_trip_ns = eight / 202e9 * 1e9
    assert round_trip_ns == pytest.approx(1297.7, abs=0.1)
    more = bytes_in_flight(blocks=2 * 32, threads=1024, bytes_per_thread=16)
    assert gather_rate(more, round_trip_ns, 450e9) == 450e9
    assert more / (round_trip_ns * 1e-9) == pytest.approx(808e9, rel=1e-3)


def test_device_copy_reads_and_writes_o17() -> None:
    # 29,684,236,288 B in 19.614 ms: 1,513 GB/s counted once, 3,027 GB/s as the memory sees it.
    moved = copy(29_684_236_288, kind="d2d").memory_bytes
    assert moved / 19.614e-3 / 1e9 == pytest.approx(3026.9, abs=0.2)


@pytest.mark.parametrize(
    ("acceptance", "drafted", "tokens"), [(0.6, 3, 2.176), (0.7, 4, 2.773), (0.8, 5, 3.689)]
)
def test_tokens_of_a_speculative_step(acceptance: float, drafted: int, tokens: float) -> None:
    assert round(expected_tokens(acceptance, drafted), 3) == tokens


def test_tokens_of_a_speculative_step_by_monte_carlo() -> None:
    rng = random.Random(0)
    trials, total = 20_000, 0
    for _ in range(trials):
        accepted = 0
        while accepted < 4 and rng.random() < 0.7:
            accepted += 1
        total += 1 + accepted
    assert expected_tokens(0.7, 4) == pytest.approx(total / trials, rel=0.01)
    assert expected_tokens_by_position([0.7] * 4) == pytest.approx(2.7731)


def test_published_accepted_lengths_are_not_geometric() -> None:
    # 1.92, 2.58 and 2.82 tokens with 1, 2 and 3 drafts.
    by_position = [0.92, 0.66 / 0.92, 0.24 / 0.66]
    found = [expected_tokens_by_position(by_position[:drafts]) for drafts in (1, 2, 3)]
    assert found == pytest.approx([1.92, 2.58, 2.82])
    assert expected_tokens(0.92, 3) == pytest.approx(3.545, abs=5e-4)


def test_tiles_of_a_result() -> None:
    assert wave_efficiency(tiles(4096, 4096, tile_m=128, tile_n=128), 132) == pytest.approx(
        0.9697, abs=5e-5
    )
    assert tile_efficiency(4096, 4096, tile_m=128, tile_n=128) == 1.0
    assert wave_efficiency(tiles(64, 5120, tile_m=128, tile_n=128), 132) == pytest.approx(
        0.30303030303030304
    )
    assert tile_efficiency(64, 5120, tile_m=128, tile_n=128) == 0.5


@pytest.mark.parametrize(
    ("blocks", "sms", "share"), [(1024, 132, 0.9697), (40, 132, 0.303), (352, 132, 0.889)]
)
def test_wave_efficiency(blocks: int, sms: int, share: float) -> None:
    assert wave_efficiency(blocks, sms) == pytest.approx(share, abs=5e-4)
