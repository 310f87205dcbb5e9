"""What a step moves against the context: weights, KV cache and activations in bytes."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nsysroof.report.plots.batch import Points, crossing, series_of
from nsysroof.report.plots.style import (
    BLUE,
    FAINT,
    GREEN,
    INK,
    ORANGE,
    SIZE,
    about,
    doubling,
    plain_numbers,
    shared,
    ticks_at,
    title,
    tokens,
)
from nsysroof.results import Sweep

_GB = 1e9
_PARTS = (
    ("weights", "weight_bytes", BLUE, ""),
    ("KV cache", "kv_bytes", ORANGE, "//"),
    ("activations", "activation_bytes", GREEN, ".."),
)


def byte_budget(sweep: Sweep) -> Figure:
    """Return stacked areas over the context, in GB per step and GPU.

    What is compared has a panel each, unless it moves the same bytes, as machines do.
    """
    series = _unlike(series_of(sweep, "context"))
    figure = Figure(figsize=SIZE, layout="constrained")
    panels = figure.subplots(1, len(series), sharey=True, squeeze=False)[0]
    for panel, (label, points) in zip(panels, series.items(), strict=True):
        _areas(panel, points, panels=len(series))
        title(panel, label if len(series) > 1 else "")
        panel.set_xlabel("context (KV length in tokens, k = 1,024)")
    panels[0].set_ylabel("bytes that one GPU moves in a step (GB)")
    handles, labels = panels[0].get_legend_handles_labels()
    # The upper area is named first, as it lies.
    figure.legend(handles[::-1], labels[::-1], loc="outside lower center", ncols=len(labels))
    first = next(iter(series.values()))[0][1]
    on = f" on {first.gpu}" if not sweep.compared and first.gpu else ""
    text = f"{sweep.model}{on}: {sweep.phase}, batch {first.batch:,}{shared(sweep, first)}"
    figure.suptitle(text, x=0.02, ha="left", fontsize=13)
    return figure


def _unlike(series: dict[str, Points]) -> dict[str, Points]:
    """Return the series that differ in what they move, under the names of those that do not."""
    names: dict[tuple[object, ...], list[str]] = {}
    for label, points in series.items():
        moved = tuple((x, *(getattr(row, field) for _, field, *_ in _PARTS)) for x, row in points)
        names.setdefault(moved, []).append(label)
    return {", ".join(labels): series[labels[0]] for labels in names.values()}


def _areas(axes: Axes, points: Points, *, panels: int) -> None:
    xs = [x for x, _ in points]
    if doubling(xs):
        axes.set_xscale("log", base=2)
    base = [0.0] * len(xs)
    for label, field, colour, hatch in _PARTS:
        tops = [
            low + (getattr(row, field) or 0) / _GB
            for low, (_, row) in zip(base, points, strict=True)
        ]
        axes.fill_between(
            xs, base, tops, label=label, facecolor=colour, alpha=0.55, hatch=hatch, edgecolor=colour
        )
        axes.plot(xs, tops, color=colour, marker="o", markersize=4, linewidth=1.2)
        base = tops
    axes.set_xlim(min(xs), max(xs))
    # Panels share the axis: the tallest sets it.
    axes.set_ylim(0, max(axes.get_ylim()[1] if panels > 1 else 0.0, max(base) * 1.25))
    plain_numbers(axes.yaxis)
    ticks_at(axes, xs, panels=panels, label=tokens)
    weights = [float(row.weight_bytes or 0) for _, row in points]
    cached = [float(row.kv_bytes or 0) for _, row in points]
    if all(weights) and all(cached):
        _mark_crossing(axes, crossing(xs, weights, cached))


def _mark_crossing(axes: Axes, at: float | None) -> None:
    if at is None:
        return
    axes.axvline(at, color=FAINT, linestyle=":", linewidth=1.5)
    across, _ = axes.transAxes.inverted().transform(axes.transData.transform((at, 0.0)))
    before = across > 0.5
    axes.annotate(
        f"KV cache passes the weights\nat about {about(at)}",
        (at, 0.93),
        xycoords=("data", "axes fraction"),
        xytext=(-6 if before else 6, 0),
        textcoords="offset points",
        ha="right" if before else "left",
        va="center",
        fontsize=10,
        color=INK,
    )
