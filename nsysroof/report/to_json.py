"""JSON: the names and numbers of the contract, nothing rounded, absent knowledge null."""

from __future__ import annotations

from typing import Any, TextIO

import msgspec

from nsysroof.report.views import Card, Listing, View

_INDENT = 2


class JsonRenderer:
    """Writes a view as one JSON document; the same view gives the same bytes."""

    suffixes: tuple[str, ...] = (".json",)

    def render(self, view: View, stream: TextIO) -> None:
        """Write ``view`` to ``stream``; a catalogue is a list, its entry an object."""
        content = msgspec.json.encode(_document(view))
        stream.write(msgspec.json.format(content, indent=_INDENT).decode())
        stream.write("\n")


def _document(view: View) -> Any:
    if isinstance(view, Listing):
        return view.rows
    return view.fields if isinstance(view, Card) else view


RENDERER = JsonRenderer()
