"""What the kernel names tell of the engine that launched them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from nsysroof.match.rules import KernelClass

_GGML = "ggml."
_ARCHITECTURE = re.compile(r"(?:^nvjet_sm|^fmhaSm|^sm)(\d{2,3})(?=[a-z]?[_K])")


def projects_value_first(classes: Sequence[KernelClass]) -> bool:
    """Return whether the engine projects V before K, as ggml orders its graph."""
    return any(kernel.rule is not None and kernel.rule.startswith(_GGML) for kernel in classes)


def newest_architecture(classes: Sequence[KernelClass]) -> int | None:
    """Return the newest compute capability that a kernel name says it was built for, such as 103.

    >>> from nsysroof.match.rules import load_rules
    >>> newest_architecture(load_rules().classify_each(["nvjet_sm103_tst_64x16_64x16_4x1_v_bz_TNT"]))
    103
    """
    found = [int(told) for kernel in classes for told in _ARCHITECTURE.findall(kernel.name)]
    return max(found, default=None)
