"""Means of samples against a bitmap of single nanoseconds, and worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysroof.timeline.intervals import Intervals, union
from nsysroof.timeline.samples import Sampling, lone_runs, mean_inside, means_by_label

_END = 120


def work(rows: list[tuple[int, int, int]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    ordered = sorted(rows)
    columns = [[row[at] for row in ordered] for at in range(3)]
    starts, ends, labels = (np.array(column, dtype=np.int64) for column in columns)
    return starts, ends, labels


def spread(every: int, values: list[int]) -> Sampling:
    times = np.arange(len(values), dtype=np.int64) * every
    return Sampling.of(times, np.array(values, dtype=np.float64))


def test_a_hole_is_not_filled() -> None:
    times = np.array([0, 10, 20, 40, 50, 90, 100], dtype=np.int64)
    found = Sampling.of(times, np.arange(7, dtype=np.float64))
    # Two median intervals or more: the sample before has no interval, nor has the last one.
    assert found.interval_ns == 10
    assert found.starts.tolist() == [0, 10, 40, 90]
    assert found.values.tolist() == [0, 1, 3, 5]


def test_one_sample_says_nothing() -> None:
    found = Sampling.of(np.array([5], dtype=np.int64), np.array([50.0]))
    assert (found.interval_ns, found.starts.size) == (None, 0)
    spans = Intervals(starts=np.array([0]), ends=np.array([10]))
    assert (mean_inside(found, spans).value, mean_inside(found, spans).samples) == (None, 0)


@given(
    values=st.lists(st.integers(0, 100), min_size=2, max_size=12),
    spans=st.lists(st.tuples(st.integers(0, _END), st.integers(1, 30)), max_size=5),
)
def test_a_mean_is_that_of_single_nanoseconds(
    values: list[int], spans: list[tuple[int, int]]
) -> None:
    inside = union(
        np.array([at for at, _ in spans], dtype=np.int64),
        np.array([at + n for at, n in spans], dtype=np.int64),
    )
    found = mean_inside(spread(10, values), inside)
    wanted = {ns for at, n in spans for ns in range(at, at + n)}
    held = [values[ns // 10] for ns in sorted(wanted) if ns < 10 * (len(values) - 1)]
    assert found.ns == len(held)
    assert found.value == (pytest.approx(sum(held) / len(held)) if held else None)


@given(
    rows=st.lists(
        st.tuples(st.integers(0, 60), st.integers(1, 25), st.integers(-1, 2)), max_size=12
    )
)
def test_a_run_holds_work_of_its_label_alone_at_every_nanosecond(
    rows: list[tuple[int, int, int]],
) -> None:
    starts, ends, labels = work([(at, at + n, label) for at, n, label in rows])
    runs = lone_runs(starts, ends, labels)
    for since, until, label in zip(runs.starts, runs.ends, runs.labels, strict=True):
        for ns in range(since, until):
            running = {
                int(of) for s, e, of in zip(starts, ends, labels, strict=True) if s <= ns < e
            }
            assert running == {label}
    assert (runs.starts[1:] >= runs.ends[:-1]).all()


def test_work_one_after_the_other_is_one_run_and_all_of_it_counts() -> None:
    runs = lone_runs(*work([(0, 10, 0), (10, 20, 0), (20, 35, 1), (40, 50, 1)]))
    assert list(zip(runs.starts, runs.ends, runs.labels, strict=True)) == [
        (0, 20, 0),
        (20, 35, 1),
        (40, 50, 1),
    ]


def test_a_role_takes_samples_whose_interval_lies_inside_on_either_side_of_the_timestamp() -> None:
    # Samples at 0, 10, … 90. Label 0 runs in [8, 41), label 1 in [41, 75), nothing after.
    runs = lone_runs(*work([(8, 41, 0), (41, 75, 1)]))
    values = [99, 99, 20, 40, 99, 99, 60, 99, 99, 99]
    first, second, third = means_by_label(spread(10, values), runs, 3)
    # At 20 (10 to 30) and 30 (20 to 40) lies inside label 0, at 60 (50 to 70) inside label 1.
    assert (first.value, first.samples, first.ns) == (30.0, 2, 20)
    assert (second.value, second.samples, second.ns) == (60.0, 1, 10)
    assert (third.value, third.samples) == (None, 0)


def test_a_sample_after_a_hole_counts_for_no_role() -> None:
    times = np.array([0, 10, 20, 60, 70, 80], dtype=np.int64)
    sampling = Sampling.of(times, np.array([1.0, 2, 3, 50, 7, 9]))
    runs = lone_runs(*work([(0, 100, 0)]))
    (only,) = means_by_label(sampling, runs, 1)
    # At 10 and at 70; what the one at 60 would tell of the time before it was lost.
    assert (only.value, only.samples) == (4.5, 2)
