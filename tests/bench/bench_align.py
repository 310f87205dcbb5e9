"""Time the search for every kernel's operator in one step, and in a thousand equal ones.

    python tests/bench/bench_align.py

Equal steps are aligned once, so many of them may cost at most three times as much as one.
"""

from __future__ import annotations

from statistics import median
from time import perf_counter

import polars as pl

from nsysroof.analysis import Options
from nsysroof.analysis.plans import make_plans
from nsysroof.match.assign import place_operators
from nsysroof.match.rules import load_rules
from nsysroof.theory.gpus import find_gpu
from nsysroof.theory.models.spec import find_model
from nsysroof.theory.workload import Workload

STEPS, RUNS, FLOOR_NS = 1_000, 5, 1_300.0
LAYER = (
    "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_1",
    "nvjet_tst_64x8_64x16_4x1_v_bz_TNT",
    "triton_red_fused_2",
    "triton_poi_fused_3",
    "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16>",
    "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128>>",
    "void flash::flash_fwd_splitkv_combine_kernel<Flash_fwd_kernel_traits<128>>",
    "nvjet_tst_64x8_64x16_4x1_v_bz_splitK_TNT",
    "void cublasLt::splitKreduce_kernel<32, 16, int>",
    "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_0",
    "nvjet_tst_64x8_64x16_2x1_v_bz_TNT",
    "void vllm::moe::topkGating<4, 128, 4, 16, 32, int, __nv_bfloat16>",
    "void vllm::moe::moe_align_block_size_kernel<int>",
    "fused_moe_kernel",
    "void vllm::act_and_mul_kernel<c10::BFloat16>(c10::BFloat16*)",
    "fused_moe_kernel",
    "void vllm::moe::moe_sum_kernel<c10::BFloat16, 8>",
)


def _kernels(steps: int, layers: int) -> tuple[pl.DataFrame, list[str]]:
    names = sorted(set(LAYER))
    block = [names.index(name) for name in LAYER] * layers
    count = len(block) * steps
    starts = pl.int_range(count, eager=True) * 3_000
    frame = pl.DataFrame(
        {
            "gpu": pl.repeat(0, count, eager=True),
            "step": pl.int_range(count, eager=True) // len(block),
            "stream": pl.repeat(7, count, eager=True),
            "start_ns": starts,
            "end_ns": starts + 2_000,
            "name": block * steps,
            "replayed": pl.repeat(value=True, n=count, eager=True),
        }
    )
    return frame, names


def main() -> None:
    """Print kernels, sequences aligned and the median time, for one step and for many."""
    model, workload = find_model("qwen3-30b-a3b"), Workload.create(batch=8, context=2048)
    layers = len(model.layers)
    plans = make_plans(
        model,
        workload,
        Options(),
        find_gpu("h100-sxm").dense_peaks(),
        value_first=False,
        attention_calls=layers,
    )
    for steps in (1, STEPS):
        kernels, names = _kernels(steps, layers)
        classes = load_rules().classify_each(names)
        times, patterns = [], 0
        for _ in range(RUNS):
            begin = perf_counter()
            found = place_operators(kernels, classes, plans, floor_ns=FLOOR_NS)
            times.append(perf_counter() - begin)
            patterns = found.patterns
        print(
            f"{steps:>5} steps, {kernels.height:>9,} kernels, {patterns} aligned: "
            f"{median(times) * 1e3:.0f} ms"
        )


if __name__ == "__main__":
    main()
