"""The page of published measurements is up to date, and what is below its bound says why."""

from __future__ import annotations

import pytest

from nsysroof.theory.operators.moe import expected_experts
from tests.bench.validate import PAGE, Row, page, rows

ROWS = [row for _, row in rows()]


def _find(what: str, gpu: str) -> Row:
    found = [row for row in ROWS if row.what == what and row.gpu == gpu]
    assert len(found) == 1
    return found[0]


def test_page_is_what_the_script_writes() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_everything_below_its_bound_has_a_reason() -> None:
    below = [row for row in ROWS if row.ratio < 1]
    assert len(below) == 8
    assert all(row.remark for row in below)


@pytest.mark.parametrize(
    ("what", "gpu", "share"),
    [
        ("16 tokens, balanced: all 128 experts", "a100-sxm-80", 0.75),
        ("16 tokens, balanced: all 128 experts", "h100-sxm", 0.87),
        ("16 tokens, balanced: all 128 experts", "h200-sxm", 0.86),
        ("16 tokens, balanced: all 128 experts", "b200", 0.84),
        ("16 tokens, balanced: all 128 experts", "l40s", 0.84),
        ("16 tokens, balanced: all 128 experts", "rtxpro6000-se", 0.94),
        ("best product in bf16", "a100-sxm-80", 0.869),
        ("best product in bf16", "h100-sxm", 0.803),
        ("best product in bf16", "b200", 0.776),
        ("best product in fp8", "h100-sxm", 0.709),
        ("best product in fp8", "gb200", 0.723),
        ("Llama-2-7B bf16", "a100-sxm-80", 0.68),
        ("Llama-2-70B int8", "a100-sxm-80", 0.64),
        ("Llama-3.1-70B FP8", "gb10", 0.70),
        ("latent decode, 256 sequences of 16,384", "rtx4090", 0.936),
    ],
)
def test_shares_of_the_roof_agree_with_those_worked_out_elsewhere(
    what: str, gpu: str, share: float
) -> None:
    assert 1 / _find(what, gpu).ratio == pytest.approx(share, abs=0.012)


def test_times_over_the_batch_follow_the_expected_experts() -> None:
    # A line through 1 token (8 experts, 109.2 us) and 64 tokens (125.9 experts, 917 us): a fixed
    # 54 us and 6.85 us per expert, 1.13 times what reading one takes. The rest lies within 6 %.
    expected = {2: 15.5, 4: 29.12, 8: 51.62, 16: 82.42, 32: 111.77}
    measured = {2: 159.8, 4: 268.9, 8: 403.1, 16: 611.2, 32: 808.5}
    each = {tokens: expected_experts(128, 8, tokens) for tokens in (1, *expected, 64)}
    assert {tokens: each[tokens] for tokens in expected} == pytest.approx(expected, abs=6e-3)
    slope = (917 - 109.2) / (each[64] - each[1])
    assert slope / (3 * 2048 * 768 * 2 / 1555e9 * 1e6) == pytest.approx(1.13, abs=5e-3)
    for tokens, us in measured.items():
        assert 109.2 + slope * (each[tokens] - each[1]) == pytest.approx(us, rel=0.06)
    assert min(row.ratio for row in ROWS if row.source == "vllm#19049") > 1
