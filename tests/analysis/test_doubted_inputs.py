"""Synthetic decode steps whose kernels tell no tile: collectives and row grids doubt the inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures.builder import ExportBuilder
from nsysroof.analysis import Options, analyze
from nsysroof.results import Report
from nsysroof.trace import open_trace
from tests.analysis.decode_steps import H100, decode_pass

MODEL = "llama-3.1-8b"
REDUCE = "void vllm::cross_device_reduce_1stage<__nv_bfloat16, {ranks}>(vllm::RankData*)"
AFTER = ("attn.o_proj", "mlp.down_proj")


def report(
    folder: Path,
    *,
    tokens: int = 16,
    ranks: int | None = None,
    sm_count: int = 132,
    matmul_grid: int = 96,
    cache: str | None = None,
    **options: Any,
) -> Report:
    """Three replays; products take half the time for two ranks, row kernels a block per token."""
    export = ExportBuilder().gpu(0, H100, sm_count=sm_count).process(4000, cuda_devices=[0])
    at = 1_000_000
    for number in range(3):
        export.launch("cudaGraphLaunch", at - 800, at - 700, correlation=number + 1)
        kernels = []
        for name, role, ns in decode_pass(MODEL):
            rows = tokens if name.startswith(("void vllm::", "std::")) else matmul_grid
            if cache and role == "attn.kv_write":
                name = cache  # noqa: PLW2901
            kernels.append((name, 1 if role == "attn.core" else rows, ns // (ranks or 1)))
            if ranks and role in AFTER:
                kernels.append((REDUCE.format(ranks=ranks), 36, 9_000))
        for node, (name, grid, ns) in enumerate(kernels, start=1):
            export.kernel(
                name,
                at,
                at + ns,
                grid=(grid, 1, 1),
                correlation=number + 1,
                graph_node=node,
            )
            at += ns + 500
        at += 50_000
    trace = open_trace(export.session(at + 1_000_000).write(folder / "doubt.sqlite"))
    given: dict[str, Any] = {"model": MODEL, "batch": 16, "context": (513,)}
    return analyze(trace, Options(**given | options))


def told(found: Report) -> dict[str, str]:
    return {finding.slug: finding.text for finding in found.capture.findings}


@pytest.mark.parametrize(
    ("tp", "text"),
    [
        (1, "all-reduce runs 64 times in a step, but --tp 1 was given"),
        (4, "the all-reduce kernels are those of 2 ranks, but --tp 4 was given"),
        (2, None),
    ],
)
def test_collectives_contradict_a_wrong_tensor_parallelism(
    tmp_path: Path, tp: int, text: str | None
) -> None:
    assert told(report(tmp_path, ranks=2, tp=tp)).get("tp-mismatch") == text


def test_no_collective_contradicts_tensor_parallelism(tmp_path: Path) -> None:
    found = told(report(tmp_path, tp=2))
    assert found["tp-mismatch"] == "no kernel known as a collective ran, but --tp 2 was given"
    assert "tp-mismatch" not in told(report(tmp_path, tp=1))


@pytest.mark.parametrize("batch", [1, 8, 32])
def test_grids_with_a_block_per_token_contradict_a_wrong_batch(tmp_path: Path, batch: int) -> None:
    found = told(report(tmp_path, batch=batch))
    assert found["batch-mismatch"] == (
        f"norms and cache writes ran over 16 tokens in a step, but the inputs make it {batch}"
    )


@pytest.mark.parametrize("batch", [9, 13, 16])
def test_a_batch_that_was_padded_to_the_next_graph_is_not_doubted(
    tmp_path: Path, batch: int
) -> None:
    assert "batch-mismatch" not in told(report(tmp_path, batch=batch))


def test_grids_that_products_share_or_that_fill_the_gpu_tell_no_batch(tmp_path: Path) -> None:
    assert "batch-mismatch" not in told(report(tmp_path, batch=1, matmul_grid=16))
    assert "batch-mismatch" not in told(report(tmp_path, batch=1, sm_count=16))


def test_the_grids_of_a_capture_are_not_judged_by_another_gpu(tmp_path: Path) -> None:
    found = report(tmp_path, gpu="l4")
    assert "gpu-mismatch" in told(found)
    assert not {"batch-mismatch", "model-mismatch", "tp-mismatch"} & told(found).keys()
    assert {row.likely_cause for row in found.impossible} == {"peak"}


@pytest.mark.parametrize(("weights", "found"), [("awq", "awq"), ("mxfp4", "mxfp4"), ("bf16", None)])
def test_products_of_whole_operands_read_no_narrow_weights(
    tmp_path: Path, weights: str, found: str | None
) -> None:
    text = told(report(tmp_path, weights=weights)).get("dtype-mismatch", "")
    assert text.endswith(f"shows bf16 operands, assumed are {found}" if found else "")
    assert bool(text) == bool(found)


CACHE = "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, {}>(const T1 *)"


@pytest.mark.parametrize(
    ("types", "kv", "found"),
    [
        ("__nv_bfloat16, (vllm::Fp8KVCacheDataType)0", "fp8", "a bf16 cache, assumed is fp8"),
        ("unsigned char, (vllm::Fp8KVCacheDataType)1", "bf16", "a fp8 cache, assumed is bf16"),
        ("unsigned char, (vllm::Fp8KVCacheDataType)1", "fp8", None),
    ],
)
def test_a_cache_of_another_width_is_noticed(
    tmp_path: Path, types: str, kv: str, found: str | None
) -> None:
    text = told(report(tmp_path, cache=CACHE.format(types), kv=kv)).get("dtype-mismatch")
    assert text == (found and f"attn.kv_write: the kernel's name shows {found}")
