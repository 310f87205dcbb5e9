"""Families that mix recurrent layers with attention: Qwen3-Next, Nemotron-H and MiniMax."""

from __future__ import annotations

from dataclasses import replace

from nsysroof.theory.models.fields import (
    EXPERTS,
    HEADS,
    KV_HEADS,
    Family,
    Fields,
    attention,
    family,
    mlp,
    moe,
    sparse_ffn,
)
from nsysroof.theory.models.layers import Attention, FeedForward, Layer, Mixer, Mlp, QkNorm
from nsysroof.theory.models.states import DeltaNet, Lightning, Mamba2
from nsysroof.theory.operators.elementwise import Activation

STATE_DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


def read_qwen3_next(fields: Fields) -> Family:
    """Return a Qwen3-Next or Qwen3.5 family: three delta-rule layers to one of attention."""
    base = attention(fields, head_dim=256, qk_norm=QkNorm.HEAD, rotary_factor=0.25)
    full = replace(base, gated=True)
    linear = DeltaNet(
        key_heads=fields.number("linear_num_key_heads"),
        value_heads=fields.number("linear_num_value_heads"),
        key_dim=fields.number("linear_key_head_dim"),
        value_dim=fields.number("linear_value_head_dim"),
        conv=fields.number("linear_conv_kernel_dim"),
        state_dtype=_state_dtype(fields, "mamba_ssm_dtype"),
    )
    every = fields.number("full_attention_interval", default=4)
    kinds = fields.layer_kinds() or [
        "linear_attention" if (index + 1) % every else "full_attention"
        for index in range(fields.count)
    ]
    routed = any(fields.config.get(name) is not None for name in EXPERTS)
    blocks = sparse_ffn(fields) if routed else [mlp(fields)] * fields.count
    layers = [
        Layer(mixer=linear if kind == "linear_attention" else full, ffn=ffn)
        for kind, ffn in zip(kinds, blocks, strict=True)
    ]
    return family(fields, layers, tied=False)


def _state_dtype(fields: Fields, name: str) -> str:
    value = str(fields.config.get(name, "float32"))
    if value not in STATE_DTYPES:
        raise fields.unusable(name, value, f"known are: {', '.join(STATE_DTYPES)}")
    return STATE_DTYPES[value]


def read_nemotron_h(fields: Fields) -> Family:
    """Return a Nemotron-H family: one block per layer, named by a character of the pattern."""
    pattern = str(fields.config.get("hybrid_override_pattern", ""))
    if not pattern:
        raise fields.unusable("hybrid_override_pattern", pattern, "one character per layer")
    blocks = {symbol: _nemotron_block(fields, symbol, pattern) for symbol in sorted(set(pattern))}
    return family(fields, [blocks[symbol] for symbol in pattern], tied=False)


def _nemotron_block(fields: Fields, symbol: str, pattern: str) -> Layer:
    mixer: Mixer | None = None
    ffn: FeedForward | None = None
    match symbol:
        case "M":
            mixer = Mamba2(
                heads=fields.number("mamba_num_heads"),
                head_dim=fields.number("mamba_head_dim"),
                groups=fields.number("n_groups"),
                state=fields.number("ssm_state_size"),
                conv=fields.number("conv_kernel"),
                state_dtype=_state_dtype(fields, "mamba_ssm_cache_dtype"),
            )
        case "*":
            mixer = _nemotron_attention(fields)
        case "-":
            ffn = Mlp(intermediate=fields.number("intermediate_size"), act=Activation.RELU2)
        case "E":
            ffn = moe(
                fields,
                intermediate=fields.number("moe_intermediate_size"),
                act=Activation.RELU2,
                shared=fields.number("moe_shared_expert_intermediate_size", default=0),
            )
        case _:
            raise fields.unusable(
                "hybrid_override_pattern", pattern, f"{symbol!r} is not one of M * - E"
            )
    return Layer(mixer=mixer, ffn=ffn, pre_norms=1)


def _nemotron_attention(fields: Fields) -> Attention:
    heads = fields.number(*HEADS)
    width = fields.number("head_dim", "attention_head_dim", default=fields.hidden // heads)
    return Attention(
        heads=heads,
        kv_heads=fields.number(*KV_HEADS, default=heads),
        head_dim=width,
        value_dim=width,
        rotary=0,
    )


def read_minimax(fields: Fields) -> Family:
    """Return a MiniMax family: seven layers of lightning attention to one of softmax attention."""
    base = attention(fields, head_dim=128)
    full = replace(base, rotary=fields.number("rotary_dim", default=base.head_dim))
    linear = Lightning(heads=base.heads, head_dim=base.head_dim)
    experts = moe(
        fields,
        intermediate=fields.number("intermediate_size"),
        shared=fields.number("shared_intermediate_size", default=0),
    )
    kinds = fields.layer_kinds() or [
        "full_attention" if softmax else "linear_attention"
        for softmax in fields.sequence("attn_type_list") or ()
    ]
    if len(kinds) != fields.count:
        raise fields.unusable("attn_type_list", kinds, f"{fields.count} entries are needed")
    layers = [
        Layer(mixer=full if kind == "full_attention" else linear, ffn=experts) for kind in kinds
    ]
    return family(fields, layers, tied=False)
