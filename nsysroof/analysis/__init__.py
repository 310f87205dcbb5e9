"""From a trace and a few options to a report: the pipeline that ties the rooms together."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nsysroof.analysis.options import Options
    from nsysroof.analysis.pipeline import analyze
    from nsysroof.analysis.theory import estimate_for

__all__ = ["Options", "analyze", "estimate_for"]

_HOMES = {
    "Options": "nsysroof.analysis.options",
    "analyze": "nsysroof.analysis.pipeline",
    "estimate_for": "nsysroof.analysis.theory",
}


def __getattr__(name: str) -> object:
    """Import what reads traces, with its libraries, only when something of it is used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
