"""Sorting of long frames that are usually sorted already, without a second copy of all columns.

Tables are written nearly in time order. A frame in order is returned as it is; otherwise one
permutation is computed from the start times, ties are settled by the other keys, and the columns
are gathered a few at a time.
"""

from __future__ import annotations

import numpy as np
import polars as pl

_AT_ONCE = 6  # columns that polars gathers in parallel


def sort_frame(frame: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    """Return ``frame`` sorted by ``keys``; the first is an integer without nulls.

    Rows that agree in all keys keep their order, so the result is the same in every run.

    >>> frame = pl.DataFrame({"start": [2, 1, 1], "name": [0, 9, 3]})
    >>> sort_frame(frame, ["start", "name"]).rows()
    [(1, 3), (1, 9), (2, 0)]
    """
    if frame.height < 2:
        return frame
    start = frame[keys[0]].to_numpy()
    order: np.ndarray | None = None
    if not _ascends(start):
        order = np.argsort(start, kind="stable").astype(np.uint32)
        start = start[order]
    order = _settle_ties(frame, keys, start, order)
    if order is None:
        return frame
    positions = pl.Series(order, dtype=pl.UInt32)
    columns = frame.get_columns()
    del frame, start, order
    sorted_columns: list[pl.Series] = []
    while columns:
        some, columns = columns[:_AT_ONCE], columns[_AT_ONCE:]
        sorted_columns += pl.DataFrame(some)[positions].get_columns()
        del some
    return pl.DataFrame(sorted_columns)


def _ascends(start: np.ndarray) -> bool:
    return bool((start[1:] >= start[:-1]).all())


def _settle_ties(
    frame: pl.DataFrame, keys: list[str], start: np.ndarray, order: np.ndarray | None
) -> np.ndarray | None:
    """Return the order with runs of equal starts sorted by the other keys, None for no change."""
    equal = start[1:] == start[:-1]
    if not equal.any():
        return order
    tied = np.zeros(len(start), dtype=bool)
    tied[1:] |= equal
    tied[:-1] |= equal
    places = np.flatnonzero(tied)
    rows = places if order is None else order[places]
    members = frame.select(keys)[rows].with_columns(place=pl.int_range(pl.len()))
    settled = members.sort([*keys, "place"])["place"].to_numpy()
    if (settled[1:] > settled[:-1]).all():
        return order
    changed = np.arange(len(start), dtype=np.uint32) if order is None else order
    changed[places] = rows[settled]
    return changed


def holds_one_value(column: pl.Series) -> bool:
    """Return whether all rows hold the same, or none; quicker than to tell what they hold.

    >>> holds_one_value(pl.Series([7, 7])), holds_one_value(pl.Series([7, None]))
    (True, False)
    """
    return column.null_count() in (0, len(column)) and column.min() == column.max()


def in_equal_chunks(frame: pl.DataFrame) -> pl.DataFrame:
    """Return ``frame`` with every column in the chunks of its first column, as views.

    polars copies a frame before most operations where its columns lie in unlike chunks; columns
    that were computed later are in one piece, those that were read in as many as there were blocks.

    >>> frame = pl.concat([pl.DataFrame({"a": [1]}), pl.DataFrame({"a": [2]})], rechunk=False)
    >>> frame = in_equal_chunks(frame.with_columns(b=pl.Series([3, 4])))
    >>> [column.n_chunks() for column in frame], frame.rows()
    ([2, 2], [(1, 3), (2, 4)])
    """
    lengths = frame.to_series(0).chunk_lengths() if frame.width else []
    return pl.DataFrame([_split(column, lengths) for column in frame])


def _split(column: pl.Series, lengths: list[int]) -> pl.Series:
    if column.chunk_lengths() == lengths or not lengths:
        return column
    whole = column.rechunk()
    ends = np.cumsum(lengths).tolist()
    parts = [whole.slice(end - n, n) for end, n in zip(ends, lengths, strict=True)]
    return pl.concat(parts, rechunk=False)
