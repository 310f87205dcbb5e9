"""Recurrent mixers with a state of fixed size: their operators in execution order."""

from __future__ import annotations

from nsysroof.theory.cost import Operator
from nsysroof.theory.kinds import OperatorKind
from nsysroof.theory.models.linear import replicated_heads, shared_heads
from nsysroof.theory.models.stage import Stage
from nsysroof.theory.models.states import DeltaNet, Lightning, Mamba2
from nsysroof.theory.operators.norm import gated_norm
from nsysroof.theory.operators.state import conv_step, delta_rule, lightning, mamba2


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


def _gated_norm(stage: Stage, width: int, *, weights: int) -> Operator:
    tokens = stage.workload.tokens
    return stage.operator(
        "ssm.gate_norm",
        OperatorKind.RMS_NORM,
        gated_norm(tokens, width, weights=weights, dtype=stage.dtype),
        formula="read values and gates, write values; 9 flop per value",
        inputs={"tokens": tokens, "width": width},
    )


def mamba2_operators(stage: Stage, mixer: Mamba2) -> list[Operator]:
    """Return the operators of a Mamba-2 layer."""
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
        _gated_norm(stage, mixer.inner(tp), weights=mixer.inner(tp)),
        *stage.matmul(leave, step.tokens),
    ]


def delta_operators(stage: Stage, mixer: DeltaNet) -> list[Operator]:
    """Return the operators of a gated delta-rule layer."""
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
        _gated_norm(stage, mixer.values(tp), weights=mixer.value_dim),
        *stage.matmul(leave, step.tokens),
    ]


def lightning_operators(stage: Stage, mixer: Lightning) -> list[Operator]:
    """Return the operators of a lightning attention layer."""
    step, tp = stage.workload, stage.workload.tp
    enter, gate, leave = mixer.linears(stage.model.hidden, tp)
    heads = shared_heads(mixer.heads, tp)
    state = stage.operator(
        "ssm.state",
        _state_kind(stage),
        lightning(
            step.batch,
            step.tokens,
            heads=heads,
            head_dim=mixer.head_dim,
            state_dtype=mixer.state_dtype,
            dtype=stage.dtype,
        ),
        formula="state = 2*B*heads*head_dim^2; 5 flop per state value and token",
        inputs={
            "batch": step.batch,
            "tokens": step.tokens,
            "heads": heads,
            "head_dim": mixer.head_dim,
            "state_dtype": mixer.state_dtype,
        },
    )
    width = heads * mixer.head_dim
    return [
        *stage.matmul(enter, step.tokens),
        state,
        *stage.matmul(gate, step.tokens),
        _gated_norm(stage, width, weights=width),
        *stage.matmul(leave, step.tokens),
    ]
