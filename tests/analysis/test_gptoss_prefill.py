"""A real prefill: gpt-oss-120b in vLLM on one of eight B200, with the module behind each kernel."""

from __future__ import annotations

import csv
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from nsysroof.analysis import Options, analyze
from nsysroof.analysis.pipeline import label_kernels
from nsysroof.results import Report
from nsysroof.trace import open_trace

LLM = Path(__file__).parents[2] / "../shared/traces/llm"
TRACE = LLM / "gpt-oss-120b-vllm-b200-tp8-prefill888.sqlite"
pytestmark = pytest.mark.skipif(not TRACE.exists(), reason="the real captures are not here")

OPTIONS = Options(
    model="gpt-oss-120b",
    gpu="b200",
    tp=8,
    phase="prefill",
    context=(888,),
    kv="fp8",
    step_range="^execute_context",
)
LAYERS = 36
BY_MODULE = (
    (r"VocabParallelEmbedding", "gather_kernel|all_reduce", "embed"),
    (r"QKVParallelLinear", "nvjet", "attn.qkv_proj"),
    (r"YaRNScalingRotaryEmbedding", "rotary", "attn.rope"),
    (r"OAIAttention_\d+/Attention", "reshape_and_cache", "attn.kv_write"),
    (r"OAIAttention_\d+/Attention", "fmha", "attn.core"),
    (r"RowParallelLinear", "nvjet", "attn.o_proj"),
    (r"RowParallelLinear", "all_reduce", "attn.all_reduce"),
    (r"MLPBlock_\d+/Linear", "nvjet", "moe.router"),
    (r"FusedMoE", "HistogramScores", "moe.topk"),
    (r"FusedMoE", "routingIndicesHistogramKernel|Offsets", "moe.align"),
    (r"FusedMoE", "swiGlu", "moe.gate_up+moe.act"),
    (r"FusedMoE", "bmm_Bfloat16", "moe.down"),
    (r"FusedMoE", "finalize", "moe.combine"),
    (r"FusedMoE", "all_reduce", "moe.all_reduce"),
    (r"LogitsProcessor|ParallelLMHead", "nvjet", "lm_head"),
)


def role_of(row: dict[str, str]) -> str | None:
    norm = re.search(r"RMSNorm_(\d+)$", row["modules"])
    if norm:
        number = int(norm[1])
        if number == 0:
            return "attn.norm"
        if number == 2 * LAYERS:
            return "mlp.residual+final_norm"
        return "attn.residual+mlp.norm" if number % 2 else "mlp.residual+attn.norm"
    for module, name, role in BY_MODULE:
        if re.search(module, row["modules"]) and re.search(name, row["name"]):
            return role
    return None


@cache
def labelled() -> dict[int, str]:
    with (LLM / "gpt-oss-120b-vllm-b200-tp8-prefill888.labels.csv").open() as file:
        rows = [(int(row["start_ns"]), role_of(row)) for row in csv.DictReader(file)]
    return {start: role for start, role in rows if role is not None}


@cache
def report() -> Report:
    return analyze(open_trace(TRACE), OPTIONS)


def test_every_labelled_kernel_has_its_role() -> None:
    found = dict(label_kernels(open_trace(TRACE), OPTIONS).select("start_ns", "role").iter_rows())
    expected = labelled()
    # 16 labelled kernels in each of 36 layers; embedding and its all-reduce, first norm, LM head.
    assert len(expected) == 16 * LAYERS + 4
    wrong = {
        start: (role, found[start]) for start, role in expected.items() if found[start] != role
    }
    assert wrong == {}


def test_padded_experts_are_held_against_the_weights_that_the_model_has() -> None:
    rows = {row.role: row for row in report().operators}
    gate_up, down = rows["moe.gate_up+moe.act"], rows["moe.down"]
    # 128 experts of 2 x 360 x 2880 and 360 x 2880 values at 4.25 bits on each of eight GPUs, and
    # their biases: 17.6 and 8.8 µs at 8 TB/s, to which activations come.
    values = 128 * 360 * 2880
    assert gate_up.bytes.weight + gate_up.bytes.scale == 2 * values * 17 // 32 + 128 * 720 * 2
    # A row of 360 values has 12 blocks of at most 32, each with a scale of one byte.
    assert down.bytes.weight + down.bytes.scale == 128 * 2880 * (180 + 12 + 2)
    assert gate_up.measured_ns / 1e3 == pytest.approx(88.4, rel=0.03)
    assert down.measured_ns / 1e3 == pytest.approx(56.5, rel=0.03)
    assert gate_up.ratio is not None
    assert 3.3 <= gate_up.ratio <= 5.5


def test_sliding_and_full_attention_are_two_entries_of_one_role() -> None:
    rows = [row for row in report().operators if row.role == "attn.core"]
    assert [row.instances_per_step for row in rows] == [18, 18]
    # A prompt of 888 tokens: 888*889/2 pairs of tokens, or no more than 128 keys for each.
    full, window = 888 * 889 // 2, 128 * 129 // 2 + (888 - 128) * 128
    assert sorted(row.flop for row in rows) == [4 * 8 * 64 * window, 4 * 8 * 64 * full]


@pytest.mark.parametrize(
    ("wrong", "slug", "told"),
    [
        # 8 x 128 rows of gate and up hold 2 x 360 values, not 2 x 720 and no need for 2 x 180.
        ({"tp": 4}, "tp-mismatch", "TP 8"),
        ({"tp": 16}, "tp-mismatch", "TP 8"),
        # Norms, rotary embeddings and cache writes have 888 blocks, one per token.
        ({"context": (1024,), "new_tokens": 1024}, "batch-mismatch", "888 tokens"),
    ],
)
def test_grids_contradict_wrong_inputs(wrong: dict[str, Any], slug: str, told: str) -> None:
    options = replace(OPTIONS, **wrong)
    found = {f.slug: f.text for f in analyze(open_trace(TRACE), options).capture.findings}
    assert told in found[slug]
    assert {"tp-mismatch", "batch-mismatch", "model-mismatch"} & found.keys() == {slug}


def test_seven_ranks_are_missing_and_the_phase_is_prefill() -> None:
    found = report()
    slugs = {finding.slug: finding for finding in found.capture.findings}
    assert "1 of 8 ranks" in slugs["rank-missing"].text
    assert (found.steps.count, found.steps.source, found.steps.phase) == (1, "nvtx", "prefill")
    assert found.impossible == []


def test_all_reduces_take_the_copies_into_and_out_of_their_buffer_along() -> None:
    rows = {row.role: row for row in report().operators}
    # Copies of 7.7 and 7.2 µs after the attention, of 3.1 and 3.3 µs after the experts.
    expected = {"attn.all_reduce": (25.0, 14.9), "moe.all_reduce": (27.6, 6.4)}
    for role, (kernel_us, copies_us) in expected.items():
        assert rows[role].main_ns / 1e3 == pytest.approx(kernel_us, abs=0.1)
        assert rows[role].measured_ns / 1e3 == pytest.approx(kernel_us + copies_us, abs=0.2)
    budget = report().budget
    assert budget is not None
    # 146 copies of 781,500 ns in all belong to the 73 all-reduces; the six that are left of the
    # step bring 48 bytes each from the host.
    assert budget.copy_ns == 10_752
    terms = budget.bound_ns + budget.over_bound_ns + budget.fixed_ns + budget.unexplained_ns
    assert budget.wall_ns == terms + budget.copy_ns + budget.idle_ns - budget.overlap_ns
