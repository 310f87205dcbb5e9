"""A draft model and the model that verifies it run in one step: each keeps its own operators."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from fixtures.builder import ExportBuilder
from nsysroof.analysis import Options, analyze
from nsysroof.analysis.pipeline import label_kernels
from nsysroof.analysis.theory import estimate_for
from nsysroof.carryover import Change, carry_over
from nsysroof.errors import UsageError
from nsysroof.trace import open_trace
from tests.analysis.decode_steps import WIDTHS, decode_pass, replay

DRAFTS = 2


@pytest.mark.parametrize("drafts_first", [False, True])
def test_both_models_keep_their_operators(tmp_path: Path, *, drafts_first: bool) -> None:
    target, draft = decode_pass("llama-3.1-8b"), decode_pass("llama-3.2-1b", "draft.")
    step = [*DRAFTS * draft, *target] if drafts_first else [*target, *DRAFTS * draft]
    export = replay([(name, ns) for name, _, ns in step])
    trace = open_trace(export.write(tmp_path / "drafts.sqlite"))
    options = Options(
        model="llama-3.1-8b",
        draft="llama-3.2-1b",
        drafts=DRAFTS,
        batch=1,
        context=(512,),
        step_range="^step_",
    )
    found = label_kernels(trace, options)
    roles = found.filter(pl.col("step") == 1).sort("start_ns")["role"].to_list()
    assert roles == [role for _, role, _ in step]
    report = analyze(trace, options)
    rows = {row.role: row for row in report.operators}
    counts = Counter(role for _, role, _ in step)
    assert {role: row.instances_per_step for role, row in rows.items()} == counts
    for role in ("lm_head", "draft.lm_head", "attn.qkv_proj", "draft.mlp.down_proj"):
        assert rows[role].ratio == pytest.approx(1.2, rel=0.01)
    assert not report.impossible
    # The model verifies the drafts and yields one token more: three rows of logits.
    assert rows["lm_head"].flop == 3 * rows["draft.lm_head"].flop * 2
    assert not {"model-mismatch", "low-coverage"} & {f.slug for f in report.capture.findings}


def test_a_draft_model_without_a_number_is_refused(tmp_path: Path) -> None:
    export = ExportBuilder().kernel("k", 1_000, 2_000).session(10_000)
    trace = open_trace(export.write(tmp_path / "one.sqlite"))
    with pytest.raises(UsageError) as refused:
        analyze(trace, Options(model="llama-3.1-8b", draft="llama-3.2-1b", context=(512,)))
    assert refused.value.where == "--draft"


def test_an_estimate_reads_the_draft_model_once_for_each_drafted_token() -> None:
    plain = Options(model="llama-3.1-8b", gpu="h100-sxm", context=(512,), new_tokens=3)
    drafting = replace(plain, draft="llama-3.2-1b", drafts=DRAFTS)
    alone, both = estimate_for(plain), estimate_for(drafting)
    layers = 16 * sum(WIDTHS["llama-3.2-1b"].values()) - 15 * WIDTHS["llama-3.2-1b"]["lm_head"]
    cache = 16 * 2 * 8 * 64 * 512
    assert both.step.serial_bytes is not None
    assert alone.step.serial_bytes is not None
    extra = both.step.serial_bytes - alone.step.serial_bytes
    assert extra == pytest.approx(DRAFTS * 2 * (layers + cache), rel=1e-3)
    assert both.layer == alone.layer
    assert (both.assumptions.draft, both.assumptions.drafts) == ("llama-3.2-1b", 2)


def test_a_step_with_drafts_is_carried_over_with_them(tmp_path: Path) -> None:
    """At twice the bandwidth the LM head of both models takes half the time."""
    step = [*decode_pass("llama-3.1-8b"), *DRAFTS * decode_pass("llama-3.2-1b", "draft.")]
    export = replay([(name, ns) for name, _, ns in step])
    trace = open_trace(export.write(tmp_path / "carried.sqlite"))
    options = Options(
        model="llama-3.1-8b",
        draft="llama-3.2-1b",
        drafts=DRAFTS,
        batch=1,
        context=(512,),
        peaks=("bw=3.352e12",),
        step_range="^step_",
    )
    found = carry_over(analyze(trace, options), Change(peaks=("bw=6.704e12",)))
    rows = {row.role: row for row in found.rows}
    for role in ("lm_head", "draft.lm_head"):
        measured = rows[role].measured_ns
        assert measured is not None
        assert rows[role].expected_ns == pytest.approx(measured / 2)
