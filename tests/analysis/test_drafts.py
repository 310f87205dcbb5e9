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
from nsysroof.errors import UsageError
from nsysroof.theory.models.spec import find_model
from nsysroof.trace import open_trace

EMBED = "void at::native::(anonymous namespace)::indexSelectSmallIndex<c10::BFloat16, long>(int)"
NORM = "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*)"
FIRST_NORM = "void vllm::rms_norm_kernel<c10::BFloat16, 8, 2>(c10::BFloat16*)"
GEMM = "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_cublas"
SAMPLE = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4> >"
LAYER = (
    (NORM, "mlp.residual+attn.norm", 0.0),
    (GEMM, "attn.qkv_proj", 1.0),
    ("void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*)", "attn.rope", 0.0),
    ("void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>", "attn.kv_write", 0.0),
    ("void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<64>>", "attn.core", 0.0),
    (GEMM, "attn.o_proj", 1.0),
    (NORM, "attn.residual+mlp.norm", 0.0),
    (GEMM, "mlp.gate_up_proj", 1.0),
    ("void vllm::act_and_mul_kernel<c10::BFloat16>(c10::BFloat16*)", "mlp.act", 0.0),
    (GEMM, "mlp.down_proj", 1.0),
)
WIDTHS = {  # rows x columns of the weights, from the published configurations
    "llama-3.2-1b": {
        "attn.qkv_proj": 3072 * 2048,
        "attn.o_proj": 2048 * 2048,
        "mlp.gate_up_proj": 16384 * 2048,
        "mlp.down_proj": 2048 * 8192,
        "lm_head": 128256 * 2048,
    },
    "llama-3.1-8b": {
        "attn.qkv_proj": 6144 * 4096,
        "attn.o_proj": 4096 * 4096,
        "mlp.gate_up_proj": 28672 * 4096,
        "mlp.down_proj": 4096 * 14336,
        "lm_head": 128256 * 4096,
    },
}
SMALL_NS = 2_000
DRAFTS = 2


def passes(model: str, prefix: str) -> list[tuple[str, str, int]]:
    """One pass of a model: name, role, and 1.2 times the time of its weights at 3.35 TB/s."""
    layers = len(find_model(model).layers)
    kernels = [(EMBED, "embed", 0.0), (FIRST_NORM, "attn.norm", 0.0), *LAYER[1:]]
    kernels += LAYER * (layers - 1)
    kernels += [(NORM, "mlp.residual+final_norm", 0.0), (GEMM, "lm_head", 1.0)]
    kernels += [(SAMPLE, "sample", 0.0)]
    return [
        (
            name,
            "+".join(prefix + part for part in role.split("+")),
            round(1.2 * WIDTHS[model][role] * 2 / 3350) if reads else SMALL_NS,
        )
        for name, role, reads in kernels
    ]


@pytest.mark.parametrize("drafts_first", [False, True])
def test_both_models_keep_their_operators(tmp_path: Path, *, drafts_first: bool) -> None:
    target, draft = passes("llama-3.1-8b", ""), passes("llama-3.2-1b", "draft.")
    step = [*DRAFTS * draft, *target] if drafts_first else [*target, *DRAFTS * draft]
    export = ExportBuilder().gpu(0, "NVIDIA H100 80GB HBM3").process(4000, cuda_devices=[0])
    at = 1_000_000
    for number in range(3):
        export.nvtx(f"step_{number}", at - 900, at - 100)
        export.launch("cudaGraphLaunch", at - 800, at - 700, correlation=number + 1)
        for node, (name, _, ns) in enumerate(step):
            export.kernel(name, at, at + ns, correlation=number + 1, graph_node=node + 1)
            at += ns + 1_000
        at += 50_000
    trace = open_trace(export.session(1_000_000_000).write(tmp_path / "drafts.sqlite"))
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
