"""Sizes in the text of NVTX ranges: they confirm an operator, contradict it, or stand alone."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.builder import ExportBuilder
from nsysroof.analysis import Options, analyze
from nsysroof.results import Report
from nsysroof.trace import open_trace
from tests.analysis.decode_steps import GEMM, H100, decode_pass

SHAPES = {  # n and k of the projections, from the published configuration of llama-3.1-8b
    "attn.qkv_proj": (6144, 4096),
    "attn.o_proj": (4096, 4096),
    "mlp.gate_up_proj": (28672, 4096),
    "mlp.down_proj": (4096, 14336),
    "lm_head": (128256, 4096),
}


def eager_steps(*, rows: int = 1, wider: int = 0) -> ExportBuilder:
    """Two steps, every kernel launched by itself, products inside a range that tells their sizes."""
    export = ExportBuilder().gpu(0, H100).process(4000, cuda_devices=[0])
    at, number = 1_000_000, 0
    for step in range(2):
        begin = at
        for name, role, ns in decode_pass("llama-3.1-8b"):
            number += 1
            launch = at - 30_000
            grid = 1 if role == "attn.core" else 132  # one tile of queries
            if role in SHAPES:
                n, k = SHAPES[role]
                grid = n // 64
                text = (
                    f"aten::linear, seq = {number}, sizes = [[{rows}, {k}], [{n + wider}, {k}], []]"
                )
                export.nvtx(text, launch - 100, launch + 900)
            export.launch("cudaLaunchKernel", launch, launch + 500, correlation=number)
            export.kernel(name, at, at + ns, correlation=number, grid=(grid, 1, 1))
            at += ns + 2_000
        export.nvtx(f"step_{step}", begin - 40_000, at - 40_000)
        at += 100_000
    return export.session(at + 1_000_000)


def report(folder: Path, export: ExportBuilder, model: str | None = "llama-3.1-8b") -> Report:
    trace = open_trace(export.write(folder / "sizes.sqlite"))
    context = (64,) if model else None
    return analyze(trace, Options(model=model, batch=1, context=context, step_range="^step_"))


def test_sizes_confirm_what_the_kernels_are(tmp_path: Path) -> None:
    found = report(tmp_path, eager_steps())
    evidence = {row.role: (row.evidence, row.confidence) for row in found.operators}
    for role in SHAPES:
        assert evidence[role] == ("nvtx-shape", "high")
    assert evidence["attn.rope"][0] == "model"
    assert {f.slug for f in found.capture.findings} <= {"schema-unknown"}


@pytest.mark.parametrize(
    ("rows", "wider", "slug", "told"),
    [
        (16, 0, "batch-mismatch", "attn.qkv_proj as 16 x 6144 x 4096, but the inputs make it 1 x"),
        (1, 1024, "model-mismatch", "attn.qkv_proj as 1 x 7168 x 4096, but the inputs make it 1 x"),
    ],
)
def test_sizes_contradict_wrong_inputs(
    tmp_path: Path, rows: int, wider: int, slug: str, told: str
) -> None:
    found = report(tmp_path, eager_steps(rows=rows, wider=wider))
    texts = {f.slug: f.text for f in found.capture.findings if f.severity == "error"}
    assert told in texts[slug]
    assert {row.evidence for row in found.operators} == {"model"}


def test_without_a_model_sizes_alone_give_a_bound(tmp_path: Path) -> None:
    """QKV moves (4096 + 4096 * 6144 + 6144) * 2 = 50,352,128 bytes: 15,021.5 ns at 3352 GB/s."""
    found = report(tmp_path, eager_steps(), model=None)
    rows = {row.grid[0]: row for row in found.unexplained if row.name == GEMM}
    qkv = rows[6144 // 64]
    assert (qkv.evidence, qkv.sizes) == ("nvtx-shape", [1, 1, 6144, 4096])
    assert qkv.bytes_low == qkv.bytes_high == 50_352_128
    assert qkv.bound_ns == pytest.approx(15_021.5, abs=0.1)
    assert qkv.ratio == pytest.approx(1.2, rel=1e-3)
    # O and down have one name and one grid, so neither product speaks for both.
    assert rows[4096 // 64].sizes is None


def test_a_replayed_kernel_is_not_told_by_the_range_of_its_graph(tmp_path: Path) -> None:
    export = ExportBuilder().gpu(0, H100).process(4000, cuda_devices=[0])
    export.nvtx("aten::linear, sizes = [[1, 64], [64, 64], []]", 1_000, 9_000)
    export.launch("cudaGraphLaunch", 2_000, 3_000, correlation=1)
    export.kernel(GEMM, 20_000, 30_000, correlation=1, graph_node=5)
    found = report(tmp_path, export.session(1_000_000), model=None)
    assert [row.sizes for row in found.unexplained] == [None]


def captured_steps(*, tid: int | None = None) -> ExportBuilder:
    """Three replays of a graph whose nodes were captured inside ranges that tell their sizes.

    Node 1 << 32 | n was captured and cloned as node 2 << 32 | n of the instance; ``tid`` is the
    thread of the ranges where it is not the one that captured.
    """
    export = ExportBuilder().gpu(0, H100).process(4000, cuda_devices=[0])
    at = 10_000
    kernels = decode_pass("llama-3.1-8b")
    for number, (_, role, _) in enumerate(kernels):
        if role in SHAPES:
            n, k = SHAPES[role]
            export.nvtx(f"aten::linear, sizes = [[1, {k}], [{n}, {k}], []]", at, at + 90, tid=tid)
        export.graph_node(1 << 32 | number, at + 50)
        at += 100
    for number in range(len(kernels)):
        export.graph_node(2 << 32 | number, at, original=1 << 32 | number)
    at += 1_000_000
    for step in range(3):
        export.launch("cudaGraphLaunch", at - 800, at - 700, correlation=step + 1)
        for number, (name, role, ns) in enumerate(kernels):
            grid = SHAPES[role][0] // 64 if role in SHAPES else 132
            node = 2 << 32 | number
            export.kernel(
                name, at, at + ns, correlation=step + 1, graph_node=node, grid=(grid, 1, 1)
            )
            at += ns + 1_000
        at += 100_000
    return export.session(at + 1_000_000)


def captured_report(folder: Path, export: ExportBuilder, *, model: str | None) -> Report:
    trace = open_trace(export.write(folder / "captured.sqlite"))
    return analyze(trace, Options(model=model, batch=1, context=(64,) if model else None))


def test_a_replayed_kernel_is_told_by_the_range_that_its_node_was_captured_in(
    tmp_path: Path,
) -> None:
    found = captured_report(tmp_path, captured_steps(), model="llama-3.1-8b")
    evidence = {row.role: (row.evidence, row.confidence) for row in found.operators}
    for role in SHAPES:
        assert evidence[role] == ("nvtx-shape", "high")
    assert evidence["attn.rope"][0] == "model"
    assert (found.steps.count, found.steps.source) == (3, "graph")


def test_sizes_of_captured_kernels_give_a_bound_without_a_model(tmp_path: Path) -> None:
    found = captured_report(tmp_path, captured_steps(), model=None)
    rows = {row.grid[0]: row for row in found.unexplained if row.name == GEMM}
    qkv = rows[6144 // 64]
    assert (qkv.evidence, qkv.sizes, qkv.instances) == ("nvtx-shape", [1, 1, 6144, 4096], 96)
    assert qkv.bound_ns == pytest.approx(15_021.5, abs=0.1)  # as for eager launches


def test_a_range_of_another_thread_tells_nothing_of_a_captured_kernel(tmp_path: Path) -> None:
    found = captured_report(tmp_path, captured_steps(tid=4999), model=None)
    assert {row.sizes is None for row in found.unexplained} == {True}


def test_older_exports_hold_the_nodes_in_another_table(tmp_path: Path) -> None:
    path = captured_steps().write(tmp_path / "old.sqlite")
    with closing(sqlite3.connect(path)) as export:
        export.execute("ALTER TABLE CUDA_GRAPH_NODE_EVENTS RENAME TO CUDA_GRAPH_EVENTS")
    found = analyze(open_trace(path), Options())
    assert {row.grid[0] for row in found.unexplained if row.sizes} == {
        6144 // 64,
        28672 // 64,
        128256 // 64,
    }
