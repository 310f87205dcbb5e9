"""A real decode step analysed with one wrong input: each is noticed and named.

Llama-3.1-8B on one B300, 16 sequences of 513 tokens; everything else here is what a user got wrong.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from nsysroof.analysis import Options, analyze
from nsysroof.results import Report
from nsysroof.trace import open_trace

TRACE = Path(__file__).parents[2] / "../shared/traces/llm/llama-8b-sglang-b300-decode-bs16.sqlite"
pytestmark = pytest.mark.skipif(not TRACE.exists(), reason="the real captures are not here")

RIGHT = Options(model="llama-3.1-8b", gpu="b300", batch=16, context=(513,))


@cache
def report(options: Options) -> Report:
    return analyze(open_trace(TRACE), options)


def findings(options: Options) -> dict[str, str]:
    return {finding.slug: finding.text for finding in report(options).capture.findings}


def test_right_inputs_are_not_doubted() -> None:
    assert findings(RIGHT) == {}
    assert report(RIGHT).impossible == []


@pytest.mark.parametrize(
    ("model", "told"),
    [
        ("qwen3-8b", "36 layers, but the step runs attention 32 times"),
        ("llama-3.3-70b", "80 layers, but the step runs attention 32 times"),
        # As many layers, but as many KV heads as query heads.
        ("llama-2-7b", "attention ran over 8 KV heads, not 32"),
        # The same layers throughout: only its vocabulary of 32,000 gives it away.
        ("mistral-7b-v0.1", "the grid of lm_head has 1002 blocks"),
    ],
)
def test_another_model(model: str, told: str) -> None:
    found = report(replace(RIGHT, model=model)).capture.findings
    assert any(f.slug == "model-mismatch" and told in f.text for f in found)


@pytest.mark.parametrize("gpu", ["h100-sxm", "l4", "b200"])
def test_another_gpu(gpu: str) -> None:
    options = replace(RIGHT, gpu=gpu)
    assert (
        "NVIDIA B300" in findings(options)["gpu-mismatch"]
        or "10.3" in findings(options)["gpu-mismatch"]
    )
    assert {row.likely_cause for row in report(options).impossible} <= {"peak"}


@pytest.mark.parametrize("batch", [1, 8, 64])
def test_another_batch(batch: int) -> None:
    told = findings(replace(RIGHT, batch=batch))["batch-mismatch"]
    assert told == f"decode attention ran over 16 sequences, but the batch given is {batch}"


@pytest.mark.parametrize("tp", [2, 4])
def test_another_tensor_parallelism(tp: int) -> None:
    told = findings(replace(RIGHT, tp=tp))
    assert told["tp-mismatch"] == f"the grids are those of TP 1, but --tp {tp} was given"
    assert f"1 of {tp} ranks" in told["rank-missing"]


def test_another_weight_format() -> None:
    told = findings(replace(RIGHT, weights="fp8"))
    assert "shows bf16 operands, assumed are fp8" in told["dtype-mismatch"]


def test_a_context_that_attention_cannot_have_read() -> None:
    rows = report(replace(RIGHT, context=(4096,))).impossible
    assert [row.role for row in rows] == ["attn.core"]
    # 11.36 µs against 16 x 4096 x 4,096 B and the queries at 8 TB/s.
    assert rows[0].ratio == pytest.approx(11.36e-6 / (16 * (4096 * 4096 + 16384) / 8e12), rel=0.02)
    assert rows[0].hard
    assert "below-bound" in findings(replace(RIGHT, context=(4096,)))
