"""``nsysroof estimate``: theory alone."""

from __future__ import annotations

from typing import Annotated

import typer

from nsysroof.cli.options import OutputOptions, TheoryOptions, grouped
from nsysroof.cli.output import choose_destination
from nsysroof.cli.reading import library_options


@grouped
def estimate(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A name of `nsysroof models`, or config.json.")
    ],
    theory: TheoryOptions,
    output: OutputOptions,
) -> None:
    """Tell the best that a model can do on a GPU, without a trace.

    The floor of a step, of a layer and of every operator, and what must fit into memory.
    """
    destination = choose_destination(output)
    options = library_options(model, theory)

    from nsysroof.analysis import estimate_for

    destination.write(estimate_for(options))
