"""Synthetic steps that differ from one another: none spoils the operators of the others."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from fixtures.builder import ExportBuilder
from nsysroof.analysis import Options, analyze
from nsysroof.trace import open_trace
from tests.analysis.decode_steps import H100, decode_pass

LAYERS = 32


def test_a_step_that_holds_two_passes_does_not_choose_the_layout_for_all(tmp_path: Path) -> None:
    # Five ranges; what the third encloses is two passes, as where a step was not annotated.
    kernels = decode_pass("llama-3.1-8b")
    export = ExportBuilder().gpu(0, H100).process(4000, cuda_devices=[0])
    at = 1_000_000
    for number in range(5):
        begin = at - 900
        for name, _, ns in kernels * (2 if number == 2 else 1):
            export.launch("cudaLaunchKernel", at - 800, at - 700, correlation=at)
            export.kernel(name, at, at + ns, correlation=at, grid=(132, 1, 1))
            at += ns + 1_000
        export.nvtx(f"step_{number}", begin, at - 1_000)
        at += 50_000
    file = export.session(at + 1_000_000).write(tmp_path / "uneven.sqlite")
    options = Options(model="llama-3.1-8b", batch=1, context=(64,), step_range="^step_")
    report = analyze(open_trace(file), options)
    found = Counter[str | None]()
    for row in report.kernels:
        found[row.role] += row.instances
    # Four whole steps, and of the two passes at least one.
    for role in ("attn.qkv_proj", "mlp.gate_up_proj", "mlp.down_proj", "attn.core"):
        assert found[role] >= 5 * LAYERS, role
    assert not found["attn.q_proj"]
    assert not found["mlp.gate_proj"]
