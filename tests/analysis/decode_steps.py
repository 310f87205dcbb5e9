"""Synthetic decode steps of dense models: one kernel per operator, times from the widths."""

from __future__ import annotations

from collections.abc import Sequence

from fixtures.builder import ExportBuilder
from nsysroof.theory.models.spec import find_model

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


SLOWER = 1.2
H100 = "NVIDIA H100 80GB HBM3"


def decode_pass(
    model: str, prefix: str = "", *, gb_per_s: float = 3352.0
) -> list[tuple[str, str, int]]:
    """One pass of a model: name, role, and 1.2 times the time that its weights take in ns."""
    layers = len(find_model(model).layers)
    kernels = [(EMBED, "embed", 0.0), (FIRST_NORM, "attn.norm", 0.0), *LAYER[1:]]
    kernels += LAYER * (layers - 1)
    kernels += [(NORM, "mlp.residual+final_norm", 0.0), (GEMM, "lm_head", 1.0)]
    kernels += [(SAMPLE, "sample", 0.0)]
    return [
        (
            name,
            "+".join(prefix + part for part in role.split("+")),
            round(SLOWER * WIDTHS[model][role] * 2 / gb_per_s) if reads else SMALL_NS,
        )
        for name, role, reads in kernels
    ]


def replay(
    kernels: Sequence[tuple[str, int]], *, gpu: str = H100, gap_ns: int = 1_000, grid: int = 132
) -> ExportBuilder:
    """Three steps that replay these kernels (name, ns) from one graph, each in an NVTX range."""
    export = ExportBuilder().gpu(0, gpu).process(4000, cuda_devices=[0])
    at = 1_000_000
    for number in range(3):
        export.nvtx(f"step_{number}", at - 900, at - 100)
        export.launch("cudaGraphLaunch", at - 800, at - 700, correlation=number + 1)
        for node, (name, ns) in enumerate(kernels):
            export.kernel(
                name,
                at,
                at + ns,
                correlation=number + 1,
                graph_node=node + 1,
                grid=(grid, 1, 1),
            )
            at += ns + gap_ns
        at += 50_000
    return export.session(at + 1_000_000)
