"""Storage formats: the exact bytes of a matrix with its scales, and what its arithmetic runs in.

Block sizes are those of the formats' own definitions: AWQ and GPTQ group 128, MX block 32 with an
8-bit exponent, NVFP4 block 16 with an FP8 scale and one FP32 scale per tensor, FP8 128x128 blocks
with an FP32 scale, GGUF blocks, NF4 with double quantisation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import TypeVar

from nsysroof.errors import UsageError

Found = TypeVar("Found")

FLOAT_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}
"""Plain formats, bytes per value; each computes in itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightFormat:
    """How an ``n x k`` weight matrix (``k`` is reduced over) lies in memory.

    Attributes:
        name: The spelling of ``--weights``.
        bits: Payload bits per weight.
        block_n: Rows that share a scale; None: all of them.
        block_k: Columns that share a scale; None: all of them.
        scale_bits: Bits per block, zero points included; 0: no scales.
        tensor_bytes: Bytes once per matrix.
        column_bytes: Bytes per column, such as the group that it belongs to where columns were
            reordered.
        activations: Input format that its fastest kernels take; None: the model's own dtype,
            since the weights are expanded to it before the multiplication.
    """

    name: str
    bits: int
    block_n: int | None = 1
    block_k: int | None = None
    scale_bits: float = 0
    tensor_bytes: int = 0
    column_bytes: int = 0
    activations: str | None = None

    def payload_bytes(self, n: int, k: int) -> int:
        """Return the bytes of the weights themselves.

        >>> WEIGHT_FORMATS["gptq"].payload_bytes(4096, 4096)
        8388608
        """
        return ceil(n * k * self.bits / 8)

    def scale_bytes(self, n: int, k: int) -> int:
        """Return the bytes of scales and zero points.

        >>> [WEIGHT_FORMATS[f].scale_bytes(4096, 4096) for f in ("awq", "gptq", "nvfp4")]
        [327680, 262144, 1048580]
        """
        blocks = ceil(n / (self.block_n or n)) * ceil(k / (self.block_k or k))
        return ceil(blocks * self.scale_bits / 8) + self.tensor_bytes + self.column_bytes * k

    def grouped(self, group: int) -> WeightFormat:
        """Return the format with another group size; -1 means one scale per row.

        >>> WEIGHT_FORMATS["gptq"].grouped(32).scale_bytes(4096, 4096)
        1048576
        """
        return replace(self, block_k=None if group < 0 else group)

    def with_zeros(self, bits: int) -> WeightFormat:
        """Return the format with a zero point of ``bits`` beside each scale.

        >>> WEIGHT_FORMATS["gptq"].with_zeros(4).scale_bytes(4096, 4096)
        327680
        """
        return replace(self, scale_bits=self.scale_bits + bits)

    def reordered(self) -> WeightFormat:
        """Return the format with a 4-byte group index per column, as reordered columns need.

        >>> WEIGHT_FORMATS["gptq"].reordered().scale_bytes(4096, 4096)
        278528
        """
        return replace(self, column_bytes=4)


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivationFormat:
    """How the ``m x k`` input of a linear layer lies in memory, and the peak it computes at."""

    name: str
    bits: int
    block: int | None = None
    scale_bytes_per_block: int = 0
    peak: str

    def payload_bytes(self, m: int, k: int) -> int:
        """Return the bytes of the values.

        >>> ACTIVATION_FORMATS["nvfp4"].payload_bytes(1, 4096)
        2048
        """
        return ceil(m * k * self.bits / 8)

    def scale_bytes(self, m: int, k: int) -> int:
        """Return the bytes of the scales, one per token or per block of a token.

        >>> ACTIVATION_FORMATS["fp8-block"].scale_bytes(1, 4096)
        128
        """
        return m * ceil(k / (self.block or k)) * self.scale_bytes_per_block


def _plain(name: str) -> WeightFormat:
    return WeightFormat(name=name, bits=FLOAT_BYTES[name] * 8, activations=name)


WEIGHT_FORMATS: Mapping[str, WeightFormat] = {
    fmt.name: fmt
    for fmt in (
        _plain("bf16"),
        _plain("fp16"),
        _plain("fp32"),
        WeightFormat(name="fp8", bits=8, tensor_bytes=4, activations="fp8"),
        WeightFormat(name="fp8-channel", bits=8, scale_bits=32, activations="fp8"),
        WeightFormat(
            name="fp8-block",
            bits=8,
            block_n=128,
            block_k=128,
            scale_bits=32,
            activations="fp8-block",
        ),
        WeightFormat(name="int8", bits=8, scale_bits=32, activations="int8"),
        WeightFormat(name="awq", bits=4, block_k=128, scale_bits=20),
        WeightFormat(name="gptq", bits=4, block_k=128, scale_bits=16),
        WeightFormat(name="mxfp4", bits=4, block_k=32, scale_bits=8),
        WeightFormat(name="mxfp8", bits=8, block_k=32, scale_bits=8, activations="mxfp8"),
        WeightFormat(
            name="nvfp4", bits=4, block_k=16, scale_bits=8, tensor_bytes=4, activations="nvfp4"
        ),
        WeightFormat(name="q4_0", bits=4, block_k=32, scale_bits=16),
        WeightFormat(name="q4_k", bits=4, block_k=256, scale_bits=128),
        WeightFormat(name="q8_0", bits=8, block_k=32, scale_bits=16),
        # 64 weights share an 8-bit scale; 256 such scales share one FP32.
        WeightFormat(name="nf4", bits=4, block_k=64, scale_bits=8 + 32 / 256),
    )
}
"""Weight formats by the names that ``--weights`` takes."""

ACTIVATION_FORMATS: Mapping[str, ActivationFormat] = {
    fmt.name: fmt
    for fmt in (
        ActivationFormat(name="bf16", bits=16, peak="bf16"),
        ActivationFormat(name="fp16", bits=16, peak="fp16"),
        ActivationFormat(name="fp32", bits=32, peak="fp32"),
        ActivationFormat(name="fp8", bits=8, scale_bytes_per_block=4, peak="fp8"),
        ActivationFormat(name="fp8-block", bits=8, block=128, scale_bytes_per_block=4, peak="fp8"),
        ActivationFormat(name="int8", bits=8, scale_bytes_per_block=4, peak="int8"),
        ActivationFormat(name="mxfp8", bits=8, block=32, scale_bytes_per_block=1, peak="fp8"),
        ActivationFormat(name="nvfp4", bits=4, block=16, scale_bytes_per_block=1, peak="fp4"),
    )
}
"""Activation formats by the names that ``--activations`` takes."""

KV_BITS: Mapping[str, float] = {
    "bf16": 16,
    "fp16": 16,
    "fp32": 32,
    "fp8": 8,
    "int8": 8,
    "nvfp4": 4.5,
    "q8_0": 8.5,
    "q4_0": 4.5,
}
"""KV-cache formats, bits per value with the scales of block formats: NVFP4 has an FP8 one per 16
values, llama.cpp's have an FP16 one per 32."""


def kv_bytes(values: int, fmt: str) -> int:
    """Return the bytes of ``values`` cached numbers.

    Raises:
        UsageError: ``fmt`` is not a KV format.

    >>> kv_bytes(2 * 4 * 128 * 4096, "bf16"), kv_bytes(2 * 4 * 128 * 4096, "fp8")
    (8388608, 4194304)
    """
    return ceil(values * _named(KV_BITS, fmt, "KV-cache format", "--kv") / 8)


def weight_format(name: str) -> WeightFormat:
    """Return a weight format by name.

    Raises:
        UsageError: No such format.
    """
    return _named(WEIGHT_FORMATS, name, "weight format", "--weights")


def activation_format(name: str) -> ActivationFormat:
    """Return an activation format by name.

    Raises:
        UsageError: No such format.
    """
    return _named(ACTIVATION_FORMATS, name, "activation format", "--activations")


def _named(table: Mapping[str, Found], name: str, what: str, option: str) -> Found:
    try:
        return table[name]
    except KeyError:
        raise UsageError(
            f"unknown {what} {name!r}",
            hint=f"use one of: {', '.join(table)}",
            slug="unknown-format",
            where=option,
        ) from None
