"""The roofline of an estimate: its roofs by dtype, and every operator where its bound lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, log10
from textwrap import wrap

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.typing import LineStyleType

from nsysroof.report.plots.style import DASHES, FAINT, INK, SERIES, SIZE, plain_numbers, title
from nsysroof.results import Estimate, EstimateRow

_TERA = 1e12
_NEAR = 26.0  # pixels between two marks below which they are one
_NAMES_SHOWN = 3
_LINE = 28  # characters of a line of the key
_KEY_LEFT, _KEY_TOP, _KEY_STEP = 0.675, 0.9, 0.031
_MARGIN_DECADES = 0.35


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mark:
    """Operators that lie so close to each other that one mark stands for them."""

    intensity: float
    flop_per_s: float
    dtype: str
    rows: tuple[EstimateRow, ...]

    @property
    def total_ns(self) -> float:
        return sum(row.bound_ns * row.count for row in self.rows)


def roofline(estimate: Estimate) -> Figure:
    """Return the roofline: attainable FLOP/s against FLOP per byte, both logarithmic.

    The marks are numbered; the key at the right names their operators and the share of the step
    that their bounds make up.
    """
    figure = Figure(figsize=SIZE)
    axes = figure.add_axes((0.1, 0.11, 0.54, 0.77))
    rows = [row for row in estimate.operators if row.intensity and row.bound_ns]
    peaks = {peak.key: peak.value for peak in estimate.assumptions.peaks}
    dtypes = [dtype for dtype in dict.fromkeys(row.dtype for row in rows) if dtype in peaks]
    low = min(row.intensity or 1.0 for row in rows) / 2
    high = max([*(row.intensity or 1.0 for row in rows), *(estimate.ridge[d] for d in dtypes)]) * 6
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low, high)
    top = max(peaks[dtype] for dtype in dtypes) / _TERA
    bottom = low * peaks["bw"] / _TERA
    axes.set_ylim(bottom * 0.6, top * 10**_MARGIN_DECADES)
    colours = {dtype: SERIES[at % len(SERIES)] for at, dtype in enumerate(dtypes)}
    for at, dtype in enumerate(dtypes):
        _roof(axes, dtype, peaks, colours[dtype], DASHES[at % len(DASHES)])
    plain_numbers(axes.xaxis)
    plain_numbers(axes.yaxis)
    axes.set_xlabel("arithmetic intensity (FLOP per byte of memory)")
    axes.set_ylabel("attainable rate (TFLOP/s)")
    axes.yaxis.set_label_coords(-0.125, 0.5)
    marks = _marks(axes, rows)
    for number, mark in enumerate(marks, start=1):
        _put(axes, number, mark, colours.get(mark.dtype, INK))
    _key(figure, marks)
    figure.suptitle(_title(estimate), x=0.02, ha="left", fontsize=13)
    title(axes, "where each operator's bound lies")
    return figure


def _title(estimate: Estimate) -> str:
    taken = estimate.assumptions
    context = max(taken.context or [0])
    return (
        f"{taken.model} on {taken.gpu or 'given peaks'}: {taken.phase}, "
        f"batch {taken.batch:,}, context {context:,}"
        + (f", TP {taken.tp}" if taken.tp and taken.tp > 1 else "")
    )


def _roof(
    axes: Axes, dtype: str, peaks: dict[str, float], colour: str, dash: LineStyleType
) -> None:
    bandwidth, peak = peaks["bw"], peaks[dtype]
    left, right = axes.get_xlim()
    ridge = peak / bandwidth
    axes.plot(
        [left, ridge, right],
        [left * bandwidth / _TERA, peak / _TERA, peak / _TERA],
        color=colour,
        linestyle=dash,
        zorder=2,
    )
    axes.plot([ridge, ridge], [axes.get_ylim()[0], peak / _TERA], color=FAINT, lw=0.8, ls=":")
    # Left of the ridge and above the slope no operator can lie.
    axes.annotate(
        f"{dtype} {peak / _TERA:,.4g} TFLOP/s, ridge {ridge:,.0f}",
        (ridge, peak / _TERA),
        xytext=(-12, 5),
        textcoords="offset points",
        ha="right",
        va="center",
        color=colour,
        fontsize=10,
    )


def _marks(axes: Axes, rows: Sequence[EstimateRow]) -> list[_Mark]:
    """Return the marks, the costliest first: operators that would overlap share one."""
    groups: list[list[EstimateRow]] = []
    for row in sorted(rows, key=lambda r: (-r.bound_ns * r.count, r.role)):
        near = next((group for group in groups if _overlap(axes, group[0], row)), None)
        if near is None:
            groups.append([row])
        else:
            near.append(row)
    marks = [
        _Mark(
            intensity=group[0].intensity or 0.0,
            flop_per_s=group[0].flop / group[0].bound_ns * 1e9,
            dtype=group[0].dtype,
            rows=tuple(group),
        )
        for group in groups
    ]
    return sorted(marks, key=lambda mark: (-mark.total_ns, mark.rows[0].role))


def _overlap(axes: Axes, one: EstimateRow, other: EstimateRow) -> bool:
    box = axes.get_position()
    width, height = SIZE[0] * 100 * box.width, SIZE[1] * 100 * box.height
    spans = [log10(b / a) for a, b in (axes.get_xlim(), axes.get_ylim())]
    x = log10((one.intensity or 1) / (other.intensity or 1)) / spans[0] * width
    rates = [row.flop / row.bound_ns for row in (one, other)]
    y = log10(rates[0] / rates[1]) / spans[1] * height
    return hypot(x, y) < _NEAR


def _put(axes: Axes, number: int, mark: _Mark, colour: str) -> None:
    axes.plot(
        [mark.intensity],
        [mark.flop_per_s / _TERA],
        marker="o",
        markersize=17,
        markerfacecolor="white",
        markeredgecolor=colour,
        markeredgewidth=1.8,
        linestyle="none",
        zorder=4,
    )
    axes.annotate(
        str(number),
        (mark.intensity, mark.flop_per_s / _TERA),
        ha="center",
        va="center_baseline",
        fontsize=10,
        zorder=5,
    )


def _key(figure: Figure, marks: Sequence[_Mark]) -> None:
    total = sum(mark.total_ns for mark in marks)
    y = _KEY_TOP
    figure.text(_KEY_LEFT, y, "operator", fontsize=10, color=FAINT)
    figure.text(0.985, y, "share of bounds", fontsize=10, color=FAINT, ha="right")
    y -= 1.4 * _KEY_STEP
    for number, mark in enumerate(marks, start=1):
        lines = wrap(_names(mark), _LINE)
        if y - len(lines) * _KEY_STEP < 0:
            figure.text(_KEY_LEFT, y, "…", fontsize=10)
            return
        figure.text(_KEY_LEFT + 0.022, y, str(number), fontsize=10, ha="right", weight="bold")
        figure.text(0.985, y, _share(mark.total_ns, total), fontsize=10, ha="right")
        for line in lines:
            figure.text(_KEY_LEFT + 0.032, y, line, fontsize=10)
            y -= _KEY_STEP
        y -= 0.35 * _KEY_STEP


def _share(part_ns: float, total_ns: float) -> str:
    share = part_ns / total_ns * 100
    return f"{share:.0f} %" if share >= 1 else "<1 %"


def _names(mark: _Mark) -> str:
    roles = list(dict.fromkeys(row.role for row in mark.rows))
    shown = ", ".join(roles[:_NAMES_SHOWN])
    left = len(roles) - _NAMES_SHOWN
    return f"{shown} and {left} more" if left > 0 else shown
