"""How one column of a frame is made from the columns of an export, in SQL and in polars alike.

Both forms give signed 64-bit integers or bytes; the reader narrows them afterwards. Names are
quoted in brackets, since SQLite takes an unknown name in double quotes for a text.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

_PROCESS_SHIFT = 24
_ID_MASK = 0xFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Field:
    """One column to read: ``sql`` and ``expr`` say the same; text fields are read as bytes.

    ``required`` fields make a table unreadable when their columns are missing; other fields
    become null. ``filled`` fields hold a value in every row of a real export.
    """

    columns: tuple[str, ...]
    dtype: pl.DataType
    sql: str
    expr: pl.Expr
    required: bool = False
    any_of: bool = False
    filled: bool = False

    @property
    def is_text(self) -> bool:
        """Whether the column holds text, which may not be valid UTF-8 in real exports."""
        return isinstance(self.dtype, pl.String)


def number(column: str, dtype: pl.DataType, *, required: bool = False) -> Field:
    """Return the integer of one column as it is."""
    return Field(
        columns=(column,),
        dtype=dtype,
        sql=f"[{column}]",
        expr=pl.col(column),
        required=required,
        filled=required,
    )


def natural(column: str, dtype: pl.DataType) -> Field:
    """Return the integer of one column, null where it is negative: old exports wrote -1."""
    return replace(
        number(column, dtype),
        sql=f"CASE WHEN [{column}] >= 0 THEN [{column}] END",
        expr=pl.when(pl.col(column) >= 0).then(pl.col(column)),
    )


def nonzero(column: str, dtype: pl.DataType) -> Field:
    """Return the integer of one column, null where it is 0: old exports wrote 0 for "none"."""
    return replace(
        number(column, dtype),
        sql=f"nullif([{column}], 0)",
        expr=pl.when(pl.col(column) != 0).then(pl.col(column)),
    )


def either(first: str, second: str, dtype: pl.DataType) -> Field:
    """Return the first column, or the second where the export has no first; one is required."""
    return replace(number(first, dtype, required=True), columns=(first, second), any_of=True)


def process(column: str) -> Field:
    """Return the process id within a serialized ``<hw:8><vm:8><pid:24><tid:24>`` id.

    Ids of 2^63 and more appear negative; the shift keeps the sign and the mask drops it.
    """
    return Field(
        columns=(column,),
        dtype=pl.UInt32(),
        sql=f"([{column}] >> {_PROCESS_SHIFT}) & {_ID_MASK}",
        expr=(pl.col(column) // (1 << _PROCESS_SHIFT)) & _ID_MASK,
    )


def thread(column: str) -> Field:
    """Return the thread id within a serialized id."""
    return Field(
        columns=(column,),
        dtype=pl.UInt32(),
        sql=f"[{column}] & {_ID_MASK}",
        expr=pl.col(column) & _ID_MASK,
    )


def text(column: str, *, required: bool = False) -> Field:
    """Return the text of one column, empty where it is NULL."""
    return Field(
        columns=(column,),
        dtype=pl.String(),
        sql=f"coalesce(cast([{column}] AS BLOB), x'')",
        expr=pl.col(column).fill_null(b""),
        required=required,
    )


def packed(
    columns: tuple[str, str, str],
    limits: tuple[int, int, int],
    bits: tuple[int, int],
    dtype: pl.DataType,
) -> Field:
    """Return three dimensions in one integer, null where one is outside ``0..limit``.

    Args:
        columns: The x, y and z dimension.
        limits: The largest x, y and z that the hardware takes.
        bits: How many bits y and z take; x takes the rest.
        dtype: The dtype of the packed integer.
    """
    x, y, z = columns
    y_bits, z_bits = bits
    inside = zip(columns, limits, strict=True)
    ranges = " AND ".join(f"[{column}] BETWEEN 0 AND {limit}" for column, limit in inside)
    value = f"([{x}] << {y_bits + z_bits}) | ([{y}] << {z_bits}) | [{z}]"
    whole = pl.col(x) * (1 << y_bits + z_bits) + pl.col(y) * (1 << z_bits) + pl.col(z)
    valid = pl.all_horizontal(
        pl.col(column).is_between(0, limit) for column, limit in zip(columns, limits, strict=True)
    )
    return Field(
        columns=columns,
        dtype=dtype,
        sql=f"CASE WHEN {ranges} THEN {value} END",
        expr=pl.when(valid).then(whole),
        required=True,
    )


def absent(field: Field) -> Field:
    """Return the field of an export that lacks its columns: null, or empty for text."""
    empty = b"" if field.is_text else None
    return replace(
        field,
        columns=(),
        sql="x''" if field.is_text else "NULL",
        expr=pl.lit(empty, dtype=pl.Binary() if field.is_text else pl.Int64()),
    )
