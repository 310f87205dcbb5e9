"""What the kernel names tell of the engine that launched them."""

from __future__ import annotations

from collections.abc import Sequence

from nsysroof.match.rules import KernelClass

_GGML = "ggml."


def projects_value_first(classes: Sequence[KernelClass]) -> bool:
    """Return whether the engine projects V before K, as ggml orders its graph."""
    return any(kernel.rule is not None and kernel.rule.startswith(_GGML) for kernel in classes)
