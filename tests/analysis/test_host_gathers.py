"""Experts read from host memory by a kernel of few blocks: held against the link, with the reason.

Synthetic: a decode step of Qwen3-30B-A3B on a GH200 that misses two experts a layer. A gather of 8
blocks was measured at 202 GB/s and one of 32 at 408, of the 450 that the link takes one way.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.builder import ExportBuilder
from fixtures.launches import (
    ADD_RMS_NORM,
    FLASH_3,
    FUSED_MOE,
    GATHER,
    KV_WRITE,
    MOE_ALIGN,
    RMS_NORM,
    ROTARY,
    SILU_AND_MUL,
    SUM,
    TOPK_GATING,
)
from nsysroof.analysis import Options, analyze
from nsysroof.results import OperatorRow, Report
from nsysroof.trace import open_trace

GEMM = "nvjet_tst_64x8_64x16_4x1_v_bz_splitK_TNT"
FETCH = "fast_index_copy_multi"
LAYERS, MISSES = 48, 2
EXPERT_BYTES = 3 * 2048 * 768 * 2  # 9,437,184
LINK = 450e9  # one way of the NVLink-C2C


def report(folder: Path, *, blocks: int, gb_per_s: float) -> Report:
    fetch_ns = round(MISSES * EXPERT_BYTES / gb_per_s)
    layer = (
        (ADD_RMS_NORM, 2_000),
        (GEMM, 7_000),  # 21.0 MB
        (ROTARY, 2_000),
        (KV_WRITE, 2_000),
        (FLASH_3, 3_500),
        (GEMM, 5_500),  # 16.8 MB
        (ADD_RMS_NORM, 2_000),
        (GEMM, 2_500),
        (TOPK_GATING, 2_000),
        (MOE_ALIGN, 2_000),
        (FETCH, fetch_ns),
        (FUSED_MOE, 16_000),  # 50.3 MB
        (SILU_AND_MUL, 2_000),
        (FUSED_MOE, 8_000),  # 25.2 MB
        (SUM, 2_000),
    )
    step = [(GATHER, 2_000), (RMS_NORM, 2_000), *layer[1:], *layer * (LAYERS - 1)]
    step += [(ADD_RMS_NORM, 2_000), (GEMM, 200_000)]
    export = ExportBuilder().gpu(0, "NVIDIA GH200 120GB").process(4000, cuda_devices=[0])
    at = 1_000_000
    for number in range(3):
        export.launch("cudaGraphLaunch", at - 800, at - 700, correlation=number + 1)
        for node, (name, ns) in enumerate(step):
            grid = (blocks if name == FETCH else 132, 1, 1)
            export.kernel(
                name, at, at + ns, correlation=number + 1, graph_node=2 << 32 | node, grid=grid
            )
            at += ns + 500
        at += 100_000
    path = export.session(at + 1_000_000).write(folder / f"{blocks}.sqlite")
    options = Options(
        model="qwen3-30b-a3b", gpu="gh200-96", batch=1, context=(4096,), expert_misses=MISSES
    )
    return analyze(open_trace(path), options)


def loading(found: Report) -> OperatorRow:
    [row] = [row for row in found.operators if row.role == "moe.load_experts"]
    return row


def test_a_gather_of_few_blocks_cannot_fill_the_link(tmp_path: Path) -> None:
    found = report(tmp_path, blocks=8, gb_per_s=202.0)
    row = loading(found)
    assert row.instances_per_step == LAYERS
    assert (row.kernels, row.limiter) == ([FETCH], "link")
    assert row.bytes.link == MISSES * EXPERT_BYTES
    assert row.bound_ns == pytest.approx(MISSES * EXPERT_BYTES / LINK * 1e9)  # 41.9 µs
    assert row.ratio == pytest.approx(450 / 202, rel=1e-3)  # 2.23
    # 8 blocks fill 44.9 %, so 8 * 450 / 202 = 17.8 would fill it.
    [note] = row.notes
    assert note.startswith("its 8 blocks fill 44.9 % of the link to the host")
    assert note.endswith("18 such blocks would fill it")
    assert {row.role for row in found.operators} >= {"embed", "moe.gate_up", "moe.down", "lm_head"}


def test_a_gather_of_enough_blocks_is_near_the_link(tmp_path: Path) -> None:
    row = loading(report(tmp_path, blocks=32, gb_per_s=408.0))
    assert row.ratio == pytest.approx(450 / 408, rel=1e-3)  # 1.10
    assert row.notes == []


def test_where_more_blocks_than_sms_were_needed_they_are_not_the_reason(tmp_path: Path) -> None:
    assert loading(report(tmp_path, blocks=64, gb_per_s=180.0)).notes == []  # 160 of 132 SMs
