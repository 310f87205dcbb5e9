"""Step time and tokens per second against the batch, with the crossing of memory and compute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import exp, log
from typing import TypeAlias

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nsysroof.report.plots.style import (
    BLUE,
    DASHES,
    FAINT,
    GREEN,
    INK,
    MARKERS,
    SERIES,
    SIZE,
    SKY,
    VERMILION,
    about,
    doubling,
    plain_numbers,
    shared,
    ticks_at,
    title,
)
from nsysroof.results import Sweep, SweepRow

Points: TypeAlias = list[tuple[int, SweepRow]]
"""Rows with numbers along an axis, sorted."""

_MS = 1e6
_LABELS = {"batch": "batch (sequences in a step)", "new-tokens": "new tokens of each sequence"}
_FIELDS = {"batch": "batch", "new-tokens": "new_tokens"}


def step_against(sweep: Sweep, axis: str) -> Figure:
    """Return two panels over one axis: the time of a step in ms, and tokens per second.

    One machine: its time with kernels in turn, and the time of all bytes and of all arithmetic;
    where the latter becomes the longer one is marked. Several: one line each.
    """
    figure = Figure(figsize=SIZE, layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(1.4, 1))
    series = series_of(sweep, axis)
    xs = sorted({x for points in series.values() for x, _ in points})
    if doubling(xs):
        above.set_xscale("log", base=2)
    above.set_yscale("log")
    if len(series) == 1:
        _parts(above, next(iter(series.values())), axis)
    else:
        for at, (label, points) in enumerate(series.items()):
            _line(above, points, lambda row: _ms(row.serial_ns), label, at)
        above.legend(loc="upper left")
    for at, (label, points) in enumerate(series.items()):
        colour = INK if len(series) == 1 else SERIES[at % len(SERIES)]
        _line(below, points, lambda row: row.tokens_per_s, label, at, colour=colour)
    below.set_ylim(bottom=0)
    for panel in (above, below):
        plain_numbers(panel.yaxis)
    above.set_ylabel("time of a step (ms)")
    below.set_ylabel("tokens per second")
    below.set_xlabel(_LABELS[axis])
    ticks_at(below, xs)
    first = sweep.rows[0]
    on = f" on {first.gpu}" if len(series) == 1 and first.gpu else ""
    title(
        above,
        f"{sweep.model}{on}: {sweep.phase}, context {first.context:,}{shared(sweep, first)}",
    )
    return figure


def series_of(sweep: Sweep, axis: str) -> dict[str, Points]:
    """Return the points with numbers along an axis, by the label of what is compared."""
    series: dict[str, Points] = {}
    for row in sweep.rows:
        x = getattr(row, _FIELDS.get(axis, axis))
        if row.serial_ns is None or not isinstance(x, int):
            continue
        names = [str(getattr(row, name.replace("-", "_"))) for name in sweep.compared]
        series.setdefault(" ".join(names), []).append((x, row))
    return {label: sorted(points, key=lambda p: p[0]) for label, points in series.items()}


def crossing(xs: Sequence[float], lower: Sequence[float], upper: Sequence[float]) -> float | None:
    """Return where ``upper`` overtakes ``lower``, between points on straight log-log lines.

    Returns:
        None where it never does; the first x where it is above from the beginning.

    >>> crossing([1, 2, 4], [8.0, 8.0, 8.0], [4.0, 8.0, 16.0]), crossing([1, 2], [4, 4], [1, 2])
    (2.0, None)
    """
    gaps = [log(b / a) for a, b in zip(lower, upper, strict=True)]
    for at, gap in enumerate(gaps):
        if gap >= 0:
            if at == 0:
                return float(xs[0])
            share = gaps[at - 1] / (gaps[at - 1] - gap)
            return exp(log(xs[at - 1]) + share * log(xs[at] / xs[at - 1]))
    return None


def _parts(axes: Axes, points: Points, axis: str) -> None:
    _line(axes, points, lambda row: _ms(row.serial_ns), "kernels in turn", 0, colour=INK)
    _line(axes, points, lambda row: _ms(row.memory_ns), "all bytes", 1, colour=BLUE)
    _line(axes, points, lambda row: _ms(row.weights_ns), "weights alone", 3, colour=SKY)
    _line(axes, points, lambda row: _ms(row.compute_ns), "all arithmetic", 2, colour=VERMILION)
    if any(row.link_bytes for _, row in points):
        _line(axes, points, lambda row: _ms(row.link_ns), "all link bytes", 4, colour=GREEN)
    axes.legend(loc="upper left", ncols=5)
    low, high = axes.get_ylim()
    axes.set_ylim(low, high * (high / low) ** 0.22)
    _mark_crossings(axes, points, axis)


def _mark_crossings(axes: Axes, points: Points, axis: str) -> None:
    """Mark where arithmetic takes longer than reading the weights, and than all bytes."""
    known = [(x, row) for x, row in points if row.memory_ns and row.compute_ns and row.weights_ns]
    xs = [x for x, _ in known]
    compute = [row.compute_ns or 0.0 for _, row in known]
    weights = crossing(xs, [row.weights_ns or 0.0 for _, row in known], compute)
    whole = crossing(xs, [row.memory_ns or 0.0 for _, row in known], compute)
    texts = []
    for found, what in ((weights, "reading the weights"), (whole, "all bytes")):
        if found is not None:
            axes.axvline(found, color=FAINT, linestyle=":", linewidth=1.5)
            texts.append(f"arithmetic takes longer than {what} from about {about(found)}")
    if whole is None:
        texts.append(f"the bytes of a step limit it at every {axis.replace('-', ' ')} shown")
    axes.annotate(
        "\n".join(texts),
        (1, 0),
        xycoords="axes fraction",
        xytext=(-6, 8),
        textcoords="offset points",
        ha="right",
        fontsize=10,
        bbox={"facecolor": "white", "edgecolor": "#cccccc", "boxstyle": "round", "alpha": 0.9},
        zorder=6,
    )


def _line(
    axes: Axes,
    points: Points,
    value: Callable[[SweepRow], float | None],
    label: str,
    at: int,
    *,
    colour: str | None = None,
) -> None:
    shown = [(x, y) for x, row in points if (y := value(row)) is not None]
    axes.plot(
        [x for x, _ in shown],
        [y for _, y in shown],
        label=label,
        color=colour or SERIES[at % len(SERIES)],
        linestyle=DASHES[at % len(DASHES)],
        marker=MARKERS[at % len(MARKERS)],
    )


def _ms(ns: float | None) -> float | None:
    return None if ns is None else ns / _MS
