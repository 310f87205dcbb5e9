"""Mixers that keep a state instead of a cache: their matrices and other parameters.

Widths are those of one GPU once ``tp`` is given; ``tp=1`` describes the whole layer.
"""

from __future__ import annotations

from dataclasses import dataclass

from nsysroof.theory.dtypes import FLOAT_BYTES
from nsysroof.theory.models.linear import Linear, replicated_heads, shared_heads


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba2:
    """A Mamba-2 block with a state of heads x head_dim x state values."""

    heads: int
    head_dim: int
    groups: int
    state: int
    conv: int
    state_dtype: str = "fp32"

    def inner(self, tp: int = 1) -> int:
        """Return the channels of one GPU."""
        return shared_heads(self.heads, tp, what="state heads") * self.head_dim

    def channels(self, tp: int = 1) -> int:
        """Return the convolved channels of one GPU."""
        return self.inner(tp) + 2 * replicated_heads(self.groups, tp) * self.state

    def linears(self, hidden: int, tp: int = 1) -> tuple[Linear, ...]:
        """Return the input projection (gate, channels, steps) and the output projection."""
        wide = self.inner(tp) + self.channels(tp) + self.heads // tp
        return (
            Linear(role="ssm.in_proj", modules=("mixer.in_proj",), n=wide, k=hidden),
            Linear(role="ssm.out_proj", modules=("mixer.out_proj",), n=hidden, k=self.inner(tp)),
        )

    @property
    def small_parameters(self) -> int:
        """Convolution with bias, step and decay per head, gated norm."""
        return (self.conv + 1) * self.channels() + 3 * self.heads + self.inner()

    def state_bytes(self, tp: int, conv_bytes: int) -> int:
        """Return what one sequence keeps on one GPU: the state and the convolution's columns."""
        values = self.inner(tp) * self.state * FLOAT_BYTES[self.state_dtype]
        return values + self.channels(tp) * (self.conv - 1) * conv_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaNet:
    """A gated delta-rule block with a key_dim x value_dim state per value head."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv: int
    state_dtype: str = "fp32"

    def keys(self, tp: int = 1) -> int:
        """Return the key width of one GPU."""
        return shared_heads(self.key_heads, tp, what="key heads") * self.key_dim

    def values(self, tp: int = 1) -> int:
        """Return the value width of one GPU."""
        return shared_heads(self.value_heads, tp, what="value heads") * self.value_dim

    def linears(self, hidden: int, tp: int = 1) -> tuple[Linear, ...]:
        """Return the projections to q, k, v and gate, to step and decay, and back."""
        wide = 2 * self.keys(tp) + 2 * self.values(tp)
        steps = 2 * self.value_heads // tp
        return (
            Linear(role="ssm.in_proj", modules=("linear_attn.in_proj_qkvz",), n=wide, k=hidden),
            Linear(role="ssm.steps_proj", modules=("linear_attn.in_proj_ba",), n=steps, k=hidden),
            Linear(
                role="ssm.out_proj",
                modules=("linear_attn.out_proj",),
                n=hidden,
                k=self.values(tp),
            ),
        )

    @property
    def small_parameters(self) -> int:
        """Convolution, step and decay per head, gated norm."""
        return self.conv * (2 * self.keys() + self.values()) + 2 * self.value_heads + self.value_dim

    def state_bytes(self, tp: int, conv_bytes: int) -> int:
        """Return what one sequence keeps on one GPU: the state and the convolution's columns."""
        values = self.values(tp) * self.key_dim * FLOAT_BYTES[self.state_dtype]
        return values + (2 * self.keys(tp) + self.values(tp)) * (self.conv - 1) * conv_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Lightning:
    """Linear attention with a decaying head_dim x head_dim state per head, and an output gate."""

    heads: int
    head_dim: int
    state_dtype: str = "fp32"

    def linears(self, hidden: int, tp: int = 1) -> tuple[Linear, ...]:
        """Return the projections to q, k and v, to the gate, and back."""
        wide = shared_heads(self.heads, tp, what="state heads") * self.head_dim
        return (
            Linear(role="ssm.in_proj", modules=("self_attn.qkv_proj",), n=3 * wide, k=hidden),
            Linear(role="ssm.gate_proj", modules=("self_attn.output_gate",), n=wide, k=hidden),
            Linear(role="ssm.out_proj", modules=("self_attn.out_proj",), n=hidden, k=wide),
        )

    @property
    def small_parameters(self) -> int:
        """Norm of the output."""
        return self.heads * self.head_dim

    def state_bytes(self, tp: int, conv_bytes: int) -> int:  # noqa: ARG002  it has no convolution
        """Return what one sequence keeps on one GPU: the state of every head."""
        heads = shared_heads(self.heads, tp, what="state heads")
        return heads * self.head_dim**2 * FLOAT_BYTES[self.state_dtype]
