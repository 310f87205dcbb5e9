"""Cases of real users about kernels: is it the kernel, and if so, why? Synthetic captures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from nsysroof.analysis import Options, analyze
from nsysroof.analysis.theory import estimate_for
from nsysroof.results import Report
from nsysroof.trace import open_trace
from tests.analysis.decode_steps import EMBED, FIRST_NORM, LAYER, NORM, decode_pass, replay

STEPS = "^step_"


def test_o37_slow_steps_of_good_kernels_are_not_blamed_on_the_kernels(tmp_path: Path) -> None:
    """Weight kernels at 1.2 of their floor, and as much idle time that the wall time is 40 % more.

    Judged by wall time the kernels would look far worse than they are.
    """
    kernels = [(name, ns) for name, _, ns in decode_pass("llama-3.1-8b")]
    busy = sum(ns for _, ns in kernels)
    gap = round(0.4 * busy / len(kernels))
    export = replay(kernels, gap_ns=gap)
    trace = open_trace(export.write(tmp_path / "diluted.sqlite"))
    options = Options(model="llama-3.1-8b", batch=1, context=(64,), step_range=STEPS)
    report = analyze(trace, options)
    assert report.budget is not None
    budget = report.budget
    worked = budget.bound_ns + budget.over_bound_ns + budget.fixed_ns + budget.unexplained_ns
    assert worked == busy
    assert budget.idle_ns == gap * len(kernels) + 50_000  # as much lies between the steps
    assert worked + budget.idle_ns == budget.wall_ns
    weights = [row for row in report.operators if "proj" in row.role or row.role == "lm_head"]
    assert len(weights) == 5
    for row in weights:
        assert row.ratio == pytest.approx(1.2, rel=0.01)


@pytest.mark.parametrize(
    ("us", "grid", "ratio", "starved"), [(111.9, 16, 1.67, True), (81.3, 256, 1.21, False)]
)
def test_o33_attention_that_starves_the_multiprocessors(
    tmp_path: Path, us: float, grid: int, ratio: float, *, starved: bool
) -> None:
    """Batch 32 of 32,768 tokens, one KV head of 128 in FP8: 268,435,456 bytes in 67.1 us."""
    report = _attention_step(tmp_path, round(us * 1e3), grid)
    row = next(row for row in report.operators if row.role == "attn.core")
    assert row.bytes.kv_read == 32 * 32_768 * 2 * 128
    assert row.ratio == pytest.approx(ratio, abs=0.01)
    told = [note for note in row.notes if "blocks" in note]
    assert bool(told) is starved
    if starved:
        assert "16 blocks for 132 SMs (12" in told[0]


def _attention_step(folder: Path, attention_ns: int, grid: int) -> Report:
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "torch_dtype": "bfloat16",
        "hidden_size": 1024,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_key_value_heads": 1,
        "head_dim": 128,
        "intermediate_size": 4096,
        "vocab_size": 32000,
    }
    path = folder / "config.json"
    path.write_text(json.dumps(config), encoding="utf-8")
    times = {"attn.core": attention_ns}
    layer = [(name, times.get(role, 8_000 if reads else 2_000)) for name, role, reads in LAYER]
    head = LAYER[1][0]
    kernels = [(EMBED, 2_000), (FIRST_NORM, 2_000), *layer[1:], *layer, (NORM, 2_000)]
    export = replay([*kernels, (head, 40_000)], gpu="NVIDIA GH200 480GB", grid=grid)
    options = Options(
        model=str(path),
        gpu="gh200-96",
        peaks=("bw=4e12",),
        batch=32,
        context=(32_768,),
        kv="fp8",
        step_range=STEPS,
    )
    return analyze(open_trace(export.write(folder / "attention.sqlite")), options)


def test_a_prefix_that_all_sequences_share_is_read_once() -> None:
    """Of 32 sequences of 4,096 tokens that share 4,000 there are 4,000 + 32 * 96 distinct tokens."""
    options = Options(model="llama-3.1-8b", gpu="h100-sxm", batch=32, context=(4096,))
    whole = estimate_for(options)
    shared = estimate_for(replace(options, shared_prefix=4_000))
    read = [
        next(row for row in found.operators if row.role == "attn.core").bytes.kv_read
        for found in (whole, shared)
    ]
    per_token = 2 * 8 * 128 * 2
    assert read == [32 * 4_096 * per_token, (4_000 + 32 * 96) * per_token]
    assert (whole.assumptions.shared_prefix, shared.assumptions.shared_prefix) == (None, 4_000)
