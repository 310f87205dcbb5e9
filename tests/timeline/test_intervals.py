"""Interval arithmetic against a bitmap of single nanoseconds."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from nsysroof.timeline.intervals import (
    advance,
    covered,
    covered_before,
    cut,
    idle_gaps,
    union,
)

SPAN = 60
intervals = st.lists(
    st.tuples(st.integers(0, SPAN), st.integers(0, 12)).map(lambda p: (p[0], p[0] + p[1])),
    max_size=12,
)


def bitmap(pairs: list[tuple[int, int]]) -> set[int]:
    return {t for start, end in pairs for t in range(start, end)}


def arrays(pairs: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    starts = np.array([start for start, _ in pairs], dtype=np.int64)
    ends = np.array([end for _, end in pairs], dtype=np.int64)
    return starts, ends


@given(intervals)
def test_union_covers_exactly_the_bitmap(pairs: list[tuple[int, int]]) -> None:
    merged = union(*arrays(pairs))
    found = list(zip(merged.starts.tolist(), merged.ends.tolist(), strict=True))
    assert bitmap(found) == bitmap(pairs)
    assert merged.total_ns == len(bitmap(pairs))
    # Disjoint, ascending, and touching intervals are one.
    assert all(before[1] < after[0] for before, after in pairwise(found))


@given(intervals, st.integers(0, SPAN), st.integers(0, SPAN))
def test_clip_keeps_the_bitmap_inside(pairs: list[tuple[int, int]], low: int, high: int) -> None:
    clipped = union(*arrays(pairs)).clip(low, high)
    assert clipped.total_ns == len(bitmap(pairs) & set(range(low, high)))


@given(intervals, st.lists(st.integers(-5, SPAN + 15), max_size=20))
def test_covered_is_membership(pairs: list[tuple[int, int]], points: list[int]) -> None:
    cover = union(*arrays(pairs))
    told = covered(np.array(sorted(points), dtype=np.int64), cover).tolist()
    assert told == [point in bitmap(pairs) for point in sorted(points)]


@given(
    st.sets(st.integers(0, SPAN), max_size=12),
    st.sets(st.integers(0, 11)),
    st.lists(st.integers(0, SPAN + 15), max_size=10),
)
def test_cut_keeps_every_nanosecond_and_crosses_no_edge(
    points: set[int], kept: set[int], edges: list[int]
) -> None:
    pairs = [pair for at, pair in enumerate(pairwise(sorted(points))) if at in kept]
    starts, ends, owner = cut(*arrays(pairs), np.array(edges, dtype=np.int64))
    pieces = list(zip(starts.tolist(), ends.tolist(), owner.tolist(), strict=True))
    for number, pair in enumerate(pairs):
        own = [(start, end) for start, end, at in pieces if at == number]
        assert bitmap(own) == bitmap([pair])
        assert sum(end - start for start, end in own) == pair[1] - pair[0]
    assert not any(start < edge < end for start, end, _ in pieces for edge in edges)


@given(intervals, st.lists(st.integers(0, SPAN + 15), max_size=10))
def test_what_lies_before_a_point_is_the_bitmaps(
    pairs: list[tuple[int, int]], points: list[int]
) -> None:
    found = covered_before(np.array(points, dtype=np.int64), union(*arrays(pairs)))
    assert found.tolist() == [sum(t < point for t in bitmap(pairs)) for point in points]


@given(intervals)
def test_gaps_are_the_complement_and_name_both_sides(pairs: list[tuple[int, int]]) -> None:
    pairs = sorted(pairs)
    frame = pl.DataFrame(pairs, schema=["start_ns", "end_ns"], orient="row")
    frame = frame.cast({"start_ns": pl.Int64, "end_ns": pl.Int64})
    gaps = idle_gaps(frame)
    if not pairs:
        assert gaps.height == 0
        return
    window = set(range(pairs[0][0], max(end for _, end in pairs)))
    found = [(row[0], row[1]) for row in gaps.select("start_ns", "end_ns").iter_rows()]
    assert bitmap(found) == window - bitmap(pairs)
    for start, end, before, after in gaps.iter_rows():
        assert pairs[before][1] == start
        assert pairs[after][0] == end


def frame_of(rows: list[tuple[int, int, int]]) -> pl.DataFrame:
    return pl.DataFrame(
        [(0, 1, 1, stream, start, end) for stream, start, end in rows],
        schema=["gpu", "pid", "context", "stream", "start_ns", "end_ns"],
        orient="row",
    )


def test_advance_charges_a_dependent_launch_only_for_what_it_added() -> None:
    # Stream 7: [0, 100), then a kernel that waited from 80 to 100 and ran to 130, then one inside
    # it, then one after a pause. Stream 8 does not matter to stream 7.
    rows = [(7, 0, 100), (7, 80, 130), (8, 90, 95), (7, 110, 120), (7, 140, 150)]
    assert advance(frame_of(rows)).to_list() == [100, 30, 5, 0, 10]


def test_advance_counts_before_time_0_where_an_export_was_shifted() -> None:
    rows = [(7, -100, -60), (7, -80, -50), (8, -30, 10)]
    assert advance(frame_of(rows)).to_list() == [40, 10, 40]


@given(intervals)
def test_advances_of_a_stream_add_up_to_its_busy_time(pairs: list[tuple[int, int]]) -> None:
    rows = [(7, start, end) for start, end in sorted(pairs)]
    if rows:
        assert advance(frame_of(rows)).sum() == len(bitmap(pairs))
