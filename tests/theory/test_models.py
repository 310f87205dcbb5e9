"""Models against published parameter counts, and configurations read or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nsysroof.errors import InputError, UsageError
from nsysroof.theory.models.layers import Attention, LatentAttention, Moe
from nsysroof.theory.models.spec import ModelSpec, find_model
from nsysroof.theory.models.states import DeltaNet, Mamba2
from nsysroof.theory.models.weights import cache_bytes, count_parameters, weight_bytes
from nsysroof.theory.workload import Workload

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 2,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}


@pytest.mark.parametrize(
    ("key", "per_token"),
    [
        ("qwen3-30b-a3b", 98_304),
        ("llama-3.1-8b", 131_072),
        ("llama-3.1-70b", 327_680),
        ("deepseek-v3", 70_272),
    ],
)
def test_cache_bytes_per_token(key: str, per_token: int) -> None:
    step = Workload.create(context=1000, kv="bf16")
    assert cache_bytes(find_model(key), step) == 1000 * per_token


def test_windowed_layers_stop_growing() -> None:
    # 18 of 36 layers keep 128 tokens: 18 x 128 x 2,048 B, and 36,864 B per token grow.
    model = find_model("gpt-oss-120b")
    assert cache_bytes(model, Workload.create(context=10_000)) == 36_864 * 10_000 + 18 * 128 * 2048


def test_recurrent_layers_cache_nothing() -> None:
    # 12 of 48 layers attend, with 2 KV heads of 256 in bf16.
    model = find_model("qwen3-next-80b-a3b")
    assert cache_bytes(model, Workload.create(context=100)) == 12 * 2 * 2 * 256 * 2 * 100


def test_weights_of_gpt_oss_are_four_bits_only_in_its_experts() -> None:
    model = find_model("gpt-oss-120b")
    # Experts: 36 layers x 128 x 3 x 2880^2 values at 4.25 bits; published file size 65 GB.
    experts = 36 * 128 * 3 * 2880 * 2880
    total = count_parameters(model).total
    biases = 36 * 128 * 3 * 2880
    rest = (total - experts - biases) * 2
    assert weight_bytes(model, Workload.create(context=1)) == experts * 17 // 32 + biases * 2 + rest


def test_head_width_of_the_configuration_wins() -> None:
    qwen = find_model("qwen3-32b").layers[0].mixer
    assert isinstance(qwen, Attention)
    assert qwen.head_dim == 128  # not 5120 / 64
    derived = ModelSpec.from_config(LLAMA).layers[0].mixer
    assert isinstance(derived, Attention)
    assert derived.head_dim == 128


def test_layer_patterns() -> None:
    windows = [
        layer.mixer.window
        for layer in find_model("gpt-oss-20b").layers
        if isinstance(layer.mixer, Attention)
    ]
    assert windows[:4] == [128, None, 128, None]
    gemma = [
        layer.mixer.window
        for layer in find_model("gemma-3-27b").layers
        if isinstance(layer.mixer, Attention)
    ]
    assert gemma[:6] == [1024] * 5 + [None]
    assert gemma.count(None) == 10  # 62 // 6
    deepseek = [isinstance(layer.ffn, Moe) for layer in find_model("deepseek-v3").layers]
    assert deepseek == [False] * 3 + [True] * 58
    maverick = [isinstance(layer.ffn, Moe) for layer in find_model("llama-4-maverick").layers]
    assert maverick == [False, True] * 24
    scout = [
        layer.mixer.chunk
        for layer in find_model("llama-4-scout").layers
        if isinstance(layer.mixer, Attention)
    ]
    assert scout[:4] == [8192, 8192, 8192, None]
    hybrid = [type(layer.mixer) for layer in find_model("qwen3-next-80b-a3b").layers]
    assert hybrid == [DeltaNet, DeltaNet, DeltaNet, Attention] * 12
    nano = [type(layer.mixer) for layer in find_model("nemotron-3-nano-30b-a3b").layers]
    assert (nano.count(Mamba2), nano.count(Attention)) == (23, 6)
    assert isinstance(find_model("glm-5").layers[0].mixer, LatentAttention)


def test_layer_types_have_the_last_word() -> None:
    config = LLAMA | {
        "model_type": "gpt_oss",
        "head_dim": 64,
        "num_local_experts": 4,
        "num_experts_per_tok": 2,
        "sliding_window": 128,
        "layer_types": ["full_attention", "sliding_attention"],
    }
    mixers = [layer.mixer for layer in ModelSpec.from_config(config).layers]
    assert [m.window for m in mixers if isinstance(m, Attention)] == [None, 128]


def test_unused_sliding_window_of_qwen_is_ignored() -> None:
    config = LLAMA | {"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}
    mixer = ModelSpec.from_config(config).layers[0].mixer
    assert isinstance(mixer, Attention)
    assert mixer.window is None
    assert mixer.qkv_bias


def test_nested_text_configuration() -> None:
    nested = ModelSpec.from_config(
        {
            "model_type": "some_vl",
            "tie_word_embeddings": True,
            "text_config": {k: v for k, v in LLAMA.items() if k != "tie_word_embeddings"},
        }
    )
    assert nested.model_type == "llama"
    assert nested.tied


def test_silent_fields_are_noted() -> None:
    silent = {k: v for k, v in LLAMA.items() if k not in ("tie_word_embeddings", "torch_dtype")}
    model = ModelSpec.from_config(silent)
    assert (model.dtype, model.tied) == ("bf16", False)
    assert model.notes == (
        "the configuration has no dtype: bf16 is assumed",
        "tie_word_embeddings is not given: False as llama has it",
    )


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"model_type": "deepseek_v4"}, "model_type"),
        ({"model_type": None}, "model_type"),
        ({"vocab_size": None}, "vocab_size"),
        ({"hidden_size": "wide"}, "hidden_size"),
        ({"torch_dtype": "float8"}, "torch_dtype"),
        ({"quantization_config": {"quant_method": "quip"}}, "quantization_config.quant_method"),
        ({"model_type": "glm_moe_dsa", "kv_lora_rank": 512}, "qk_nope_head_dim"),
        (
            {
                "model_type": "mixtral",
                "num_local_experts": 4,
                "num_experts_per_tok": 5,
            },
            "num_experts_per_tok",
        ),
    ],
)
def test_unknown_models_are_refused_by_field(change: dict[str, Any], field: str) -> None:
    with pytest.raises(UsageError) as caught:
        ModelSpec.from_config(LLAMA | change)
    assert caught.value.slug == "unsupported-model"
    assert caught.value.where == field


def test_names_lead_to_models() -> None:
    assert find_model("meta-llama/Llama-3.1-8B").name == "llama-3.1-8b"
    assert find_model("meta-llama/Llama-3.3-70B-Instruct").name == "llama-3.3-70b"
    assert find_model("Qwen/Qwen3-30B-A3B-Instruct-2507").name == "qwen3-30b-a3b"
    with pytest.raises(UsageError) as caught:
        find_model("qwen3-30b")
    assert "qwen3-30b-a3b" in caught.value.hint


def test_configuration_files(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(LLAMA), encoding="utf-8")
    assert find_model(str(tmp_path)).hidden == 4096
    quantised = {"quantization": {"quant_algo": "FP8", "kv_cache_quant_algo": "FP8"}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(quantised), encoding="utf-8")
    model = find_model(str(tmp_path / "config.json"))
    assert model.quantisation.weights is not None
    assert (model.quantisation.weights.name, model.quantisation.kv) == ("fp8", "fp8")


@pytest.mark.parametrize("text", ["{", "[]"])
def test_unreadable_configuration_is_an_input_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        find_model(str(path))
    assert caught.value.slug == "bad-model-file"
