"""Families whose layers differ by a pattern of their own: Llama 4, MiMo V2 and Nemotron NAS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from nsysroof.theory.models.fields import HEADS, Family, Fields, attention, family, mlp, moe
from nsysroof.theory.models.layers import Attention, FeedForward, Layer, Mlp, QkNorm


def read_llama4(fields: Fields) -> Family:
    """Return a Llama 4 family: local and global attention, dense and routed blocks."""
    width = fields.number("intermediate_size")
    experts = moe(fields, intermediate=width, shared=width)
    step = fields.number("interleave_moe_layer_step", default=1)
    routed = set(fields.sequence("moe_layers") or range(step - 1, fields.count, step))
    ropes = fields.sequence("no_rope_layers") or [
        int((index + 1) % 4 != 0) for index in range(fields.count)
    ]
    chunk = fields.number("attention_chunk_size", default=8192)
    plain = fields.flag("use_qk_norm", default=True)

    def mixer(*, rope: bool) -> Attention:
        base = attention(fields)
        if not rope:
            return replace(base, rotary=0)
        return replace(base, chunk=chunk, qk_norm=QkNorm.PLAIN if plain else QkNorm.NONE)

    layers = [
        Layer(
            mixer=mixer(rope=bool(ropes[index])),
            ffn=experts
            if index in routed
            else mlp(fields, width=fields.number("intermediate_size_mlp")),
        )
        for index in range(fields.count)
    ]
    return family(fields, layers, tied=False)


def read_mimo(fields: Fields) -> Family:
    """Return a MiMo V2 family: windowed and full attention with their own heads and widths."""
    local = fields.sequence("hybrid_layer_pattern")
    routed = fields.sequence("moe_layer_freq")
    for name, pattern in (("hybrid_layer_pattern", local), ("moe_layer_freq", routed)):
        if pattern is None or len(pattern) != fields.count:
            raise fields.unusable(name, pattern, f"{fields.count} entries of 0 or 1 are needed")
    full = _mimo_attention(fields, "")
    swa = replace(
        _mimo_attention(fields, "swa_"),
        window=fields.number("sliding_window", "sliding_window_size"),
    )
    width = fields.number("moe_intermediate_size")
    experts = moe(
        fields, intermediate=width, shared=width * fields.number("n_shared_experts", default=0)
    )
    layers = [
        Layer(mixer=swa if slides else full, ffn=experts if many else mlp(fields))
        for slides, many in zip(local or (), routed or (), strict=True)
    ]
    return family(fields, layers, tied=False)


def _mimo_attention(fields: Fields, prefix: str) -> Attention:
    bias = fields.flag("attention_bias", default=False)
    head_dim = fields.number(f"{prefix}head_dim", "head_dim")
    sink = "add_swa_attention_sink_bias" if prefix else "add_full_attention_sink_bias"
    return Attention(
        heads=fields.number(f"{prefix}num_attention_heads", *HEADS),
        kv_heads=fields.number(f"{prefix}num_key_value_heads", "num_key_value_heads"),
        head_dim=head_dim,
        value_dim=fields.number(f"{prefix}v_head_dim", "v_head_dim", default=head_dim),
        rotary=int(head_dim * fields.fraction("partial_rotary_factor", default=1.0)) // 2 * 2,
        qkv_bias=bias,
        sinks=fields.flag(sink, default=False),
    )


def read_decilm(fields: Fields) -> Family:
    """Return a Nemotron NAS family: each layer has its own KV heads and width, or lacks a block."""
    blocks = fields.sequence("block_configs")
    if blocks is None or len(blocks) != fields.count:
        raise fields.unusable("block_configs", blocks, f"{fields.count} entries are needed")
    return family(fields, [_decilm_layer(fields, block) for block in blocks], tied=False)


def _decilm_layer(fields: Fields, block: Mapping[str, Any]) -> Layer:
    mixer: Attention | None = None
    ffn: FeedForward | None = None
    attends, feeds = Fields(block["attention"]), Fields(block["ffn"])
    for part, name in ((attends, "attention"), (feeds, "ffn")):
        if part.flag("replace_with_linear", default=False):
            raise fields.unusable(f"block_configs.{name}.replace_with_linear", True, "not modelled")
    if not attends.flag("no_op", default=False):
        heads = fields.number(*HEADS)
        kv_heads = heads // attends.number("n_heads_in_group")
        bias = fields.flag("attention_bias", default=False)
        mixer = replace(attention(fields, qkv_bias=bias, out_bias=bias), kv_heads=kv_heads)
    if not feeds.flag("no_op", default=False):
        ffn = Mlp(intermediate=_decilm_width(fields, feeds))
    return Layer(mixer=mixer, ffn=ffn, pre_norms=(mixer is not None) + (ffn is not None))


def _decilm_width(fields: Fields, ffn: Fields) -> int:
    if ffn.config.get("intermediate_size") is not None:
        return ffn.number("intermediate_size")
    # Two thirds of the multiple, as SwiGLU has three matrices, rounded up to 256.
    width = int(2 * ffn.fraction("ffn_mult", default=0.0) * fields.hidden / 3)
    if width <= 0:
        raise fields.unusable("block_configs.ffn.ffn_mult", None, "a multiple is needed")
    return -(-width // 256) * 256
