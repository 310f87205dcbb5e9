"""``nsysroof plot``: one picture of a run."""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nsysroof.cli.options import (
    QUIET,
    ModelName,
    QuietFlag,
    SelectionOptions,
    TheoryOptions,
    TraceOrReport,
    grouped,
)
from nsysroof.cli.output import check_free
from nsysroof.cli.reading import check_strictly, read_runs
from nsysroof.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from nsysroof.results import Report

_SUFFIXES = (".png", ".svg")
_BATCHES = "batch=1:256"


class Kind(StrEnum):
    """What to draw."""

    ROOFLINE = "roofline"
    STEP = "step"
    TIMELINE = "timeline"
    GAPS = "gaps"
    BATCH = "batch"


@grouped
def plot(
    report: TraceOrReport,
    kind: Annotated[
        Kind,
        typer.Argument(
            metavar="KIND",
            help="roofline, step (its budget), timeline (of the median step), gaps (idle time by "
            "cause) or batch (the measured step in theory from batch 1 to 256).",
        ),
    ],
    *,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="A .png or .svg file.")
    ],
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
    quiet: QuietFlag = False,  # noqa: ARG001  its callback remembers it
    model: ModelName = None,
    theory: TheoryOptions,
    selection: SelectionOptions,
) -> None:
    """Draw one picture of a run; the same run gives the same bytes."""
    if output.suffix.lower() not in _SUFFIXES:
        raise UsageError(
            f"{output.name} is no picture",
            hint="end the name in .png or .svg",
            slug="unknown-format",
            where="-o",
        )
    check_free(output, force=force, inputs=[report])
    (run,) = read_runs([report], model, theory, selection)

    from nsysroof.report.plots import save_figure

    save_figure(_figure(run, kind), output)
    if not os.environ.get(QUIET):
        print(f"wrote {output}", file=sys.stderr)
    check_strictly(run, selection)


def _figure(report: Report, kind: Kind) -> Figure:
    from nsysroof.report.plots import batches, report_figure

    if kind is not Kind.BATCH:
        return report_figure(report, kind.value)

    from nsysroof.api import sweep
    from nsysroof.carryover import options_of
    from nsysroof.theory.sweep import parse_axis

    axis = parse_axis(_BATCHES, where="KIND")
    measured = options_of(report)
    one_length = measured.context[:1] if measured.context else None
    return batches(sweep(measured, context=one_length, over={axis.name: axis.values}), report)
