"""Reads SQLite exports in two threads: integers from the pages, all else through ADBC.

Where a table holds nothing but plain rows, its integers are decoded from its pages. Texts,
restrictions and whatever is irregular are queries, which ADBC runs in C.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import TypeVar

import adbc_driver_manager
import adbc_driver_sqlite
import polars as pl
import pyarrow as pa

from nsysroof.trace.contract import Layout, find_table
from nsysroof.trace.fields import Field
from nsysroof.trace.pages import Irregular, PagedTable, PageRange
from nsysroof.trace.reader import Only, damaged, narrow
from nsysroof.trace.source import Source

BATCH_ROWS = 16_384
_BATCHES_PER_BLOCK = 4  # merging a few batches gives back what the driver's buffers hold too much
_ROWS_WORTH_A_THREAD = 200_000
_THREADS = 2

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """Rows of one table: what a query for them ends with, and the pages that they lie in."""

    condition: str
    pages: PageRange | None = None


class SqliteReader:
    """Reads a SQLite export; the user's file is never written to."""

    def __init__(self, source: Source) -> None:
        """Read the table and column names; nothing else is touched yet."""
        self._source = source
        self._layout, self._roots = self._list_tables()

    @property
    def layout(self) -> Layout:
        """The tables of the export and their columns."""
        return self._layout

    def count(self, table: str) -> int:
        """Return the number of rows, 0 where there is no such table."""
        spelled = find_table(self._layout, table)
        if spelled is None:
            return 0
        with self._reading(table), closing(self._connect()) as connection:
            return int(connection.execute(f"SELECT count(*) FROM [{spelled}]").fetchone()[0])  # noqa: S608  a name from the export's own catalogue

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
        columns = ", ".join(f"{field.sql} AS [{name}]" for name, field in fields.items())
        query = f"SELECT {columns} FROM [{spelled}]"  # noqa: S608  names of the contract
        if only is not None:
            return self._query(table, f"{query} WHERE {_sql_condition(only)}", fields, block)
        paged = self._paged(spelled, fields)

        def read(part: _Part) -> list[T]:
            if paged is not None and part.pages is not None:
                with self._reading(table), suppress(Irregular):
                    rows = paged.integers(part.pages)
                    made = rows.select(**{name: field.expr for name, field in fields.items()})
                    return [block(narrow(made, fields, table, self._source))]
            return self._query(table, f"{query}{part.condition}", fields, block)

        parts = self._parts(table, spelled, paged)
        with ThreadPoolExecutor(max_workers=_THREADS) as threads:
            return [result for results in threads.map(read, parts) for result in results]

    def _query(
        self,
        table: str,
        query: str,
        fields: Mapping[str, Field],
        block: Callable[[pl.DataFrame], T],
    ) -> list[T]:
        results: list[T] = []
        # The driver's plain interface: its DB-API imports 20 MB of libraries that nothing needs.
        with (
            self._reading(table),
            adbc_driver_sqlite.connect(self._source.uri) as database,
            adbc_driver_manager.AdbcConnection(database) as connection,
            adbc_driver_manager.AdbcStatement(connection) as statement,
        ):
            statement.set_options(**{"adbc.sqlite.query.batch_rows": str(BATCH_ROWS)})
            statement.set_sql_query(query)
            stream, _ = statement.execute_query()
            batches = (
                _from_driver(batch, fields, table, self._source)
                for batch in pa.RecordBatchReader.from_stream(stream)
            )
            results.extend(block(rows) for rows in _merge(batches))
        return results

    def _paged(self, spelled: str, fields: Mapping[str, Field]) -> PagedTable | None:
        """Return the table as pages where all fields are integers of plain rows, else None."""
        wanted = {name.lower(): name for field in fields.values() for name in field.columns}
        root = self._roots.get(spelled)
        if root is None or not wanted or any(field.is_text for field in fields.values()):
            return None
        return PagedTable.of(
            self._source.path,
            root,
            [wanted.get(column.lower()) for column in self._layout[spelled]],
        )

    def _parts(self, table: str, spelled: str, paged: PagedTable | None) -> list[_Part]:
        """Return the table in parts that two threads may read, in the order of the rows."""
        if paged is not None:
            with self._reading(table), suppress(Irregular):
                return [
                    _Part(condition=f" WHERE {pages.condition}", pages=pages)
                    for pages in paged.ranges()
                ]
        return [_Part(condition=condition) for condition in self._halves(table, spelled)]

    def _halves(self, table: str, spelled: str) -> list[str]:
        """Return conditions that split the table by rowid, one where it is short or has none."""
        try:
            # Two statements: one that asks for both ends scans the whole table.
            with closing(self._connect()) as connection:
                first, last = (
                    connection.execute(f"SELECT {end}(rowid) FROM [{spelled}]").fetchone()[0]  # noqa: S608  a name from the export's own catalogue
                    for end in ("min", "max")
                )
        except sqlite3.OperationalError:
            return [""]  # a view or a table WITHOUT ROWID
        except sqlite3.Error as error:
            raise damaged(table, error, self._source) from error
        if first is None or last - first < _ROWS_WORTH_A_THREAD:
            return [""]
        middle = (first + last) // 2
        return [f" WHERE rowid <= {middle}", f" WHERE rowid > {middle}"]

    def _list_tables(self) -> tuple[Layout, dict[str, int]]:
        """Return the tables and their columns, and the first page of those with plain rows."""
        query = (
            "SELECT m.name, c.name, m.rootpage, c.pk FROM sqlite_master m,"
            " pragma_table_info(m.name) c"
            " WHERE m.type IN ('table', 'view') ORDER BY m.name, c.cid"
        )
        with self._reading("sqlite_master"), closing(self._connect()) as connection:
            rows = connection.execute(query).fetchall()
        columns: dict[str, list[str]] = {}
        for table, column, _, _ in rows:
            columns.setdefault(table, []).append(column)
        # A key may be the rowid itself, or the table have none; a view has no page.
        keyed = {table for table, _, _, key in rows if key}
        roots = {table: root for table, _, root, _ in rows if root and table not in keyed}
        return {table: tuple(names) for table, names in columns.items()}, roots

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self._source.uri, uri=True)

    @contextmanager
    def _reading(self, table: str) -> Iterator[None]:
        try:
            yield
        except (adbc_driver_manager.Error, OSError, sqlite3.Error) as error:
            self._source.check_unchanged()
            raise damaged(table, error, self._source) from error
        self._source.check_unchanged()


def _sql_condition(only: Only) -> str:
    values = (str(value) if isinstance(value, int) else _quoted(value) for value in only.values)
    begins = (
        f" OR substr([{only.column}], 1, {len(prefix)}) = {_quoted(prefix)}"
        for prefix in only.prefixes
    )
    held = f"[{only.column}]" if only.mask is None else f"([{only.column}] & {only.mask})"
    bounds = [f" AND [{name}] >= {value}" for name, value in only.least]
    bounds += [f" AND [{name}] <= {value}" for name, value in only.most]
    return f"({held} IN ({', '.join(values)}){''.join(begins)}){''.join(bounds)}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _from_driver(
    batch: pa.RecordBatch, fields: Mapping[str, Field], table: str, source: Source
) -> pl.DataFrame:
    rows = pl.from_arrow(batch)
    assert isinstance(rows, pl.DataFrame)
    return narrow(rows, fields, table, source)


def _merge(batches: Iterator[pl.DataFrame]) -> Iterator[pl.DataFrame]:
    """Yield a few batches at a time in buffers of their own, and let go of the driver's."""
    pending: list[pl.DataFrame] = []
    for batch in batches:
        pending.append(batch)
        if len(pending) == _BATCHES_PER_BLOCK:
            yield pl.concat(pending, rechunk=True)
            pending.clear()
    if pending:
        yield pl.concat(pending, rechunk=True)
