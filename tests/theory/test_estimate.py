"""The estimate as a whole: rows, notes, parallel GPUs, measured roofs, cost of importing it."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from nsysroof.results import Estimate
from nsysroof.theory.estimate import estimate, repeating_layer
from nsysroof.theory.gpus import find_gpu, resolve_peaks
from nsysroof.theory.models.spec import find_model
from nsysroof.theory.peaks import Peak, Peaks
from nsysroof.theory.workload import Workload

H100 = find_gpu("h100-sxm")


def test_one_row_per_role_and_cost() -> None:
    found = estimate(find_model("gpt-oss-20b"), H100, Workload.create(context=4096))
    cores = [row for row in found.operators if row.role == "attn.core"]
    assert [row.count for row in cores] == [12, 12]
    assert [row.inputs.get("window") for row in cores] == [128, None]
    assert [row.role for row in found.operators].count("attn.qkv_proj") == 1
    assert not {row.role for row in found.operators} & {"moe.align", "moe.permute"}


def test_unlike_layers_are_noted() -> None:
    model = find_model("deepseek-v3")
    _, count = repeating_layer(model)
    assert count == 58
    found = estimate(model, H100, Workload.create(context=4096))
    assert found.layer.layers == 58
    assert found.notes[0] == "layers differ: the one shown is number 3, one of 58 alike of 61"


def test_small_kernels_of_a_dense_layer() -> None:
    found = estimate(find_model("llama-3.1-8b"), H100, Workload.create(context=4096), floor_ns=2000)
    # Norm, rope, cache write, norm, activation.
    assert found.layer.small_kernels == 5
    assert found.step.small_kernels_ns == 32 * 5 * 2000
    norm = next(row for row in found.operators if row.role == "attn.norm")
    assert norm.limiter == "latency"
    assert norm.bound_ns == pytest.approx((8192 * 3) / 3352e9 * 1e9)


def test_collectives_lengthen_the_step() -> None:
    # 2 all-reduces per layer of 8 KiB at 450 GB/s; the gather of logits may be left out.
    model, step = find_model("llama-3.1-8b"), Workload.create(context=4096, tp=8)
    found = estimate(model, H100, step)
    links = 64 * 8192 / 450e9 * 1e9
    local = sum(
        row.count * (row.bytes.weight + row.bytes.kv_read) / 3352e9 * 1e9
        for row in found.operators
        if row.kind in ("gemm", "attention_decode")
    )
    assert found.step.serial_ns == pytest.approx(local + links)
    ring = estimate(model, find_gpu("a100-sxm-80"), step)
    reduced = next(row for row in ring.operators if row.role == "attn.all_reduce")
    assert reduced.bytes.link == 2 * 7 * 8192 // 8


def test_measured_roofs_are_kept_apart() -> None:
    model, step = find_model("llama-3.1-8b"), Workload.create(context=4096)
    roofs = Peaks(entries={"bw": Peak(3.0e12, "measured")})
    plain = estimate(model, H100, step)
    found = estimate(model, H100, step, roofs=roofs)
    assert found.step.serial_ns == plain.step.serial_ns
    assert plain.step.serial_reachable_ns is None
    assert found.step.serial_reachable_ns == pytest.approx(plain.step.serial_ns * 3352 / 3000)
    row = found.operators[2]
    assert row.reachable_ns == pytest.approx(row.bound_ns * 3352 / 3000)


def test_prefill_is_bound_by_compute() -> None:
    found = estimate(
        find_model("llama-3.1-8b"), H100, Workload.create(phase="prefill", context=4096)
    )
    rows = {row.role: row for row in found.operators}
    assert rows["attn.qkv_proj"].limiter == "compute"
    assert rows["attn.qkv_proj"].bound_ns == pytest.approx(2 * 4096 * 6144 * 4096 / 989.4e12 * 1e9)
    assert rows["attn.core"].kind == "attention_prefill"
    assert rows["lm_head"].limiter == "memory"  # one row
    assert found.step.tokens == 4096


def test_drafted_tokens_change_the_rate_only() -> None:
    model = find_model("llama-3.1-8b")
    plain = estimate(model, H100, Workload.create(context=4096))
    drafted = estimate(model, H100, Workload.create(context=4096, tokens_per_step=2.38))
    assert drafted.step.serial_ns == plain.step.serial_ns
    assert drafted.step.tokens_per_s == pytest.approx(2.38 * plain.step.tokens_per_s)


def test_gpus_needed_count_weights_and_cache() -> None:
    # 405,853 M weights in bf16 are 811.7 GB: 9.5 devices that report 81,559 MiB, 10.1 of the 80 GB
    # on the box.
    found = estimate(find_model("llama-3.1-405b"), H100, Workload.create(context=128))
    assert found.memory.capacity_bytes == 81_559 * 2**20
    assert found.memory.gpus_needed == 10
    assert found.memory.nominal_bytes == 80_000_000_000
    assert found.memory.gpus_needed_nominal == 11
    unknown = estimate(
        find_model("llama-3.1-8b"), find_gpu("v100-sxm2"), Workload.create(context=128)
    )
    assert unknown.memory.gpus_needed is None


def test_dense_models_have_no_experts() -> None:
    found = estimate(find_model("qwen3-8b"), H100, Workload.create(context=128))
    assert found.experts is None


def test_json_goes_there_and_back() -> None:
    found = estimate(find_model("gpt-oss-20b"), H100, Workload.create(context=4096))
    text = msgspec.json.encode(found)
    assert msgspec.json.decode(text, type=Estimate) == found
    plain = msgspec.json.decode(text)
    assert plain["format"] == "nsysroof-estimate"
    assert plain["assumptions"]["gpu"] == "h100-sxm"
    assert plain["assumptions"]["weights"] == "mxfp4"


def test_user_peaks_carry_their_notes() -> None:
    peaks = resolve_peaks(H100, user={"bf16": 1979e12})
    found = estimate(find_model("qwen3-8b"), peaks, Workload.create(context=128))
    assert any("sparsity" in note for note in found.assumptions.notes)


def test_importing_the_theory_stays_light() -> None:
    code = (
        "import sys, nsysroof.theory.estimate;"
        "print(sorted({'polars', 'matplotlib', 'numpy', 'typer'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
