"""Rendering into a string, as to a file or as to a terminal of 100 columns."""

from __future__ import annotations

from io import StringIO

from nsysroof.report.base import renderer_named
from nsysroof.report.views import View


class Terminal(StringIO):
    """A string that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


def to_file(view: View, fmt: str) -> str:
    """Return what a file or a pipe gets."""
    stream = StringIO()
    renderer_named(fmt).render(view, stream)
    return stream.getvalue()


def to_terminal(view: View, fmt: str = "table") -> str:
    """Return what a terminal gets."""
    stream = Terminal()
    renderer_named(fmt).render(view, stream)
    return stream.getvalue()
