"""``nsysroof diff``: what changed between two runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nsysroof.cli.options import (
    ModelName,
    OutputOptions,
    SelectionOptions,
    TheoryOptions,
    finite,
    grouped,
)
from nsysroof.cli.output import choose_destination
from nsysroof.cli.reading import check_strictly, read_runs


@grouped
def diff(
    a: Annotated[Path, typer.Argument(metavar="A", help="A trace, or a report saved as JSON.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another, to compare with it.")],
    *,
    noise_us: Annotated[
        float,
        typer.Option(
            "--noise-us",
            metavar="X",
            min=0,
            callback=finite,
            help="Changes of up to so many µs are called the same; default: 0, exact.",
        ),
    ] = 0.0,
    model: ModelName = None,
    theory: TheoryOptions,
    selection: SelectionOptions,
    output: OutputOptions,
) -> None:
    """Tell where the time went between two runs.

    The wall time of the median step split exactly into work, overlap and idle: by role, by
    kernel, and by cause of idle.
    """
    destination = choose_destination(output, source=(a, b))
    reports = read_runs((a, b), model, theory, selection)

    from nsysroof.compare import compare

    destination.write(compare(*reports, names=(a.name, b.name), noise_ns=round(noise_us * 1e3)))
    for report in reports:
        check_strictly(report, selection)
