"""Synthetic rows below their bounds: which single input makes all of them possible."""

from __future__ import annotations

import pytest

from nsysroof.analysis.impossible import impossible_rows
from nsysroof.analysis.options import Options
from nsysroof.analysis.theory import choose_hardware
from nsysroof.theory.workload import Workload
from tests.report import sample

WORKLOAD = Workload.create(context=4096, batch=4)
# Bound by memory: at 2.0 instead of 3.352 TB/s the bound is 1.676 times too long.
ROWS = [
    sample.operator("mlp.gate_up_proj", kind="gemm", limiter="memory", ratio=0.66),
    sample.operator("mlp.down_proj", kind="gemm", limiter="memory", ratio=0.70),
    sample.operator("attn.core", kind="attention_decode", limiter="memory", ratio=0.80),
    sample.operator("logits", kind="cast", limiter="memory", ratio=1.40),
]


def causes(
    peaks: tuple[str, ...],
    formats: dict[str, tuple[str, str]] | None = None,
    findings: tuple[str, ...] = (),
) -> set[str]:
    hardware = choose_hardware(Options(gpu="h100-sxm", peaks=peaks), [])
    found = impossible_rows(ROWS, hardware, WORKLOAD, findings, formats or {})
    assert [row.role for row in found] == ["mlp.gate_up_proj", "mlp.down_proj", "attn.core"]
    return {row.likely_cause for row in found}


@pytest.mark.parametrize("peak", ["bw=2e12", "bw=2.2e12"])
def test_a_peak_given_below_that_of_the_gpu_is_the_one_cause_of_all(peak: str) -> None:
    assert causes((peak,)) == {"peak"}


@pytest.mark.parametrize("peaks", [(), ("bw=3e12",), ("bf16=1e14",)])
def test_a_peak_that_would_not_make_all_possible_is_not(peaks: tuple[str, ...]) -> None:
    # Of 3.352 instead of 3.0 TB/s 0.66 makes 0.74.
    assert causes(peaks) == {"weight-dtype", "shared-prefix"}


def test_a_format_in_a_kernels_name_speaks_for_its_own_operator() -> None:
    shown = ("kv-dtype", "a fp8 cache, assumed is bf16")
    assert causes((), {"attn.core": shown}) == {"weight-dtype", "kv-dtype"}


def test_annotated_kv_lengths_speak_for_attention() -> None:
    assert causes((), findings=("context-mismatch",)) == {"weight-dtype", "context"}
