"""``nsysroof schema``: what the JSON of a command looks like."""

from __future__ import annotations

from typing import Annotated

import typer


def schema(
    result: Annotated[
        str,
        typer.Argument(
            metavar="RESULT", help="report, estimate, sweep, diff, check, whatif or ranks."
        ),
    ] = "report",
) -> None:
    """Print the JSON Schema of a result, for programs that read it.

    analyze writes a report, estimate an estimate or a sweep, diff, check, whatif and ranks what
    they are called.
    """
    import msgspec

    from nsysroof.schema import json_schema

    print(msgspec.json.format(msgspec.json.encode(json_schema(result))).decode())
