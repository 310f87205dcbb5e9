"""How far the reading of an export is: rows read of the rows that a table has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from threading import Lock
from typing import TypeAlias, TypeVar

import polars as pl

from nsysroof.trace.contract import Layout
from nsysroof.trace.fields import Field
from nsysroof.trace.reader import Only, TableReader

Tell: TypeAlias = Callable[[str, int, int], None]
"""Called with a table, the rows of it that were read, and the rows that it has."""

T = TypeVar("T")


class WatchedReader:
    """Reads through another reader, and tells how far it is after each block of a whole table."""

    def __init__(self, reader: TableReader, tell: Tell) -> None:
        """Watch ``reader``; ``tell`` is called from its threads, but never twice at a time."""
        self._reader = reader
        self._tell = tell

    @property
    def layout(self) -> Layout:
        """The tables of the export and their columns."""
        return self._reader.layout

    def count(self, table: str) -> int:
        """Return the number of rows, 0 where there is no such table."""
        return self._reader.count(table)

    def map_blocks(
        self,
        table: str,
        fields: Mapping[str, Field],
        block: Callable[[pl.DataFrame], T],
        *,
        only: Only | None = None,
    ) -> list[T]:
        """Return ``block(rows)`` for each block of rows, in the order of the table."""
        # How many rows a restriction leaves is not known before they are read.
        total = 0 if only is not None else self.count(table)
        if not total:
            return self._reader.map_blocks(table, fields, block, only=only)
        lock, done = Lock(), 0

        def counted(rows: pl.DataFrame) -> T:
            nonlocal done
            found = block(rows)
            with lock:
                done += rows.height
                self._tell(table, done, total)
            return found

        return self._reader.map_blocks(table, fields, counted, only=only)
