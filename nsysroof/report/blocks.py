"""What a page for human eyes is made of, before any format: sections of prose, items and grids."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias


class Kind(StrEnum):
    """How a column may be laid out."""

    NUMBER = "number"  # to the right, never cut
    WORD = "word"  # to the left, never cut
    NAME = "name"  # to the left, shortened in the middle where a terminal is too narrow


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a grid.

    Attributes:
        title: Its heading, with the unit.
        kind: How it may be laid out.
        least: For names: the terminal cells below which it is not worth having.
        optional: For names: left out where the terminal has no room for every ``least``.
    """

    title: str
    kind: Kind
    least: int = 0
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of a grid: a cell per column, and text that stands below it, if any."""

    cells: tuple[str, ...]
    below: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """A small table."""

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """A labelled text, such as a finding with its severity and hint."""

    label: str
    text: str
    below: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Items:
    """Labelled texts, one after another."""

    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Verbatim:
    """Lines to copy: neither broken nor shortened."""

    lines: tuple[str, ...]


Block: TypeAlias = str | Items | Grid | Verbatim
"""A string is a paragraph."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading and what stands below it."""

    title: str
    blocks: tuple[Block, ...]


def number(title: str) -> Column:
    """Return a column of numbers."""
    return Column(title=title, kind=Kind.NUMBER)


def word(title: str) -> Column:
    """Return a column of short words that are never cut."""
    return Column(title=title, kind=Kind.WORD)


def name(title: str, *, least: int, optional: bool = False) -> Column:
    """Return a column of names that may be shortened to no less than ``least`` cells."""
    return Column(title=title, kind=Kind.NAME, least=least, optional=optional)


def count(amount: int, one: str, many: str | None = None) -> str:
    """Return an amount with its noun.

    >>> count(1, "kernel"), count(1728, "kernel"), count(2, "process", "processes")
    ('1 kernel', '1,728 kernels', '2 processes')
    """
    return f"{amount:,} {one if amount == 1 else many or one + 's'}"
