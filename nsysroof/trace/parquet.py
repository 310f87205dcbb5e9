"""Reads folders of parquet tables, as ``nsys export --type parquetdir`` writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from nsysroof.trace.contract import Layout, find_table
from nsysroof.trace.fields import Field
from nsysroof.trace.reader import Only, damaged, narrow
from nsysroof.trace.source import Source

_ROWS_PER_BLOCK = 65_536

T = TypeVar("T")


class ParquetReader:
    """Reads a folder with one ``<TABLE>.parquet`` for each table."""

    def __init__(self, source: Source) -> None:
        """Read the table and column names; nothing else is touched yet."""
        self._source = source
        self._files = {file.stem: file for file in sorted(source.path.glob("*.parquet"))}
        self._layout: Layout = {
            table: tuple(self._open(table, file).schema_arrow.names)
            for table, file in self._files.items()
        }

    @property
    def layout(self) -> Layout:
        """The tables of the export and their columns."""
        return self._layout

    def count(self, table: str) -> int:
        """Return the number of rows, 0 where there is no such table."""
        spelled = find_table(self._layout, table)
        if spelled is None:
            return 0
        return int(self._open(table, self._files[spelled]).metadata.num_rows)

    def map_blocks(
        self,
        table: str,
        fields: Mapping[str, Field],
        block: Callable[[pl.DataFrame], T],
        *,
        only: Only | None = None,
    ) -> list[T]:
        """Return ``block(rows)`` for each block of rows, in the order of the table."""
        spelled = find_table(self._layout, table)
        if spelled is None:
            return []
        wanted = {column for field in fields.values() for column in field.columns}
        wanted |= only.columns if only else set()
        spelling = {name.lower(): name for name in self._layout[spelled]}
        actual = {column: spelling[column.lower()] for column in sorted(wanted)}
        file = self._open(table, self._files[spelled])
        results: list[T] = []
        try:
            batches = file.iter_batches(batch_size=_ROWS_PER_BLOCK, columns=list(actual.values()))
            for batch in batches:
                rows = pl.DataFrame(
                    {column: _neutral(batch.column(name)) for column, name in actual.items()}
                )
                if only is not None:
                    rows = rows.filter(_polars_condition(only))
                made = rows.select(**{name: field.expr for name, field in fields.items()})
                results.append(block(narrow(made, fields, table, self._source)))
        except (pa.ArrowException, pl.exceptions.PolarsError, OSError) as error:
            raise damaged(table, error, self._source) from error
        return results

    def _open(self, table: str, file: Path) -> pq.ParquetFile:
        try:
            return pq.ParquetFile(file)
        except (pa.ArrowException, OSError) as error:
            raise damaged(table, error, self._source) from error


def _polars_condition(only: Only) -> pl.Expr:
    values = [value if isinstance(value, int) else value.encode() for value in only.values]
    column = pl.col(only.column)
    held = column if only.mask is None else column & only.mask
    condition = held.is_in(values) if values else pl.lit(value=False)
    for prefix in only.prefixes:
        condition |= column.cast(pl.Binary).bin.starts_with(prefix.encode())
    for name, value in only.least:
        condition &= pl.col(name) >= value
    for name, value in only.most:
        condition &= pl.col(name) <= value
    return condition


def _neutral(column: pa.Array) -> pl.Series:
    """Return a column of a parquet table as SQLite would give it: signed integers or bytes."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())  # text may be invalid UTF-8
    series: Any = pl.from_arrow(column)
    if series.dtype == pl.UInt64:
        return series.reinterpret(signed=True)  # type: ignore[no-any-return]
    return series.cast(pl.Int64) if series.dtype.is_integer() else series  # type: ignore[no-any-return]
