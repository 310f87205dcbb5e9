"""Families with multi-head latent attention: DeepSeek, Kimi and GLM with a sparse indexer."""

from __future__ import annotations

from nsysroof.theory.models.fields import HEADS, Family, Fields, family, mlp, moe
from nsysroof.theory.models.layers import FeedForward, Indexer, LatentAttention, Layer

SPARSE_TYPES = frozenset({"deepseek_v32", "glm_moe_dsa"})
"""Families whose attention reads only what an indexer picks."""


def read_deepseek(fields: Fields) -> Family:
    """Return a DeepSeek-like family: latents, a dense prefix, routed and shared experts."""
    sparse = fields.model_type in SPARSE_TYPES or fields.config.get("index_topk") is not None
    mixer = LatentAttention(
        heads=fields.number(*HEADS),
        q_lora=fields.number("q_lora_rank") if fields.config.get("q_lora_rank") else None,
        kv_lora=fields.number("kv_lora_rank"),
        nope=fields.number("qk_nope_head_dim"),
        rope=fields.number("qk_rope_head_dim"),
        value_dim=fields.number("v_head_dim"),
        indexer=Indexer(
            heads=fields.number("index_n_heads"),
            head_dim=fields.number("index_head_dim"),
            topk=fields.number("index_topk"),
        )
        if sparse
        else None,
    )
    width = fields.number("moe_intermediate_size")
    experts = moe(
        fields, intermediate=width, shared=width * fields.number("n_shared_experts", default=0)
    )
    dense = fields.number("first_k_dense_replace", default=0)
    every = fields.number("moe_layer_freq", default=1)

    def ffn(index: int) -> FeedForward:
        return experts if index >= dense and index % every == 0 else mlp(fields)

    layers = [Layer(mixer=mixer, ffn=ffn(index)) for index in range(fields.count)]
    return family(fields, layers, tied=False)
