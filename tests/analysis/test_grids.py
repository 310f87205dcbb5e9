"""What a grid explains: whole waves of a product, small transfers, grids of few blocks."""

from __future__ import annotations

import polars as pl
import pytest

from nsysroof.analysis.grids import judge_grid
from nsysroof.analysis.operators import OperatorGroup, operator_rows
from nsysroof.analysis.staging import STAGED
from nsysroof.results import OperatorRow
from nsysroof.theory.cost import Cost, Operator
from nsysroof.theory.peaks import Peak, Peaks
from nsysroof.theory.roofline import Bound, bound
from nsysroof.trace.schema import pack_grid

FLOOR_NS = 1_300.0
H200 = Peaks(entries={"bw": Peak(4.8e12, "doc"), "bf16": Peak(989e12, "doc")})
RTX_5090 = Peaks(entries={"bw": Peak(1.792e12, "doc")})


def measured(
    cost: Cost, peaks: Peaks, ns: float, *, kind: str, blocks: int, sms: int, count: int = 1
) -> OperatorRow:
    """Return the row of ``count`` instances in one step."""
    operator = Operator(
        role="role", kind=kind, layer=0, cost=cost, dtype="bf16", formula="given", inputs={}
    )
    group = OperatorGroup(
        role="role",
        members=(operator,),
        cost=cost,
        min_cost=None,
        bound=bound(cost, peaks, floor_ns=FLOOR_NS),
        min_bound=None,
        reachable=None,
        penalty=0.0,
    )
    kernels = pl.DataFrame(
        {
            "gpu": [0] * count,
            "step": [0] * count,
            "covers": list(range(count)),
            "group": [0] * count,
            "main": [True] * count,
            "name": [0] * count,
            "grid": [pack_grid(blocks, 1, 1)] * count,
            "start_ns": [1_000_000 * at for at in range(count)],
            "end_ns": [1_000_000 * at + round(ns) for at in range(count)],
            "advance_ns": [round(ns)] * count,
        },
        schema_overrides={"group": pl.UInt32, "covers": pl.UInt32, "name": pl.UInt32},
    )
    [row] = operator_rows(
        kernels,
        [group],
        ["kernel"],
        staged=pl.DataFrame(schema=STAGED),
        steps=1,
        floor_ns=FLOOR_NS,
        sm_count=sms,
    )
    return row


def test_o35_352_tiles_on_132_sms_take_the_time_of_three_waves() -> None:
    """An H200 product of 4096 x 2112 x 7168 in 178.7 µs stops at 70 % of the peak."""
    cost = Cost(flop={"bf16": 2 * 4096 * 2112 * 7168}, weight=2112 * 7168 * 2)
    assert cost.total_flop == pytest.approx(124.017e9, rel=1e-5)
    row = measured(cost, H200, 178_700, kind="gemm", blocks=352, sms=132)
    assert row.bound_ns == pytest.approx(125_400, rel=1e-4)
    assert row.ratio == pytest.approx(1.425, abs=5e-4)
    assert (row.limiter, row.blocks) == ("compute", 352)
    assert row.waves == pytest.approx(2.667, abs=5e-4)
    # 352 / (3 x 132) = 88.9 % of the slots are filled, so at best 141.1 µs.
    assert row.wave_bound_ns == pytest.approx(141_100, rel=1e-3)
    assert row.measured_ns / (row.wave_bound_ns or 0) == pytest.approx(1.267, abs=5e-4)
    [note] = row.notes
    assert note == (
        "its 352 blocks on 132 SMs are 2.67 waves and take the time of 3: at best 141.1 µs, "
        "ratio 1.27 to that"
    )


def test_o35_a_persistent_kernel_and_unequal_blocks_have_no_wave_bound() -> None:
    cost = Cost(flop={"bf16": 2 * 4096 * 2112 * 7168})
    persistent = measured(cost, H200, 178_700, kind="gemm", blocks=132, sms=132)
    attention = measured(cost, H200, 178_700, kind="attention_prefill", blocks=352, sms=132)
    assert (persistent.waves, persistent.wave_bound_ns, persistent.notes) == (1.0, None, [])
    assert (attention.wave_bound_ns, attention.notes) == (None, [])


def test_o35_full_waves_explain_nothing() -> None:
    cost = Cost(flop={"bf16": 2 * 4096 * 2112 * 7168})
    row = measured(cost, H200, 178_700, kind="gemm", blocks=396, sms=132)
    assert row.wave_bound_ns == row.bound_ns
    assert row.notes == []


@pytest.mark.parametrize(
    ("products", "share", "bound_us", "measured_us", "excess_us"),
    [(2, 0.41, 7.90, 19.3, 11.4), (1, 0.21, 3.95, 18.8, 14.9)],
)
def test_o38_small_experts_have_headroom_in_time_and_not_only_as_a_factor(
    products: int, share: float, bound_us: float, measured_us: float, excess_us: float
) -> None:
    """An RTX 5090 reads 8 experts in NVFP4: 41 % and 21 % of the roof, structural."""
    cost = Cost(weight=8 * products * 2048 * 768 * 9 // 16)
    row = measured(
        cost, RTX_5090, measured_us * 1e3, kind="moe_gemm", blocks=272, sms=170, count=48
    )
    assert row.bound_ns == pytest.approx(bound_us * 1e3, rel=1e-3)
    assert 1 / (row.ratio or 0) == pytest.approx(share, abs=5e-3)
    assert row.waves == 1.6
    assert row.excess_ns_per_step == pytest.approx(48 * excess_us * 1e3, rel=5e-3)
    [note] = row.notes
    assert note.startswith("a small transfer in less than two waves of blocks")


def test_o38_both_together_are_1_26_ms_a_step() -> None:
    costs = [Cost(weight=8 * n * 2048 * 768 * 9 // 16) for n in (2, 1)]
    rows = [
        measured(cost, RTX_5090, ns, kind="moe_gemm", blocks=272, sms=170, count=48)
        for cost, ns in zip(costs, (19_300, 18_800), strict=True)
    ]
    assert sum(row.excess_ns_per_step or 0 for row in rows) == pytest.approx(1.26e6, rel=1e-3)


def of(ns: float, *, blocks: int, sms: int | None, cost: Cost) -> tuple[str, ...]:
    roof: Bound = bound(cost, RTX_5090, floor_ns=FLOOR_NS)
    return judge_grid(
        roof,
        blocks=blocks,
        sm_count=sms,
        measured_ns=round(ns),
        equal_blocks=True,
    ).notes


def test_only_a_small_slow_transfer_of_few_waves_is_called_one() -> None:
    small, large, tiny = Cost(weight=14_155_776), Cost(weight=179_200_000), Cost(weight=1_000)
    assert len(of(19_300, blocks=272, sms=170, cost=small)) == 1
    assert of(19_300, blocks=340, sms=170, cost=small) == ()  # two waves are no longer few
    assert of(8_000, blocks=272, sms=170, cost=small) == ()  # at the roof
    assert of(200_000, blocks=272, sms=170, cost=large) == ()  # 100 µs at the peak
    assert of(2_000, blocks=272, sms=170, cost=tiny) == ()  # the floor says it all
    assert of(19_300, blocks=272, sms=None, cost=small) == ()
    [few] = of(19_300, blocks=17, sms=170, cost=small)
    assert few.startswith("its grid has 17 blocks for 170 SMs (10.0 %)")


def test_a_copy_of_two_blocks_is_told_how_many_would_fill_the_link() -> None:
    """48 GB/s a block: two reach 97 of 210 GB/s, so five are needed (O46)."""
    size = 97_000_000
    link = bound(Cost(link=size), Peaks(entries={"h2d": Peak(210e9, "doc")}), link="h2d")
    facts = judge_grid(
        link, blocks=2, sm_count=152, measured_ns=1_000_000, equal_blocks=False, host_link=True
    )
    [note] = facts.notes
    assert "2 blocks fill 46.2 % of the link" in note
    assert "5 such blocks would fill it" in note
