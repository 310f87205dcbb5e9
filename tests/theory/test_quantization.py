"""What the variants of ``quantization_config`` say, and what their weights weigh."""

from __future__ import annotations

from typing import Any

import pytest

from nsysroof.errors import UsageError
from nsysroof.theory.dtypes import kv_bytes, weight_format
from nsysroof.theory.estimate import estimate
from nsysroof.theory.gpus import find_gpu
from nsysroof.theory.models.quantization import Quantisation, read_quantisation
from nsysroof.theory.models.spec import ModelSpec
from nsysroof.theory.workload import Workload

QWEN3_8B: dict[str, Any] = {
    "model_type": "qwen3",
    "torch_dtype": "bfloat16",
    "hidden_size": 4096,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "intermediate_size": 12288,
    "vocab_size": 151936,
    "tie_word_embeddings": False,
}


def _read(section: dict[str, Any]) -> Quantisation:
    return read_quantisation({"quantization_config": section})


def _group(weights: dict[str, Any], inputs: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": weights, "input_activations": inputs}},
        "ignore": ["lm_head", "re:.*mlp.gate$"],
    }


@pytest.mark.parametrize(
    ("section", "weights", "activations", "weight_only"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, "fp8-block", None, False),
        ({"quant_method": "fp8"}, "fp8", None, False),
        ({"quant_method": "awq", "bits": 4, "group_size": 128}, "awq", None, False),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, "gptq", None, False),
        ({"quant_method": "mxfp4"}, "mxfp4", None, False),
        (
            {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
            "nf4",
            None,
            False,
        ),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4", None, False),
        (
            _group(
                {"num_bits": 8, "type": "float", "strategy": "channel"},
                {"num_bits": 8, "type": "float", "strategy": "token"},
            ),
            "fp8-channel",
            "fp8",
            False,
        ),
        (
            _group({"num_bits": 8, "type": "int"}, {"num_bits": 8, "type": "int"}),
            "int8",
            "int8",
            False,
        ),
        (
            _group({"num_bits": 4, "type": "int", "group_size": 128, "symmetric": True}, None),
            "gptq",
            None,
            True,
        ),
        (
            _group(
                {"num_bits": 4, "type": "float", "group_size": 16},
                {"num_bits": 4, "type": "float", "group_size": 16},
            ),
            "nvfp4",
            "nvfp4",
            False,
        ),
    ],
)
def test_methods(
    section: dict[str, Any], weights: str, activations: str | None, weight_only: bool
) -> None:
    found = _read(section)
    assert found.weights is not None
    assert found.weights.name == weights
    assert (found.activations, found.weight_only) == (activations, weight_only)


def test_group_size_follows_the_configuration() -> None:
    found = _read({"quant_method": "gptq", "bits": 4, "group_size": 32}).weights
    assert found is not None
    assert found.scale_bytes(4096, 4096) == 1_048_576
    per_channel = _read({"quant_method": "gptq", "bits": 4, "group_size": -1}).weights
    assert per_channel is not None
    assert per_channel.scale_bytes(4096, 4096) == 8_192


def test_patterns_of_left_out_modules() -> None:
    found = _read(_group({"num_bits": 8, "type": "float"}, None))
    assert not found.covers("lm_head")
    assert not found.covers("model.layers.7.mlp.gate")
    assert found.covers("model.layers.7.mlp.gate_proj")
    named = Quantisation(excluded=("model.layers.0.mlp", "gate"))
    assert not named.covers("model.layers.0.mlp.up_proj")
    assert named.covers("model.layers.10.mlp.up_proj")
    assert not named.covers("model.layers.4.block_sparse_moe.gate")


def test_several_formats_at_once_are_refused() -> None:
    section = _group({"num_bits": 8, "type": "float"}, None)
    section["config_groups"]["group_1"] = {"weights": {"num_bits": 4, "type": "int"}}
    with pytest.raises(UsageError, match="group_1"):
        _read(section)


def test_four_bit_experts_of_a_nested_configuration() -> None:
    # Only the routed experts of Kimi-K2.5 are in 4 bits, in groups of 32.
    section = _group(
        {"num_bits": 4, "type": "int", "group_size": 32, "strategy": "group", "symmetric": True},
        None,
    )
    section["ignore"] = [
        "lm_head",
        "re:.*self_attn.*",
        "re:.*shared_experts.*",
        "re:.*mlp\\.(gate|up|gate_up|down)_proj.*",
    ]
    text = {
        "model_type": "kimi_k2",
        "hidden_size": 7168,
        "num_hidden_layers": 2,
        "num_attention_heads": 64,
        "intermediate_size": 18432,
        "vocab_size": 163840,
        "n_routed_experts": 384,
        "n_shared_experts": 1,
        "num_experts_per_tok": 8,
        "moe_intermediate_size": 2048,
        "first_k_dense_replace": 1,
        "kv_lora_rank": 512,
        "q_lora_rank": 1536,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "dtype": "bfloat16",
        "quantization_config": section,
    }
    model = ModelSpec.from_config({"model_type": "kimi_k25", "text_config": text})
    found = estimate(model, find_gpu("b200"), Workload.create(context=128))
    formats = {row.role: row.inputs.get("weights") for row in found.operators}
    assert formats["moe.gate_up"] == "gptq"
    others = ("attn.o_proj", "moe.shared.gate_up_proj", "mlp.gate_up_proj", "lm_head")
    assert {formats[role] for role in others} == {"bf16"}
    up = next(row for row in found.operators if row.role == "moe.gate_up")
    assert up.bytes.weight == 8 * 4096 * 7168 // 2
    assert up.bytes.scale == 8 * 4096 * 7168 // 32 * 2


def test_layers_left_out_one_by_one() -> None:
    named = Quantisation(
        excluded=("model.layers.3.self_attn*", "model.layers.61*", "backbone.layers.4.mixer")
    )
    assert not named.covers("model.layers.3.self_attn.q_proj")
    assert named.covers("model.layers.30.self_attn.q_proj")
    assert not named.covers("model.layers.61.mlp.up_proj")
    assert not named.covers("model.layers.4.mixer.in_proj")


@pytest.mark.parametrize(
    "section",
    [
        {"quant_method": "gptq", "bits": 3},
        {"quant_method": "fp8", "weight_block_size": [64, 64]},
        {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"},
        {"quant_method": "bitsandbytes", "load_in_8bit": True},
        _group({"num_bits": 2, "type": "int"}, None),
        _group({"num_bits": 8, "type": "int"}, {"num_bits": 16, "type": "float"}),
    ],
)
def test_unknown_variants_are_refused(section: dict[str, Any]) -> None:
    with pytest.raises(UsageError) as caught:
        _read(section)
    assert caught.value.slug == "unsupported-model"


def test_scales_of_one_large_layer_o31() -> None:
    # 28,672 x 8,192: nibbles, FP16 scales per 128, and 4-bit zeros where asymmetric.
    gptq, awq = weight_format("gptq"), weight_format("awq")
    assert gptq.payload_bytes(28672, 8192) == 117_440_512
    assert gptq.scale_bytes(28672, 8192) == 3_670_016
    assert awq.scale_bytes(28672, 8192) == 3_670_016 + 917_504

    def megabytes(name: str) -> float:
        fmt = weight_format(name)
        return (fmt.payload_bytes(28672, 8192) + fmt.scale_bytes(28672, 8192)) / 1e6

    sizes = [megabytes(name) for name in ("gptq", "nvfp4", "mxfp4", "bf16")]
    assert sizes == pytest.approx([121.1, 132.1, 124.8, 469.8], abs=0.05)


def test_dtype_field_of_a_quantised_checkpoint_is_not_its_weights_o31() -> None:
    config = QWEN3_8B | {"quantization_config": {"quant_method": "gptq", "bits": 4}}
    found = estimate(
        ModelSpec.from_config(config), find_gpu("h100-sxm"), Workload.create(context=4096)
    )
    rows = {row.role: row for row in found.operators}
    up = rows["mlp.gate_up_proj"]
    assert up.bytes.weight == 2 * 12288 * 4096 // 2
    assert up.dtype == "bf16"  # expanded before the product
    assert found.assumptions.weights == "gptq"


def test_head_of_a_four_bit_model_stays_wide_o32() -> None:
    # An 8B model in NVFP4 on an RTX 5090: its BF16 head measured 0.78 ms.
    def head_ns(excluded: list[str]) -> tuple[int, float]:
        config = QWEN3_8B | {
            "quantization_config": {
                "quant_method": "modelopt",
                "quant_algo": "NVFP4",
                "exclude_modules": excluded,
            }
        }
        found = estimate(
            ModelSpec.from_config(config), find_gpu("rtx5090"), Workload.create(context=128)
        )
        row = next(row for row in found.operators if row.role == "lm_head")
        size = row.bytes.weight + row.bytes.scale
        return size, size / 1792e9 * 1e3

    size, ms = head_ns(["lm_head"])
    assert size == 1_244_659_712
    assert ms == pytest.approx(0.6946, abs=1e-4)
    assert 0.78 / ms == pytest.approx(1.123, abs=1e-3)
    narrow_size, narrow_ms = head_ns(["model.embed_tokens"])
    assert narrow_size / 1e6 == pytest.approx(350.1, abs=0.1)
    assert ms - narrow_ms == pytest.approx(0.499, abs=1e-3)


def test_options_override_the_configuration() -> None:
    model = ModelSpec.from_config(QWEN3_8B)
    step = Workload.create(context=128, weights="fp8", kv="fp8")
    found = estimate(model, find_gpu("h100-sxm"), step)
    rows = {row.role: row for row in found.operators}
    assert rows["attn.qkv_proj"].dtype == "fp8"
    assert rows["lm_head"].dtype == "bf16"
    assert rows["attn.core"].bytes.kv_read == 128 * 2 * 8 * 128
    weight_only = Workload.create(context=128, weights="fp8", activations="bf16")
    rows = {
        row.role: row for row in estimate(model, find_gpu("a100-sxm-80"), weight_only).operators
    }
    assert rows["attn.qkv_proj"].dtype == "bf16"
    assert rows["attn.qkv_proj"].bytes.weight == 6144 * 4096


def test_weights_option_covers_only_what_the_configuration_covers() -> None:
    config = QWEN3_8B | {
        "quantization_config": {"quant_method": "fp8", "modules_to_not_convert": ["self_attn"]}
    }
    step = Workload.create(context=128, weights="int8")
    found = estimate(ModelSpec.from_config(config), find_gpu("h100-sxm"), step)
    rows = {row.role: row for row in found.operators}
    assert rows["attn.qkv_proj"].inputs["weights"] == "bf16"
    assert rows["mlp.down_proj"].inputs["weights"] == "int8"


def test_missing_peak_names_the_way_out() -> None:
    model = ModelSpec.from_config(QWEN3_8B)
    with pytest.raises(UsageError, match="no fp8 peak of a100-sxm-80") as caught:
        estimate(model, find_gpu("a100-sxm-80"), Workload.create(context=128, weights="fp8"))
    assert "--activations bf16" in caught.value.hint


@pytest.mark.parametrize(
    ("arguments", "slug"),
    [
        ({"weights": "fp5"}, "unknown-format"),
        ({"kv": "fp5"}, "unknown-format"),
        ({"weights": "fp8", "activations": "fp5"}, "unknown-format"),
        ({"weights": "bf16", "activations": "fp8"}, "bad-workload"),
    ],
)
def test_formats_that_cannot_be(arguments: dict[str, str], slug: str) -> None:
    step = Workload.create(context=128, **arguments)  # type: ignore[arg-type]
    with pytest.raises(UsageError) as caught:
        estimate(ModelSpec.from_config(QWEN3_8B), find_gpu("h100-sxm"), step)
    assert caught.value.slug == slug


def test_cache_formats() -> None:
    # One latent of 576 values; NVFP4 keeps a byte per 16 values beside the nibbles.
    assert [kv_bytes(576, fmt) for fmt in ("bf16", "fp8", "nvfp4")] == [1152, 576, 324]


@pytest.mark.parametrize(
    ("section", "size"),
    [
        # 4,096 x 32 groups of 2 B; half a byte more for each zero point; 4 B for each column.
        ({"quant_method": "gptq", "bits": 4, "group_size": 128}, 262_144),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": False}, 327_680),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True}, 278_528),
        (
            {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": False, "desc_act": True},
            344_064,
        ),
    ],
)
def test_zero_points_and_reordered_columns(section: dict[str, Any], size: int) -> None:
    weights = read_quantisation({"quantization_config": section}).weights
    assert weights is not None
    assert weights.scale_bytes(4096, 4096) == size


def test_zero_points_of_eight_bits() -> None:
    # A 4-byte scale per row, and a 4-byte zero point beside it.
    group = {"weights": {"num_bits": 8, "type": "int", "strategy": "channel", "symmetric": False}}
    section = {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}}
    weights = read_quantisation({"quantization_config": section}).weights
    assert weights is not None
    assert weights.scale_bytes(4096, 4096) == 8 * 4096
