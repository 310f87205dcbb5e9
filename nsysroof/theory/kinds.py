"""What an operator computes: the closed set that the matcher maps kernel classes onto."""

from __future__ import annotations

from enum import StrEnum


class OperatorKind(StrEnum):
    """The computation of one operator; several roles share a kind."""

    EMBEDDING = "embedding"
    RMS_NORM = "rms_norm"
    LAYER_NORM = "layer_norm"
    GEMM = "gemm"
    QK_NORM = "qk_norm"
    ROPE = "rope"
    KV_WRITE = "kv_write"
    ATTENTION_DECODE = "attention_decode"
    ATTENTION_PREFILL = "attention_prefill"
    ATTENTION_INDEXER = "attention_indexer"
    RESIDUAL_ADD = "residual_add"
    ACTIVATION = "activation"
    GATE = "gate"
    QUANTIZE = "quantize"
    ROUTER_GEMM = "router_gemm"
    TOPK = "topk"
    MOE_ALIGN = "moe_align"
    MOE_PERMUTE = "moe_permute"
    MOE_GEMM = "moe_gemm"
    MOE_COMBINE = "moe_combine"
    CONV = "conv"
    STATE_UPDATE = "state_update"
    STATE_SCAN = "state_scan"
    ALL_REDUCE = "all_reduce"
    ALL_GATHER = "all_gather"
    REDUCE_SCATTER = "reduce_scatter"
    ALL_TO_ALL = "all_to_all"
    COPY = "copy"
    CAST = "cast"
    FILL = "fill"
    LORA = "lora"
    SAMPLING = "sampling"


MATMUL_KINDS = frozenset({OperatorKind.GEMM, OperatorKind.ROUTER_GEMM, OperatorKind.MOE_GEMM})
"""Operators whose bytes are weights."""

ATTENTION_KINDS = frozenset(
    {
        OperatorKind.ATTENTION_DECODE,
        OperatorKind.ATTENTION_PREFILL,
        OperatorKind.ATTENTION_INDEXER,
        OperatorKind.STATE_UPDATE,
        OperatorKind.STATE_SCAN,
    }
)
"""Operators that mix tokens and read a cache or a state."""

LINK_KINDS = frozenset(
    {
        OperatorKind.ALL_REDUCE,
        OperatorKind.ALL_GATHER,
        OperatorKind.REDUCE_SCATTER,
        OperatorKind.ALL_TO_ALL,
        OperatorKind.COPY,
    }
)
"""Operators whose bytes cross a link rather than the GPU's own memory."""
