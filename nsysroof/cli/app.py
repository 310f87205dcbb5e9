"""The command tree. A command is imported when it is called, and what it computes with when it runs.

``NAMES`` lists the commands: each is the function, or the group ``app``, of the module of its name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from nsysroof import __version__

NAMES = (
    "info", "analyze", "estimate", "steps", "gaps", "kernels", "ranks", "diff", "check", "whatif",
    "plot", "gpus", "models", "schema", "rules", "roofs",
)  # fmt: skip

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
_PLAIN: dict[str, Any] = {"rich_markup_mode": None, "pretty_exceptions_enable": False}
_CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


class _Commands(Mapping[str, Any]):
    """Every command by its name; parsing the options of all of them takes longer than most do."""

    def __getitem__(self, name: str) -> Any:
        if name not in NAMES:
            raise KeyError(name)
        module = import_module(f"nsysroof.cli.{name}")
        holder = typer.Typer(**_PLAIN)
        if group := getattr(module, "app", None):
            holder.add_typer(group, name=name)
        else:
            holder.command(name)(getattr(module, name))
        return get_group(holder).commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


class _Group(TyperGroup):
    """The commands of ``NAMES``."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = _Commands()  # type: ignore[assignment]


app = typer.Typer(
    cls=_Group,
    help=_HELP,
    epilog=_EPILOG,
    context_settings=_CONTEXT,
    **_PLAIN,
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
