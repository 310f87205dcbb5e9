"""The formats: the contract that each one keeps, and the only list of them."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Protocol, TextIO, cast

from nsysroof.errors import UsageError
from nsysroof.report.views import View

_MODULES = {
    "table": "nsysroof.report.to_table",
    "tsv": "nsysroof.report.to_tsv",
    "csv": "nsysroof.report.to_csv",
    "json": "nsysroof.report.to_json",
    "md": "nsysroof.report.to_md",
}
FORMATS = tuple(_MODULES)
"""Names of the formats; a new one is a module with a ``RENDERER`` and one line above."""

_GATE_MODULES = {"junit": "nsysroof.report.to_junit"}
GATE_FORMATS = (*FORMATS, *_GATE_MODULES)
"""Formats of a check: those of every result, and those that only a verdict has."""


class Renderer(Protocol):
    """A format: the file endings that mean it, and how it writes a view."""

    suffixes: tuple[str, ...]

    def render(self, view: View, stream: TextIO) -> None:
        """Write ``view`` to ``stream``, the last line ended by a newline."""
        ...


def renderer_named(name: str, formats: Sequence[str] = FORMATS) -> Renderer:
    """Return the renderer of a format, one of ``formats``.

    Raises:
        UsageError: ``unknown-format`` where there is none of that name.

    >>> renderer_named("json").suffixes
    ('.json',)
    """
    if name not in formats:
        close = get_close_matches(name, formats, n=1, cutoff=0.5)
        meant = f"did you mean {close[0]}? " if close else ""
        raise UsageError(
            f"unknown format {name!r}",
            hint=f"{meant}formats are {', '.join(formats)}",
            slug="unknown-format",
        )
    return cast("Renderer", import_module((_MODULES | _GATE_MODULES)[name]).RENDERER)


def renderer_for(path: Path, formats: Sequence[str] = FORMATS) -> Renderer:
    """Return the renderer that a file's ending asks for, one of ``formats``.

    Raises:
        UsageError: ``unknown-format`` where the ending means none.

    >>> renderer_for(Path("report.md")) is renderer_named("md")
    True
    """
    known = {suffix: name for name in formats for suffix in renderer_named(name, formats).suffixes}
    suffix = path.suffix.lower()
    if suffix not in known:
        raise UsageError(
            f"the ending of {path.name!r} means no format",
            hint=f"end the name in one of {' '.join(known)}, or name the format with -f",
            slug="unknown-format",
        )
    return renderer_named(known[suffix], formats)
