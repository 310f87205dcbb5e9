"""The budget of a step adds up to its wall time, whatever overlaps or crosses its edges."""

from __future__ import annotations

from itertools import pairwise

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from nsysroof.results import IDLE_CAUSES, Budget, StepKernel
from nsysroof.timeline.activity import ACTIVITIES, Activity
from nsysroof.timeline.budget import Share, step_budget, step_sums
from nsysroof.timeline.intervals import idle_gaps
from nsysroof.timeline.steps import STEPS

Row = tuple[int, int, Activity, Share | None]  # of copies a share where an operator needs them
SERVING = {
    "start_ns": pl.Int64(),
    "end_ns": pl.Int64(),
    "share": pl.String(),
    "role": pl.String(),
    "gpu": pl.Int64(),
}


def frames_of(rows: list[Row]) -> tuple[pl.DataFrame, pl.DataFrame, pl.DataFrame, pl.DataFrame]:
    """Activities of one GPU in order of start, their gaps, labels of kernels, serving copies."""
    rows = sorted(rows, key=lambda row: row[:2])
    kernels = [row for row in rows if row[2] is Activity.KERNEL]
    served = (Share.BOUND, Share.FIXED)
    serving = [
        (first, last, str(share), f"role.{share}", 0)
        for first, last, activity, share in rows
        if activity is Activity.COPY and share in served
    ]
    numbers = iter(range(len(kernels)))
    frame = pl.DataFrame(
        [
            {
                "start_ns": first,
                "end_ns": last,
                "gpu": 0,
                "activity": int(activity),
                "name": 0 if share is Share.UNEXPLAINED else 1,
                "kernel": next(numbers) if activity is Activity.KERNEL else None,
            }
            for first, last, activity, share in rows
        ],
        schema={
            name: ACTIVITIES[name] for name in ("start_ns", "end_ns", "gpu", "activity", "name")
        }
        | {"kernel": pl.UInt32()},
    )
    shares = [str(row[3]) for row in kernels]
    labels = pl.DataFrame(
        {"share": shares, "role": [None if s == "unexplained" else f"role.{s}" for s in shares]},
        schema={"share": pl.String, "role": pl.String},
    )
    gaps = idle_gaps(frame).with_columns(pl.lit(0).alias("gpu"), pl.lit("sync").alias("cause"))
    return frame, gaps, labels, pl.DataFrame(serving, schema=SERVING, orient="row")


def budget_of(rows: list[Row], start: int, end: int, bound: int = 0) -> Budget:
    frame, gaps, labels, serving = frames_of(rows)
    return step_budget(
        frame,
        gaps,
        labels,
        serving=serving,
        gpu=0,
        step=3,
        start_ns=start,
        end_ns=end,
        bound_ns=bound,
        texts=["foreign", "known"],
    )


def test_copies_that_serve_an_operator_count_with_it() -> None:
    rows: list[Row] = [
        (0, 10, Activity.COPY, Share.BOUND),
        (10, 40, Activity.KERNEL, Share.BOUND),
        (40, 60, Activity.COPY, Share.BOUND),  # 10 of it are in the next step
        (60, 70, Activity.COPY, None),
    ]
    found = budget_of(rows, 0, 50, bound=25)
    assert (found.bound_ns, found.over_bound_ns, found.copy_ns) == (25, 25, 0)
    assert found.by_role == {"role.bound": 50}
    assert [(row.name, row.instances, row.ns) for row in found.by_kernel] == [
        ("known", 1, 30),
        ("(copy within the device)", 2, 20),
    ]


def test_a_step_worked_out_by_hand() -> None:
    rows: list[Row] = [
        (0, 100, Activity.KERNEL, Share.BOUND),  # bound 60: 40 over
        (90, 130, Activity.KERNEL, Share.FIXED),  # 10 of it overlap the first
        (150, 170, Activity.COPY, None),
        (170, 180, Activity.FILL, None),
        (185, 240, Activity.KERNEL, Share.UNEXPLAINED),  # 40 of it are in the next step
    ]
    found = budget_of(rows, 0, 200, bound=60)
    assert found == Budget(
        gpu=0,
        step=3,
        wall_ns=200,
        bound_ns=60,
        over_bound_ns=40,
        fixed_ns=40,
        unexplained_ns=15,
        copy_ns=30,
        idle_ns=25,  # 130-150 and 180-185
        overlap_ns=10,
        by_role={"role.bound": 100, "role.fixed": 40},
        by_kernel=[
            StepKernel(name="known", role="role.bound", instances=1, ns=100),
            StepKernel(name="known", role="role.fixed", instances=1, ns=40),
            StepKernel(name="foreign", role=None, instances=1, ns=15),
        ],
        idle_by_cause=dict.fromkeys(IDLE_CAUSES, 0) | {"sync": 25},
    )


rows = st.lists(
    st.builds(
        lambda start, length, activity, share: (start, start + length, activity, share),
        st.integers(-10, 60),
        st.integers(0, 20),
        st.sampled_from(list(Activity)),
        st.sampled_from(list(Share)),
    ),
    max_size=10,
)


@given(rows, st.integers(0, 20), st.integers(21, 50), st.integers(0, 40))
def test_it_adds_up_and_idle_is_the_bitmaps(
    activity: list[Row], start: int, end: int, bound: int
) -> None:
    found = budget_of(activity, start, end, bound)
    total = (
        found.bound_ns
        + found.over_bound_ns
        + found.fixed_ns
        + found.unexplained_ns
        + found.copy_ns
        + found.idle_ns
        - found.overlap_ns
    )
    assert total == found.wall_ns == end - start
    busy = {t for first, last, _, _ in activity for t in range(first, last)}
    assert found.idle_ns == len(set(range(start, end)) - busy)
    assert found.overlap_ns >= 0
    assert sum(found.by_role.values()) == found.bound_ns + found.over_bound_ns + found.fixed_ns
    explained = [row.ns for row in found.by_kernel if row.role is not None]
    foreign = [row.ns for row in found.by_kernel if row.role is None]
    assert sum(explained) == sum(found.by_role.values())
    assert sum(foreign) == found.unexplained_ns


edges = st.lists(st.integers(-5, 80), min_size=2, max_size=8, unique=True).map(sorted)


@given(rows, edges, st.integers(0, 3))
def test_many_steps_at_once_are_those_one_by_one(
    activity: list[Row], points: list[int], skipped: int
) -> None:
    """Steps that follow one another, one of them left out; the terms by a bitmap of single ns."""
    frame, gaps, labels, serving = frames_of(activity)
    windows = [pair for at, pair in enumerate(pairwise(points)) if at != skipped]
    steps = pl.DataFrame(
        [(0, at, *pair) for at, pair in enumerate(windows)],
        schema={name: STEPS[name] for name in ("gpu", "step", "start_ns", "end_ns")},
        orient="row",
    )
    found = step_sums(frame, gaps, labels, serving=serving, steps=steps)
    assert found.height == (len(windows) if activity else 0)
    for row in found.iter_rows(named=True):
        start, end = windows[row["step"]]
        inside = [
            (what, share, len(range(max(first, start), min(last, end))))
            for first, last, what, share in activity
        ]
        kernels = {
            share: sum(ns for what, own, ns in inside if what is Activity.KERNEL and own is share)
            for share in Share
        }
        copied = (Activity.COPY, Activity.FILL)
        serves = sum(
            ns
            for what, share, ns in inside
            if what is Activity.COPY and share is not Share.UNEXPLAINED
        )
        busy = {t for first, last, _, _ in activity for t in range(first, last)}
        idle = len(set(range(start, end)) - busy)
        assert row["start_ns"] == start
        assert row["wall_ns"] == end - start
        assert row["idle_ns"] == idle
        assert row["copy_ns"] == sum(ns for what, _, ns in inside if what in copied) - serves
        hidden = sum(ns for what, _, ns in inside if what is Activity.REPLAY)
        assert row["unexplained"] == kernels[Share.UNEXPLAINED] + hidden
        total = sum(ns for _, _, ns in inside)
        assert row["bound"] + row["fixed"] == (kernels[Share.BOUND] + kernels[Share.FIXED] + serves)
        assert row["overlap_ns"] == total - (end - start - idle)
        between = [
            len(range(max(first, start), min(last, end)))
            for first, last in gaps.select("start_ns", "end_ns").iter_rows()
        ]
        assert row["sync"] == sum(between)
