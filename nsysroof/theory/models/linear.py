"""One weight matrix, and how tensor parallelism shares heads."""

from __future__ import annotations

from dataclasses import dataclass

from nsysroof.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """One weight matrix ``n x k``, or ``copies`` of them.

    Attributes:
        role: Role of the operator that multiplies by it.
        modules: Names of the checkpoint's modules that it is made of, below the layer.
        n: Output width.
        k: Reduction width.
        bias: Whether ``n`` biases are added.
        copies: How many such matrices there are (experts).
        quantisable: Whether quantisation ever covers it; routers and gates stay as they are.
    """

    role: str
    modules: tuple[str, ...]
    n: int
    k: int
    bias: bool = False
    copies: int = 1
    quantisable: bool = True

    @property
    def parameters(self) -> int:
        """Numbers in all copies."""
        return self.copies * (self.n * self.k + (self.n if self.bias else 0))


def shared_heads(heads: int, tp: int, *, what: str = "attention heads") -> int:
    """Return the heads of one GPU.

    Raises:
        UsageError: ``tp`` does not divide them.

    >>> shared_heads(32, 4)
    8
    """
    if heads % tp:
        raise UsageError(
            f"tp {tp} does not divide {heads} {what}",
            hint="give a --tp that divides the model's heads",
            slug="bad-workload",
            where="--tp",
        )
    return heads // tp


def replicated_heads(heads: int, tp: int) -> int:
    """Return the KV heads of one GPU: at least one, replicated where ``tp`` exceeds them.

    Raises:
        UsageError: Neither divides the other.

    >>> replicated_heads(4, 8), replicated_heads(8, 2)
    (1, 4)
    """
    if tp % heads == 0:
        return 1
    return shared_heads(heads, tp, what="KV heads")
