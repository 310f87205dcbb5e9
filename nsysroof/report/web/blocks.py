"""The blocks that every page is made of, as HTML."""

from __future__ import annotations

from nsysroof.report.blocks import Block, Column, Grid, Item, Items, Kind, Row, Section, Verbatim
from nsysroof.report.characters import printable, shortened
from nsysroof.report.web.markup import Markup, element, join, name

_LONG = 1_000  # characters of a paragraph from which only its two ends are shown
_SEVERITIES = ("error", "warning", "note")


def section_of(section: Section, anchor: str) -> Markup:
    """Return a section with its heading."""
    return titled(section.title, anchor, *(block_of(block) for block in section.blocks))


def titled(title: str, anchor: str, *content: str) -> Markup:
    """Return a section of given content; ``anchor`` is its id."""
    return element("section", element("h2", title), *content, id=anchor)


def block_of(block: Block) -> Markup:
    """Return a paragraph, a list or a table."""
    match block:
        case str():
            return element("p", prose(block))
        case Items():
            return element("ul", *(_item(item) for item in block.items), class_="items")
        case Verbatim():
            return element("pre", *(f"{printable(line)}\n" for line in block.lines))
        case _:
            return _table(block)


def prose(text: str) -> Markup:
    """Return text whose parts between backticks are code.

    >>> prose("see `nsysroof gaps TRACE`")
    'see <code>nsysroof gaps TRACE</code>'
    """
    if len(text) > _LONG:
        return element("span", shortened(printable(text), _LONG), title=text)
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a backtick without its other one is just a character
        return join(text)
    return join(*(element("code", part) if at % 2 else part for at, part in enumerate(parts)))


def scrolling(*content: str, label: str) -> Markup:
    """Return content that scrolls sideways where the window is narrower; keys can reach it."""
    return element("div", *content, class_="scroll", role="region", aria_label=label, tabindex=0)


def _item(item: Item) -> Markup:
    severity = item.label if item.label in _SEVERITIES else None
    label = element("b", item.label, class_=f"label {severity}" if severity else "label")
    below = element("span", item.below, class_="below") if item.below else ""
    return element("li", label, " ", element("span", prose(item.text)), below)


def _table(grid: Grid) -> Markup:
    head = element("tr", *(_heading(column) for column in grid.columns))
    body = join(*(_row(row, grid.columns) for row in grid.rows))
    title = grid.columns[0].title
    return scrolling(element("table", element("thead", head), element("tbody", body)), label=title)


def _heading(column: Column) -> Markup:
    return element("th", column.title, scope="col", class_=_class(column))


def _row(row: Row, columns: tuple[Column, ...]) -> Markup:
    cells = (
        element("td", name(cell) if column.kind is Kind.NAME else cell, class_=_class(column))
        for cell, column in zip(row.cells, columns, strict=True)
    )
    line = element("tr", *cells)
    if not row.below:
        return line
    below = element("td", row.below, colspan=len(columns), class_="below")
    return join(line, element("tr", below))


def _class(column: Column) -> str | None:
    return {Kind.NUMBER: "n", Kind.NAME: "names"}.get(column.kind)
