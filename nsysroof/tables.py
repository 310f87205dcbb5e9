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
        path: Attributes and keys from the row to the value.
        kind: What a cell holds.
        nullable: Whether "not known" is possible.
    """

    name: str
    path: tuple[str, ...]
    kind: Kind
    nullable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of one type under a name."""

    name: str
    columns: tuple[Column, ...]
    rows: Sequence[msgspec.Struct]

    def cells(self, column: Column) -> Iterator[Any]:
        """Yield a column's values as plain Python values; JSON columns as text."""
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
    return tuple(_walk(type(result), [result], name, root=True))


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
    """Return the value that a column has in a row; null where an object on the way is absent."""
    value: Any = row
    for key in path:
        if value is None:
            return None
        value = value.get(key) if isinstance(value, dict) else getattr(value, key)
    return value


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


def _walk(
    row_type: type[msgspec.Struct], rows: Sequence[msgspec.Struct], name: str, *, root: bool
) -> Iterator[Table]:
    """Yield the table of ``rows`` and those of the lists and, at the root, of the objects inside."""
    fields = msgspec.structs.fields(row_type)
    parts = {field.name: _struct_among(_choices(field.type)[1]) for field in fields if root}
    own = tuple(column for column in columns_of(row_type) if not parts.get(column.path[0]))
    if own:
        yield Table(name=name, columns=own, rows=rows)
    for field in fields:
        part, listed = parts.get(field.name), _rows_among(_choices(field.type)[1])
        held = [getattr(row, field.name) for row in rows]
        if part is not None:
            present = [value for value in held if value is not None]
            yield from _walk(part, present, _name(name, field.encode_name, root=root), root=False)
        elif listed is not None:
            flat = [value for values in held for value in values or ()]
            yield from _walk(listed, flat, _name(name, field.encode_name, root=root), root=False)


def _name(parent: str, field: str, *, root: bool) -> str:
    field = _RENAMED.get(field, field)
    return field if root or parent in _PLAIN_PARENTS else f"{parent}_{field}"


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
