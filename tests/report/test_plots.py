"""Pictures: what is drawn where, legible and free of overlaps, and the same bytes every time."""

from __future__ import annotations

import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Text

from nsysroof.errors import UsageError
from nsysroof.report.plots import draw, figure_of
from nsysroof.report.plots.batch import crossing
from nsysroof.results import Estimate, Sweep
from nsysroof.theory.estimate import estimate
from nsysroof.theory.gpus import find_gpu
from nsysroof.theory.models.spec import find_model
from nsysroof.theory.sweep import Point, parse_axis, sweep
from nsysroof.theory.workload import Workload


def _estimate(model: str, gpu: str, **step: Any) -> Estimate:
    return estimate(find_model(model), find_gpu(gpu), Workload.create(**step))


def _sweep(model: str, *texts: str, compared: tuple[str, ...] = (), **step: Any) -> Sweep:
    def price(point: Point) -> Estimate:
        given = {"gpu": "h100-sxm", "context": 4096, **step, **point}
        return _estimate(model, str(given.pop("gpu")), **given)

    axes = [parse_axis(text, where="--sweep") for text in texts]
    return sweep(price, axes, compared=compared)


VIEWS: dict[str, Estimate | Sweep] = {
    "roofline of one token": _estimate("qwen3-30b-a3b", "gh200-96", context=4096),
    "roofline of a batch": _estimate("deepseek-v3", "h200-sxm", batch=64, context=8192, tp=8),
    "roofline of a prefill": _estimate(
        "llama-3.1-70b", "h200-sxm", phase="prefill", context=8192, weights="fp8", tp=8
    ),
    "roofline of a hybrid": _estimate("qwen3-next-80b-a3b", "b200", batch=4, context=1000),
    "roofline of sparse attention": _estimate("deepseek-v3.2", "b200", batch=32, context=65536),
    "batches": _sweep("llama-3.1-8b", "batch=1:2048", context=128),
    "batches of experts": _sweep("qwen3-30b-a3b", "batch=1:256", tp=4),
    "batches of machines": _sweep(
        "llama-3.1-8b", "batch=1:64", "gpu=h100-sxm,h200-sxm,b200", compared=("gpu",)
    ),
    "contexts": _sweep("qwen3-30b-a3b", "context=1024:131072", batch=16),
    "contexts in steps": _sweep(
        "llama-3.1-8b",
        "context=512:16384:2048",
        "weights=bf16,fp8",
        compared=("weights",),
        batch=32,
    ),
    "machines": _sweep("qwen3-30b-a3b", "gpu=h100-sxm,h200-sxm,gh200-96,b200", compared=("gpu",)),
    "degrees and formats": _sweep("qwen3-30b-a3b", "tp=1,2,3,4,8", "weights=bf16,fp8,awq"),
}


def _texts(figure: Figure) -> list[Text]:
    """Return every text of a laid out figure that is seen; ticks beyond an axis are not."""
    FigureCanvasAgg(figure).draw()  # type: ignore[no-untyped-call]
    hidden: set[int] = set()
    for axes in figure.axes:
        for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
            for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
                if not min(low, high) <= tick.get_loc() <= max(low, high):
                    hidden |= {id(tick.label1), id(tick.label2)}
    found = [text for text in figure.findobj(Text) if isinstance(text, Text)]
    return [
        text
        for text in found
        if id(text) not in hidden and text.get_visible() and text.get_text().strip()
    ]


@pytest.mark.parametrize("name", VIEWS)
def test_no_text_leaves_the_picture_or_covers_another(name: str) -> None:
    figure = figure_of(VIEWS[name])
    figure.set_dpi(100)
    boxes = [(text.get_text(), text.get_window_extent()) for text in _texts(figure)]
    width, height = figure.canvas.get_width_height()
    for text, box in boxes:
        assert box.x0 >= -0.5, text
        assert box.y0 >= -0.5, text
        assert box.x1 <= width + 0.5, text
        assert box.y1 <= height + 0.5, text
    for (one, a), (other, b) in combinations(boxes, 2):
        overlap = min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1
        assert not overlap, (one, other)


@pytest.mark.parametrize("name", VIEWS)
def test_text_is_large_enough_to_read_at_full_size(name: str) -> None:
    figure = figure_of(VIEWS[name])
    assert min(float(text.get_fontsize()) for text in _texts(figure)) >= 10
    assert figure.get_size_inches()[0] * 100 == 1000


@pytest.mark.parametrize("name", VIEWS)
def test_axes_name_their_units(name: str) -> None:
    units = ("(ms)", "per second", "(GB)", "FLOP per byte", "(TFLOP/s)", "(sequences", "tokens")
    for axes in figure_of(VIEWS[name]).axes:
        for label in (axes.get_xlabel(), axes.get_ylabel()):
            assert not label or any(unit in label for unit in units), label
    labels = {axes.get_xlabel() for axes in figure_of(VIEWS[name]).axes}
    assert any(labels)


def _points(line: Line2D) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in np.asarray(line.get_xydata())]


def _first_point(line: Line2D) -> tuple[float, float]:
    return _points(line)[0]


def test_roofs_bend_at_their_ridge() -> None:
    axes = figure_of(VIEWS["roofline of one token"]).axes[0]
    corners = sorted(_points(line)[1] for line in axes.lines if len(_points(line)) == 3)
    # GH200: 989.4 TFLOP/s over 4.0 TB/s, and 66.9 of the CUDA cores.
    assert corners[0] == pytest.approx((66.9 / 4.0, 66.9))
    assert corners[1] == pytest.approx((989.4 / 4.0, 989.4))


def test_operators_lie_on_their_roof() -> None:
    axes = figure_of(VIEWS["roofline of one token"]).axes[0]
    marks = [_first_point(line) for line in axes.lines if line.get_marker() == "o"]
    assert len(marks) >= 3
    for intensity, rate in marks:
        assert rate == pytest.approx(intensity * 4.0)  # TB/s: all of them are bound by memory
    # Decode attention reads each KV head once for its eight query heads: 8 FLOP per byte.
    assert max(intensity for intensity, _ in marks) == pytest.approx(8.0, rel=0.01)


def test_crossings_are_interpolated_between_points() -> None:
    assert crossing([1, 2, 4], [8, 8, 8], [4, 8, 16]) == pytest.approx(2)
    # 100·x^0 and x^1 meet at 100, on a straight line between 64 and 128.
    assert crossing([64, 128], [100, 100], [64, 128]) == pytest.approx(100)
    assert crossing([1, 2], [4, 4], [1, 2]) is None
    assert crossing([5, 6], [1, 1], [2, 2]) == 5


def test_batch_at_which_arithmetic_takes_over_is_marked() -> None:
    # Llama-3.1-8B on H100: 295 rows for a weight read once, a little less with attention.
    texts = " ".join(text.get_text() for text in _texts(figure_of(VIEWS["batches"])))
    assert "longer than reading the weights from about 294" in texts
    experts = " ".join(text.get_text() for text in _texts(figure_of(VIEWS["batches of experts"])))
    assert "the bytes of a step limit it at every batch shown" in experts


def test_context_at_which_the_cache_passes_the_weights_is_marked() -> None:
    # 82.4 of 128 experts: 39.78 GB of weights; 16 sequences add 1.573 MB per token of context.
    texts = " ".join(text.get_text() for text in _texts(figure_of(VIEWS["contexts"])))
    assert "KV cache passes the weights\nat about 25,300" in texts


def test_machines_that_move_the_same_bytes_share_a_panel() -> None:
    view = _sweep(
        "llama-3.1-8b", "context=1024:8192", "gpu=h100-sxm,b200", compared=("gpu",), batch=8
    )
    assert len(figure_of(view).axes) == 1
    assert len(figure_of(VIEWS["contexts in steps"]).axes) == 2


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_the_same_view_gives_the_same_bytes(tmp_path: Path, suffix: str) -> None:
    for name in ("roofline of one token", "batches", "contexts", "machines"):
        one, two = tmp_path / f"one{suffix}", tmp_path / f"two{suffix}"
        draw(VIEWS[name], one)
        draw(VIEWS[name], two)
        assert one.read_bytes() == two.read_bytes()
        head = one.read_bytes()[:2000]
        assert b"matplotlib version" not in head.lower() or suffix == ".svg"
        assert b"<dc:date>" not in one.read_bytes()
    assert {path.suffix for path in tmp_path.iterdir()} == {suffix}
    assert one.stat().st_mode & 0o777 == 0o644


def test_a_sweep_without_numbers_is_not_drawn(tmp_path: Path) -> None:
    machines = VIEWS["machines"]
    assert isinstance(machines, Sweep)
    empty = Sweep(
        tool_version="0", model="m", phase="decode", axes=["gpu"], rows=[]
    )  # fmt: skip
    with pytest.raises(UsageError) as caught:
        draw(empty, tmp_path / "x.png")
    assert caught.value.slug == "nothing-to-draw"
    with pytest.raises(UsageError) as refused:
        draw(machines, tmp_path / "none" / "x.png")
    assert refused.value.slug == "cannot-write"
    assert list(tmp_path.iterdir()) == []


def test_drawing_needs_no_global_state() -> None:
    code = (
        "import sys; import nsysroof.report.plots; import nsysroof.report.pages; "
        "print('matplotlib.pyplot' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
