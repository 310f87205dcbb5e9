"""From a trace and a few options to a report: the pipeline that ties the rooms together."""

from nsysroof.analysis.options import Options
from nsysroof.analysis.pipeline import analyze
from nsysroof.analysis.theory import estimate_for

__all__ = ["Options", "analyze", "estimate_for"]
