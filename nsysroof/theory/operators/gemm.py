"""Dense matrix products: FLOP, weights with their scales, activations in and out."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from nsysroof.theory.cost import Cost
from nsysroof.theory.dtypes import FLOAT_BYTES, ActivationFormat, WeightFormat

FORMULA = "flop = 2*m*n*k; weight = n*k at the format; act = m*k in, m*n out"


@dataclass(frozen=True, slots=True, kw_only=True)
class LinearFormat:
    """The formats of one linear layer: weights, inputs, and the dtype of outputs and biases."""

    weights: WeightFormat
    activations: ActivationFormat
    output: str

    @property
    def quantises(self) -> bool:
        """Whether the inputs need a conversion of their own before the product."""
        return self.activations.name not in FLOAT_BYTES

    @property
    def output_bytes(self) -> int:
        """Bytes per output value."""
        return FLOAT_BYTES[self.output]


def gemm(
    m: int, n: int, k: int, *, fmt: LinearFormat, bias: bool = False, residual: bool = False
) -> Cost:
    """Return the cost of ``(m x k) @ (k x n)``: 2·m·n·k FLOP, every operand touched once.

    Args:
        m: Rows, the tokens of the step.
        n: Output width on this GPU.
        k: Reduction width on this GPU.
        fmt: The formats; scales of quantised inputs count as ``scale``.
        bias: A bias of ``n`` values is read.
        residual: The result is added to an ``m x n`` matrix that is read.

    >>> from nsysroof.theory.dtypes import activation_format, weight_format
    >>> bf16 = LinearFormat(
    ...     weights=weight_format("bf16"), activations=activation_format("bf16"), output="bf16")
    >>> qkv = gemm(1, 5120, 2048, fmt=bf16)
    >>> qkv.weight, qkv.act_read, qkv.act_write, qkv.total_flop
    (20971520, 4096, 10240, 20971520)
    """
    out = fmt.output_bytes
    return Cost(
        flop={fmt.activations.peak: 2 * m * n * k},
        weight=fmt.weights.payload_bytes(n, k) + (n * out if bias else 0),
        scale=fmt.weights.scale_bytes(n, k) + fmt.activations.scale_bytes(m, k),
        act_read=fmt.activations.payload_bytes(m, k) + (m * n * out if residual else 0),
        act_write=m * n * out,
    )


def quantize(m: int, k: int, *, source: str, target: ActivationFormat) -> Cost:
    """Return the cost of converting an ``m x k`` input: read it, write payload and scales.

    >>> from nsysroof.theory.dtypes import activation_format
    >>> c = quantize(2, 4096, source="bf16", target=activation_format("fp8"))
    >>> c.act_read, c.act_write, c.scale
    (16384, 8192, 8)
    """
    return Cost(
        flop={"fp32": 2 * m * k},
        scale=target.scale_bytes(m, k),
        act_read=m * k * FLOAT_BYTES[source],
        act_write=target.payload_bytes(m, k),
    )


def lora(
    tokens: int, n: int, k: int, *, rank: int, adapters: int, dtype: str, slices: int = 1
) -> Cost:
    """Return the cost of a low-rank update: shrink k→rank and expand rank→n.

    FLOP = 2·T·r·(k + n); weights of the ``adapters`` distinct ones in the batch, each read once.

    Args:
        tokens: Rows.
        n: Output width on this GPU.
        k: Reduction width on this GPU.
        rank: Rank of every adapter.
        adapters: Distinct adapters in the batch.
        dtype: Dtype of weights and activations.
        slices: Matrices that were fused into the ``n`` outputs (3 for QKV): each has its own
            shrink.

    >>> lora(8, 4096, 4096, rank=16, adapters=2, dtype="bf16").weight
    524288
    """
    size = FLOAT_BYTES[dtype]
    values = rank * (slices * k + n)
    return Cost(
        flop={dtype: 2 * tokens * values},
        weight=adapters * values * size,
        act_read=tokens * (k + slices * rank) * size,
        act_write=tokens * (slices * rank + n) * size,
    )


def split(width: int, parts: int) -> int:
    """Return one GPU's share of a width, rounded up as engines pad it.

    >>> split(5120, 4), split(201088, 3)
    (1280, 67030)
    """
    return ceil(width / parts)
