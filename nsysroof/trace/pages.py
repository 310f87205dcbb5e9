"""Decodes tables of integers from the pages of a SQLite file, many rows at a time.

Stepping over the rows of an export is most of the work of reading it; the pages hold the same
integers in a form that whole arrays can be taken from. Only what a profiler's export has is
decoded: rows that lie within their page and hold one value for each column of the table. Whatever
else stands there makes a range of pages irregular, and SQLite reads it. Nothing is assumed: the
size of each row must be what its header adds up to.

Source of the form: the database file format of SQLite, sections 1.6 (pages of a B-tree) and 2.1
(records).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Self, TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from nsysroof.trace.source import page_size

_PAGES_PER_RANGE = 1_024  # of 4 KiB some 50,000 rows, whose columns stay in the cache

_INTERIOR, _LEAF = 5, 13  # kinds of the pages of a table
_INTERIOR_HEAD, _LEAF_HEAD = 12, 8
_SPILL = 35  # a row that leaves fewer of the page's bytes goes on in other pages
_WORD = 8
_ENDLESS = np.iinfo(np.int64).max

# Serial types: 0 is null, 1 to 6 are integers, 7 is a real, 8 and 9 are the numbers 0 and 1, 10 and
# 11 do not occur, and from 12 on even ones are blobs and odd ones texts.
_NULL, _REAL, _ZERO, _ONE, _BLOB = 0, 7, 8, 9, 12
_LONGER = 0x80  # the bit of a byte of a varint after which another byte follows
_WIDTH = np.array([0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0, *((n - 12) // 2 for n in range(12, 128))])
_SHIFT = 8 * (_WORD - np.minimum(_WIDTH, _WORD)) * (_WIDTH > 0)

Bytes: TypeAlias = npt.NDArray[np.uint8]
Integers: TypeAlias = npt.NDArray[np.int64]


class Irregular(Exception):  # noqa: N818  no failure: SQLite reads these rows
    """What stands in the pages is not decoded here."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PageRange:
    """Leaf pages in the order of their rows: those with a rowid above ``after``, up to ``last``."""

    numbers: Integers
    after: int | None
    last: int

    @property
    def condition(self) -> str:
        """The same rows as a condition in SQL."""
        above = "" if self.after is None else f"rowid > {self.after} AND "
        return f"{above}rowid <= {self.last}"


@dataclass(frozen=True, slots=True, kw_only=True)
class PagedTable:
    """One table of a file: ``root`` is its first page.

    ``columns`` has a name or None for each value of a row; those with a name are decoded.
    """

    path: Path
    root: int
    columns: tuple[str | None, ...]
    page_bytes: int
    usable_bytes: int

    @classmethod
    def of(cls, path: Path, root: int, columns: Sequence[str | None]) -> Self:
        """Return the table at a page of a file."""
        with path.open("rb") as file:
            head = file.read(24)
        page_bytes = page_size(head)
        return cls(
            path=path,
            root=root,
            columns=tuple(columns),
            page_bytes=page_bytes,
            usable_bytes=page_bytes - head[20],
        )

    def ranges(self) -> list[PageRange]:
        """Return all rows of the table, some pages at a time.

        Raises:
            Irregular: The pages are no tree of a table.
        """
        numbers, ends = np.array([self.root]), np.array([_ENDLESS])
        whole = self.path.stat().st_size // self.page_bytes
        while self._read(numbers[:1])[0] != _LEAF:  # all of a level are leaves, or none is
            numbers, ends = self._children(numbers, ends)
            if len(numbers) > whole:
                raise Irregular
        found, after = [], None
        for first in range(0, len(numbers), _PAGES_PER_RANGE):
            some = numbers[first : first + _PAGES_PER_RANGE]
            last = int(ends[first + len(some) - 1])
            found.append(PageRange(numbers=some, after=after, last=last))
            after = last
        return found

    def integers(self, pages: PageRange) -> pl.DataFrame:
        """Return the named columns of the rows of a range as 64-bit integers.

        Raises:
            Irregular: A row is not decoded here, or holds no integer in one of the columns.
        """
        try:
            return self._decode(self._read(pages.numbers), len(pages.numbers))
        except IndexError as error:  # a place outside the pages
            raise Irregular from error

    def _read(self, numbers: Integers) -> Bytes:
        """Return the bytes of pages one after another, and enough beyond to take words from."""
        spare = 2 * _WORD + max(9, len(self.columns))
        data = np.empty(len(numbers) * self.page_bytes + spare, dtype=np.uint8)
        data[-spare:] = 0
        view = memoryview(data)  # type: ignore[arg-type]
        starts = [0, *(np.flatnonzero(np.diff(numbers) != 1) + 1).tolist(), len(numbers)]
        with self.path.open("rb", buffering=0) as file:
            for first, end in pairwise(starts):
                if numbers[first] < 1:
                    raise Irregular
                file.seek((int(numbers[first]) - 1) * self.page_bytes)
                wanted = view[first * self.page_bytes : end * self.page_bytes]
                if file.readinto(wanted) != len(wanted):
                    raise Irregular
        return data

    def _children(self, numbers: Integers, ends: Integers) -> tuple[Integers, Integers]:
        """Return the pages below interior pages in order, and the last rowid each may hold."""
        pages = self._read(numbers)
        if (pages[:: self.page_bytes][: len(ends)] != _INTERIOR).any():
            raise Irregular
        cells, owners = self._cells(pages, len(ends), _INTERIOR_HEAD)
        if not len(cells):  # pages with one child each may lead round in circles
            raise Irregular
        keys, _ = _varints(pages, cells + 4)
        below = np.arange(len(ends)) * self.page_bytes + _WORD  # the child after all cells
        owner = np.concatenate([owners, np.arange(len(ends))])
        order = np.argsort(owner, kind="stable")
        children = _big_endian(pages, np.concatenate([cells, below])) >> 32 & 0xFFFFFFFF
        return children[order], np.concatenate([keys, ends])[order]

    def _cells(self, pages: Bytes, count: int, head: int) -> tuple[Integers, Integers]:
        """Return where each cell begins, in the order of the keys, and the place of its page."""
        begins = np.arange(count) * self.page_bytes
        held = _pairs(pages, begins + 3)
        owners = np.repeat(np.arange(count), held)
        nth = np.arange(len(owners)) - np.repeat(np.cumsum(held) - held, held)
        pointers = owners * self.page_bytes + head + 2 * nth
        cells = _pairs(pages, pointers)
        if len(cells) and cells.max() >= self.usable_bytes:
            raise Irregular
        return owners * self.page_bytes + cells, owners

    def _decode(self, pages: Bytes, count: int) -> pl.DataFrame:
        if (pages[:: self.page_bytes][:count] != _LEAF).any():
            raise Irregular
        cells, owners = self._cells(pages, count, _LEAF_HEAD)
        if not len(cells):
            return pl.DataFrame(schema={name: pl.Int64 for name in self.columns if name})
        payload, rowids = _varints(pages, cells)
        head = _past_varints(pages, rowids)
        whole = (payload > 0) & (payload <= self.usable_bytes - _SPILL)
        within = head + payload <= owners * self.page_bytes + self.usable_bytes
        width = len(self.columns) + 1
        if not (whole & within & (pages[head] == width)).all() or width >= _LONGER:
            raise Irregular
        rows = np.lib.stride_tricks.sliding_window_view(pages, width - 1)
        types = np.ascontiguousarray(rows[head + 1].T)
        found: dict[str, pl.Series] = {}
        at = head + width
        for name, kinds in zip(self.columns, types, strict=True):
            least, most = int(kinds.min()), int(kinds.max())
            if most >= _LONGER or (least < _BLOB and most > _ONE and _any_reserved(kinds)):
                raise Irregular
            if name is not None:
                found[name] = _column(pages, at, kinds, least, most)
            at = at + (_WIDTH[least] if least == most else _WIDTH[kinds])
        if (at != head + payload).any():
            raise Irregular
        return pl.DataFrame(found)


def _any_reserved(kinds: Bytes) -> bool:
    return bool(((kinds > _ONE) & (kinds < _BLOB)).any())


def _column(pages: Bytes, at: Integers, kinds: Bytes, least: int, most: int) -> pl.Series:
    """Return one column, whose values begin at ``at`` and have serial types ``kinds``."""
    if most >= _BLOB or (least <= _REAL <= most and (kinds == _REAL).any()):
        raise Irregular
    if least == most == _NULL:
        return pl.Series([None], dtype=pl.Int64).new_from_index(0, len(kinds))
    if least >= _ZERO:
        return pl.Series(kinds.astype(np.int64) - _ZERO)
    values = _big_endian(pages, at) >> (_SHIFT[least] if least == most else _SHIFT[kinds])
    if most >= _ZERO:
        values = np.where(kinds >= _ZERO, kinds - np.int64(_ZERO), values)
    series = pl.Series(values)
    return series if least > _NULL else series.set(pl.Series(kinds == _NULL), None)


def _pairs(pages: Bytes, at: Integers) -> Integers:
    """Return the numbers of two bytes at some places."""
    return pages[at].astype(np.int64) << 8 | pages[at + 1]


def _big_endian(pages: Bytes, at: Integers) -> Integers:
    """Return the signed integers of eight bytes at some places."""
    words = np.ndarray((len(pages) - _WORD + 1,), dtype=">i8", buffer=pages, strides=(1,))
    return words[at].astype(np.int64)


def _past_varints(pages: Bytes, at: Integers) -> Integers:
    """Return where the variable-length integers at some places end."""
    ends = at + 1
    for nth in range(8):
        longer = pages[at + nth] >= _LONGER
        if nth:
            longer &= ends == at + nth + 1
        if not longer.any():
            break
        ends += longer
    return ends


def _varints(pages: Bytes, at: Integers) -> tuple[Integers, Integers]:
    """Return the variable-length integers at some places, and where each ends."""
    byte = pages[at]
    values, ends = (byte & 0x7F).astype(np.int64), at + 1
    longer = np.flatnonzero(byte & _LONGER)
    for nth in range(1, 9):
        if not len(longer):
            break
        byte = pages[at[longer] + nth]
        ends[longer] += 1
        if nth < 8:
            values[longer] = values[longer] << 7 | (byte & 0x7F)
            longer = longer[byte & _LONGER > 0]
        else:  # the ninth byte counts whole
            values[longer] = values[longer] << 8 | byte
    return values, ends
