"""An HTML page read back: what tests look at without a browser."""

from __future__ import annotations

from dataclasses import dataclass, field
from html.parser import HTMLParser

_VOID = {"br", "input", "link", "meta", "wbr"}


@dataclass
class Element:
    """One element: tag, attributes, children, and the text directly in it."""

    tag: str
    attributes: dict[str, str | None]
    children: list[Element] = field(default_factory=list)
    pieces: list[str | Element] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(piece if isinstance(piece, str) else piece.text for piece in self.pieces)

    def all(self, tag: str, **wanted: str) -> list[Element]:
        """Return every element below with a tag and attributes, in order."""
        found = []
        for child in self.children:
            if child.tag == tag and all(
                value in (child.attributes.get(key.rstrip("_")) or "").split()
                for key, value in wanted.items()
            ):
                found.append(child)
            found += child.all(tag, **wanted)
        return found

    def one(self, tag: str, **wanted: str) -> Element:
        (only,) = self.all(tag, **wanted)
        return only


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("", {})
        self._open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        new = Element(tag, dict(attrs))
        self._open[-1].children.append(new)
        self._open[-1].pieces.append(new)
        if tag not in _VOID:
            self._open.append(new)

    def handle_endtag(self, tag: str) -> None:
        assert self._open[-1].tag == tag, f"</{tag}> closes <{self._open[-1].tag}>"
        self._open.pop()

    def handle_data(self, data: str) -> None:
        self._open[-1].pieces.append(data)


def read_page(text: str) -> Element:
    """Return the root of a page whose every element is closed in order."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert reader._open == [reader.root]
    return reader.root
