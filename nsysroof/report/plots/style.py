"""What all pictures share: colours that colour-blind readers can tell apart, sizes, axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, FuncFormatter, NullFormatter, NullLocator
from matplotlib.typing import LineStyleType

from nsysroof.results import Sweep, SweepRow

INK = "#222222"
FAINT = "#8a8a8a"
BLUE, VERMILION, GREEN, ORANGE = "#0072B2", "#D55E00", "#009E73", "#E69F00"
PURPLE, SKY, BLACK = "#CC79A7", "#56B4E9", "#000000"
SERIES = (BLUE, VERMILION, GREEN, ORANGE, PURPLE, SKY, BLACK)
"""Okabe and Ito's palette, in the order in which series take it."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES: tuple[LineStyleType, ...] = (
    "-",
    "--",
    ":",
    "-.",
    (0, (5, 1)),
    (0, (3, 1, 1, 1)),
    (0, (1, 1)),
)
"""Lines and markers differ too, so that a grey print still tells."""

DPI = 100
SIZE = (10.0, 6.5)
"""Inches: 1,000 x 650 pixels at 100 %."""

RC: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "font.size": 11.0,
    "axes.titlesize": 13.0,
    "axes.labelsize": 11.0,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.8,
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "legend.frameon": True,
    "legend.framealpha": 0.9,
    "legend.edgecolor": "#cccccc",
    "lines.linewidth": 2.0,
    "lines.markersize": 6.0,
    "figure.facecolor": "white",
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
    "svg.hashsalt": "nsysroof",
    "svg.fonttype": "path",
    "path.simplify": False,
    "text.parse_math": False,
}
"""Every setting that a user's own configuration could change."""

_MOST_TICKS = 10
_FACTOR = 1.4
_KIBI = 1024


def ticks_at(
    axes: Axes,
    values: Sequence[int],
    *,
    panels: int = 1,
    label: Callable[[int], str] = "{:,}".format,
) -> None:
    """Put the ticks of an x axis at its points, or at every second or third of them.

    Args:
        axes: The panel.
        values: The points, sorted.
        panels: How many panels share the width.
        label: Returns the text of a point.
    """
    step = -(-len(values) * panels // _MOST_TICKS)
    shown = list(values)[::step]
    axes.xaxis.set_major_locator(FixedLocator([float(value) for value in shown]))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xticklabels([label(value) for value in shown])


def plain_numbers(axis: Axis) -> None:
    """Write the ticks of an axis as numbers, without powers of ten.

    >>> from matplotlib.figure import Figure
    >>> axes = Figure().add_subplot()
    >>> plain_numbers(axes.yaxis)
    >>> axes.yaxis.get_major_formatter()(1000, 0), axes.yaxis.get_major_formatter()(0.01, 0)
    ('1,000', '0.01')
    """
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def about(value: float) -> str:
    """Return a position read off a line, to three digits.

    >>> about(25_301), about(297.6), about(7.4)
    ('25,300', '298', '7.4')
    """
    rounded = float(f"{value:.3g}")
    return f"{rounded:,.0f}" if rounded >= 100 else f"{rounded:g}"


def tokens(value: int) -> str:
    """Return a number of tokens for a tick: 1,024 of them as k.

    >>> tokens(64), tokens(4096), tokens(131072), tokens(5000)
    ('64', '4k', '128k', '5,000')
    """
    if value >= _KIBI and value % _KIBI == 0:
        return f"{value // _KIBI}k"
    return f"{value:,}"


def doubling(values: Sequence[int]) -> bool:
    """Return whether sorted values grow by factors, so that a logarithmic axis shows them better.

    >>> doubling([1, 2, 4, 8]), doubling([1000, 2000, 3000, 4000]), doubling([8])
    (True, False, False)
    """
    return len(values) > 1 and all(b >= _FACTOR * a for a, b in pairwise(values))


def shared(sweep: Sweep, row: SweepRow) -> str:
    """Return how many GPUs share the work, where they do and where that does not change."""
    degrees = {"tp": row.tp, "ep": row.ep, "dp": row.dp}
    told = [
        f", {name.upper()} {degree}"
        for name, degree in degrees.items()
        if degree > 1 and name not in sweep.axes
    ]
    return "".join(told)


def title(axes: Axes, text: str) -> None:
    """Set the title at the left, where reading begins."""
    axes.set_title(text, loc="left", pad=12)
