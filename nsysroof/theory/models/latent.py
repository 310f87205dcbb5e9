"""Multi-head latent attention and its sparse indexer: their operators in execution order."""

from __future__ import annotations

from dataclasses import replace

from nsysroof.theory.cost import Cost, Operator
from nsysroof.theory.dtypes import kv_bytes
from nsysroof.theory.kinds import OperatorKind
from nsysroof.theory.models.layers import LatentAttention
from nsysroof.theory.models.linear import Linear, shared_heads
from nsysroof.theory.models.softmax import (
    attention_kind,
    context_inputs,
    kv_write_operator,
    rope_operator,
)
from nsysroof.theory.models.stage import Stage
from nsysroof.theory.operators.attention import (
    FORMULA,
    MLA_FORMULA,
    attention,
    indexer,
    mla_decode,
)


def latent_operators(stage: Stage, mixer: LatentAttention) -> list[Operator]:
    """Return the operators of a latent attention layer, from its first projection to its last."""
    step, tokens = stage.workload, stage.workload.tokens
    linears = {linear.role: linear for linear in mixer.linears(stage.model.hidden, step.tp)}
    heads = shared_heads(mixer.heads, step.tp)
    operators: list[Operator] = []
    if mixer.q_lora is None:
        operators += stage.matmul(linears["attn.q_proj"], tokens)
        operators += stage.matmul(linears["attn.kv_a_proj"], tokens)
        operators.append(stage.norm("attn.kv_a_norm", mixer.kv_lora))
    else:
        operators += stage.matmul(linears["attn.qkv_a_proj"], tokens)
        operators.append(stage.norm("attn.q_a_norm", mixer.q_lora))
        operators.append(stage.norm("attn.kv_a_norm", mixer.kv_lora))
        operators += stage.matmul(linears["attn.q_b_proj"], tokens)
    core = _latent_core(stage, mixer, linears["attn.kv_b_proj"], heads)
    if core[0].role == "attn.absorb_k":
        # Engines take the queries into the latent space before they rotate.
        operators.append(core.pop(0))
    operators.append(
        rope_operator(stage, width=(heads + 1) * mixer.rope, rotary=mixer.rope, heads=heads + 1)
    )
    operators.append(kv_write_operator(stage, mixer.cached_values))
    operators += _index(stage, mixer, linears)
    operators += core
    return operators + stage.matmul(linears["attn.o_proj"], tokens)


def _latent_core(stage: Stage, mixer: LatentAttention, up: Linear, heads: int) -> list[Operator]:
    """Return the attention in the latent space, or over keys and values expanded for each head.

    Decode stays in the latent space, prefill expands. Where an indexer picks keys, a prefill may
    do either, and the one with less arithmetic is the bound.
    """
    absorbed = _absorbed(stage, mixer, heads)
    if stage.workload.phase == "decode":
        return absorbed
    expanded = stage.matmul(up, stage.workload.distinct_context)
    expanded.append(_expanded_core(stage, mixer, heads))
    sparse_is_less = sum(op.cost.total_flop for op in absorbed) < sum(
        op.cost.total_flop for op in expanded
    )
    return absorbed if mixer.indexer is not None and sparse_is_less else expanded


def _absorbed(stage: Stage, mixer: LatentAttention, heads: int) -> list[Operator]:
    """Return the decode form: queries go into the latent space, results come back from it."""
    step = stage.workload
    topk = mixer.indexer.topk if mixer.indexer else None
    core = stage.operator(
        "attn.core",
        attention_kind(stage),
        mla_decode(
            step.queries,
            step.prefixes,
            heads=heads,
            kv_lora=mixer.kv_lora,
            rope=mixer.rope,
            token_bytes=latent_token_bytes(mixer, stage.kv),
            dtype=stage.dtype,
            compute=stage.attention_peak,
            topk=topk,
            shared_prefix=step.shared_prefix,
        ),
        dtype=stage.attention_peak,
        formula=MLA_FORMULA,
        inputs=context_inputs(stage)
        | {"heads": heads, "kv_lora": mixer.kv_lora, "rope": mixer.rope}
        | ({} if topk is None else {"topk": topk}),
    )
    return [
        _head_gemm(stage, "attn.absorb_k", heads, n=mixer.kv_lora, k=mixer.nope),
        core,
        _head_gemm(stage, "attn.absorb_v", heads, n=mixer.value_dim, k=mixer.kv_lora),
    ]


def latent_token_bytes(mixer: LatentAttention, kv: str) -> int:
    """Return the bytes of one cached latent.

    Sparse attention keeps the rotary part in bf16 beside FP8 values with a scale per 128.

    >>> dense = LatentAttention(heads=128, q_lora=1536, kv_lora=512, nope=128, rope=64,
    ...                         value_dim=128)
    >>> latent_token_bytes(dense, "bf16"), latent_token_bytes(dense, "fp8")
    (1152, 576)
    """
    if mixer.indexer is not None and kv == "fp8":
        return mixer.kv_lora + 4 * (mixer.kv_lora // 128) + 2 * mixer.rope
    return kv_bytes(mixer.cached_values, kv)


def _head_gemm(stage: Stage, role: str, heads: int, *, n: int, k: int) -> Operator:
    """Return a product of each head with its own ``n x k`` matrix, at the model's dtype."""
    tokens, size = stage.workload.tokens, stage.size
    return stage.operator(
        role,
        OperatorKind.GEMM,
        Cost(
            flop={stage.dtype: 2 * tokens * heads * n * k},
            weight=heads * n * k * size,
            act_read=tokens * heads * k * size,
            act_write=tokens * heads * n * size,
        ),
        dtype=stage.dtype,
        formula="flop = 2*m*n*k per head; weight = heads*n*k",
        inputs={"m": tokens, "n": n, "k": k, "heads": heads, "weights": stage.dtype},
    )


def _expanded_core(stage: Stage, mixer: LatentAttention, heads: int) -> Operator:
    """Return the prefill form: keys and values expanded for every head."""
    step = stage.workload
    cost = attention(
        step.queries,
        step.prefixes,
        heads=heads,
        kv_heads=heads,
        head_dim=mixer.query_dim,
        value_dim=mixer.value_dim,
        shared_prefix=step.shared_prefix,
        kv=stage.dtype,
        dtype=stage.dtype,
    )
    # The expanded keys and values were written by this step: activations, not the cache.
    return stage.operator(
        "attn.core",
        attention_kind(stage),
        replace(cost, kv_read=0, act_read=cost.act_read + cost.kv_read),
        dtype=stage.dtype,
        formula=FORMULA,
        inputs=context_inputs(stage)
        | {"heads": heads, "head_dim": mixer.query_dim, "value_dim": mixer.value_dim},
    )


def _index(stage: Stage, mixer: LatentAttention, linears: dict[str, Linear]) -> list[Operator]:
    index = mixer.indexer
    if index is None:
        return []
    step, tokens = stage.workload, stage.workload.tokens
    operators: list[Operator] = []
    for role in ("attn.index.q_proj", "attn.index.k_proj", "attn.index.weights_proj"):
        operators += stage.matmul(linears[role], tokens)
    operators.append(
        stage.operator(
            "attn.index.k_write",
            OperatorKind.KV_WRITE,
            Cost(
                act_read=tokens * index.head_dim * stage.size + 8 * tokens,
                kv_write=tokens * index.key_bytes,
            ),
            formula="read T keys at the dtype, write them in FP8 with a 4-byte scale",
            inputs={"tokens": tokens, "head_dim": index.head_dim},
        )
    )
    scores = indexer(
        step.queries,
        step.prefixes,
        heads=index.heads,
        head_dim=index.head_dim,
        key_bytes=index.key_bytes,
        dtype="fp8",
        shared_prefix=step.shared_prefix,
    )
    operators.append(
        stage.operator(
            "attn.index.scores",
            OperatorKind.ATTENTION_INDEXER,
            scores,
            dtype="fp8",
            formula="flop = 2*heads*head_dim*pairs; one FP8 key with its scale per cached token",
            inputs=context_inputs(stage) | {"heads": index.heads, "head_dim": index.head_dim},
        )
    )
    operators.append(
        stage.operator(
            "attn.index.topk",
            OperatorKind.TOPK,
            Cost(act_read=scores.act_write, act_write=4 * tokens * index.topk),
            formula="read a 4-byte score per pair, write an index per chosen key",
            inputs={"tokens": tokens, "topk": index.topk},
        )
    )
    return operators
