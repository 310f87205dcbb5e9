"""What grids tell of the experts' products: the published rule, worked out for two real launches."""

from __future__ import annotations

import pytest

from nsysroof.match.rules import load_rules
from nsysroof.match.tiles import ExpertLaunch, expert_launch

GPT_OSS = "bmm_Bfloat16_MxE2m1MxE4m3_Fp32_t128x16x256u2_s3_et128x16_m128x16x32_cga1x1x1_16dp256b_rM_TN_transOut_schedP2x1x2x3_biasM_bN_tmaOpt_clmp_dynBatch_sm100f"
QWEN3 = "bmm_Bfloat16_Bfloat16Bfloat16_Fp32_t128x8x128u2_s5_et128x8_m128x8x16_c1x1x1_rM_BN_transOut_schPd2x1x2x3_bN_ldgsts_ldgstsSf_rgTma_clmp_swiGlu_dynB_sm100f"


def launch(
    name: str, *, features: int, tokens: int, top_k: int, grid: tuple[int, int, int]
) -> ExpertLaunch:
    [kernel] = load_rules(None).classify_each([name])
    found = expert_launch(
        kernel, "moe.down", features=features, tokens=tokens, experts=128, top_k=top_k, grid=grid
    )
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("found", "tokens"),
    [
        # 12 x 128 rows are 2 x 768; 16 tokens of 8 experts fill at most 128 tiles of 8 rows, 17
        # tokens 128 + (136 - 128) / 8 = 129.
        (launch(QWEN3, features=1536, tokens=16, top_k=8, grid=(12, 128, 1)), (16, 16)),
        # 24 x 128 = 3072 rows for 2880, padded; 128 + (3552 - 128) / 16 = 342 tiles, and the next
        # one from 3,568 rows on.
        (launch(GPT_OSS, features=2880, tokens=888, top_k=4, grid=(24, 342, 1)), (888, 891)),
        # Fewer rows than experts: a tile for each.
        (launch(QWEN3, features=1536, tokens=5, top_k=8, grid=(12, 40, 1)), (5, 5)),
    ],
)
def test_the_tokens_of_a_grid(found: ExpertLaunch, tokens: tuple[int, int]) -> None:
    assert found.fits()
    assert found.token_range() == tokens
    assert [found.fits(tokens=tokens[0] - 1), found.fits(tokens=tokens[1] + 1)] == [False, False]


def test_no_number_of_tokens_fills_tiles_that_no_routing_can() -> None:
    found = launch(QWEN3, features=1536, tokens=5, top_k=8, grid=(12, 41, 1))
    assert (found.fits(), found.token_range()) == (False, None)


def test_other_names_tell_nothing() -> None:
    [kernel] = load_rules(None).classify_each(["fused_moe_kernel"])
    told = {"features": 1536, "tokens": 5, "experts": 128, "top_k": 8}
    assert expert_launch(kernel, "moe.down", **told, grid=(12, 40, 1)) is None
