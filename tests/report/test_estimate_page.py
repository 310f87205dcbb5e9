"""The page of an estimate shows a worked example to the digit, and what needs a second look."""

from __future__ import annotations

from typing import Any

import pytest

from nsysroof.results import Estimate
from nsysroof.theory.estimate import estimate
from nsysroof.theory.gpus import find_gpu, resolve_peaks
from nsysroof.theory.models.spec import ModelSpec, find_model
from nsysroof.theory.workload import Workload
from tests.report.render import to_file

GH200 = find_gpu("gh200-96")
QWEN3 = find_model("qwen3-30b-a3b")


def _example() -> str:
    step = Workload.create(context=4096)
    return to_file(estimate(QWEN3, GH200, step, floor_ns=3000), "table")


def _row(page: str, role: str) -> list[str]:
    return next(line.split() for line in page.splitlines() if line.strip().startswith(role))


@pytest.mark.parametrize(
    ("role", "count", "megabytes", "us"),
    [
        ("attn.qkv_proj", "48", "21.0", "5.2"),
        ("attn.core", "48", "8.4", "2.1"),
        ("attn.o_proj", "48", "16.8", "4.2"),
        ("moe.router", "48", "0.5", "0.1"),
        ("moe.gate_up", "48", "50.3", "12.6"),
        ("moe.down", "48", "25.2", "6.3"),
        ("lm_head", "1", "622.3", "155.6"),
    ],
)
def test_operators_of_the_worked_example(role: str, count: str, megabytes: str, us: str) -> None:
    assert _row(_example(), role)[:4] == [role, count, megabytes, us]


def test_sums_of_the_worked_example() -> None:
    page = _example()
    assert _row(page, "one layer")[:5] == ["one", "layer", "48", "122.2", "30.5"]
    # 48 x 122,159,104 + 622,329,856 B.
    assert _row(page, "the step")[:5] == ["the", "step", "1", "6,486.0", "1,621.5"]
    assert "617 tokens/s at method 1" in page
    assert "361 tokens/s with the small kernels, 8 in a layer: 1.15 ms more" in page
    assert max(len(line) for line in page.splitlines()) <= 100


def test_each_floor_says_what_it_leaves_out() -> None:
    page = _example()
    for label, us, out in (
        ("method 1: kernels in turn", "1,621.5", "activations and small kernels"),
        ("method 2: the busiest resource", "1,624.9", "that kernels run in turn"),
        ("method 2: weights and KV cache once", "1,621.6", "activations, arithmetic and links"),
        ("method 2: active parameters as quoted", "1,676.5", "the KV cache; counts"),
    ):
        line = next(line for line in page.splitlines() if line.strip().startswith(label))
        assert us in line
        assert out in line
    assert "622 MB of embedding that no step reads" in " ".join(page.split())


TRILLION: dict[str, Any] = {
    "model_type": "llama",
    "torch_dtype": "bfloat16",
    "hidden_size": 24576,
    "num_hidden_layers": 154,
    "num_attention_heads": 192,
    "num_key_value_heads": 24,
    "intermediate_size": 69120,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}


def _memory(model: ModelSpec, **step: Any) -> str:
    page = to_file(estimate(model, GH200, Workload.create(context=4096, **step)), "table")
    return " ".join(page[page.index("What must fit") : page.index("Ridge points")].split())


def test_a_trillion_parameters_on_real_and_nominal_capacities() -> None:
    # 1.0004e12 parameters and 7.8 GB of cache: 19.6 devices of 97,871 MiB, 20.9 of 96e9 B; 192 heads.
    text = _memory(ModelSpec.from_config(TRILLION))
    assert "GPUs needed: 20 by the 102.6 GB that the device reports, 21 by the 96.0 GB" in text
    assert "tensor parallelism has to divide the heads: 24 GPUs" in text


def test_offloaded_experts_show_their_cap_and_whose_rate_220_is() -> None:
    peaks = resolve_peaks(GH200, user={"host": 384e9})
    step = Workload.create(context=4096, expert_misses=2)
    page = " ".join(to_file(estimate(QWEN3, peaks, step), "table").split())
    # 48 layers x 2 experts of 9,437,184 B: 906 MB; 2 of 8 missed; 384 GB/s of host memory.
    assert "906 MB per step, 906 MB per token" in page
    assert "75.0 % of the 3.62 GB of experts" in page
    assert "423.9 tokens/s by the host memory at 384 GB/s" in page
    assert "a rate of about 220 is not the bf16 one" in page


def test_long_roles_stay_within_a_hundred_columns() -> None:
    found: list[Estimate] = [
        estimate(find_model(key), find_gpu("b200"), Workload.create(batch=256, context=65536))
        for key in ("deepseek-v3.2", "qwen3.5-397b-a17b", "llama-3.1-405b")
    ]
    for each in found:
        assert max(len(line) for line in to_file(each, "table").splitlines()) <= 100
