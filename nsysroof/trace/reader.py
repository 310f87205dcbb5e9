"""Rows of an export in bulk, as polars frames with narrow columns; no Python object per row.

This is the interface that the rest of the room reads through, and the casts that every reader
ends with. A block of rows is narrow before it is kept, so that a table of any length never lies
in memory as 64-bit integers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol, TypeVar

import polars as pl

from nsysroof.errors import InputError
from nsysroof.trace.contract import STRING_FIELDS, STRINGS, Layout
from nsysroof.trace.fields import Field
from nsysroof.trace.source import Source

_VALUES_PER_QUERY = 20_000

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Only:
    """A restriction: rows whose ``column`` holds one of ``values`` or begins with a prefix.

    Of integers only the bits of ``mask`` are compared, where it is given. ``least`` and ``most``
    are pairs of another column and what it holds at least and at most; a null is neither.
    """

    column: str
    values: tuple[int, ...] | tuple[str, ...] = ()
    prefixes: tuple[str, ...] = ()
    mask: int | None = None
    least: tuple[tuple[str, int], ...] = ()
    most: tuple[tuple[str, int], ...] = ()

    @property
    def columns(self) -> set[str]:
        """Every column that decides."""
        return {self.column, *(name for name, _ in (*self.least, *self.most))}


class TableReader(Protocol):
    """What the rest of this room reads through."""

    @property
    def layout(self) -> Layout:
        """The tables of the export and their columns."""

    def count(self, table: str) -> int:
        """Return the number of rows, 0 where there is no such table."""

    def map_blocks(
        self,
        table: str,
        fields: Mapping[str, Field],
        block: Callable[[pl.DataFrame], T],
        *,
        only: Only | None = None,
    ) -> list[T]:
        """Return ``block(rows)`` for each block of rows, in the order of the table.

        ``block`` runs in the reading threads. Columns are as the fields say, cast strictly.

        Raises:
            InputError: The rows cannot be read, or a value does not fit its column.
        """


def read_table(
    reader: TableReader, table: str, fields: Mapping[str, Field], *, only: Only | None = None
) -> pl.DataFrame:
    """Return the rows of one table; no rows where the export has no such table."""
    blocks = reader.map_blocks(table, fields, lambda rows: rows, only=only)
    schema = {name: field.dtype for name, field in fields.items()}
    return pl.concat([pl.DataFrame(schema=schema), *blocks], rechunk=False)


def read_strings(reader: TableReader, ids: Iterable[int]) -> dict[int, str]:
    """Return the texts of the StringIds ids that occur; ids without a text are left out."""
    wanted = sorted(set(ids))
    texts: dict[int, str] = {}
    for first in range(0, len(wanted), _VALUES_PER_QUERY):
        only = Only(column="id", values=tuple(wanted[first : first + _VALUES_PER_QUERY]))
        rows = read_table(reader, STRINGS, STRING_FIELDS, only=only)
        texts.update(zip(rows["id"].to_list(), rows["text"].to_list(), strict=True))
    return texts


def narrow(
    rows: pl.DataFrame, fields: Mapping[str, Field], table: str, source: Source
) -> pl.DataFrame:
    """Return the columns in their dtypes; a value that does not fit raises, it never wraps."""
    columns: list[pl.Series] = []
    for name, field in fields.items():
        column = rows[name]
        try:
            columns.append(_decode(column) if field.is_text else _cast_integer(column, field))
        except (pl.exceptions.PolarsError, ValueError) as error:
            raise InputError(
                f"{table} has a value in {' or '.join(field.columns)} that no export holds",
                hint="export again from the report; a changed export cannot be read",
                slug="bad-value",
                where=str(source.shown),
            ) from error
    return pl.DataFrame(columns)


def _cast_integer(column: pl.Series, field: Field) -> pl.Series:
    if field.filled and column.null_count():
        raise ValueError("no value where every row has one")
    if column.dtype.is_float() and not (column == column.floor()).all():
        raise ValueError("a fraction where an integer belongs")
    if column.dtype == pl.Int64 and field.dtype == pl.UInt64:
        return column.reinterpret(signed=False)  # ids of 2^63 and more are stored as negative
    return column.cast(field.dtype)


def _decode(column: pl.Series) -> pl.Series:
    """Return bytes as text; bytes that are not UTF-8 become replacement characters."""
    if column.dtype != pl.Binary:
        return column.cast(pl.String).fill_null("")  # an empty result has no type of its own
    try:
        return column.cast(pl.String)
    except pl.exceptions.ComputeError:
        distinct = column.unique()
        texts = [raw.decode("utf-8", errors="replace") for raw in distinct.to_list()]
        return column.replace_strict(distinct, texts, return_dtype=pl.String)


def damaged(table: str, error: Exception, source: Source) -> InputError:
    """Return the error for a table that a driver could not read, with the driver's first line."""
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    return InputError(
        f"{table} cannot be read: {reason}",
        hint="copy or export it again; if it stays, the report itself is damaged",
        slug="damaged-file",
        where=str(source.shown),
    )
