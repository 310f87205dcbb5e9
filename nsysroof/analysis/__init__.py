"""From a trace and a few options to a report: the pipeline that ties the rooms together."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsysroof.lazy import loader

if TYPE_CHECKING:
    from nsysroof.analysis.options import Options
    from nsysroof.analysis.pipeline import analyze
    from nsysroof.analysis.theory import estimate_for

__all__ = ["Options", "analyze", "estimate_for"]

# What reads traces, with its libraries, is imported only when something of it is used.
__getattr__ = loader(
    __name__,
    {
        "Options": "nsysroof.analysis.options",
        "analyze": "nsysroof.analysis.pipeline",
        "estimate_for": "nsysroof.analysis.theory",
    },
)
