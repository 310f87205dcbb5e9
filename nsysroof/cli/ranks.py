"""``nsysroof ranks``: the ranks of a run that lies in several files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nsysroof.cli.options import (
    ModelName,
    OutputOptions,
    SelectionOptions,
    TheoryOptions,
    grouped,
)
from nsysroof.cli.output import choose_destination
from nsysroof.cli.reading import check_strictly, read_ranks


@grouped
def ranks(
    traces: Annotated[
        list[Path],
        typer.Argument(
            metavar="TRACE", help="Exports of nsys of one run, in the order of the ranks."
        ),
    ],
    *,
    model: ModelName = None,
    theory: TheoryOptions,
    selection: SelectionOptions,
    output: OutputOptions,
) -> None:
    """Compare the ranks of a run that lies in several files.

    What a step of each rank does outside collectives, how long it waits in them, and which rank
    the others wait for. Times of two files are joined only where both are of one machine's clock.
    """
    destination = choose_destination(output, source=traces)
    run = read_ranks(traces, model, theory, selection)
    destination.write(run)
    check_strictly(run, selection)
