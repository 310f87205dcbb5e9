"""The pages of the catalogues: GPUs, models and rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from nsysroof.report.blocks import (
    Column,
    Grid,
    Item,
    Items,
    Row,
    Section,
    Verbatim,
    name,
    number,
)
from nsysroof.report.sheets import cell, is_table
from nsysroof.report.views import Card, Listing
from nsysroof.units import format_bytes, format_rate

_LEAST = 14
_PER_SECOND = "/s"


def listing_section(listing: Listing) -> Section:
    """Return the rows of a catalogue."""
    if not listing.rows:
        return Section(title=listing.title, blocks=("None.",))
    return Section(
        title=listing.title, blocks=(_grid(listing.columns, listing.rows, listing.units),)
    )


def card_sections(card: Card) -> tuple[Section, ...]:
    """Return one entry: its plain fields first, then texts of several lines, then its tables."""
    tables = {key: value for key, value in card.fields.items() if is_table(value)}
    plain = {key: value for key, value in card.fields.items() if key not in tables}
    lines = {key: tuple(value.splitlines()) for key, value in plain.items() if _is_lines(value)}
    items = tuple(
        Item(label=key, text=_text(value)) for key, value in plain.items() if key not in lines
    )
    return (
        Section(title=card.title, blocks=(Items(items=items),)),
        *(Section(title=key, blocks=(Verbatim(lines=told),)) for key, told in lines.items()),
        *(
            Section(title=key, blocks=(_grid(tuple(rows[0]), rows),))
            for key, rows in tables.items()
        ),
    )


def _is_lines(value: Any) -> bool:
    return isinstance(value, str) and "\n" in value


def _grid(
    columns: tuple[str, ...],
    rows: Sequence[Mapping[str, Any]],
    units: Mapping[str, str] = MappingProxyType({}),
) -> Grid:
    return Grid(
        columns=tuple(_column(column, [row[column] for row in rows]) for column in columns),
        rows=tuple(
            Row(cells=tuple(_text(row[column], units.get(column)) for column in columns))
            for row in rows
        ),
    )


def _column(title: str, values: Sequence[Any]) -> Column:
    known = [value for value in values if value is not None]
    if known and all(isinstance(value, int | float) for value in known):
        return number(title)
    return name(title, least=_LEAST)


def _text(value: Any, unit: str | None = None) -> str:
    """Return a value as text: numbers with their unit, an absent one a dash."""
    if value is None:
        return "–"
    if isinstance(value, bool) or not isinstance(value, int | float | str | list | tuple):
        return cell(value)
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return ", ".join(_text(inner, unit) for inner in value) or "–"
    if unit is not None:
        per_second = unit.endswith(_PER_SECOND)
        return (
            format_rate(value, unit.removesuffix(_PER_SECOND))
            if per_second
            else format_bytes(value)
        )
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"
