"""The command tree. Commands import polars and the like when they run, so that help is quick."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from nsysroof import __version__
from nsysroof.cli import roofs, rules
from nsysroof.cli.analyze import analyze
from nsysroof.cli.check import check
from nsysroof.cli.diff import diff
from nsysroof.cli.estimate import estimate
from nsysroof.cli.gaps import gaps
from nsysroof.cli.gpus import gpus
from nsysroof.cli.info import info
from nsysroof.cli.kernels import kernels
from nsysroof.cli.models import models
from nsysroof.cli.plot import plot
from nsysroof.cli.ranks import ranks
from nsysroof.cli.schema import schema
from nsysroof.cli.steps import steps
from nsysroof.cli.whatif import whatif

_HELP = """\
Measured against theory: every kernel of an Nsight Systems capture and its roofline.

\b
Capture and export:
  nsys profile --cuda-graph-trace=node -t cuda,nvtx -o run python serve.py
  nsys export --type sqlite -o run.sqlite run.nsys-rep

\b
Then ask:
  nsysroof info run.sqlite
  nsysroof analyze run.sqlite --model llama-3.1-8b --batch 8 --context 4096
  nsysroof estimate llama-3.1-8b --gpu h100-sxm --batch 8 --context 4096
"""
_EPILOG = """\
\b
Exit codes:
  0  done
  1  unexpected failure
  2  usage, or input that cannot be read
  3  a limit was exceeded (check)
  4  inconclusive: the capture does not hold the answer
"""
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

app = typer.Typer(
    help=_HELP,
    epilog=_EPILOG,
    context_settings=_CONTEXT,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"nsysroof {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True, help=_HELP)
def _start(
    context: typer.Context,
    *,
    version: Annotated[  # noqa: ARG001  its callback prints and exits
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        print(context.get_help(), file=sys.stderr)
        raise typer.Exit(2)


for _command in (
    info,
    analyze,
    estimate,
    steps,
    gaps,
    kernels,
    ranks,
    diff,
    check,
    whatif,
    plot,
    gpus,
    models,
    schema,
):
    app.command()(_command)
app.add_typer(rules.app, name="rules")
app.add_typer(roofs.app, name="roofs")
