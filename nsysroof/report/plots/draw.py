"""Which picture a view has, and how it becomes a file: the same view gives the same bytes."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from nsysroof.errors import UsageError
from nsysroof.report.plots.bars import bars
from nsysroof.report.plots.batch import step_against
from nsysroof.report.plots.budget import byte_budget
from nsysroof.report.plots.roofline import roofline
from nsysroof.report.plots.style import DPI, RC
from nsysroof.results import Estimate, Sweep


def figure_of(view: Estimate | Sweep) -> Figure:
    """Return the picture of a view.

    An estimate has its roofline; a sweep of contexts the bytes of a step; one of batches or of new
    tokens its time and rate; any other, and machines side by side, bars.

    Raises:
        UsageError: ``nothing-to-draw``: no point of the sweep has numbers.
    """
    with mpl.rc_context(rc=RC):
        if isinstance(view, Estimate):
            return roofline(view)
        if all(row.serial_ns is None for row in view.rows):
            raise UsageError(
                "no point of the sweep has numbers",
                hint="see the notes of the table for why",
                slug="nothing-to-draw",
            )
        swept = [axis for axis in view.axes if axis not in view.compared]
        match swept:
            case ["context"]:
                return byte_budget(view)
            case ["batch" | "new-tokens" as axis]:
                return step_against(view, axis)
            case _:
                return bars(view)


def draw(view: Estimate | Sweep, path: Path) -> None:
    """Write the picture of a view as ``.png`` or ``.svg``, whole or not at all.

    Raises:
        UsageError: ``cannot-write``, or as ``figure_of``.
    """
    save_figure(figure_of(view), path)


def save_figure(figure: Figure, path: Path) -> None:
    """Write a picture as ``.png`` or ``.svg``, whole or not at all.

    Raises:
        UsageError: ``cannot-write``.
    """
    # Neither the time nor the versions of libraries belong into the file.
    unstamped = {"Date": None} if path.suffix.lower() == ".svg" else {"Software": None}
    try:
        handle, name = tempfile.mkstemp(prefix=".", suffix=path.suffix, dir=path.parent)
        os.close(handle)
        new = Path(name)
        try:
            with mpl.rc_context(rc=RC):
                figure.savefig(new, dpi=DPI, metadata=unstamped)
            new.chmod(0o644)
            new.replace(path)
        except BaseException:
            new.unlink(missing_ok=True)
            raise
    except OSError as error:
        raise UsageError(
            f"cannot write {path.name}: {error.strerror}",
            hint="give --plot a file in a folder that exists and can be written to",
            slug="cannot-write",
            where=str(path),
        ) from error
