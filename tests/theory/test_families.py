"""Families beyond the common ones, images, drafts and adapters: what they are made of."""

from __future__ import annotations

from typing import Any

import pytest

from nsysroof.errors import UsageError
from nsysroof.theory.cost import Cost, Operator
from nsysroof.theory.estimate import estimate
from nsysroof.theory.gpus import find_gpu
from nsysroof.theory.models.decoder import operators
from nsysroof.theory.models.draft import draft_operators, prediction_operators
from nsysroof.theory.models.layers import Attention, Mlp, Moe, QkNorm
from nsysroof.theory.models.spec import ModelSpec, find_model
from nsysroof.theory.models.states import Lightning
from nsysroof.theory.models.vision import VisionTower, vision_operators
from nsysroof.theory.models.weights import count_parameters, state_bytes
from nsysroof.theory.workload import Workload


def _one(found: list[Operator], role: str, layer: int | None = 0) -> Operator:
    each = [op for op in found if op.role == role and op.layer == layer]
    assert len(each) == 1
    return each[0]


def test_lightning_layers_keep_a_state_and_every_eighth_a_cache() -> None:
    model = find_model("minimax-text-01")
    kinds = [type(layer.mixer) for layer in model.layers]
    assert kinds == ([Lightning] * 7 + [Attention]) * 10
    step = operators(model, Workload.create(batch=2, context=9000))
    assert [op.role for op in step if op.layer == 0][:6] == [
        "ssm.norm",
        "ssm.in_proj",
        "ssm.state",
        "ssm.gate_proj",
        "ssm.gate_norm",
        "ssm.out_proj",
    ]
    # 64 heads x 128 x 128 FP32 numbers per sequence, read and written.
    assert _one(step, "ssm.state").cost.state == 2 * 2 * 64 * 128 * 128 * 4
    assert _one(step, "attn.core", 7).cost.kv_read == 2 * 9000 * 2 * 8 * 128 * 2
    assert state_bytes(model, Workload.create(context=9000)) == 70 * 64 * 128 * 128 * 4


def test_lightning_layers_of_a_native_configuration() -> None:
    config = {
        "model_type": "minimax",
        "torch_dtype": "bfloat16",
        "hidden_size": 1024,
        "num_hidden_layers": 2,
        "num_attention_heads": 8,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "intermediate_size": 512,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "vocab_size": 1000,
        "layer_types": ["linear_attention", "full_attention"],
        "tie_word_embeddings": False,
    }
    model = ModelSpec.from_config(config)
    assert [type(layer.mixer) for layer in model.layers] == [Lightning, Attention]
    with pytest.raises(UsageError) as caught:
        ModelSpec.from_config({**config, "layer_types": None})
    assert caught.value.where == "attn_type_list"


MIMO: dict[str, Any] = {
    "model_type": "mimo_v2_flash",
    "torch_dtype": "bfloat16",
    "hidden_size": 4096,
    "num_hidden_layers": 3,
    "num_attention_heads": 64,
    "num_key_value_heads": 4,
    "head_dim": 192,
    "v_head_dim": 128,
    "swa_num_attention_heads": 64,
    "swa_num_key_value_heads": 8,
    "swa_head_dim": 192,
    "swa_v_head_dim": 128,
    "sliding_window": 128,
    "hybrid_layer_pattern": [0, 1, 1],
    "moe_layer_freq": [0, 1, 1],
    "n_routed_experts": 256,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048,
    "intermediate_size": 16384,
    "add_swa_attention_sink_bias": True,
    "vocab_size": 152576,
    "tie_word_embeddings": False,
}


def test_windowed_layers_with_their_own_heads_and_narrower_values() -> None:
    model = ModelSpec.from_config(MIMO)
    step = operators(model, Workload.create(context=4096))
    assert isinstance(model.layers[0].ffn, Mlp)
    assert isinstance(model.layers[1].ffn, Moe)
    # Full: 4 KV heads of 192 + 128 over 4,096 tokens; windowed: 8 over 128, and 64 sink logits.
    assert _one(step, "attn.core", 0).cost.kv_read == 4096 * 4 * 320 * 2
    windowed = _one(step, "attn.core", 1).cost
    assert (windowed.kv_read, windowed.weight) == (128 * 8 * 320 * 2, 64 * 2)
    assert _one(step, "attn.qkv_proj", 1).inputs["n"] == 64 * 192 + 8 * 320
    assert _one(step, "attn.o_proj", 1).inputs["k"] == 64 * 128
    with pytest.raises(UsageError) as caught:
        ModelSpec.from_config({**MIMO, "moe_layer_freq": [0, 1]})
    assert caught.value.where == "moe_layer_freq"


DECILM: dict[str, Any] = {
    "model_type": "nemotron-nas",
    "torch_dtype": "bfloat16",
    "hidden_size": 8192,
    "num_hidden_layers": 3,
    "num_attention_heads": 64,
    "vocab_size": 128256,
    "tie_word_embeddings": False,
    "block_configs": [
        {"attention": {"n_heads_in_group": 8, "no_op": False}, "ffn": {"ffn_mult": 5.25}},
        {"attention": {"no_op": True}, "ffn": {"ffn_mult": 2.625, "no_op": False}},
        {"attention": {"n_heads_in_group": 16}, "ffn": {"no_op": True}},
    ],
}


def test_blocks_that_were_searched_for_one_by_one() -> None:
    # 2/3 of 5.25 x 8,192 is 28,672, as in Llama-3-70B; half of it is 14,336.
    model = ModelSpec.from_config(DECILM)
    widths = [
        layer.ffn.intermediate if isinstance(layer.ffn, Mlp) else None for layer in model.layers
    ]
    assert widths == [28672, 14336, None]
    heads = [
        layer.mixer.kv_heads if isinstance(layer.mixer, Attention) else None
        for layer in model.layers
    ]
    assert heads == [8, None, 4]
    roles = [op.role for op in operators(model, Workload.create(context=64)) if op.layer == 1]
    assert roles == ["mlp.norm", "mlp.gate_up_proj", "mlp.act", "mlp.down_proj", "mlp.residual"]
    linear = {"attention": {"replace_with_linear": True}, "ffn": {"ffn_mult": 1.0}}
    with pytest.raises(UsageError) as caught:
        ModelSpec.from_config({**DECILM, "block_configs": [linear] * 3})
    assert "replace_with_linear" in str(caught.value.where)


def test_families_of_the_first_years() -> None:
    neox = operators(find_model("gpt-neox-20b"), Workload.create(context=64))
    roles = [op.role for op in neox if op.layer == 0]
    # Both blocks read the residual, each after its own norm; one sum at the end.
    assert roles.count("attn.residual") == 0
    assert [role for role in roles if role.endswith("norm")] == ["attn.norm", "mlp.norm"]
    assert _one(neox, "attn.rope").inputs["rotary"] == 24
    bloom = operators(find_model("bloom-7b1"), Workload.create(context=64))
    assert "attn.rope" not in {op.role for op in bloom}
    olmo = ModelSpec.from_config({**DECILM, "model_type": "olmo", "intermediate_size": 22016})
    assert olmo.layer_norm
    olmoe = find_model("olmoe-1b-7b").layers[0].mixer
    assert isinstance(olmoe, Attention)
    assert olmoe.qk_norm is QkNorm.FULL


def test_image_language_models_keep_their_text_fields_flat() -> None:
    config = {
        "model_type": "qwen2_5_vl",
        "torch_dtype": "bfloat16",
        "hidden_size": 3584,
        "num_hidden_layers": 28,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "intermediate_size": 18944,
        "vocab_size": 152064,
        "tie_word_embeddings": False,
        "vision_config": {"depth": 32},
    }
    counts = count_parameters(ModelSpec.from_config(config))
    assert counts.total == count_parameters(find_model("qwen2.5-7b")).total


def test_unknown_architectures_name_their_field() -> None:
    with pytest.raises(UsageError) as caught:
        ModelSpec.from_config({"model_type": "deepseek_v4", "hidden_size": 1})
    assert caught.value.where == "model_type"
    assert "deepseek_v4" in caught.value.message


def test_groups_of_experts_that_leave_too_few_are_refused() -> None:
    base = {
        "model_type": "deepseek_v3", "hidden_size": 64, "num_hidden_layers": 1,
        "num_attention_heads": 4, "kv_lora_rank": 16, "qk_nope_head_dim": 8, "qk_rope_head_dim": 8,
        "v_head_dim": 8, "q_lora_rank": 16, "intermediate_size": 64, "moe_intermediate_size": 32,
        "n_routed_experts": 16, "num_experts_per_tok": 6, "vocab_size": 100, "n_group": 8,
    }  # fmt: skip
    with pytest.raises(UsageError) as caught:
        ModelSpec.from_config({**base, "topk_group": 2})
    assert caught.value.where == "topk_group"
    limited = ModelSpec.from_config({**base, "topk_group": 4}).layers[0].ffn
    free = ModelSpec.from_config({**base, "topk_group": 1, "topk_method": "greedy"}).layers[0].ffn
    assert isinstance(limited, Moe)
    assert isinstance(free, Moe)
    assert (limited.groups, limited.kept_groups, free.groups) == (8, 4, 1)


def test_groups_of_experts_show_what_synthetic_inputs_reach() -> None:
    # 256 experts in 8 groups of which 4 are kept: 128 x (1 - (1 - 8/128)^128) if all agree.
    found = estimate(
        find_model("deepseek-v3"), find_gpu("h200-sxm"), Workload.create(batch=128, context=64)
    )
    assert found.experts is not None
    assert found.experts["same_groups"] == pytest.approx(127.97, abs=5e-3)
    assert found.experts["expected"] == pytest.approx(251.6, abs=0.05)
    plain = estimate(find_model("qwen3-30b-a3b"), find_gpu("h200-sxm"), Workload.create(context=64))
    assert plain.experts is not None
    assert "same_groups" not in plain.experts


def test_groups_keep_tokens_on_fewer_gpus() -> None:
    # 8 GPUs, one group each: 4 x (1 - (3/4)^8) = 3.6 of them, 7/8 of the traffic to others.
    step = Workload.create(batch=16, context=64, dp=8, ep=8, weights="bf16")
    sent = _one(operators(find_model("deepseek-v3"), step), "moe.dispatch", 3).cost.link
    assert sent == pytest.approx(16 * 3.59955 * 7168 * 2 * 7 / 8, rel=1e-5)


TOWER = VisionTower.from_config(
    {
        "depth": 32,
        "hidden_size": 1280,
        "num_heads": 16,
        "intermediate_size": 3420,
        "hidden_act": "silu",
        "patch_size": 14,
        "temporal_patch_size": 2,
        "window_size": 112,
        "spatial_merge_size": 2,
        "fullatt_block_indexes": [7, 15, 23, 31],
        "out_hidden_size": 3584,
    }
)


def test_images_look_both_ways_in_windows() -> None:
    # Two images of 1,024 and 100 patches; windows of 8 x 8: 16 whole ones, then 64 and 36.
    found = vision_operators(TOWER, [1024, 100])
    windows = _one(found, "vision.attn.core", 0).cost
    assert windows.total_flop == 4 * 1280 * (17 * 64**2 + 36**2)
    whole = _one(found, "vision.attn.core", 7).cost
    assert whole.total_flop == 4 * 1280 * (1024**2 + 100**2)
    assert whole.kv_read == 0
    assert whole.act_read == 3 * 1124 * 1280 * 2
    # Four patches become one token of the decoder's width.
    up = _one(found, "vision.merge.up_proj", None)
    down = _one(found, "vision.merge.down_proj", None)
    assert up.inputs["m"] == down.inputs["m"] == 256 + 25
    assert (up.inputs["n"], up.inputs["k"]) == (5120, 5120)
    assert (down.inputs["n"], down.inputs["k"]) == (3584, 5120)


def test_weights_of_an_image_encoder() -> None:
    # Per layer 4 x 1,280^2 of attention and 3 x 1,280 x 3,420; patches of 3 x 2 x 14 x 14 values;
    # a merger of 5,120 x (5,120 + 3,584): 0.675e9 parameters with biases, as published for it.
    found = vision_operators(TOWER, [1024])
    layer = 4 * 1280**2 + 3 * 1280 * 3420
    matrices = 32 * layer + 1176 * 1280 + 5120 * (5120 + 3584)
    biases = 32 * (3 * 1280 + 1280 + 2 * 3420 + 1280) + 1280 + 5120 + 3584
    norms = 32 * 2 * 1280
    weights = sum(op.cost.weight for op in found) // 2
    assert weights == matrices + biases + norms
    assert weights / 1e9 == pytest.approx(0.675, abs=2e-3)


def test_an_encoder_of_another_family_has_no_projector() -> None:
    siglip = VisionTower.from_config(
        {
            "hidden_size": 1152, "num_hidden_layers": 27, "num_attention_heads": 16,
            "intermediate_size": 4304, "patch_size": 14, "hidden_act": "gelu_pytorch_tanh",
        }
    )  # fmt: skip
    found = vision_operators(siglip, [4096])
    assert not any(op.role.startswith("vision.merge") for op in found)
    assert _one(found, "vision.mlp.up_proj").inputs["n"] == 4304
    older = VisionTower.from_config(
        {"depth": 2, "embed_dim": 1280, "hidden_size": 3584, "num_heads": 16, "patch_size": 14}
    )
    assert (older.hidden, older.intermediate, older.output) == (1280, 5120, 3584)


def test_a_prediction_head_is_a_layer_a_projection_and_the_head() -> None:
    model = find_model("deepseek-v3")
    head = prediction_operators(model, Workload.create(context=4096))
    step = operators(model, Workload.create(context=4096))
    assert all(op.role.startswith("draft.") for op in head)
    last = sum((op.cost for op in step if op.layer == 60), Cost())
    inside = [op for op in head if op.layer == 61]
    added = ("draft.embed_norm", "draft.hidden_norm", "draft.eh_proj")
    same = sum((op.cost for op in inside if op.role not in added), Cost())
    assert (same.weight, same.kv_read, same.flop) == (last.weight, last.kv_read, last.flop)
    # 7,168 x 14,336 in bf16, whatever the experts are quantised to.
    projection = next(op for op in head if op.role == "draft.eh_proj")
    assert projection.cost.weight == 7168 * 14336 * 2
    assert projection.dtype == "bf16"
    assert any(op.role == "draft.lm_head" for op in head)


def test_a_draft_model_costs_what_it_costs_alone() -> None:
    model, step = find_model("qwen3-0.6b"), Workload.create(context=4096)
    drafted, alone = draft_operators(model, step), operators(model, step)
    assert [op.role for op in drafted] == [f"draft.{op.role}" for op in alone]
    assert [op.cost for op in drafted] == [op.cost for op in alone]


def test_adapters_stand_beside_their_products() -> None:
    step = Workload.create(batch=8, context=64, lora_rank=16, lora_adapters=2, tp=2)
    found = operators(find_model("llama-3.1-8b"), step)
    roles = [op.role for op in found if op.layer == 0]
    assert roles[roles.index("attn.qkv_proj") + 1] == "attn.qkv_proj.lora"
    assert sum(role.endswith(".lora") for role in roles) == 4
    # Three matrices were fused: 16 x (3 x 4,096 + 3,072) numbers for each of two adapters.
    qkv = _one(found, "attn.qkv_proj.lora").cost
    assert qkv.weight == 2 * 16 * (3 * 4096 + 3072) * 2
    assert qkv.total_flop == 2 * 8 * 16 * (3 * 4096 + 3072)
    assert not any(op.role == "lm_head.lora" for op in found)
    plain = estimate(find_model("llama-3.1-8b"), find_gpu("h100-sxm"), Workload.create(context=64))
    adapted = estimate(
        find_model("llama-3.1-8b"), find_gpu("h100-sxm"), Workload.create(context=64, lora_rank=8)
    )
    assert adapted.layer.small_kernels == plain.layer.small_kernels + 4


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ({"shared_prefix": 64}, "shared_prefix"),
        ({"shared_prefix": -1}, "shared_prefix"),
        ({"lora_rank": 0}, "lora_rank"),
        ({"lora_rank": 8, "lora_adapters": 0}, "lora_adapters"),
    ],
)
def test_workloads_that_cannot_be(arguments: dict[str, int], where: str) -> None:
    with pytest.raises(UsageError) as caught:
        Workload.create(context=64, **arguments)  # type: ignore[arg-type]
    assert caught.value.where == where


def test_a_shared_prefix_is_cached_once() -> None:
    model = find_model("deepseek-v3")
    step = operators(model, Workload.create(batch=4, context=1000, shared_prefix=900))
    assert _one(step, "attn.core").cost.kv_read == (900 + 4 * 100) * 1152
    found = estimate(
        model, find_gpu("h200-sxm"), Workload.create(batch=4, context=1000, shared_prefix=900)
    )
    assert found.memory.kv_bytes == 61 * (900 + 4 * 100) * 1152


def test_sparse_prefill_takes_the_form_with_less_arithmetic() -> None:
    model = find_model("deepseek-v3.2")

    def roles(context: int, new: int | None = None) -> set[str]:
        step = Workload.create(phase="prefill", context=context, new_tokens=new)
        return {op.role for op in operators(model, step) if op.layer == 0}

    # A whole prompt of 4,096: 320 FLOP per pair and head expanded, 1,088 over the best 2,048.
    assert "attn.kv_b_proj" in roles(4096)
    # 64 tokens after 100,000: 2,048 pairs each instead of 100,000.
    assert "attn.absorb_k" in roles(100_064, 64)


def test_keys_of_the_indexer_are_cached_and_written() -> None:
    model = find_model("deepseek-v3.2")
    step = operators(model, Workload.create(context=1000))
    assert _one(step, "attn.index.k_write").cost.kv_write == 132
    found = estimate(model, find_gpu("b200"), Workload.create(context=1000))
    # A latent of 1,152 B and an indexer's key of 132 per token and layer.
    assert found.memory.kv_bytes == 61 * 1000 * (1152 + 132)
