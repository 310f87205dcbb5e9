"""``nsysroof rules``: which kernel name is which class, and why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from nsysroof.cli.options import OutputOptions, TracePath, grouped
from nsysroof.cli.output import choose_destination
from nsysroof.errors import InputError, UsageError
from nsysroof.report.views import Card, Listing

app = typer.Typer(help="List the rules that read kernel names, and try them.")

_STDIN = "-"
ExtraRules = Annotated[
    Path | None,
    typer.Option("--rules", metavar="FILE", help="More kernel rules, tried first: TOML."),
]


@app.callback(invoke_without_command=True)
@grouped
def list_rules(context: typer.Context, *, rules: ExtraRules = None, output: OutputOptions) -> None:
    """List the rules that read kernel names, and try them."""
    if context.invoked_subcommand is not None:
        _check_place_of_options(context.invoked_subcommand, rules, output)
        return
    destination = choose_destination(output)

    from nsysroof.match.rules import load_rules

    columns = ("id", "class", "words", "text")
    rows = [
        {"id": rule.id, "class": rule.klass, "words": rule.words, "text": rule.text}
        for rule in load_rules(rules).rules
    ]
    destination.write(
        Listing(title="Rules, in the order in which they are tried", columns=columns, rows=rows)
    )


@app.command()
@grouped
def explain(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A kernel name, in quotes.")],
    *,
    rules: ExtraRules = None,
    output: OutputOptions,
) -> None:
    """Tell which rule fits a kernel name, and what it reads out of it.

    For a name of unknown class there is a rule to fill in.
    """
    destination = choose_destination(output)

    from nsysroof.match.classes import UNKNOWN
    from nsysroof.match.launch import access_of
    from nsysroof.match.rules import load_rules
    from nsysroof.match.stub import class_comment, rule_stub

    found = load_rules(rules).classify(name)
    access = access_of(name)
    stub = rule_stub(name) if found.klass == UNKNOWN else None
    fields: dict[str, Any] = {
        "name": found.name,
        "class": found.klass,
        "rule": found.rule,
        "attributes": dict(found.attributes),
        "roles": list(found.roles),
        "meaning": found.entry.meaning,
        "operators": ["+".join(sorted(kinds)) for kinds in found.implements],
        "part_of": sorted(found.parts),
        "memory": None if access is None else str(access),
        "stub": None if stub is None else f"{class_comment()}\n{stub}\n",
    }
    destination.write(Card(title="Kernel name", fields=fields))


@app.command()
@grouped
def stub(trace: TracePath, *, rules: ExtraRules = None) -> None:
    """Print rules to fill in for the kernels of unknown class of a trace, the longest first.

    The output is a file of rules: write the class of each, and give the file with --rules.
    """
    from nsysroof.analysis.unexplained import unknown_names
    from nsysroof.match.rules import load_rules
    from nsysroof.match.stub import stub_file
    from nsysroof.trace import open_trace

    sys.stdout.write(stub_file(unknown_names(open_trace(trace), load_rules(rules))))


@app.command()
@grouped
def classify(
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="One kernel name a line; -: stdin.")
    ],
    *,
    rules: ExtraRules = None,
    output: OutputOptions,
) -> None:
    """Name the class and the possible roles of many kernel names."""
    source = None if file == _STDIN else Path(file)
    destination = choose_destination(output, source=source)
    names = _read_names(source)

    from nsysroof.match.rules import load_rules

    rows = [
        {"name": found.name, "class": found.klass, "roles": list(found.roles)}
        for found in load_rules(rules).classify_each(names)
    ]
    listing = Listing(
        title="Kernel names", columns=("name", "class", "roles"), rows=rows, lists=("roles",)
    )
    destination.write(listing)


def _check_place_of_options(command: str, rules: Path | None, output: OutputOptions) -> None:
    if rules is not None or output != OutputOptions():
        raise UsageError(
            f"options before {command!r} have no effect",
            hint=f"write them after it: nsysroof rules {command} … OPTIONS",
            slug="misplaced-options",
        )


def _read_names(path: Path | None) -> list[str]:
    """Return the lines of a file or of stdin, whatever bytes they hold."""
    try:
        content = sys.stdin.buffer.read() if path is None else path.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}",
            hint="give a text file with one kernel name a line, or - for stdin",
            slug="unreadable-names",
            where=str(path),
        ) from error
    text = content.decode("utf-8-sig", errors="replace")
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")] if text else []
