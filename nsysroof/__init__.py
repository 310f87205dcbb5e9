"""Measured against theory: the roofline of every kernel in an Nsight Systems capture.

The public surface, loaded when first used:

    import nsysroof
    trace = nsysroof.open_trace("run.sqlite")
    options = nsysroof.Options(model="llama-3.1-8b", batch=8, context=(1024,))
    report = nsysroof.analyze(trace, options)
    best = nsysroof.estimate(nsysroof.Options(model="qwen3-8b", gpu="h100-sxm", context=(4096,)))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nsysroof.analysis import Options, analyze
    from nsysroof.analysis import estimate_for as estimate
    from nsysroof.results import Estimate, Report
    from nsysroof.theory.gpus import Gpu
    from nsysroof.theory.models.spec import ModelSpec
    from nsysroof.theory.workload import Workload
    from nsysroof.trace import Trace, open_trace

__version__ = "0.1.0"

__all__ = [
    "Estimate",
    "Gpu",
    "ModelSpec",
    "Options",
    "Report",
    "Trace",
    "Workload",
    "analyze",
    "estimate",
    "open_trace",
]

_HOMES = {
    "Estimate": ("nsysroof.results", "Estimate"),
    "Gpu": ("nsysroof.theory.gpus", "Gpu"),
    "ModelSpec": ("nsysroof.theory.models.spec", "ModelSpec"),
    "Options": ("nsysroof.analysis", "Options"),
    "Report": ("nsysroof.results", "Report"),
    "Trace": ("nsysroof.trace", "Trace"),
    "Workload": ("nsysroof.theory.workload", "Workload"),
    "analyze": ("nsysroof.analysis", "analyze"),
    "estimate": ("nsysroof.analysis", "estimate_for"),
    "open_trace": ("nsysroof.trace", "open_trace"),
}


def __getattr__(name: str) -> Any:
    """Load a public name from the module that owns it."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _HOMES[name]
    return getattr(import_module(module), attribute)


def __dir__() -> list[str]:
    """List the public names."""
    return sorted({*globals(), *__all__})
