"""Pictures of estimates, sweeps and reports, with matplotlib's objects and no global state."""

from nsysroof.report.plots.draw import draw, figure_of, save_figure
from nsysroof.report.plots.measured import batches, report_figure

__all__ = ["batches", "draw", "figure_of", "report_figure", "save_figure"]
