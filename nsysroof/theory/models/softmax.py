"""Softmax attention with grouped KV heads: its operators in execution order."""

from __future__ import annotations

from nsysroof.theory.cost import Operator
from nsysroof.theory.kinds import OperatorKind
from nsysroof.theory.models.layers import Attention, QkNorm
from nsysroof.theory.models.linear import replicated_heads, shared_heads
from nsysroof.theory.models.stage import Stage
from nsysroof.theory.operators.attention import FORMULA, attention, kv_write
from nsysroof.theory.operators.elementwise import gate, rope
from nsysroof.theory.operators.norm import qk_norm
from nsysroof.theory.operators.pairs import Mask


def attention_operators(stage: Stage, mixer: Attention) -> list[Operator]:
    """Return the operators of an attention layer, from its first projection to its last."""
    step, tokens = stage.workload, stage.workload.tokens
    heads = shared_heads(mixer.heads, step.tp)
    kv_heads = replicated_heads(mixer.kv_heads, step.tp)
    qkv, out = mixer.linears(stage.model.hidden, step.tp)
    operators = stage.matmul(qkv, tokens)
    width = (heads + kv_heads) * mixer.head_dim
    if mixer.qk_norm is not QkNorm.NONE:
        operators.append(_qk_norm(stage, mixer, width))
    if mixer.rotary:
        operators.append(
            rope_operator(stage, width=width, rotary=mixer.rotary, heads=heads + kv_heads)
        )
    operators.append(kv_write_operator(stage, kv_heads * (mixer.head_dim + mixer.value_dim)))
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


def rope_operator(stage: Stage, *, width: int, rotary: int, heads: int) -> Operator:
    """Return the rotation of ``width`` values per token, ``rotary`` of each of ``heads`` heads."""
    tokens = stage.workload.tokens
    return stage.operator(
        "attn.rope",
        OperatorKind.ROPE,
        rope(tokens, width, rotary=rotary, heads=heads, dtype=stage.dtype),
        formula="read and write T*(heads+kv_heads)*head_dim, cos and sin; 6 flop per value",
        inputs={"tokens": tokens, "width": width, "rotary": rotary},
    )


def kv_write_operator(stage: Stage, values: int) -> Operator:
    """Return the write of ``values`` numbers per token into the cache."""
    tokens = stage.workload.tokens
    return stage.operator(
        "attn.kv_write",
        OperatorKind.KV_WRITE,
        kv_write(tokens, values, kv=stage.kv, dtype=stage.dtype),
        formula="read T*values at the dtype, write T*values at the cache's format",
        inputs={"tokens": tokens, "values": values, "kv": stage.kv},
    )


def attention_kind(stage: Stage) -> OperatorKind:
    """Return the kind of attention that the phase has."""
    if stage.workload.phase == "decode":
        return OperatorKind.ATTENTION_DECODE
    return OperatorKind.ATTENTION_PREFILL


def context_inputs(stage: Stage) -> dict[str, int | float | str]:
    """Return what the cost of an attention depends on besides the layer."""
    step = stage.workload
    inputs: dict[str, int | float | str] = {
        "batch": step.batch,
        "tokens": step.tokens,
        "context_sum": sum(step.contexts),
        "context_max": max(step.contexts),
        "kv": stage.kv,
    }
    if step.shared_prefix:
        inputs["shared_prefix"] = step.shared_prefix
    return inputs


def _core(stage: Stage, mixer: Attention, *, heads: int, kv_heads: int) -> Operator:
    step = stage.workload
    inputs = context_inputs(stage) | {
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
        attention_kind(stage),
        attention(
            step.queries,
            step.prefixes,
            heads=heads,
            kv_heads=kv_heads,
            head_dim=mixer.head_dim,
            value_dim=mixer.value_dim,
            mask=Mask(window=mixer.window, chunk=mixer.chunk),
            shared_prefix=step.shared_prefix,
            kv=stage.kv,
            dtype=stage.dtype,
            compute=stage.attention_peak,
            sinks=mixer.sinks,
        ),
        dtype=stage.attention_peak,
        formula=FORMULA,
        inputs=inputs,
    )
