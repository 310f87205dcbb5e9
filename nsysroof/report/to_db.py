"""A SQLite database for datasette and every other SQLite tool: references and search on names.

Long names are stored once, in ``names``; the tables refer to them, and beside each of these
tables a view ``TABLE_named`` shows the same columns as the other formats. Lists and mappings are
JSON text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from nsysroof.report.result_tables import result_tables
from nsysroof.report.views import View
from nsysroof.tables import Column, Kind, Table

if TYPE_CHECKING:
    from sqlite_utils import Database

_NAMES = "names"
_NAMED = {
    "kernels": ("name",),
    "unexplained": ("name",),
    "budget_by_kernel": ("name",),
    "gaps": ("before", "after"),
    "step_timeline_slices": ("what",),
}
"""Columns whose text is a kernel, a copy or the like, and may be thousands of characters long."""

_LISTS = (Kind.INTS, Kind.FLOATS, Kind.TEXTS)
_TYPES = {Kind.INT: int, Kind.FLOAT: float, Kind.BOOL: int}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Key:
    """A table that others refer to by one column; made, or filled up, from what refers to it."""

    table: str
    column: str
    kind: Kind

    def is_in(self, column: Column) -> bool:
        """Return whether a column holds this key."""
        return column.name == self.column and column.kind is self.kind


_KEYS = (
    _Key(table="devices", column="gpu", kind=Kind.INT),
    _Key(table="processes", column="pid", kind=Kind.INT),
    _Key(table="roles", column="role", kind=Kind.TEXT),
)


class DatabaseRenderer:
    """Writes every table of a result into one new database."""

    suffixes: tuple[str, ...] = (".db",)

    def save(self, view: View, path: Path) -> None:
        """Create the database ``path``.

        Raises:
            UsageError: ``no-tables`` for a catalogue.
        """
        from sqlite_utils import Database  # noqa: PLC0415  its import takes longer than a table

        tables = result_tables(view)
        database = Database(path)
        try:
            # Nobody reads the file before it is whole, so no write need wait for the disk.
            database.execute("pragma synchronous = off")
            names = _write_names(database, tables)
            for key in _KEYS:
                _write_key(database, key, tables)
            for table in tables:
                if table.name not in {key.table for key in _KEYS}:
                    _write_table(database, table, names)
        finally:
            database.close()


def _write_names(database: Database, tables: Sequence[Table]) -> dict[str, int]:
    """Store each distinct name under a number, make them searchable, and return the numbers."""
    numbers: dict[str, int] = {}
    for table in tables:
        for column in table.columns:
            if column.name in _NAMED.get(table.name, ()):
                for text in table.cells(column):
                    numbers.setdefault(text, len(numbers) + 1)
    if numbers:
        names = database.table(_NAMES)
        names.create({"id": int, "name": str}, pk="id", not_null={"name"})
        names.insert_all({"id": number, "name": text} for text, number in numbers.items())
        names.enable_fts(["name"])
    return numbers


def _write_key(database: Database, key: _Key, tables: Sequence[Table]) -> None:
    """Write the table of a key: its own rows, then those keys that only others know."""
    own = next((table for table in tables if table.name == key.table), None)
    used = {
        value: None
        for table in tables
        for column in table.columns
        if key.is_in(column)
        for value in table.cells(column)
        if value is not None
    }
    if not used:
        return
    columns = own.columns if own else (_key_column(key),)
    rows = list(_rows(own)) if own else []
    known = {row[key.column] for row in rows}
    rows += [{key.column: value} for value in sorted(used) if value not in known]
    target = database.table(key.table)
    target.create(_types(columns), pk=key.column)
    target.insert_all(rows, columns=_types(columns))


def _key_column(key: _Key) -> Column:
    return Column(name=key.column, path=(key.column,), kind=key.kind, nullable=False)


def _write_table(database: Database, table: Table, numbers: Mapping[str, int]) -> None:
    named = _NAMED.get(table.name, ()) if numbers else ()
    keys = [
        (column.name, key.table, key.column)
        for column in table.columns
        for key in _KEYS
        if key.is_in(column) and database.table(key.table).exists()
    ]
    target = database.table(table.name)
    target.create(
        {**_types(table.columns), **dict.fromkeys(named, int)},
        foreign_keys=[*keys, *((name, _NAMES, "id") for name in named)],
        not_null={column.name for column in table.columns if not column.nullable},
    )
    target.insert_all(
        {**row, **{name: numbers[row[name]] for name in named}} for row in _rows(table)
    )
    if named:
        database.create_view(f"{table.name}_named", _named_view(table, named))


def _named_view(table: Table, named: Sequence[str]) -> str:
    """Return the query that puts names back in the place of their numbers."""
    shown = ", ".join(
        f'"{name}_".name as "{name}"' if name in named else f't."{name}"'
        for name in (column.name for column in table.columns)
    )
    joined = " ".join(f'join names "{name}_" on "{name}_".id = t."{name}"' for name in named)
    return f'select {shown} from "{table.name}" t {joined} order by t.rowid'  # noqa: S608  our own names


def _types(columns: Iterable[Column]) -> dict[str, type]:
    return {column.name: _TYPES.get(column.kind, str) for column in columns}


def _rows(table: Table) -> Iterator[dict[str, Any]]:
    names = [column.name for column in table.columns]
    cells = [_stored(table.cells(column), column.kind) for column in table.columns]
    for values in zip(*cells, strict=True):
        yield dict(zip(names, values, strict=True))


def _stored(values: Iterable[Any], kind: Kind) -> Iterator[Any]:
    for value in values:
        is_list = kind in _LISTS and value is not None
        yield msgspec.json.encode(value).decode() if is_list else value


RENDERER = DatabaseRenderer()
