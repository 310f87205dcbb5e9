"""Sweeps: what an axis spells, which points there are, and a row for each."""

from __future__ import annotations

import pytest

from nsysroof.errors import UsageError
from nsysroof.results import Estimate, Sweep
from nsysroof.theory.estimate import estimate
from nsysroof.theory.gpus import find_gpu
from nsysroof.theory.models.spec import find_model
from nsysroof.theory.sweep import Axis, Point, parse_axis, points, sweep
from nsysroof.theory.workload import Workload

LLAMA = find_model("llama-3.1-8b")


def _price(point: Point) -> Estimate:
    gpu = find_gpu(str(point.get("gpu", "h100-sxm")))
    step = Workload.create(
        batch=int(point.get("batch", 1)),
        context=int(point.get("context", 4096)),
        tp=int(point.get("tp", 1)),
        weights=str(point["weights"]) if "weights" in point else None,
    )
    return estimate(LLAMA, gpu, step)


def _swept(*texts: str, compared: tuple[str, ...] = ()) -> Sweep:
    return sweep(_price, [parse_axis(text, where="--sweep") for text in texts], compared=compared)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("batch=1:256", (1, 2, 4, 8, 16, 32, 64, 128, 256)),
        ("batch=3:20", (3, 6, 12, 20)),
        ("batch=4:4", (4,)),
        ("context=1024:4096:1024", (1024, 2048, 3072, 4096)),
        ("context=1000:1900:500", (1000, 1500)),
        ("tp=1,2,4,2", (1, 2, 4)),
        ("gpu=h100-sxm, b200", ("h100-sxm", "b200")),
        ("new_tokens=1,5", (1, 5)),
    ],
)
def test_values_of_an_axis(text: str, values: tuple[int | str, ...]) -> None:
    assert parse_axis(text, where="--sweep").values == values


@pytest.mark.parametrize(
    "text",
    [
        "batch",
        "batch=",
        "batch=a",
        "batch=0:8",
        "batch=8:1",
        "batch=1:8:0",
        "batch=8:1:1",
        "batch=-1",
        "layers=1,2",
        "gpu=a,,b",
        "tp=1:2:3:4",
    ],
)
def test_axes_that_cannot_be_read(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_axis(text, where="--sweep")
    assert caught.value.slug == "bad-sweep"
    assert caught.value.where == "--sweep"


def test_points_are_every_combination_once() -> None:
    axes = [Axis(name="batch", values=(1, 2)), Axis(name="weights", values=("bf16", "fp8"))]
    assert list(points(axes)) == [
        {"batch": 1, "weights": "bf16"},
        {"batch": 1, "weights": "fp8"},
        {"batch": 2, "weights": "bf16"},
        {"batch": 2, "weights": "fp8"},
    ]


def test_too_many_points_and_twice_the_same_axis_are_refused() -> None:
    many = parse_axis("batch=1:10000000:1", where="--sweep")
    with pytest.raises(UsageError, match="points"):
        list(points([many]))
    with pytest.raises(UsageError, match="batch, batch"):
        list(points([Axis(name="batch", values=(1,)), Axis(name="batch", values=(2,))]))


def test_rows_are_the_estimates_of_their_points() -> None:
    found = _swept("batch=1,8", "weights=bf16,fp8")
    assert [(row.batch, row.weights) for row in found.rows] == [
        (1, "bf16"),
        (1, "fp8"),
        (8, "bf16"),
        (8, "fp8"),
    ]
    alone = _price({"batch": 8, "weights": "fp8"})
    row = found.rows[3]
    assert (row.serial_ns, row.tokens_per_s) == (alone.step.serial_ns, alone.step.tokens_per_s)
    assert row.weight_bytes is not None
    assert row.kv_bytes is not None
    assert row.activation_bytes is not None
    assert row.weight_bytes + row.kv_bytes + row.activation_bytes == alone.step.bytes


def test_bytes_of_a_dense_step() -> None:
    # 8 sequences of 4,096: 32 layers x 8 x 4,096 x 4,096 B read, and a token of each written; the
    # weights are all but the embedding, norms included.
    row = _swept("batch=8").rows[0]
    assert row.kv_bytes == 32 * 8 * (4096 + 1) * 2 * 8 * 128 * 2
    assert row.weight_bytes == 2 * (8_030_261_248 - 128_256 * 4096)
    assert row.memory_ns is not None
    assert row.weights_ns == pytest.approx(row.weight_bytes / 3352e9 * 1e9)
    assert row.limiter == "memory"


def test_a_point_that_cannot_be_has_a_reason_and_no_numbers() -> None:
    found = _swept("tp=1,3,8")
    assert [row.serial_ns is None for row in found.rows] == [False, True, False]
    refused = found.rows[1]
    assert refused.note == "tp 3 does not divide 32 attention heads"
    assert (refused.tp, refused.batch, refused.context, refused.gpu) == (3, 1, 4096, "h100-sxm")


def test_a_format_without_a_peak_is_such_a_point() -> None:
    # Hopper has no FP4 arithmetic.
    found = _swept("gpu=h100-sxm,b200", "weights=nvfp4")
    assert [row.serial_ns is None for row in found.rows] == [True, False]
    assert found.rows[0].note is not None
    assert "no fp4 peak" in found.rows[0].note


def test_unknown_names_stop_a_sweep() -> None:
    for text, slug in (
        ("gpu=h100-sxm,h1000", "unknown-gpu-name"),
        ("weights=bf17", "unknown-format"),
    ):
        with pytest.raises(UsageError) as caught:
            _swept(text)
        assert caught.value.slug == slug


def test_a_sweep_without_any_possible_point_says_why() -> None:
    with pytest.raises(UsageError, match="tp 3 does not divide"):
        _swept("tp=3,5")


def test_compared_axes_are_named() -> None:
    found = _swept("batch=1,2", "gpu=h100-sxm,b200", compared=("gpu",))
    assert (found.axes, found.compared) == (["batch", "gpu"], ["gpu"])
    assert found.frame("rows").columns[:3] == ["gpu", "batch", "context"]
