"""Where a result goes: checked before the work, written after it, in whole or not at all."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import TextIO

from nsysroof.cli.options import QUIET, OutputOptions
from nsysroof.errors import UsageError
from nsysroof.report.base import (
    RESULT_FORMATS,
    AnyRenderer,
    FileRenderer,
    TraceRenderer,
    any_renderer,
    renderer_for,
    renderer_named,
)
from nsysroof.report.views import View
from nsysroof.results import SHORTENED
from nsysroof.slices import Slices

_TERMINAL_FORMAT = "table"
_PIPE_FORMAT = "tsv"
_TABLE_SUFFIX = ".parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """A format and the file that it goes to; no file: stdout."""

    renderer: AnyRenderer
    path: Path | None

    @property
    def listed_in_full(self) -> tuple[str, ...]:
        """The tables whose rows belong in though no reader would look through all of them."""
        return SHORTENED if isinstance(self.renderer, FileRenderer) else ()

    @property
    def takes_slices(self) -> bool:
        """Whether the format is that of a timeline viewer."""
        return isinstance(self.renderer, TraceRenderer)

    def write(self, result: View | Slices) -> None:
        """Write the result: slices where the format takes them, else a view.

        Raises:
            UsageError: ``cannot-write`` where the file system refuses.
            BrokenPipeError: The reader of stdout went away.
        """
        if self.path is not None:
            self._write_file(result, self.path)
            if not os.environ.get(QUIET):
                print(f"wrote {self.path}", file=sys.stderr)
        else:
            self._write_stdout(result)

    def _write_stdout(self, result: View | Slices) -> None:
        try:
            _prepare_stdout()
            self._render(result, sys.stdout)
            sys.stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            forget_stdout()
            raise _no_stdout(str(error.strerror)) from error

    def _render(self, result: View | Slices, stream: TextIO) -> None:
        renderer = self.renderer
        if isinstance(result, Slices) or isinstance(renderer, FileRenderer | TraceRenderer):
            raise TypeError("slices and binary formats go to files")
        renderer.render(result, stream)

    def _save(self, result: View | Slices, path: Path) -> None:
        if isinstance(result, Slices) and isinstance(self.renderer, TraceRenderer):
            self.renderer.save_slices(result, path)
        elif not isinstance(result, Slices) and isinstance(self.renderer, FileRenderer):
            self.renderer.save(result, path)
        else:
            with path.open("w", encoding="utf-8", newline="\n") as stream:
                self._render(result, stream)

    def _write_file(self, result: View | Slices, path: Path) -> None:
        """Write beside the file first, so that no half report is ever there under its name."""
        try:
            with tempfile.TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
                new = Path(folder) / path.name
                self._save(result, new)
                if path.is_dir():
                    path.replace(Path(folder) / "old")
                new.replace(path)
        except OSError as error:
            raise UsageError(
                f"cannot write {path.name}: {error.strerror}",
                hint="give -o a file in a folder that exists and can be written to",
                slug="cannot-write",
                where=str(path),
            ) from error


def choose_destination(
    output: OutputOptions,
    *,
    source: Path | Sequence[Path] | None = None,
    formats: Sequence[str] = RESULT_FORMATS,
) -> Destination:
    """Return where the result goes.

    Args:
        output: What the user said.
        source: The input, or several, which are never overwritten.
        formats: The formats that this result has.

    Raises:
        UsageError: An unknown format, one that needs a file, or a file that is there already.
    """
    path = output.output
    if path is not None:
        inputs = [source] if isinstance(source, Path) else source or []
        check_free(path, force=output.force, inputs=inputs)
    elif sys.stdout is None:
        raise _no_stdout("it is closed")
    if output.format is not None:
        renderer = any_renderer(output.format, formats)
        if path is None and isinstance(renderer, FileRenderer | TraceRenderer):
            raise UsageError(
                f"{output.format} needs a file",
                hint=f"add -o with a name that ends in {renderer.suffixes[0]}",
                slug="needs-file",
                where="-o",
            )
        return Destination(renderer=renderer, path=path)
    if path is not None:
        return Destination(renderer=renderer_for(path, formats), path=path)
    terminal = sys.stdout.isatty()
    return Destination(
        renderer=renderer_named(_TERMINAL_FORMAT if terminal else _PIPE_FORMAT), path=None
    )


def check_free(path: Path, *, force: bool, inputs: Sequence[Path]) -> None:
    """Refuse a file that is there already, or that is read.

    Raises:
        UsageError: ``output-exists`` or ``output-is-input``.
    """
    if not path.exists():
        return
    if any(source.exists() and path.samefile(source) for source in inputs):
        raise UsageError(
            f"{path.name} is an input",
            hint="give -o another name",
            slug="output-is-input",
            where=str(path),
        )
    if not force or not (path.is_file() or _is_our_folder(path)):
        raise UsageError(
            f"{path.name} exists already",
            hint="add --force to overwrite it, or give -o another name",
            slug="output-exists",
            where=str(path),
        )


def _is_our_folder(path: Path) -> bool:
    """Return whether a folder holds tables and nothing else, so that no work of others is lost."""
    return path.is_dir() and all(
        entry.suffix == _TABLE_SUFFIX and entry.is_file() for entry in path.iterdir()
    )


def forget_stdout() -> None:
    """Give the interpreter a place to flush to at exit, since what stdout was takes no more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _no_stdout(reason: str) -> UsageError:
    return UsageError(
        f"cannot write to standard output: {reason}",
        hint="give -o a file, or standard output a place that takes it",
        slug="cannot-write",
    )


def _prepare_stdout() -> None:
    """Make every character writable: UTF-8 for programs, the nearest sign on old terminals."""
    if isinstance(sys.stdout, TextIOWrapper):
        if sys.stdout.isatty():
            sys.stdout.reconfigure(errors="replace")
        else:
            sys.stdout.reconfigure(encoding="utf-8")
