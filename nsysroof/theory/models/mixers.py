"""The operators of a token mixer in execution order: attention, latent attention, recurrence."""

from __future__ import annotations

from dataclasses import replace

from nsysroof.theory.cost import Cost, Operator
from nsysroof.theory.dtypes import kv_bytes
from nsysroof.theory.kinds import OperatorKind
from nsysroof.theory.models.layers import (
    Attention,
    DeltaNet,
    LatentAttention,
    Linear,
    Mamba2,
    Mixer,
    QkNorm,
    replicated_heads,
    shared_heads,
)
from nsysroof.theory.models.stage import Stage
from nsysroof.theory.operators.attention import (
    FORMULA,
    MLA_FORMULA,
    attention,
    indexer,
    kv_write,
    mla_decode,
)
from nsysroof.theory.operators.elementwise import gate, rope
from nsysroof.theory.operators.norm import qk_norm
from nsysroof.theory.operators.state import conv_step, delta_rule, mamba2


def mixer_operators(stage: Stage, mixer: Mixer) -> list[Operator]:
    """Return the operators of a layer's token mixer, from its first projection to its last."""
    match mixer:
        case Attention():
            return _attention(stage, mixer)
        case LatentAttention():
            return _latent(stage, mixer)
        case Mamba2():
            return _mamba2(stage, mixer)
        case DeltaNet():
            return _delta(stage, mixer)


def mixer_prefix(mixer: Mixer) -> str:
    """Return the first part of the mixer's roles.

    >>> mixer_prefix(Mamba2(heads=1, head_dim=1, groups=1, state=1, conv=4))
    'ssm'
    """
    return "attn" if isinstance(mixer, Attention | LatentAttention) else "ssm"


def _attention(stage: Stage, mixer: Attention) -> list[Operator]:
    step, tokens = stage.workload, stage.workload.tokens
    heads = shared_heads(mixer.heads, step.tp)
    kv_heads = replicated_heads(mixer.kv_heads, step.tp)
    qkv, out = mixer.linears(stage.model.hidden, step.tp)
    operators = stage.matmul(qkv, tokens)
    width = (heads + kv_heads) * mixer.head_dim
    if mixer.qk_norm is not QkNorm.NONE:
        operators.append(_qk_norm(stage, mixer, width))
    if mixer.rotary:
        operators.append(_rope(stage, width=width, rotary=mixer.rotary, heads=heads + kv_heads))
    operators.append(_kv_write(stage, kv_heads * (mixer.head_dim + mixer.value_dim)))
    operators.append(_core(stage, mixer, heads=heads, kv_heads=kv_heads))
    if mixer.gated:
        values = heads * mixer.value_dim
        operators.append(
            stage.operator(
                "attn.gate",
                OperatorKind.GATE,
                gate(tokens, values, gates=values, dtype=stage.dtype),
                formula="read values and gates, write values",
                inputs={"tokens": tokens, "width": values},
            )
        )
    return operators + stage.matmul(out, tokens)


def _qk_norm(stage: Stage, mixer: Attention, width: int) -> Operator:
    weights = {
        QkNorm.HEAD: 2 * mixer.head_dim,
        QkNorm.FULL: width,
    }.get(mixer.qk_norm, 0)
    tokens = stage.workload.tokens
    return stage.operator(
        "attn.qk_norm",
        OperatorKind.QK_NORM,
        qk_norm(tokens, width, weights=weights, dtype=stage.dtype),
        formula="read and write T*(heads+kv_heads)*head_dim; 4 flop per value",
        inputs={"tokens": tokens, "width": width},
    )


def _rope(stage: Stage, *, width: int, rotary: int, heads: int) -> Operator:
    tokens = stage.workload.tokens
    return stage.operator(
        "attn.rope",
        OperatorKind.ROPE,
        rope(tokens, width, rotary=rotary, heads=heads, dtype=stage.dtype),
        formula="read and write T*(heads+kv_heads)*head_dim, cos and sin; 6 flop per value",
        inputs={"tokens": tokens, "width": width, "rotary": rotary},
    )


def _kv_write(stage: Stage, values: int) -> Operator:
    tokens = stage.workload.tokens
    return stage.operator(
        "attn.kv_write",
        OperatorKind.KV_WRITE,
        kv_write(tokens, values, kv=stage.kv, dtype=stage.dtype),
        formula="read T*values at the dtype, write T*values at the cache's format",
        inputs={"tokens": tokens, "values": values, "kv": stage.kv},
    )


def _attention_kind(stage: Stage) -> OperatorKind:
    if stage.workload.phase == "decode":
        return OperatorKind.ATTENTION_DECODE
    return OperatorKind.ATTENTION_PREFILL


def _context_inputs(stage: Stage) -> dict[str, int | float | str]:
    step = stage.workload
    return {
        "batch": step.batch,
        "tokens": step.tokens,
        "context_sum": sum(step.contexts),
        "context_max": max(step.contexts),
        "kv": stage.kv,
    }


def _core(stage: Stage, mixer: Attention, *, heads: int, kv_heads: int) -> Operator:
    step = stage.workload
    inputs = _context_inputs(stage) | {
        "heads": heads,
        "kv_heads": kv_heads,
        "head_dim": mixer.head_dim,
        "value_dim": mixer.value_dim,
    }
    if mixer.window is not None:
        inputs["window"] = mixer.window
    if mixer.chunk is not None:
        inputs["chunk"] = mixer.chunk
    return stage.operator(
        "attn.core",
        _attention_kind(stage),
        attention(
            step.queries,
            step.prefixes,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=mixer.head_dim,
            value_dim=mixer.value_dim,
            window=mixer.window,
            chunk=mixer.chunk,
            kv=stage.kv,
            dtype=stage.dtype,
            compute=stage.attention_peak,
            sinks=mixer.sinks,
        ),
        dtype=stage.attention_peak,
        formula=FORMULA,
        inputs=inputs,
    )


def _latent(stage: Stage, mixer: LatentAttention) -> list[Operator]:
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
    operators.append(
        _rope(stage, width=(heads + 1) * mixer.rope, rotary=mixer.rope, heads=heads + 1)
    )
    operators.append(_kv_write(stage, mixer.cached_values))
    operators += _index(stage, mixer, linears)
    if step.phase == "decode":
        operators += _absorbed(stage, mixer, heads)
    else:
        operators += stage.matmul(linears["attn.kv_b_proj"], sum(step.contexts))
        operators.append(_expanded_core(stage, mixer, heads))
    return operators + stage.matmul(linears["attn.o_proj"], tokens)


def _absorbed(stage: Stage, mixer: LatentAttention, heads: int) -> list[Operator]:
    """Return the decode form: queries go into the latent space, results come back from it."""
    step = stage.workload
    topk = mixer.indexer.topk if mixer.indexer else None
    core = stage.operator(
        "attn.core",
        _attention_kind(stage),
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
        ),
        dtype=stage.attention_peak,
        formula=MLA_FORMULA,
        inputs=_context_inputs(stage)
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
        kv=stage.dtype,
        dtype=stage.dtype,
    )
    # The expanded keys and values were written by this step: activations, not the cache.
    return stage.operator(
        "attn.core",
        _attention_kind(stage),
        replace(cost, kv_read=0, act_read=cost.act_read + cost.kv_read),
        dtype=stage.dtype,
        formula=FORMULA,
        inputs=_context_inputs(stage)
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
    scores = indexer(
        step.queries,
        step.prefixes,
        heads=index.heads,
        head_dim=index.head_dim,
        key_bytes=index.head_dim + 4,
        dtype="fp8",
    )
    operators.append(
        stage.operator(
            "attn.index.scores",
            OperatorKind.ATTENTION_INDEXER,
            scores,
            dtype="fp8",
            formula="flop = 2*heads*head_dim*pairs; one FP8 key with its scale per cached token",
            inputs=_context_inputs(stage) | {"heads": index.heads, "head_dim": index.head_dim},
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


def _state_kind(stage: Stage) -> OperatorKind:
    one_each = stage.workload.tokens == stage.workload.batch
    return OperatorKind.STATE_UPDATE if one_each else OperatorKind.STATE_SCAN


def _conv(stage: Stage, *, channels: int, taps: int) -> Operator:
    step = stage.workload
    return stage.operator(
        "ssm.conv",
        OperatorKind.CONV,
        conv_step(step.batch, step.tokens, channels=channels, taps=taps, dtype=stage.dtype),
        formula="state = 2*B*channels*(taps-1); read and write T*channels",
        inputs={"tokens": step.tokens, "channels": channels, "taps": taps},
    )


def _mamba2(stage: Stage, mixer: Mamba2) -> list[Operator]:
    step, tp = stage.workload, stage.workload.tp
    enter, leave = mixer.linears(stage.model.hidden, tp)
    heads = shared_heads(mixer.heads, tp)
    groups = replicated_heads(mixer.groups, tp)
    state = stage.operator(
        "ssm.state",
        _state_kind(stage),
        mamba2(
            step.batch,
            step.tokens,
            heads=heads,
            head_dim=mixer.head_dim,
            groups=groups,
            state=mixer.state,
            state_dtype=mixer.state_dtype,
            dtype=stage.dtype,
        ),
        formula="state = 2*B*heads*head_dim*state; 5 flop per state value and token",
        inputs={
            "batch": step.batch,
            "tokens": step.tokens,
            "heads": heads,
            "head_dim": mixer.head_dim,
            "state": mixer.state,
            "state_dtype": mixer.state_dtype,
        },
    )
    return [
        *stage.matmul(enter, step.tokens),
        _conv(stage, channels=mixer.channels(tp), taps=mixer.conv),
        state,
        stage.norm("ssm.gate_norm", mixer.inner(tp)),
        *stage.matmul(leave, step.tokens),
    ]


def _delta(stage: Stage, mixer: DeltaNet) -> list[Operator]:
    step, tp = stage.workload, stage.workload.tp
    enter, steps, leave = mixer.linears(stage.model.hidden, tp)
    key_heads = shared_heads(mixer.key_heads, tp)
    value_heads = shared_heads(mixer.value_heads, tp)
    state = stage.operator(
        "ssm.state",
        _state_kind(stage),
        delta_rule(
            step.batch,
            step.tokens,
            key_heads=key_heads,
            value_heads=value_heads,
            key_dim=mixer.key_dim,
            value_dim=mixer.value_dim,
            state_dtype=mixer.state_dtype,
            dtype=stage.dtype,
        ),
        formula="state = 2*B*value_heads*key_dim*value_dim; 8 flop per state value and token",
        inputs={
            "batch": step.batch,
            "tokens": step.tokens,
            "key_heads": key_heads,
            "value_heads": value_heads,
            "key_dim": mixer.key_dim,
            "value_dim": mixer.value_dim,
            "state_dtype": mixer.state_dtype,
        },
    )
    channels = 2 * mixer.keys(tp) + mixer.values(tp)
    return [
        *stage.matmul(enter, step.tokens),
        *stage.matmul(steps, step.tokens),
        _conv(stage, channels=channels, taps=mixer.conv),
        state,
        stage.norm("ssm.gate_norm", mixer.values(tp)),
        *stage.matmul(leave, step.tokens),
    ]
