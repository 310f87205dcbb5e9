"""Which family a configuration belongs to, and the families built of grouped-query attention."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from nsysroof.errors import UsageError
from nsysroof.theory.models.classics import (
    read_bloom,
    read_falcon,
    read_gpt2,
    read_gpt_neox,
    read_olmo,
)
from nsysroof.theory.models.fields import (
    Family,
    Fields,
    attention,
    family,
    mlp,
    moe,
    sparse_ffn,
    windows,
)
from nsysroof.theory.models.hybrids import read_minimax, read_nemotron_h, read_qwen3_next
from nsysroof.theory.models.latents import read_deepseek
from nsysroof.theory.models.layers import Attention, Layer, QkNorm
from nsysroof.theory.models.patterns import read_decilm, read_llama4, read_mimo


def read_family(config: Mapping[str, Any]) -> Family:
    """Return what the family of a configuration makes of it.

    Raises:
        UsageError: The ``model_type`` is not known, or a field is missing or unusable.
    """
    fields = Fields(config)
    reader = READERS.get(fields.model_type)
    if reader is None:
        raise UsageError(
            f"cannot read model_type = {config.get('model_type')!r}",
            hint=f"known are: {', '.join(sorted(READERS))}",
            slug="unsupported-model",
            where="model_type",
        )
    return reader(fields)


def _llama(fields: Fields) -> Family:
    # InternLM2 calls it bias.
    bias = fields.flag("attention_bias", default=fields.flag("bias", default=False))
    layer = Layer(
        mixer=attention(fields, qkv_bias=bias, out_bias=bias),
        ffn=mlp(fields, bias=fields.flag("mlp_bias", default=False)),
    )
    return family(fields, [layer] * fields.count, tied=False)


def _mistral(fields: Fields) -> Family:
    slides = fields.config.get("sliding_window") is not None
    each = windows(fields, sliding=[slides] * fields.count)
    layers = [Layer(mixer=attention(fields, window=w), ffn=mlp(fields)) for w in each]
    return family(fields, layers, tied=False)


def _mixtral(fields: Fields) -> Family:
    slides = fields.config.get("sliding_window") is not None
    each = windows(fields, sliding=[slides] * fields.count)
    experts = moe(fields, intermediate=fields.number("intermediate_size"))
    layers = [Layer(mixer=attention(fields, window=w), ffn=experts) for w in each]
    return family(fields, layers, tied=False)


def _qwen_windows(fields: Fields) -> list[int | None]:
    """Return the windows of a Qwen model: ignored unless ``use_sliding_window`` is set."""
    if not fields.flag("use_sliding_window", default=False):
        return [None] * fields.count
    first = fields.number("max_window_layers", default=fields.count)
    return windows(fields, sliding=[i >= first for i in range(fields.count)])


def _qwen_attention(fields: Fields, window: int | None) -> Attention:
    if fields.model_type.startswith("qwen2"):
        bias = fields.flag("qkv_bias", default=True)
        return attention(fields, window=window, qkv_bias=bias)
    bias = fields.flag("attention_bias", default=False)
    return attention(
        fields,
        window=window,
        qkv_bias=bias,
        out_bias=bias,
        qk_norm=QkNorm.HEAD,
        head_dim=128,
    )


def _qwen(fields: Fields) -> Family:
    layers = [
        Layer(mixer=_qwen_attention(fields, w), ffn=mlp(fields)) for w in _qwen_windows(fields)
    ]
    return family(fields, layers, tied=False)


def _qwen_moe(fields: Fields) -> Family:
    layers = [
        Layer(mixer=_qwen_attention(fields, window), ffn=ffn)
        for window, ffn in zip(_qwen_windows(fields), sparse_ffn(fields), strict=True)
    ]
    return family(fields, layers, tied=False)


def _gpt_oss(fields: Fields) -> Family:
    experts = moe(fields, intermediate=fields.number("intermediate_size"), bias=True)
    alternate = [index % 2 == 0 for index in range(fields.count)]
    bias = fields.flag("attention_bias", default=True)

    def mixer(window: int | None) -> Attention:
        base = attention(fields, window=window, head_dim=64, qkv_bias=bias, out_bias=bias)
        return replace(base, sinks=True)

    layers = [Layer(mixer=mixer(w), ffn=experts) for w in windows(fields, sliding=alternate)]
    return family(fields, layers, tied=False)


def _gemma2(fields: Fields) -> Family:
    alternate = [index % 2 == 0 for index in range(fields.count)]
    layers = [
        Layer(
            mixer=attention(fields, window=w, head_dim=256),
            ffn=mlp(fields),
            post_norms=2,
        )
        for w in windows(fields, sliding=alternate)
    ]
    return family(fields, layers, tied=True)


def _gemma3(fields: Fields) -> Family:
    every = fields.number("sliding_window_pattern", "_sliding_window_pattern", default=6)
    local = [bool((index + 1) % every) for index in range(fields.count)]
    layers = [
        Layer(
            mixer=attention(fields, window=w, head_dim=256, qk_norm=QkNorm.HEAD),
            ffn=mlp(fields),
            post_norms=2,
        )
        for w in windows(fields, sliding=local)
    ]
    return family(fields, layers, tied=True, vocab=262208)


def _phi3(fields: Fields) -> Family:
    slides = fields.config.get("sliding_window") is not None
    each = windows(fields, sliding=[slides] * fields.count)
    layers = [Layer(mixer=attention(fields, window=w), ffn=mlp(fields)) for w in each]
    return family(fields, layers, tied=False)


def _olmo(fields: Fields) -> Family:
    bias = fields.flag("attention_bias", default=False)
    layers = [
        Layer(
            mixer=attention(fields, window=w, qkv_bias=bias, out_bias=bias, qk_norm=QkNorm.FULL),
            ffn=mlp(fields),
            pre_norms=0,
            post_norms=2,
        )
        for w in windows(fields)
    ]
    return family(fields, layers, tied=False)


def _olmoe(fields: Fields) -> Family:
    bias = fields.flag("attention_bias", default=False)
    layer = Layer(
        mixer=attention(fields, qkv_bias=bias, out_bias=bias, qk_norm=QkNorm.FULL),
        ffn=moe(fields, intermediate=fields.number("intermediate_size")),
    )
    return family(fields, [layer] * fields.count, tied=False)


def _glm4_moe(fields: Fields) -> Family:
    width = fields.number("moe_intermediate_size")
    experts = moe(
        fields,
        intermediate=width,
        shared=width * fields.number("n_shared_experts", default=0),
    )
    norm = QkNorm.HEAD if fields.flag("use_qk_norm", default=False) else QkNorm.NONE
    mixer = attention(
        fields,
        qkv_bias=fields.flag("attention_bias", default=False),
        qk_norm=norm,
        rotary_factor=0.5,
    )
    dense = fields.number("first_k_dense_replace", default=1)
    layers = [
        Layer(mixer=mixer, ffn=mlp(fields) if index < dense else experts)
        for index in range(fields.count)
    ]
    return family(fields, layers, tied=False)


def _minimax_m2(fields: Fields) -> Family:
    base = attention(fields, head_dim=128, qk_norm=QkNorm.FULL)
    mixer = replace(base, rotary=fields.number("rotary_dim", default=base.rotary))
    experts = moe(
        fields,
        intermediate=fields.number("intermediate_size"),
        shared=fields.number("shared_intermediate_size", default=0),
    )
    return family(fields, [Layer(mixer=mixer, ffn=experts)] * fields.count, tied=False)


READERS: Mapping[str, Callable[[Fields], Family]] = {
    "llama": _llama,
    "internlm2": _llama,
    "mistral": _mistral,
    "mixtral": _mixtral,
    "qwen2": _qwen,
    "qwen3": _qwen,
    "qwen2_vl": _qwen,
    "qwen2_vl_text": _qwen,
    "qwen2_5_vl": _qwen,
    "qwen2_5_vl_text": _qwen,
    "qwen3_vl_text": _qwen,
    "qwen2_moe": _qwen_moe,
    "qwen3_moe": _qwen_moe,
    "qwen3_vl_moe_text": _qwen_moe,
    "qwen3_next": read_qwen3_next,
    "qwen3_5_moe_text": read_qwen3_next,
    "qwen3_5_text": read_qwen3_next,
    "gpt_oss": _gpt_oss,
    "gemma2": _gemma2,
    "gemma3_text": _gemma3,
    "phi3": _phi3,
    "olmo2": _olmo,
    "olmo3": _olmo,
    "olmoe": _olmoe,
    "glm4_moe": _glm4_moe,
    "llama4_text": read_llama4,
    "minimax_m2": _minimax_m2,
    "deepseek_v2": read_deepseek,
    "deepseek_v3": read_deepseek,
    "deepseek_v32": read_deepseek,
    "kimi_k2": read_deepseek,
    "glm4_moe_lite": read_deepseek,
    "glm_moe_dsa": read_deepseek,
    "nemotron_h": read_nemotron_h,
    "minimax": read_minimax,
    "minimax_text_01": read_minimax,
    "mimo_v2_flash": read_mimo,
    "nemotron-nas": read_decilm,
    "falcon": read_falcon,
    "gpt2": read_gpt2,
    "opt": read_gpt2,
    "bloom": read_bloom,
    "gpt_neox": read_gpt_neox,
    "olmo": read_olmo,
}
"""Readers by ``model_type``."""
