"""The cost of an operator: FLOP by compute dtype and bytes by kind, as integers.

Nothing here knows a GPU: a :class:`Cost` becomes a time only in ``roofline``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from nsysroof.results import OperatorBytes

BYTE_KINDS = (
    "weight",
    "scale",
    "act_read",
    "act_write",
    "kv_read",
    "kv_write",
    "state",
    "link",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """FLOP by compute dtype (a peak key such as ``bf16``) and bytes by kind.

    Costs add: ``a + b`` is the cost of both, ``a * n`` that of ``n`` instances.

    >>> a = Cost(flop={"bf16": 8}, weight=4, act_read=2)
    >>> (a + a * 2).total_flop, (a * 3).memory_bytes
    (24, 18)
    """

    flop: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    weight: int = 0
    scale: int = 0
    act_read: int = 0
    act_write: int = 0
    kv_read: int = 0
    kv_write: int = 0
    state: int = 0
    link: int = 0

    @property
    def total_flop(self) -> int:
        """FLOP over all dtypes."""
        return sum(self.flop.values())

    @property
    def memory_bytes(self) -> int:
        """Bytes that cross the GPU's memory: every kind but ``link``."""
        return self.resident_bytes + self.act_read + self.act_write

    @property
    def resident_bytes(self) -> int:
        """Memory bytes without activations: weights, scales, KV and state."""
        return self.weight + self.scale + self.kv_read + self.kv_write + self.state

    @property
    def bytes(self) -> OperatorBytes:
        """The bytes by kind as the results carry them."""
        return OperatorBytes(**{kind: getattr(self, kind) for kind in BYTE_KINDS})

    def __add__(self, other: Cost) -> Cost:
        """Return the cost of both."""
        dtypes = sorted({*self.flop, *other.flop})
        flop = {d: self.flop.get(d, 0) + other.flop.get(d, 0) for d in dtypes}
        kinds = {kind: getattr(self, kind) + getattr(other, kind) for kind in BYTE_KINDS}
        return Cost(flop=flop, **kinds)

    def __mul__(self, times: int) -> Cost:
        """Return the cost of ``times`` instances."""
        kinds = {kind: getattr(self, kind) * times for kind in BYTE_KINDS}
        return Cost(flop={d: n * times for d, n in self.flop.items()}, **kinds)


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """One operator of a step, in execution order, with all that its cost was made from.

    Attributes:
        role: Dotted role of the contract, such as ``attn.qkv_proj``.
        kind: What it computes: ``gemm``, ``attention_decode``, ``moe_gemm``, ``rms_norm`` …
        layer: Layer index, or None outside the layers.
        cost: The expected cost of one instance.
        min_cost: The least it can cost where that differs (fewest distinct experts), else None.
        dtype: Compute dtype of its main arithmetic, a peak key.
        formula: The formula in words a reader can recompute, with its source.
        inputs: The values that went into the formula.
        optional: Engines may fuse it away or leave it out (norms, residuals, casts).
        auxiliary: Bookkeeping of an implementation without a bound of its own (``moe.align``);
            estimates leave it out.
    """

    role: str
    kind: str
    layer: int | None
    cost: Cost
    min_cost: Cost | None = None
    dtype: str
    formula: str
    inputs: Mapping[str, int | float | str]
    optional: bool = False
    auxiliary: bool = False
