"""Step time and tokens per second of machines, formats or parallel degrees as bars."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nsysroof.report.plots.style import BLUE, GREEN, INK, SIZE, plain_numbers, title
from nsysroof.results import Sweep, SweepRow

_MS = 1e6
_ROW_INCHES, _LEAST_INCHES = 0.42, 3.2
_MOST_BARS = 24
_MOST_TICKS = 5


def bars(sweep: Sweep) -> Figure:
    """Return two panels of horizontal bars, one bar for each point that has numbers.

    The first 24 points are drawn; a table has all of them.
    """
    rows = [row for row in sweep.rows if row.serial_ns is not None][:_MOST_BARS]
    height = max(_LEAST_INCHES, 1.6 + _ROW_INCHES * len(rows))
    figure = Figure(figsize=(SIZE[0], height), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    labels = [_label(row, sweep.axes) for row in rows]
    _panel(left, labels, [(row.serial_ns or 0.0) / _MS for row in rows], BLUE, digits=3)
    _panel(right, labels, [row.tokens_per_s or 0.0 for row in rows], GREEN, digits=0)
    left.set_xlabel("time of a step (ms)")
    right.set_xlabel("tokens per second")
    left.invert_yaxis()
    title(left, f"{sweep.model}: {sweep.phase}{_fixed(rows[0], sweep.axes)}")
    return figure


def _fixed(row: SweepRow, axes: Sequence[str]) -> str:
    parts = []
    if "gpu" not in axes and row.gpu:
        parts.append(row.gpu)
    if "batch" not in axes:
        parts.append(f"batch {row.batch:,}")
    if "context" not in axes:
        parts.append(f"context {row.context:,}")
    return "".join(f", {part}" for part in parts)


def _label(row: SweepRow, axes: Sequence[str]) -> str:
    parts = []
    for axis in axes:
        value = getattr(row, axis.replace("-", "_"))
        parts.append(f"{axis} {value:,}" if isinstance(value, int) else str(value))
    return ", ".join(parts)


def _panel(
    axes: Axes, labels: Sequence[str], values: Sequence[float], colour: str, *, digits: int
) -> None:
    places = range(len(labels))
    axes.barh(places, values, color=colour, height=0.62)
    axes.set_yticks(places, labels)
    axes.grid(visible=False, axis="y")
    axes.set_xlim(0, max(values) * 1.22)
    axes.xaxis.set_major_locator(MaxNLocator(_MOST_TICKS))
    plain_numbers(axes.xaxis)
    for place, value in zip(places, values, strict=True):
        text = f"{value:,.{digits}f}" if digits == 0 else f"{value:,.{digits}g}"
        axes.annotate(
            text,
            (value, place),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=10,
            color=INK,
        )
