"""One line on a terminal that tells how far a long read is, and leaves nothing behind."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from nsysroof.cli.options import QUIET

_PATIENCE_S = 1.0  # reads that are done sooner need no line
_EVERY_S = 0.1
_ERASE = "\r\x1b[2K"

Tell = Callable[[str, int, int], None]


@contextmanager
def reading_line(stream: TextIO | None = None) -> Iterator[Tell | None]:
    """Yield what a reader tells its progress to, None where nobody would see it.

    Args:
        stream: Where the line goes; None: stderr.
    """
    stream = sys.stderr if stream is None else stream
    if os.environ.get(QUIET) or os.environ.get("TERM") == "dumb" or not stream.isatty():
        yield None
        return
    line = _Line(stream)
    try:
        yield line.tell
    finally:
        line.erase()


class _Line:
    """Shows a fraction at most ten times a second, from the first second on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._next = time.monotonic() + _PATIENCE_S
        self._shown = False

    def tell(self, table: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _EVERY_S
        self._shown = True
        share = f"{done / total:.1%}".replace("%", " %")
        text = f"reading {table}: {done:,} of {total:,} rows, {share}"
        self._stream.write(f"{_ERASE}{text}")
        self._stream.flush()

    def erase(self) -> None:
        if self._shown:
            self._stream.write(_ERASE)
            self._stream.flush()
