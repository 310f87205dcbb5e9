"""The operators of a step: order, roles, shares of parallel GPUs."""

from __future__ import annotations

import dataclasses
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsysroof.errors import UsageError
from nsysroof.theory.cost import Cost, Operator
from nsysroof.theory.kinds import OperatorKind
from nsysroof.theory.models.decoder import operators
from nsysroof.theory.models.spec import ModelSpec, find_model, model_keys
from nsysroof.theory.workload import Workload

QWEN3_MOE = find_model("qwen3-30b-a3b")
LLAMA = find_model("llama-3.1-8b")


def _layer(found: list[Operator], layer: int) -> list[str]:
    return [op.role for op in found if op.layer == layer]


def _one(found: list[Operator], role: str, layer: int | None = 0) -> Operator:
    each = [op for op in found if op.role == role and op.layer == layer]
    assert len(each) == 1
    return each[0]


def _total(found: list[Operator]) -> Cost:
    return sum((op.cost for op in found), Cost())


def test_order_of_a_dense_layer() -> None:
    found = operators(LLAMA, Workload.create(context=4096))
    assert _layer(found, 5) == [
        "attn.norm",
        "attn.qkv_proj",
        "attn.rope",
        "attn.kv_write",
        "attn.core",
        "attn.o_proj",
        "attn.residual",
        "mlp.norm",
        "mlp.gate_up_proj",
        "mlp.act",
        "mlp.down_proj",
        "mlp.residual",
    ]
    outside = [op.role for op in found if op.layer is None]
    assert outside == ["embed", "final_norm", "lm_head", "logits", "sample"]
    assert found[0].role == "embed"


def test_order_of_a_routed_layer_over_two_gpus() -> None:
    found = operators(QWEN3_MOE, Workload.create(context=4096, tp=2))
    assert _layer(found, 0) == [
        "attn.norm",
        "attn.qkv_proj",
        "attn.qk_norm",
        "attn.rope",
        "attn.kv_write",
        "attn.core",
        "attn.o_proj",
        "attn.all_reduce",
        "attn.residual",
        "mlp.norm",
        "moe.router",
        "moe.topk",
        "moe.align",
        "moe.permute",
        "moe.gate_up",
        "moe.act",
        "moe.down",
        "moe.combine",
        "moe.all_reduce",
        "mlp.residual",
    ]
    assert {op.role for op in found if op.auxiliary} == {"moe.align", "moe.permute"}
    assert {op.role for op in found if op.optional} == {
        "embed",
        "attn.residual",
        "mlp.residual",
        "logits",
    }


def test_quantised_inputs_are_converted_before_each_product() -> None:
    found = operators(QWEN3_MOE, Workload.create(context=4096, weights="fp8-block"))
    roles = _layer(found, 0)
    for quant, product in (
        ("attn.quant", "attn.qkv_proj"),
        ("attn.quant", "attn.o_proj"),
        ("moe.quant", "moe.gate_up"),
        ("moe.quant", "moe.down"),
    ):
        assert roles[roles.index(product) - 1] == quant
    assert roles.count("attn.quant") == 2
    assert "moe.quant" not in roles[: roles.index("moe.router")]
    assert _one(found, "moe.router").dtype == "bf16"


def test_order_of_latent_attention() -> None:
    step = operators(find_model("deepseek-v3"), Workload.create(context=4096))
    roles = [r for r in _layer(step, 0) if r.startswith("attn") and r != "attn.quant"]
    assert roles == [
        "attn.norm",
        "attn.qkv_a_proj",
        "attn.q_a_norm",
        "attn.kv_a_norm",
        "attn.q_b_proj",
        "attn.absorb_k",
        "attn.rope",
        "attn.kv_write",
        "attn.core",
        "attn.absorb_v",
        "attn.o_proj",
        "attn.residual",
    ]
    prefill = operators(find_model("deepseek-v3"), Workload.create(phase="prefill", context=4096))
    roles = _layer(prefill, 0)
    assert "attn.kv_b_proj" in roles
    assert "attn.absorb_k" not in roles


def test_latent_cache_is_replicated_and_heads_are_split() -> None:
    model = find_model("deepseek-v3")
    alone = _one(operators(model, Workload.create(context=4096)), "attn.core").cost
    shared = _one(operators(model, Workload.create(context=4096, tp=8)), "attn.core").cost
    assert alone.kv_read == shared.kv_read == 4_718_592
    assert alone.total_flop == 8 * shared.total_flop == 1_140_850_688


def test_prefill_of_latents_expands_the_whole_context() -> None:
    # A chunk of 512 after 3,584: keys and values of 4,096 tokens come out of kv_b again.
    model = find_model("deepseek-v3")
    step = operators(model, Workload.create(phase="prefill", context=4096, new_tokens=512))
    up = _one(step, "attn.kv_b_proj").cost
    assert up.total_flop == 2 * 4096 * 512 * 128 * (128 + 128)
    core = _one(step, "attn.core").cost
    pairs = 512 * 3584 + 512 * 513 // 2
    assert core.total_flop == 2 * 128 * (192 + 128) * pairs
    assert core.kv_read == 0


def test_sparse_attention_reads_only_what_its_indexer_chose() -> None:
    step = operators(find_model("glm-5"), Workload.create(context=100_000))
    core = _one(step, "attn.core").cost
    assert core.kv_read == 2048 * 576 * 2
    scores = _one(step, "attn.index.scores").cost
    assert scores.kv_read == 100_000 * (128 + 4)
    assert scores.total_flop == 2 * 32 * 128 * 100_000


def test_recurrent_layers() -> None:
    step = operators(find_model("qwen3-next-80b-a3b"), Workload.create(context=4096))
    assert _layer(step, 0)[:7] == [
        "ssm.norm",
        "ssm.in_proj",
        "ssm.steps_proj",
        "ssm.conv",
        "ssm.state",
        "ssm.gate_norm",
        "ssm.out_proj",
    ]
    long = operators(find_model("qwen3-next-80b-a3b"), Workload.create(context=100_000))
    assert _one(step, "ssm.state").cost == _one(long, "ssm.state").cost
    assert _one(step, "ssm.state").cost.state == 2 * 32 * 128 * 128 * 4
    # The attention of layer 3 is gated: its query projection is twice as wide.
    assert _one(step, "attn.qkv_proj", 3).inputs["n"] == 2 * 16 * 256 + 2 * 2 * 256
    assert "attn.gate" in _layer(step, 3)


def test_single_block_layers() -> None:
    step = operators(find_model("nemotron-3-nano-30b-a3b"), Workload.create(context=4096))
    assert _layer(step, 0)[0] == "ssm.norm"
    assert _layer(step, 1)[:2] == ["mlp.norm", "moe.router"]
    assert _layer(step, 5) == [
        "attn.norm",
        "attn.qkv_proj",
        "attn.kv_write",
        "attn.core",
        "attn.o_proj",
        "attn.residual",
    ]
    up = _one(step, "moe.gate_up", 1)
    assert up.inputs["n"] == 1856  # not gated: one matrix up


def test_norms_of_other_families() -> None:
    gemma = operators(find_model("gemma-2-9b"), Workload.create(context=4096))
    assert [r for r in _layer(gemma, 0) if "norm" in r] == [
        "attn.norm",
        "attn.post_norm",
        "mlp.norm",
        "mlp.post_norm",
    ]
    olmo = _layer(operators(find_model("olmo-2-7b"), Workload.create(context=4096)), 0)
    assert olmo[0] == "attn.qkv_proj"
    assert olmo.index("attn.norm") == olmo.index("attn.o_proj") + 1
    falcon = operators(find_model("falcon-7b"), Workload.create(context=4096))
    assert _layer(falcon, 0) == [
        "attn.norm",
        "attn.qkv_proj",
        "attn.rope",
        "attn.kv_write",
        "attn.core",
        "attn.o_proj",
        "mlp.up_proj",
        "mlp.act",
        "mlp.down_proj",
        "mlp.residual",
    ]
    assert _one(falcon, "attn.norm").kind == OperatorKind.LAYER_NORM


def test_window_limits_only_its_layers() -> None:
    step = operators(find_model("gpt-oss-120b"), Workload.create(context=4096))
    assert _one(step, "attn.core", 0).cost.kv_read == 262_144
    assert _one(step, "attn.core", 1).cost.kv_read == 4096 * 2 * 8 * 64 * 2


def test_local_attention_starts_again_at_each_chunk() -> None:
    step = operators(find_model("llama-4-scout"), Workload.create(context=8193))
    per_token = 2 * 8 * 128 * 2
    assert _one(step, "attn.core", 0).cost.kv_read == per_token
    assert _one(step, "attn.core", 3).cost.kv_read == 8193 * per_token


def test_head_multiplies_only_rows_that_need_logits() -> None:
    prompt = operators(LLAMA, Workload.create(phase="prefill", batch=2, context=512))
    assert _one(prompt, "lm_head", None).inputs["m"] == 2
    assert _one(prompt, "attn.qkv_proj").inputs["m"] == 1024
    verify = operators(LLAMA, Workload.create(batch=2, context=512, new_tokens=4))
    assert _one(verify, "lm_head", None).inputs["m"] == 8


def test_kv_heads_are_replicated_beyond_their_number() -> None:
    # 4 KV heads over 8 GPUs: one each, half of them twice.
    alone = _one(operators(QWEN3_MOE, Workload.create(context=4096)), "attn.core").cost
    eight = operators(QWEN3_MOE, Workload.create(context=4096, tp=8))
    assert _one(eight, "attn.core").cost.kv_read == alone.kv_read // 4
    assert _one(eight, "attn.qkv_proj").inputs["n"] == (32 // 8 + 2) * 128


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ({"tp": 3}, "--tp"),
        ({"tp": 64}, "--tp"),
        ({"tp": 6, "ep": 6}, "--tp"),
        ({"tp": 1, "dp": 3, "ep": 3}, "--ep"),
        ({"experts": 129}, "--experts"),
        ({"experts": 65, "tp": 2, "ep": 2}, "--experts"),
    ],
)
def test_workloads_that_do_not_fit_the_model(arguments: dict[str, int], where: str) -> None:
    step = Workload.create(context=4096, **arguments)  # type: ignore[arg-type]
    with pytest.raises(UsageError) as caught:
        operators(QWEN3_MOE, step)
    assert caught.value.where == where


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ({"experts": 8}, "--experts"),
        ({"expert_misses": 1}, "--expert-misses"),
        ({"ep": 2, "tp": 2}, "--ep"),
    ],
)
def test_dense_models_refuse_options_about_experts(arguments: dict[str, int], where: str) -> None:
    step = Workload.create(context=4096, **arguments)  # type: ignore[arg-type]
    with pytest.raises(UsageError) as caught:
        operators(LLAMA, step)
    assert caught.value.where == where


def test_all_reduce_depends_on_the_switch() -> None:
    step = Workload.create(context=4096, tp=8)
    size = 4096 * 2
    switched = _one(operators(LLAMA, step), "attn.all_reduce").cost.link
    ring = _one(operators(LLAMA, step, in_switch_reduction=False), "attn.all_reduce").cost.link
    assert (switched, ring) == (size, 2 * 7 * size // 8)


def test_expert_parallel_gpu_holds_its_share() -> None:
    # 128 experts over 8 GPUs of 64 sequences each: all 512 tokens meet, 16 x (1 - (15/16)^512).
    step = Workload.create(batch=64, context=4096, dp=8, ep=8)
    found = operators(QWEN3_MOE, step)
    up = _one(found, "moe.gate_up")
    assert up.inputs["experts_expected"] == pytest.approx(16, abs=1e-9)
    assert up.inputs["experts_min"] == 0
    assert up.inputs["rows"] == 512
    assert up.cost.weight == 16 * 1536 * 2048 * 2
    roles = _layer(found, 0)
    assert "moe.dispatch" in roles
    assert "moe.all_reduce" not in roles
    # A token goes to 8 x (1 - (7/8)^8) = 5.2513 GPUs on average, 7/8 of them others.
    sent = _one(found, "moe.dispatch").cost.link
    assert sent == pytest.approx(64 * 5.2513 * 2048 * 2 * 7 / 8, rel=1e-4)
    assert _one(found, "moe.combine").cost.link == sent


def test_observed_experts_replace_the_expectation() -> None:
    free = _one(operators(QWEN3_MOE, Workload.create(batch=8, context=64)), "moe.down")
    seen = _one(operators(QWEN3_MOE, Workload.create(batch=8, context=64, experts=40)), "moe.down")
    one = 2048 * 768 * 2
    assert seen.cost.weight == 40 * one
    assert free.cost.weight == round(128 * (1 - (15 / 16) ** 8) * one)
    assert free.min_cost is not None
    assert seen.min_cost is not None
    assert free.min_cost.weight == seen.min_cost.weight == 8 * one


def test_single_token_has_one_bound() -> None:
    assert _one(operators(QWEN3_MOE, Workload.create(context=64)), "moe.down").min_cost is None


def test_inputs_recompute_the_cost() -> None:
    for op in operators(QWEN3_MOE, Workload.create(batch=4, context=512, tp=2)):
        if op.kind == OperatorKind.GEMM:
            m, n, k = (int(op.inputs[key]) for key in ("m", "n", "k"))
            assert op.cost.flop == {"bf16": 2 * m * n * k}
            assert op.cost.weight == 2 * n * k
        elif op.kind == OperatorKind.MOE_GEMM:
            values = op.inputs
            weight = float(values["experts"]) * int(values["n"]) * int(values["k"]) * 2
            assert op.cost.weight == round(weight)


@pytest.mark.parametrize("key", model_keys())
def test_every_model_yields_known_kinds_and_roles(key: str) -> None:
    found = operators(find_model(key), Workload.create(batch=2, context=256))
    kinds = {kind.value for kind in OperatorKind}
    starts = ("embed", "attn.", "mlp.", "moe.", "ssm.", "final_norm", "lm_head", "logits", "sample")
    for op in found:
        assert op.kind in kinds
        assert op.role.startswith(starts)
        assert op.formula
        assert op.inputs
    layers = [op.layer for op in found if op.layer is not None]
    assert all(a <= b for a, b in pairwise(layers))


SMALL = {
    key: dataclasses.replace(model, layers=model.layers[:4])
    for key, model in (
        (key, find_model(key))
        for key in ("llama-3.1-8b", "qwen3-30b-a3b", "gpt-oss-20b", "qwen3-next-80b-a3b")
    )
}
models = st.sampled_from(sorted(SMALL)).map(SMALL.__getitem__)
lengths = st.lists(st.integers(1, 20_000), min_size=1, max_size=6)


@given(models, lengths)
@settings(max_examples=40)
def test_attention_adds_over_sequences(model: ModelSpec, contexts: list[int]) -> None:
    def core(lengths: list[int]) -> Cost:
        step = operators(model, Workload.create(context=lengths))
        return _total([op for op in step if op.role == "attn.core"])

    together = core(contexts)
    apart = sum((core([length]) for length in contexts), Cost())
    assert together.kv_read == apart.kv_read
    assert together.flop == apart.flop


@given(models, lengths, st.integers(1, 1000))
@settings(max_examples=40)
def test_longer_contexts_never_cost_less(model: ModelSpec, contexts: list[int], more: int) -> None:
    before = _total(operators(model, Workload.create(context=contexts)))
    after = _total(operators(model, Workload.create(context=[n + more for n in contexts])))
    assert before.memory_bytes <= after.memory_bytes
    assert before.total_flop <= after.total_flop


@given(models, st.integers(1, 64), st.integers(1, 64))
@settings(max_examples=40)
def test_larger_batches_never_cost_less(model: ModelSpec, batch: int, more: int) -> None:
    before = _total(operators(model, Workload.create(batch=batch, context=100)))
    after = _total(operators(model, Workload.create(batch=batch + more, context=100)))
    assert before.memory_bytes <= after.memory_bytes
    assert before.total_flop <= after.total_flop


@given(models, st.lists(st.integers(1, 700), min_size=1, max_size=5))
@settings(max_examples=40)
def test_chunks_of_a_prefill_sum_to_its_attention(model: ModelSpec, chunks: list[int]) -> None:
    whole = Workload.create(phase="prefill", context=sum(chunks))
    flop, done = 0, 0
    for chunk in chunks:
        done += chunk
        part = Workload.create(phase="prefill", context=done, new_tokens=chunk)
        flop += _total([op for op in operators(model, part) if op.role == "attn.core"]).total_flop
    step = operators(model, whole)
    assert flop == _total([op for op in step if op.role == "attn.core"]).total_flop


@given(models, st.sampled_from([2, 4, 8]), st.integers(1, 16))
@settings(max_examples=40)
def test_shares_of_all_gpus_cover_the_whole(model: ModelSpec, tp: int, batch: int) -> None:
    core = ("gemm", "moe_gemm", "attention_decode")
    step = Workload.create(batch=batch, context=500)
    alone = _total([op for op in operators(model, step) if op.kind in core])
    split = Workload.create(batch=batch, context=500, tp=tp)
    share = _total([op for op in operators(model, split) if op.kind in core])
    assert share.resident_bytes * tp >= alone.resident_bytes * (1 - 1e-6)
    assert share.total_flop * tp >= alone.total_flop
    assert share.resident_bytes <= alone.resident_bytes
