"""The only code that knows nsys: exports of any version become tidy frames and a verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsysroof.lazy import loader

if TYPE_CHECKING:
    from nsysroof.trace.devices import GpuFacts
    from nsysroof.trace.trace import Trace, open_trace

__all__ = ["GpuFacts", "Trace", "open_trace"]

# What reads, with its libraries, is imported only when something of it is used.
__getattr__ = loader(
    __name__,
    {
        "GpuFacts": "nsysroof.trace.devices",
        "Trace": "nsysroof.trace.trace",
        "open_trace": "nsysroof.trace.trace",
    },
)
