"""Text for a terminal of 100 columns, or of the width that it has, in words before colours.

Numbers never wrap, vanish or lose digits. Only on a terminal are names shortened, in the middle,
and a column of names left out where there is no room for it; a file or a pipe gets every
character of them.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from io import StringIO
from typing import TextIO

from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from nsysroof.report.blocks import Block, Column, Grid, Item, Items, Kind, Row, Section, Verbatim
from nsysroof.report.characters import brief_name, printable, shortened
from nsysroof.report.pages import page
from nsysroof.report.views import View

_WIDTH = 100
_NARROWEST, _WIDEST = 80, 200
_MARGIN = "  "
_GAP = "  "
_PARAGRAPH_LINES = 8
_STYLES = {"error": "bold red", "warning": "bold yellow", "note": "bold"}
_UNIT_AFTER_NUMBER = re.compile(r"(?<=[\d.–]) (?=(?:[%×µ]|[numkMGTP]?s\b|[kMGTP]?(?:B|FLOP|OP)\b))")
_GLUE = "\N{NO-BREAK SPACE}"


class TableRenderer:
    """Writes the page of a view; asks the stream whether it is a terminal."""

    suffixes: tuple[str, ...] = (".txt",)

    def render(self, view: View, stream: TextIO) -> None:
        """Write ``view`` to ``stream``, in colours only to a terminal that wants them."""
        terminal = stream.isatty()
        layout = _Layout(width=_width_of(stream) if terminal else _WIDTH, cut=terminal)
        lines = [line for section in page(view) for line in layout.section(section)]
        stream.write(_painted(lines[1:], coloured=terminal and _wants_colour()))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layout:
    """Turns blocks into lines of at most ``width`` cells; only ``cut`` may shorten names."""

    width: int
    cut: bool

    def section(self, section: Section) -> list[Text]:
        """Return the lines of a section after an empty one."""
        lines = [Text(), Text(printable(section.title), style="bold")]
        for block in section.blocks:
            lines += self._block(block)
        return lines

    def _block(self, block: Block) -> list[Text]:
        match block:
            case str():
                return self._prose(block, indent=_MARGIN)
            case Items():
                labels = max((cell_len(printable(item.label)) for item in block.items), default=0)
                return [line for item in block.items for line in self._item(item, labels)]
            case Verbatim():
                return [Text(_MARGIN + printable(line)) for line in block.lines]
            case _:
                return self._grid(block)

    def _item(self, item: Item, labels: int) -> list[Text]:
        label = printable(item.label)
        indent = _MARGIN + " " * (labels + len(_GAP))
        lines = self._prose(item.text, indent=indent)
        first = Text(_MARGIN).append(label, style=_STYLES.get(label, ""))
        first.append(lines[0].plain[cell_len(first.plain) :])
        return [first, *lines[1:], *(self._prose(item.below, indent=indent) if item.below else [])]

    def _prose(self, text: str, *, indent: str) -> list[Text]:
        """Return text broken at spaces, never between a number and its unit."""
        room = self.width - len(indent)
        text = printable(text)
        if self.cut:
            text = shortened(text, _PARAGRAPH_LINES * room)
        lines = [""]
        for word in _UNIT_AFTER_NUMBER.sub(_GLUE, text).split(" "):
            piece = shortened(word, room) if self.cut else word
            longer = f"{lines[-1]} {piece}" if lines[-1] else piece
            if lines[-1] and cell_len(longer) > room:
                lines.append(piece)
            else:
                lines[-1] = longer
        return [Text(indent + line.replace(_GLUE, " ")) for line in lines]

    def _grid(self, grid: Grid) -> list[Text]:
        cells = [[printable(cell) for cell in row.cells] for row in grid.rows]
        columns = list(zip(grid.columns, _natural_widths(grid.columns, cells), strict=True))
        widths = self._widths(columns) if self.cut else [natural for _, natural in columns]
        shown = [at for at, width in enumerate(widths) if width]
        titles = [column.title for column in grid.columns]
        lines = [Text(self._line(titles, grid.columns, widths, shown), style="underline")]
        for row, texts in zip(grid.rows, cells, strict=True):
            lines.append(Text(self._line(texts, grid.columns, widths, shown)))
            lines += self._below(row)
        return lines

    def _line(
        self,
        texts: list[str],
        columns: tuple[Column, ...],
        widths: list[int],
        shown: list[int],
    ) -> str:
        parts = []
        for at in shown:
            text = texts[at]
            if self.cut:
                cut = brief_name if columns[at].kind is Kind.NAME else shortened
                text = cut(text, widths[at])
            space = " " * (widths[at] - cell_len(text))
            parts.append(space + text if columns[at].kind is Kind.NUMBER else text + space)
        return (_MARGIN + _GAP.join(parts)).rstrip()

    def _below(self, row: Row) -> list[Text]:
        return self._prose(row.below, indent=_MARGIN * 4) if row.below else []

    def _widths(self, columns: list[tuple[Column, int]]) -> list[int]:
        """Return a width per column, 0 for one left out; names share what numbers leave."""
        widths = [natural for _, natural in columns]
        names = [at for at, (column, _) in enumerate(columns) if column.kind is Kind.NAME]
        least = {at: min(columns[at][1], columns[at][0].least) for at in names}
        optional = [at for at in names if columns[at][0].optional]
        while optional and sum(least.values()) > self._room(widths, least):
            left_out = optional.pop()
            del least[left_out]
            widths[left_out] = 0
        left = self._room(widths, least)
        order = sorted(least, key=lambda at: (columns[at][1], at))
        while order:
            at = order.pop(0)
            fair = left // (len(order) + 1)
            spare = left - sum(least[other] for other in order)
            widths[at] = min(columns[at][1], max(fair, min(least[at], spare), 1))
            left -= widths[at]
        return widths

    def _room(self, widths: list[int], names: dict[int, int]) -> int:
        """Return the cells left for names beside all that is never cut."""
        shown = [at for at, width in enumerate(widths) if width or at in names]
        fixed = sum(widths[at] for at in shown if at not in names)
        return self.width - len(_MARGIN) - fixed - len(_GAP) * (len(shown) - 1)


def _natural_widths(columns: tuple[Column, ...], cells: list[list[str]]) -> list[int]:
    return [
        max([cell_len(column.title), *(cell_len(row[at]) for row in cells)])
        for at, column in enumerate(columns)
    ]


def _width_of(stream: TextIO) -> int:
    """Return the width of the terminal; lines of 80 cells are the least that numbers need."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError):
        return _WIDTH
    return min(max(columns, _NARROWEST), _WIDEST) if columns else _WIDTH


def _wants_colour() -> bool:
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _painted(lines: list[Text], *, coloured: bool) -> str:
    """Return the lines as one text; rich adds the escape sequences and nothing else."""
    if not coloured:
        return "".join(f"{line.plain}\n" for line in lines)
    page_text = StringIO()
    widest = max((cell_len(line.plain) for line in lines), default=1)
    console = Console(
        file=page_text,
        width=max(widest, 1),
        height=max(len(lines), 1),
        force_terminal=True,
        color_system="standard",
        markup=False,
        highlight=False,
        emoji=False,
        legacy_windows=False,
    )
    for line in lines:
        console.print(line, soft_wrap=True)
    return page_text.getvalue()


RENDERER = TableRenderer()
