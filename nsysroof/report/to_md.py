"""Markdown for issues and pull requests: the page of a view with every name in full."""

from __future__ import annotations

import re
from typing import TextIO

from nsysroof.report.blocks import Block, Grid, Item, Items, Kind, Verbatim
from nsysroof.report.characters import printable
from nsysroof.report.pages import page
from nsysroof.report.views import View

_SPECIAL = re.compile(r"([\\`*\[\]|~#])|(?<!\w)_|_(?!\w)")
_ENTITIES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}


class MarkdownRenderer:
    """Writes the page of a view as headings, lists and tables."""

    suffixes: tuple[str, ...] = (".md",)

    def render(self, view: View, stream: TextIO) -> None:
        """Write ``view`` to ``stream``; whatever a name holds, it stays text."""
        for position, section in enumerate(page(view)):
            stream.write("\n" * bool(position) + f"## {_inert(section.title)}\n")
            stream.writelines(f"\n{_block(block)}\n" for block in section.blocks)


def _block(block: Block) -> str:
    match block:
        case str():
            return _inert(block)
        case Items():
            return "\n".join(_item(item) for item in block.items)
        case Verbatim():
            return "\n".join(f"    {printable(line)}" for line in block.lines)
        case _:
            return _grid(block)


def _item(item: Item) -> str:
    below = f"<br>{_inert(item.below)}" if item.below else ""
    return f"- **{_inert(item.label)}** {_inert(item.text)}{below}"


def _grid(grid: Grid) -> str:
    titles = " | ".join(_inert(column.title) for column in grid.columns)
    rule = " | ".join("---:" if c.kind is Kind.NUMBER else "---" for c in grid.columns)
    lines = [f"| {titles} |", f"| {rule} |"]
    for row in grid.rows:
        cells = [
            _code(cell) if column.kind is Kind.NAME else _inert(cell)
            for column, cell in zip(grid.columns, row.cells, strict=True)
        ]
        if row.below:
            cells[-1] += f"<br>{_inert(row.below)}"
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _inert(text: str) -> str:
    r"""Return text without any meaning in Markdown or HTML.

    >>> print(_inert("a|b <i> in_graph _x_"))
    a\|b &lt;i&gt; in_graph \_x\_
    """
    text = _SPECIAL.sub(lambda found: f"\\{found.group()}", printable(text))
    return "".join(_ENTITIES.get(character, character) for character in text)


def _code(text: str) -> str:
    r"""Return text as a code span for a table cell.

    >>> print(_code("f<a|b>"))
    `f<a\|b>`
    """
    text = printable(text)
    if not text.strip():
        return ""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if text.startswith("`") or text.endswith("`") else ""
    return f"{fence}{space}{text}{space}{fence}".replace("|", "\\|")


RENDERER = MarkdownRenderer()
