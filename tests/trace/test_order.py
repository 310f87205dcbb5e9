"""Sorting against the plain sort, for frames in any order and with any ties."""

from __future__ import annotations

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from nsysroof.trace.order import sort_frame

small = st.integers(0, 3)
rows = st.lists(st.tuples(small, small, st.one_of(st.none(), small)), max_size=40)


@given(rows=rows)
def test_same_as_a_stable_sort_by_all_keys(rows: list[tuple[int, int, int | None]]) -> None:
    frame = pl.DataFrame(rows, schema={"a": pl.Int64, "b": pl.Int64, "c": pl.Int64}, orient="row")
    frame = frame.with_columns(line=pl.int_range(pl.len()))
    expected = frame.sort("a", "b", "c", maintain_order=True)
    assert sort_frame(frame, ["a", "b", "c"]).equals(expected)


def test_frame_in_order_is_returned_as_it_is() -> None:
    frame = pl.DataFrame({"a": [1, 1, 2], "b": [0, 1, 0]})
    assert sort_frame(frame, ["a", "b"]) is frame
