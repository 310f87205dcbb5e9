"""The only code that knows nsys: exports of any version become tidy frames and a verdict."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nsysroof.trace.devices import GpuFacts
    from nsysroof.trace.trace import Trace, open_trace

__all__ = ["GpuFacts", "Trace", "open_trace"]

_HOMES = {
    "GpuFacts": "nsysroof.trace.devices",
    "Trace": "nsysroof.trace.trace",
    "open_trace": "nsysroof.trace.trace",
}


def __getattr__(name: str) -> object:
    """Import the reader with its libraries only when something of it is used."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
