"""``nsysroof roofs``: what a machine reaches, from the output of benchmarks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, TextIO

import typer

from nsysroof.cli.output import Destination, check_free
from nsysroof.report.characters import printable
from nsysroof.report.views import Card, View

app = typer.Typer(help="Turn the output of benchmarks into measured roofs.")


class _Toml:
    """Writes the one file that ``--roofs`` reads, whatever view goes with it."""

    suffixes: tuple[str, ...] = (".toml",)

    def __init__(self, text: str) -> None:
        self._text = text

    def render(self, view: View, stream: TextIO) -> None:  # noqa: ARG002  the text is the view
        """Write the file's text to ``stream``."""
        stream.write(self._text)


Outputs = Annotated[
    list[Path],
    typer.Argument(
        metavar="FILE…",
        help="nvbandwidth -j, the text of nccl-tests, or a CSV with m, n, k, dtype, time_us.",
    ),
]
GpuName = Annotated[
    str | None,
    typer.Option(
        "--gpu", metavar="NAME", help="GPU that was measured; default: the one the files name."
    ),
]
RoofsPath = Annotated[
    Path | None,
    typer.Option("-o", "--output", metavar="FILE", help="Write to a file: roofs.toml."),
]


@app.callback()
def roofs() -> None:
    """Turn the output of benchmarks into measured roofs, which --roofs takes."""


@app.command("import")
def import_(
    files: Outputs,
    gpu: GpuName = None,
    output: RoofsPath = None,
    *,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False,
) -> None:
    """Write the roofs that the files tell as TOML, the highest of each kind, with remarks.

    Measured roofs never change a bound: they stand beside it as what can be reached.
    """
    if output is not None:
        check_free(output, force=force, inputs=files)

    from nsysroof.theory.measured.roofs_file import import_roofs

    found = import_roofs(files, gpu=gpu)
    for note in found.notes if output is not None else ():
        print(f"note: {printable(note)}", file=sys.stderr)
    listing = Card(title="Measured roofs", fields={"source": found.source})
    Destination(renderer=_Toml(found.toml()), path=output).write(listing)
