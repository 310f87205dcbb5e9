"""The command that makes a report, spelled from its options, so that a reader can repeat it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import fields
from enum import Enum
from pathlib import Path

from nsysroof.cli.options import SelectionOptions, TheoryOptions

_NOT_OF_THE_REPORT = frozenset({"strict"})
"""Options that change the exit code, not the report."""


def command_of(
    trace: Path | Sequence[Path],
    model: str | None,
    theory: TheoryOptions,
    selection: SelectionOptions,
    *,
    verb: str = "analyze",
) -> str:
    """Return the command with files by their name alone: folders tell who made the capture.

    >>> command_of(Path("/home/me/run.sqlite"), "my/config.json", TheoryOptions(batch=8),
    ...     SelectionOptions(device=[0, 1]))
    'nsysroof analyze run.sqlite --model config.json --batch 8 --device 0 --device 1'
    """
    traces = [trace] if isinstance(trace, Path) else trace
    words = ["nsysroof", verb, *(one.name for one in traces)]
    words += ["--model", Path(model).name] if model is not None else []
    for group in (theory, selection):
        for field in fields(group):
            value = getattr(group, field.name)
            if value != field.default and field.name not in _NOT_OF_THE_REPORT:
                option = f"--{field.name.replace('_', '-')}"
                for one in value if isinstance(value, list) else [value]:
                    words += [option, _word(field.name, one)]
    return shlex.join(words)


def _word(option: str, value: object) -> str:
    if isinstance(value, Path) or option == "gpu":
        return Path(str(value)).name
    if isinstance(value, Enum):
        return str(value.value)
    return f"{value:g}" if isinstance(value, float) else str(value)
