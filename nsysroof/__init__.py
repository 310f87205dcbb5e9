"""Measured against theory: the roofline of every kernel in an Nsight Systems capture.

The public surface, loaded when first used:

    import nsysroof as nr

    report = nr.analyze("run.sqlite", model="llama-3.1-8b", batch=8, context=1024)
    report.frame("operators")
    best = nr.estimate(model="qwen3-8b", gpu="h100-sxm", context=4096)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nsysroof.lazy import loader

if TYPE_CHECKING:
    from nsysroof.analysis.options import Options
    from nsysroof.api import (
        analyze,
        check,
        classify,
        diff,
        estimate,
        figure,
        open_trace,
        ranks,
        render,
        save,
        sweep,
        timeline_slices,
        whatif,
    )
    from nsysroof.errors import NsysroofError
    from nsysroof.gate import Limits
    from nsysroof.report.saved import load_report
    from nsysroof.results import Estimate, Ranks, Report, Sweep
    from nsysroof.theory.gpus import Gpu, find_gpu
    from nsysroof.theory.models.spec import ModelSpec, find_model
    from nsysroof.theory.workload import Workload
    from nsysroof.trace import Trace

__version__ = "0.1.0"

__all__ = [
    "Estimate",
    "Gpu",
    "Limits",
    "ModelSpec",
    "NsysroofError",
    "Options",
    "Ranks",
    "Report",
    "Sweep",
    "Trace",
    "Workload",
    "analyze",
    "check",
    "classify",
    "diff",
    "estimate",
    "figure",
    "find_gpu",
    "find_model",
    "load_report",
    "open_trace",
    "ranks",
    "render",
    "save",
    "sweep",
    "timeline_slices",
    "whatif",
]

_HOMES = {
    "Estimate": "nsysroof.results",
    "Gpu": "nsysroof.theory.gpus",
    "Limits": "nsysroof.gate",
    "ModelSpec": "nsysroof.theory.models.spec",
    "NsysroofError": "nsysroof.errors",
    "Options": "nsysroof.analysis.options",
    "Ranks": "nsysroof.results",
    "Report": "nsysroof.results",
    "Sweep": "nsysroof.results",
    "Trace": "nsysroof.trace",
    "Workload": "nsysroof.theory.workload",
    "find_gpu": "nsysroof.theory.gpus",
    "find_model": "nsysroof.theory.models.spec",
    "load_report": "nsysroof.report.saved",
}

# Calls are those of ``nsysroof.api``.
__getattr__ = loader(__name__, {name: _HOMES.get(name, "nsysroof.api") for name in __all__})


def __dir__() -> list[str]:
    """List the public names."""
    return sorted({*globals(), *__all__})
