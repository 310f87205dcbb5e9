"""The formats: the contract that each one keeps, and the only list of them."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, TextIO, TypeAlias, cast, runtime_checkable

from nsysroof.errors import UsageError
from nsysroof.report.views import View
from nsysroof.slices import Slices

_MODULES = {
    "table": "nsysroof.report.to_table",
    "tsv": "nsysroof.report.to_tsv",
    "csv": "nsysroof.report.to_csv",
    "json": "nsysroof.report.to_json",
    "md": "nsysroof.report.to_md",
    "html": "nsysroof.report.to_html",
}
FORMATS = tuple(_MODULES)
"""Names of the formats; a new one is a module with a ``RENDERER`` and one line above."""

_FILE_MODULES = {"parquet": "nsysroof.report.to_parquet", "db": "nsysroof.report.to_db"}
FILE_FORMATS = tuple(_FILE_MODULES)
"""Formats that are no text, and need a file or a folder."""

RESULT_FORMATS = (*FORMATS, *FILE_FORMATS)
"""Formats of every result."""

_TRACE_MODULES = {
    "chrome": "nsysroof.report.to_chrome",
    "perfetto": "nsysroof.report.to_perfetto",
}
TRACE_FORMATS = tuple(_TRACE_MODULES)
"""Formats of timeline viewers, which take the slices of a trace."""

ANALYSIS_FORMATS = (*RESULT_FORMATS, *TRACE_FORMATS)
"""Formats of ``analyze``."""

_GATE_MODULES = {"junit": "nsysroof.report.to_junit"}
GATE_FORMATS = (*RESULT_FORMATS, *_GATE_MODULES)
"""Formats of a check: those of every result, and those that only a verdict has."""


class Renderer(Protocol):
    """A format: the file endings that mean it, and how it writes a view."""

    suffixes: tuple[str, ...]

    def render(self, view: View, stream: TextIO) -> None:
        """Write ``view`` to ``stream``, the last line ended by a newline."""
        ...


@runtime_checkable
class FileRenderer(Protocol):
    """A format that is no text: the file endings that mean it, and how it saves a view."""

    suffixes: tuple[str, ...]

    def save(self, view: View, path: Path) -> None:
        """Create ``path``, a file or a folder, where nothing is yet."""
        ...


@runtime_checkable
class TraceRenderer(Protocol):
    """A format of timeline viewers."""

    suffixes: tuple[str, ...]

    def save_slices(self, slices: Slices, path: Path) -> None:
        """Create the file ``path``."""
        ...


AnyRenderer: TypeAlias = Renderer | FileRenderer | TraceRenderer


def renderer_named(name: str, formats: Sequence[str] = FORMATS) -> Renderer:
    """Return the renderer of a format of text, one of ``formats``.

    Raises:
        UsageError: ``unknown-format`` where there is none of that name.

    >>> renderer_named("json").suffixes
    ('.json',)
    """
    return cast("Renderer", any_renderer(name, formats))


def any_renderer(name: str, formats: Sequence[str] = RESULT_FORMATS) -> AnyRenderer:
    """Return the renderer of a format, one of ``formats``.

    Raises:
        UsageError: ``unknown-format`` where there is none of that name.

    >>> any_renderer("db").suffixes
    ('.db',)
    """
    if name not in formats:
        close = get_close_matches(name, formats, n=1, cutoff=0.5)
        meant = f"did you mean {close[0]}? " if close else ""
        raise UsageError(
            f"unknown format {name!r}",
            hint=f"{meant}formats are {', '.join(formats)}",
            slug="unknown-format",
        )
    return _renderer(name)


def renderer_for(path: Path, formats: Sequence[str] = RESULT_FORMATS) -> AnyRenderer:
    """Return the renderer that a file's ending asks for, one of ``formats``; the longest wins.

    Raises:
        UsageError: ``unknown-format`` where the ending means none.

    >>> renderer_for(Path("report.md")) is renderer_named("md")
    True
    """
    known = {suffix: name for name in formats for suffix in _renderer(name).suffixes}
    file = path.name.lower()
    meant = [suffix for suffix in known if file.endswith(suffix) and file != suffix]
    if not meant:
        raise UsageError(
            f"the ending of {path.name!r} means no format",
            hint=f"end the name in one of {' '.join(known)}, or name the format with -f",
            slug="unknown-format",
        )
    return _renderer(known[max(meant, key=len)])


def _renderer(name: str) -> AnyRenderer:
    modules = _MODULES | _FILE_MODULES | _TRACE_MODULES | _GATE_MODULES
    renderer: Any = import_module(modules[name]).RENDERER
    return cast("AnyRenderer", renderer)
