"""A real decode step: Llama-3.1-8B in SGLang on a B300, with the module behind every kernel."""

from __future__ import annotations

import csv
import hashlib
from functools import cache
from pathlib import Path

import pytest

from nsysroof.analysis import Options, analyze
from nsysroof.analysis.pipeline import label_kernels
from nsysroof.results import Report
from nsysroof.trace import open_trace

LLM = Path(__file__).parents[2] / "../shared/traces/llm"
TRACE = LLM / "llama-8b-sglang-b300-decode-bs16.sqlite"
pytestmark = pytest.mark.skipif(not TRACE.exists(), reason="the real captures are not here")

# 16 sequences whose KV lengths add up to 8,209, as the capture's annotation says.
CONTEXTS = (514, *[513] * 15)
OPTIONS = Options(model="llama-3.1-8b", gpu="b300", batch=16, context=CONTEXTS)

MODULES = {
    "QKVParallelLinear": "attn.qkv_proj",
    "Llama3RotaryEmbedding": "attn.rope",
    "RadixAttention": "attn.kv_write",
    "MergedColumnParallelLinear": "mlp.gate_up_proj",
    "SiluAndMul": "mlp.act",
    "VocabParallelEmbedding": "embed",
}


def role_of(row: dict[str, str]) -> str | None:
    """Translate the module of the labels file into a role."""
    module = row["modules"].split("/")[-1]
    if module == "RowParallelLinear":
        return "attn.o_proj" if "LlamaAttention" in row["modules"] else "mlp.down_proj"
    if module == "LogitsProcessor":
        return "lm_head" if row["cpu_op"] == "aten::mm" else None
    if not row["modules"]:
        if row["name"].startswith("fmha"):
            return "attn.core"
        if "FusedAddRMSNorm" in row["name"]:
            return "norm"
    return MODULES.get(module)


@cache
def labelled() -> dict[int, str]:
    with (LLM / "llama-8b-sglang-b300-decode-bs16.labels.csv").open() as file:
        rows = [(int(row["start_ns"]), role_of(row)) for row in csv.DictReader(file)]
    return {start: role for start, role in rows if role is not None}


@cache
def report() -> Report:
    return analyze(open_trace(TRACE), OPTIONS)


def test_every_labelled_kernel_has_its_role() -> None:
    before = hashlib.sha256(TRACE.read_bytes()).hexdigest()
    kernels = label_kernels(open_trace(TRACE), OPTIONS)
    found = dict(kernels.select("start_ns", "role").iter_rows())
    expected = labelled()
    # 9 kernels x 32 layers (split-K reduces included), 64 norms, the embedding and the LM head.
    assert len(expected) == 9 * 32 + 64 + 2
    norms = {"attn.residual+mlp.norm", "mlp.residual+attn.norm", "mlp.residual+final_norm"}
    for start, role in expected.items():
        assert found[start] in (norms if role == "norm" else {role}), (start, role)
    assert hashlib.sha256(TRACE.read_bytes()).hexdigest() == before


@pytest.mark.parametrize(
    ("role", "main_us", "floor_us", "ratio"),
    [
        # Floors: bytes at 8 TB/s; means over 32 layers as published with the capture.
        ("attn.qkv_proj", 11.68, 6.33, 1.84),
        ("attn.core", 11.36, 4.20, 2.70),
        ("attn.o_proj", 12.08, 4.23, 2.86),
        ("mlp.gate_up_proj", 40.73, 29.49, 1.38),
        ("mlp.down_proj", 20.84, 14.75, 1.41),
        ("lm_head", 163.68, 131.86, 1.24),
    ],
)
def test_ratios_are_the_published_ones(
    role: str, main_us: float, floor_us: float, ratio: float
) -> None:
    row = next(row for row in report().operators if row.role == role)
    assert row.main_ns / 1e3 == pytest.approx(main_us, rel=0.02)
    assert row.bound_ns is not None
    assert row.bound_ns / 1e3 == pytest.approx(floor_us, rel=0.02)
    assert row.main_ns / row.bound_ns == pytest.approx(ratio, rel=0.02)
    assert row.limiter == "memory"


def test_nothing_idles_inside_the_graph() -> None:
    line = report().timeline[0]
    assert line.idle_by_cause is not None
    assert line.idle_by_cause["in_graph"] == 0
    assert report().steps.count == 1
    # Its engine's annotation marks it, not the replay inside.
    assert report().steps.source == "nvtx"


def test_the_split_k_reduce_counts_with_the_projection_it_serves() -> None:
    row = next(row for row in report().operators if row.role == "mlp.down_proj")
    # 20.84 µs and 3.41 µs of reduction.
    assert row.measured_ns / 1e3 == pytest.approx(20.84 + 3.41, rel=0.02)
    assert any("splitKreduce" in name for name in row.kernels)


def test_a_grid_smaller_than_the_gpu_is_given_as_a_reason() -> None:
    notes = {row.role: " ".join(row.notes) for row in report().operators}
    # A B300 has 148 SMs; attention ran with grid (1, 8, 16), gate_up with 112 blocks.
    assert "128 blocks for 148 SMs (86.5 %)" in notes["attn.core"]
    assert "96 blocks for 148 SMs (64.9 %)" in notes["attn.qkv_proj"]
    assert "blocks" not in notes["lm_head"]
