"""A result as tables: their names, columns and types, the same in every format that has tables.

A list of objects is a table, any other object a table of one row. Objects inside a row become
columns with dots (``bytes.weight``); a mapping without fixed keys is one column of JSON text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

import msgspec

from nsysroof.errors import UsageError
from nsysroof.results import IDLE_CAUSES

if TYPE_CHECKING:
    import polars as pl

_DICT_KEYS = {"idle_by_cause": IDLE_CAUSES}
_PLAIN_PARENTS = ("capture", "assumptions")  # their lists are tables under their own name
_RENAMED = {"process_list": "processes"}


class Kind(StrEnum):
    """What a cell of a column holds, if anything."""

    INT = "int"
    FLOAT = "float"
    TEXT = "text"
    BOOL = "bool"
    INTS = "list of int"
    FLOATS = "list of float"
    TEXTS = "list of text"
    JSON = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its name, the fields that lead to its value, what it holds, and if it may be null.

    Attributes:
        name: The field's JSON name; fields of an inner object follow a dot.
        path: Attributes and keys from the row to the value; empty: the number of the row of the
            table that this one is a part of, counted from 0.
        kind: What a cell holds.
        nullable: Whether "not known" is possible.
    """

    name: str
    path: tuple[str, ...]
    kind: Kind
    nullable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of one type under a name; ``parents`` are the rows that lists inside rows belong to."""

    name: str
    columns: tuple[Column, ...]
    rows: Sequence[msgspec.Struct]
    parents: Sequence[int] = ()

    def cells(self, column: Column) -> Iterator[Any]:
        """Yield a column's values as plain Python values; JSON columns as text."""
        if not column.path:
            yield from self.parents
            return
        for row in self.rows:
            yield _plain(value_at(row, column.path), column.kind)


def tables_of(result: msgspec.Struct, name: str) -> tuple[Table, ...]:
    """Return the tables of a result, its own single row first.

    Args:
        result: A result object, such as a ``Report``.
        name: Name of the table that holds its plain fields.

    >>> from nsysroof.results import Host, Phase
    >>> tables_of(Host(launch_calls=1, launch_ns=2, sync_ns=3), "host")[0].columns[1].name
    'launch_ns'
    """
    return tuple(_walk(result, name))


def table_named(result: msgspec.Struct, name: str) -> Table:
    """Return one table of a result.

    Raises:
        UsageError: ``unknown-table`` where there is none of that name.
    """
    found = {table.name: table for table in tables_of(result, "report")}
    if name not in found:
        raise UsageError(
            f"there is no table {name!r}",
            hint=f"tables are {', '.join(found)}",
            slug="unknown-table",
        )
    return found[name]


def frame_of(table: Table) -> pl.DataFrame:
    """Return a table as a polars frame with a schema that does not depend on its rows."""
    import polars as pl  # noqa: PLC0415  who only reads or prints a report does not wait for it

    types: dict[Kind, Any] = {
        Kind.INT: pl.Int64(),
        Kind.FLOAT: pl.Float64(),
        Kind.TEXT: pl.String(),
        Kind.BOOL: pl.Boolean(),
        Kind.INTS: pl.List(pl.Int64()),
        Kind.FLOATS: pl.List(pl.Float64()),
        Kind.TEXTS: pl.List(pl.String()),
        Kind.JSON: pl.String(),
    }
    return pl.DataFrame(
        [
            pl.Series(column.name, list(table.cells(column)), dtype=types[column.kind])
            for column in table.columns
        ]
    )


@cache
def columns_of(row_type: type[msgspec.Struct]) -> tuple[Column, ...]:
    """Return the columns of an object: objects inside it with dots, lists of objects left out.

    >>> from nsysroof.results import Phase
    >>> [(column.name, str(column.kind)) for column in columns_of(Phase)]
    [('phase', 'text'), ('count', 'int'), ('total_ns', 'int')]
    """
    return tuple(column for field in msgspec.structs.fields(row_type) for column in _columns(field))


def value_at(row: msgspec.Struct, path: tuple[str, ...]) -> Any:
    """Return the value that a column has in a row; null where an object on the way is absent.

    A whole number in a column of floats stays one; ``exact`` makes it what it is when read back.
    """
    value: Any = row
    for key in path:
        if value is None:
            return None
        value = value.get(key) if isinstance(value, dict) else getattr(value, key)
    return value


def exact(value: Any, kind: Kind) -> Any:
    """Return a number as its column holds it, so that a saved result reads as the fresh one.

    >>> exact(4, Kind.FLOAT), exact(4, Kind.INT), exact(None, Kind.FLOAT)
    (4.0, 4, None)
    """
    return float(value) if kind is Kind.FLOAT and value is not None else value


def _columns(field: msgspec.structs.FieldInfo) -> Iterator[Column]:
    nullable, choices = _choices(field.type)
    inner = _struct_among(choices)
    if inner is not None:
        for column in columns_of(inner):
            yield Column(
                name=f"{field.encode_name}.{column.name}",
                path=(field.name, *column.path),
                kind=column.kind,
                nullable=nullable or column.nullable,
            )
    elif field.name in _DICT_KEYS and _is_mapping_to_int(choices):
        for key in _DICT_KEYS[field.name]:
            yield Column(
                name=f"{field.encode_name}.{key}",
                path=(field.name, key),
                kind=Kind.INT,
                nullable=True,
            )
    elif _rows_among(choices) is None:
        yield Column(
            name=field.encode_name, path=(field.name,), kind=_kind(choices), nullable=nullable
        )


def _walk(result: msgspec.Struct, name: str) -> Iterator[Table]:
    """Yield the table of a whole result's plain fields, then those of the objects inside it."""
    fields = msgspec.structs.fields(type(result))
    parts = {field.name: _struct_among(_choices(field.type)[1]) for field in fields}
    own = tuple(column for column in columns_of(type(result)) if not parts[column.path[0]])
    if own:
        yield Table(name=name, columns=own, rows=[result])
    for field in fields:
        part, value = parts[field.name], getattr(result, field.name)
        if part is not None:
            name = _RENAMED.get(field.encode_name, field.encode_name)
            rows = [] if value is None else [value]
            yield Table(name=name, columns=columns_of(part), rows=rows)
            yield from _lists(part, rows, "" if name in _PLAIN_PARENTS else name, parent=None)
        else:
            yield from _list(field, [value], "", parent=None)


def _lists(
    row_type: type[msgspec.Struct], rows: Sequence[msgspec.Struct], prefix: str, parent: str | None
) -> Iterator[Table]:
    """Yield the tables of the lists that rows hold; ``parent``: the table of the rows, if many."""
    for field in msgspec.structs.fields(row_type):
        yield from _list(field, [getattr(row, field.name) for row in rows], prefix, parent)


def _list(
    field: msgspec.structs.FieldInfo,
    held: Sequence[Sequence[msgspec.Struct] | None],
    prefix: str,
    parent: str | None,
) -> Iterator[Table]:
    """Yield the table of what all rows hold in one field, if it lists objects."""
    listed = _rows_among(_choices(field.type)[1])
    if listed is None:
        return
    own = _RENAMED.get(field.encode_name, field.encode_name)
    name = f"{prefix}_{own}" if prefix else own
    columns = columns_of(listed)
    if parent is not None:
        link = Column(name=parent, path=(), kind=Kind.INT, nullable=False)
        columns = (link, *columns)
    flat = [(at, value) for at, values in enumerate(held) for value in values or ()]
    rows = [value for _, value in flat]
    parents = [at for at, _ in flat] if parent is not None else ()
    yield Table(name=name, columns=columns, rows=rows, parents=parents)
    yield from _lists(listed, rows, name, parent=name)


def _choices(annotation: Any) -> tuple[bool, tuple[Any, ...]]:
    """Return whether an annotation allows None, and the other types that it allows."""
    union = get_origin(annotation) in {Union, UnionType}
    choices = get_args(annotation) if union else (annotation,)
    return NoneType in choices, tuple(choice for choice in choices if choice is not NoneType)


def _struct_among(choices: tuple[Any, ...]) -> type[msgspec.Struct] | None:
    """Return the object that a field holds, as ``Spread`` in ``Spread | None``."""
    for choice in choices:
        if isinstance(choice, type) and issubclass(choice, msgspec.Struct):
            return choice
    return None


def _rows_among(choices: tuple[Any, ...]) -> type[msgspec.Struct] | None:
    """Return the objects that a field lists, as ``Gap`` in ``list[Gap]``."""
    for choice in choices:
        if get_origin(choice) is list:
            return _struct_among(get_args(choice))
    return None


def _is_mapping_to_int(choices: tuple[Any, ...]) -> bool:
    return any(get_origin(choice) is dict and get_args(choice)[1] is int for choice in choices)


def _kind(choices: tuple[Any, ...]) -> Kind:
    if set(choices) == {int, float}:
        return Kind.FLOAT
    (only,) = choices
    lists = {int: Kind.INTS, float: Kind.FLOATS, str: Kind.TEXTS}
    if get_origin(only) is list:
        return lists.get(get_args(only)[0], Kind.JSON)
    scalars = {int: Kind.INT, float: Kind.FLOAT, str: Kind.TEXT, bool: Kind.BOOL}
    return scalars.get(only, Kind.JSON)


def _plain(value: Any, kind: Kind) -> Any:
    if value is None:
        return None
    if kind is Kind.JSON:
        return msgspec.json.encode(value, order="deterministic").decode()
    if kind is Kind.FLOAT:
        return float(value)
    return str(value) if kind is Kind.TEXT else value
