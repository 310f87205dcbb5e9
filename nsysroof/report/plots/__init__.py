"""Pictures of estimates and sweeps, drawn with matplotlib's objects and no global state."""

from nsysroof.report.plots.draw import draw, figure_of

__all__ = ["draw", "figure_of"]
