"""Families of the first years, with layer norms: Falcon, GPT-2, OPT, BLOOM, GPT-NeoX, OLMo."""

from __future__ import annotations

from dataclasses import replace

from nsysroof.theory.models.fields import Family, Fields, attention, family, mlp
from nsysroof.theory.models.layers import Layer
from nsysroof.theory.operators.elementwise import Activation


def read_falcon(fields: Fields) -> Family:
    """Return a Falcon family: one KV head or grouped ones, blocks side by side."""
    new = fields.flag("new_decoder_architecture", default=False)
    parallel = new or fields.flag("parallel_attn", default=True)
    base = attention(fields)
    single = not new and fields.flag("multi_query", default=True)
    mixer = replace(
        base,
        kv_heads=1 if single else base.kv_heads,
        rotary=0 if fields.flag("alibi", default=False) else base.head_dim,
    )
    width = fields.number("ffn_hidden_size", default=4 * fields.hidden)
    layer = Layer(
        mixer=mixer,
        ffn=mlp(fields, act=Activation.GELU, width=width),
        pre_norms=1 if parallel and not new else 2,
        parallel=parallel,
    )
    return family(fields, [layer] * fields.count, tied=True, layer_norm=True)


def read_gpt2(fields: Fields) -> Family:
    """Return a GPT-2 or OPT family: learned positions, biases everywhere."""
    mixer = replace(attention(fields, qkv_bias=True, out_bias=True), rotary=0)
    width = fields.number("n_inner", "ffn_dim", default=4 * fields.hidden)
    layer = Layer(mixer=mixer, ffn=mlp(fields, act=Activation.GELU, bias=True, width=width))
    # OPT keeps two rows in front of its position table for padding.
    opt = fields.model_type == "opt"
    positions = fields.number("n_positions", "max_position_embeddings") + (2 if opt else 0)
    return family(fields, [layer] * fields.count, tied=True, layer_norm=True, positions=positions)


def read_bloom(fields: Fields) -> Family:
    """Return a BLOOM family: slopes instead of positions, biases everywhere."""
    mixer = replace(attention(fields, qkv_bias=True, out_bias=True), rotary=0)
    width = fields.number("n_inner", default=4 * fields.hidden)
    layer = Layer(mixer=mixer, ffn=mlp(fields, act=Activation.GELU, bias=True, width=width))
    return family(fields, [layer] * fields.count, tied=True, layer_norm=True)


def read_gpt_neox(fields: Fields) -> Family:
    """Return a GPT-NeoX or Pythia family: both blocks read the residual, each its own norm."""
    bias = fields.flag("attention_bias", default=True)
    mixer = attention(fields, qkv_bias=bias, out_bias=bias)
    layer = Layer(
        mixer=replace(
            mixer, rotary=int(mixer.head_dim * fields.fraction("rotary_pct", default=0.25))
        ),
        ffn=mlp(fields, act=Activation.GELU, bias=True),
        parallel=fields.flag("use_parallel_residual", default=True),
    )
    return family(fields, [layer] * fields.count, tied=False, layer_norm=True)


def read_olmo(fields: Fields) -> Family:
    """Return an OLMo 1 family: a llama with layer norms."""
    bias = fields.flag("attention_bias", default=False)
    layer = Layer(mixer=attention(fields, qkv_bias=bias, out_bias=bias), ffn=mlp(fields))
    return family(fields, [layer] * fields.count, tied=False, layer_norm=True)
