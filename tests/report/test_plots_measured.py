"""Pictures of reports: what is drawn where, and the same bytes every time."""

from __future__ import annotations

from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from msgspec.structs import replace

from nsysroof import sweep
from nsysroof.errors import UsageError
from nsysroof.report.plots import batches, report_figure, save_figure
from nsysroof.results import Budget, Report, StepIdle, StepSlice, StepTimeline
from tests.report import sample

STEP = StepTimeline(
    gpu=0,
    step=19,
    start_ns=1_000,
    end_ns=101_000,
    slices=[
        StepSlice(stream=7, start_ns=1_000, end_ns=6_000, activity="operator", what="attn.core"),
        StepSlice(stream=9, start_ns=3_000, end_ns=5_000, activity="copy", what="copy h2d"),
        StepSlice(stream=7, start_ns=9_000, end_ns=13_000, activity="operator", what="mlp.act"),
    ],
    idle=[StepIdle(start_ns=6_000, end_ns=9_000, cause="host_late")],
)
KINDS = ("roofline", "step", "timeline", "gaps")


def along(line: Line2D) -> tuple[list[float], list[float]]:
    """Return the points of a line."""
    xs, ys = (np.asarray(points, dtype=float) for points in (line.get_xdata(), line.get_ydata()))
    return xs.tolist(), ys.tolist()


def bars_of(axes: Axes) -> list[Rectangle]:
    return [patch for patch in axes.patches if isinstance(patch, Rectangle)]


@pytest.fixture
def report() -> Report:
    return replace(sample.full(), step_timeline=STEP)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_same_report_gives_the_same_bytes(
    report: Report, kind: str, suffix: str, tmp_path: Path
) -> None:
    files = [tmp_path / f"{name}{suffix}" for name in "ab"]
    for file in files:
        save_figure(report_figure(report, kind), file)
    assert files[0].read_bytes() == files[1].read_bytes()
    assert len(files[0].read_bytes()) > 5_000


def test_a_dot_stands_at_intensity_and_rate_with_the_area_of_its_time(report: Report) -> None:
    (axes,) = report_figure(report, "roofline").axes
    dots = {
        (along(line)[0][0], along(line)[1][0]): line.get_markersize()
        for line in axes.lines
        if line.get_marker() == "o"
    }
    # 402,653,184 FLOP in 18.03 and 41.00 µs, 7.9 FLOP per byte each
    fast, slow = (7.9, 402_653_184 / 18.03e-6), (7.9, 402_653_184 / 41.00e-6)
    (at_fast,) = [size for at, size in dots.items() if at == pytest.approx(fast)]
    (at_slow,) = [size for at, size in dots.items() if at == pytest.approx(slow)]
    assert at_slow / at_fast == pytest.approx(sqrt(41.00 / 18.03))


def test_the_roof_bends_at_the_ridge(report: Report) -> None:
    (axes,) = report_figure(report, "roofline").axes
    slope, flat = [line for line in axes.lines if line.get_marker() in {"None", None}]
    ridge = 989.4e12 / 3.35e12
    assert along(slope)[0][-1] == pytest.approx(ridge)
    assert along(slope)[1][-1] == pytest.approx(989.4e12)
    assert along(flat)[0][0] == pytest.approx(ridge)


def test_parts_of_the_step_follow_one_another_to_its_wall(report: Report) -> None:
    budget = Budget(
        gpu=0, step=3, wall_ns=1_000, bound_ns=400, over_bound_ns=300, fixed_ns=100,
        unexplained_ns=50, copy_ns=10, idle_ns=160, overlap_ns=20,
        idle_by_cause={"sync": 60, "in_graph": 100},
    )  # fmt: skip
    (axes,) = report_figure(replace(report, budget=budget), "step").axes
    labels = [label.get_text() for label in axes.get_yticklabels()]
    assert labels == [
        "bound", "over bound", "fixed", "unexplained", "copies", "idle in_graph", "idle sync",
        "overlap", "wall",
    ]  # fmt: skip
    bars = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in bars_of(axes)]
    ends = [0.4, 0.7, 0.8, 0.85, 0.86, 0.96, 1.02, 1.0]
    assert [end for _, end in bars[:-1]] == pytest.approx(ends)
    assert [start for start, _ in bars[1:-1]] == pytest.approx(ends[:-1])
    assert bars[-1] == (0, 1.0)


def stretches(figure: Figure) -> list[tuple[float, float, float]]:
    """Return left edge, right edge and height of everything drawn in lanes."""
    found = []
    for collection in figure.axes[0].collections:
        assert isinstance(collection, PolyCollection)
        for path in collection.get_paths():
            box = path.get_extents()
            found.append((round(box.x0, 3), round(box.x1, 3), round(box.height, 3)))
    return sorted(found)


def test_a_step_lies_in_lines_with_idle_time_below(report: Report) -> None:
    # 100 µs in at most 16 lines: 10 µs each. mlp.act from 8 to 12 µs is cut at the line's end.
    assert stretches(report_figure(report, "timeline")) == [
        (0.0, 2.0, 1.0),
        (0.0, 5.0, 1.0),
        (2.0, 4.0, 1.0),
        (5.0, 8.0, 0.45),
        (8.0, 10.0, 1.0),
    ]


def test_idle_time_is_shown_per_step_without_what_is_outside(report: Report) -> None:
    (axes,) = report_figure(report, "gaps").axes
    causes = [label.get_text() for label in axes.get_yticklabels()]
    assert causes == ["in_graph", "between_graphs", "host_late", "sync", "dependency"]
    # 40 steps of all phases; 4.2 ms, 10 ms, 3 ms, 1.6 ms and 0.2 ms in the window
    widths = [bar.get_width() for bar in bars_of(axes)]
    assert widths == pytest.approx([105.0, 250.0, 75.0, 40.0, 5.0])


def test_the_measured_step_is_marked_among_batches(report: Report) -> None:
    swept = sweep(model="llama-3.1-8b", gpu="h100-sxm", context=4096, over={"batch": [4, 8, 16]})
    above, below = batches(swept, report).axes
    for axes, expected in ((above, 6.1), (below, 1_311.5)):
        (cross,) = [line for line in axes.lines if line.get_marker() == "X"]
        assert along(cross) == ([8.0], [expected])


@pytest.mark.parametrize("kind", KINDS)
def test_an_empty_report_has_nothing_to_draw_and_says_why(kind: str) -> None:
    with pytest.raises(UsageError) as caught:
        report_figure(sample.empty(), kind)
    assert caught.value.slug == "nothing-to-draw"


def test_hostile_names_are_drawn_as_they_are(report: Report, tmp_path: Path) -> None:
    names = ["$\\no_such_macro$", "a_b^c"]
    bad = [sample.operator(name, measured_ns=9_000 * (n + 1)) for n, name in enumerate(names)]
    figure = report_figure(replace(report, operators=bad), "roofline")
    save_figure(figure, tmp_path / "bad.png")  # a formula that is none would be an error
    assert {text.get_text() for text in figure.axes[0].texts} >= set(names)
