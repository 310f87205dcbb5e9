"""Sizes in the text of NVTX ranges: they confirm an operator, contradict it, or stand alone."""

from __future__ import annotations

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
            grid = 132
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
