"""Bounds: which side binds, with what magnitude, and what is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysroof.theory.cost import Cost
from nsysroof.theory.dtypes import activation_format, weight_format
from nsysroof.theory.gpus import find_gpu, resolve_peaks
from nsysroof.theory.operators.gemm import LinearFormat, gemm
from nsysroof.theory.peaks import Peak, Peaks
from nsysroof.theory.roofline import Limiter, bound, ridge_point, step_bounds, wave_efficiency

BF16 = LinearFormat(
    weights=weight_format("bf16"), activations=activation_format("bf16"), output="bf16"
)


def _peaks(**rates: float) -> Peaks:
    return Peaks(entries={key: Peak(rate, "test") for key, rate in rates.items()})


def test_units_of_the_two_sides_o25() -> None:
    # 65,536 FLOP at 838 TFLOP/s are 0.0782 ns, at a quarter of it 0.313 ns; 4 MiB at 1.8 TB/s
    # are 2.33 us: memory binds, 29,796 times over.
    cost = Cost(flop={"fp16": 65_536}, kv_read=4 * 2**20)
    fast = bound(cost, _peaks(bw=1.8e12, fp16=838e12))
    slow = bound(cost, _peaks(bw=1.8e12, fp16=838e12 / 4))
    assert fast.limiter is Limiter.MEMORY
    assert fast.spec_ns == pytest.approx(2330.17, abs=0.01)
    assert fast.compute_ns == pytest.approx(0.0782, abs=1e-4)
    assert slow.compute_ns == pytest.approx(0.3128, abs=1e-4)
    assert fast.memory_ns is not None
    assert fast.compute_ns is not None
    assert fast.memory_ns / fast.compute_ns == pytest.approx(29_796, abs=1)


def test_reachable_bandwidth_ends_the_search_o24() -> None:
    # 8.412 GB per token in 55.2 ms on Orin.
    cost = Cost(weight=8_412_000_000)
    spec = bound(cost, resolve_peaks(find_gpu("orin"))).spec_ns
    reachable = bound(cost, _peaks(bw=152.8e9)).spec_ns
    assert spec is not None
    assert reachable is not None
    assert spec / 1e6 == pytest.approx(41.07, abs=0.01)
    assert 55.2e6 / spec == pytest.approx(1.344, abs=1e-3)
    assert reachable / 1e6 == pytest.approx(55.05, abs=0.01)
    assert 55.2e6 / reachable == pytest.approx(1.003, abs=1e-3)


def test_power_cap_scales_only_the_compute_roof_o26() -> None:
    # An RTX 3090 held at 1,508 of 1,695 MHz: compute roof x 0.8897, memory roof unchanged.
    full = resolve_peaks(find_gpu("rtx3090"))
    capped = resolve_peaks(find_gpu("rtx3090"), user={"bf16": 71e12 * 1508 / 1695})
    product = Cost(flop={"bf16": 10**12}, weight=10**6)
    vector = Cost(flop={"bf16": 10**6}, weight=10**9)
    a, b = bound(product, full), bound(product, capped)
    assert a.spec_ns is not None
    assert b.spec_ns is not None
    assert a.spec_ns / b.spec_ns == pytest.approx(0.8897, abs=1e-4)
    assert bound(vector, full).spec_ns == bound(vector, capped).spec_ns


def test_unknown_peak_gives_no_bound() -> None:
    found = bound(Cost(flop={"fp4": 10}, weight=100), _peaks(bw=1e12, bf16=1e14))
    assert (found.spec_ns, found.limiter, found.missing) == (None, None, ("fp4",))
    assert found.memory_ns == pytest.approx(0.1)
    assert found.compute_ns is None


def test_tensor_dtypes_add_and_cuda_cores_run_beside() -> None:
    peaks = _peaks(fp8=2e12, bf16=1e12, fp32=1e11)
    mixed = Cost(flop={"fp8": 2000, "bf16": 3000})
    assert bound(mixed, peaks).spec_ns == pytest.approx(1.0 + 3.0)
    beside = Cost(flop={"bf16": 3000, "fp32": 100})
    assert bound(beside, peaks).spec_ns == pytest.approx(3.0)


def test_floor_above_the_roofline_is_latency() -> None:
    small = bound(Cost(weight=4000), _peaks(bw=4e12), floor_ns=1300)
    assert (small.spec_ns, small.limiter, small.least_ns) == (1.0, Limiter.LATENCY, 1300)
    large = bound(Cost(weight=40_000_000), _peaks(bw=4e12), floor_ns=1300)
    assert (large.limiter, large.least_ns) == (Limiter.MEMORY, 10_000.0)


def test_small_transfers_hide_behind_few_waves_o38() -> None:
    # Eight NVFP4 experts of 2 x 768 x 2048 at 1.792 TB/s; measured 41 % and 21 % of the roof.
    up = bound(Cost(weight=8 * 2 * 768 * 2048 * 9 // 16), _peaks(bw=1792e9)).spec_ns
    down = bound(Cost(weight=8 * 768 * 2048 * 9 // 16), _peaks(bw=1792e9)).spec_ns
    assert up is not None
    assert down is not None
    assert [up / 1e3, down / 1e3] == pytest.approx([7.90, 3.95], abs=0.01)
    won = 48 * ((up / 0.41 - up) + (down / 0.21 - down))
    assert won / 1e6 == pytest.approx(1.26, abs=0.01)


def test_waves_explain_a_product_o35() -> None:
    # 4096 x 2112 x 7168 on an H200: 352 tiles on 132 SMs, measured 178.7 us.
    cost = gemm(4096, 2112, 7168, fmt=BF16)
    found = bound(cost, resolve_peaks(find_gpu("h200-sxm"), user={"bf16": 989e12}))
    assert cost.total_flop == pytest.approx(124.017e9, rel=1e-5)
    assert found.limiter is Limiter.COMPUTE
    assert found.spec_ns is not None
    assert found.spec_ns / 1e3 == pytest.approx(125.4, abs=0.05)
    assert 178.7e3 / found.spec_ns == pytest.approx(1.425, abs=1e-3)
    waved = found.spec_ns / wave_efficiency(352, 132)
    assert waved / 1e3 == pytest.approx(141.1, abs=0.05)
    assert 178.7e3 / waved == pytest.approx(1.267, abs=1e-3)


def test_rule_of_one_read_per_round_o34() -> None:
    # 15.9 GiB of weights at 854.2 GB/s: 20.0 ms per round, whatever the number of lanes.
    once = step_bounds([Cost(weight=round(15.9 * 2**30))], _peaks(bw=854.2e9)).weights_once_ns
    assert once is not None
    ratios = [ms * 1e6 / once for ms in (27.17, 32.73, 39.60, 60.20)]
    assert ratios == pytest.approx([1.36, 1.64, 1.98, 3.01], abs=0.006)


def test_step_rate_is_not_token_rate_o36() -> None:
    # 78.71 tokens/s x 15.9 GiB would be 143.5 % of 936.2 GB/s; at 2.38 tokens per step 60.3 %.
    once = step_bounds([Cost(weight=round(15.9 * 2**30))], _peaks(bw=936.2e9)).weights_once_ns
    assert once is not None
    assert once * 78.71 / 1e9 == pytest.approx(1.435, abs=1e-3)
    assert once * 78.71 / 2.38 / 1e9 == pytest.approx(0.603, abs=1e-3)


def test_offloaded_step_is_bound_by_its_link_o44() -> None:
    # 586 MB over PCIe 5 x16 in 11.49 ms of a 27.58 ms token.
    found = bound(Cost(link=586_000_000), resolve_peaks(find_gpu("rtx5090")), link="h2d")
    assert found.limiter is Limiter.LINK
    assert found.spec_ns is not None
    assert 11.49e6 / found.spec_ns == pytest.approx(1.24, abs=0.005)


def test_collectives_fall_back_to_peer_copies_without_nvlink() -> None:
    peaks = resolve_peaks(find_gpu("l40s"))
    assert bound(Cost(link=31_500), peaks).spec_ns == pytest.approx(1000.0)


def test_ridge_of_gh200() -> None:
    peaks = resolve_peaks(find_gpu("gh200-96"), user={"bf16": 989e12})
    assert ridge_point("bf16", peaks) == pytest.approx(247.25)
    assert ridge_point("fp4", peaks) is None


costs = st.builds(
    Cost,
    flop=st.dictionaries(st.sampled_from(["bf16", "fp8", "fp32"]), st.integers(0, 10**15)),
    weight=st.integers(0, 10**12),
    act_read=st.integers(0, 10**12),
    kv_read=st.integers(0, 10**12),
    link=st.integers(0, 10**10),
)
H100 = resolve_peaks(find_gpu("h100-sxm"))


@given(st.lists(costs, max_size=8))
def test_hard_bound_never_exceeds_the_serial_one(each: list[Cost]) -> None:
    found = step_bounds(each, H100)
    assert found.hard_ns is not None
    assert found.serial_ns is not None
    assert found.weights_once_ns is not None
    slack = 1 + 1e-9
    assert found.weights_once_ns <= found.hard_ns * slack
    assert found.hard_ns <= found.serial_ns * slack


@given(costs, costs)
def test_more_work_is_never_faster(a: Cost, b: Cost) -> None:
    one, both = bound(a, H100).spec_ns, bound(a + b, H100).spec_ns
    assert one is not None
    assert both is not None
    assert 0 <= one <= both
