"""Reads a schedule: new tokens and contexts of every step, as the engine's log has them.

A CSV file with the header ``step,new_tokens,contexts``. ``step`` counts the steps of the analysed
window from 0. ``contexts`` are the KV lengths of its sequences including the new tokens,
``new_tokens`` either their sum over the sequences or the number of each; several numbers in a cell
are separated by spaces or semicolons::

    step,new_tokens,contexts
    0,512,512
    1,2,513 90
    2,1 64,514 64
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from pathlib import Path

from nsysroof.errors import InputError
from nsysroof.timeline.annotations import Content

COLUMNS = ("step", "new_tokens", "contexts")


def read_schedule(path: Path) -> dict[int, Content]:
    """Return what each step of a schedule holds, by its number.

    Raises:
        InputError: ``bad-schedule`` where the file cannot be read, lacks a column or has a row
            that is no step; the line is named.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise _bad(f"cannot read the schedule: {error}", str(path)) from error
    return parse_schedule(lines, str(path))


def parse_schedule(lines: Iterable[str], name: str) -> dict[int, Content]:
    """Return what each step holds, by its number.

    Args:
        lines: The lines of the file, the header first.
        name: The file, for messages.

    Raises:
        InputError: As ``read_schedule`` does.

    >>> told = parse_schedule(["step,new_tokens,contexts", "0,2,513 90"], "run.csv")[0]
    >>> told.phase, told.queries, told.told_by
    ('decode', (1, 1), 'line 2 of run.csv')
    """
    rows = csv.reader(lines)
    header = [cell.strip() for cell in next(rows, [])]
    missing = [column for column in COLUMNS if column not in header]
    if missing or len(header) > len(COLUMNS):
        told = f"lacks the column {', '.join(missing)}" if missing else f"has {len(header)} columns"
        raise _bad(f"the schedule {told}", f"{name}:1")
    told_steps: dict[int, Content] = {}
    for cells in rows:
        if not any(cell.strip() for cell in cells):
            continue
        where = f"{name}:{rows.line_num}"
        if len(cells) != len(header):
            raise _bad(f"a row of {len(cells)} cells under {len(header)} columns", where)
        row = dict(zip(header, cells, strict=True))
        step = _numbers(row["step"], "step", where, least=0)
        if len(step) != 1 or step[0] in told_steps:
            raise _bad(f"step {row['step'].strip()} is not one number, or is there twice", where)
        short = f"line {rows.line_num} of {Path(name).name}"
        told_steps[step[0]] = _content(row, where, short)
    if not told_steps:
        raise _bad("the schedule has no step", name)
    return told_steps


def _content(row: dict[str, str], where: str, told_by: str) -> Content:
    contexts = _numbers(row["contexts"], "contexts", where, least=1)
    given = _numbers(row["new_tokens"], "new_tokens", where, least=1)
    queries: tuple[int, ...] | None = given
    if len(given) == 1:
        if not len(contexts) <= given[0] <= sum(contexts):
            raise _bad(
                f"{given[0]} new tokens do not fit {len(contexts)} sequences of "
                f"{sum(contexts)} tokens",
                where,
            )
        queries = _queries_of_sum(given[0], contexts)
    elif len(given) != len(contexts):
        raise _bad(f"{len(given)} numbers of new tokens for {len(contexts)} contexts", where)
    elif any(new > length for new, length in zip(given, contexts, strict=True)):
        raise _bad("a sequence has more new tokens than its context holds", where)
    return Content(
        phase=_phase(queries, contexts),
        requests=len(contexts),
        contexts=contexts,
        queries=queries,
        told_by=told_by,
    )


def _queries_of_sum(total: int, contexts: tuple[int, ...]) -> tuple[int, ...] | None:
    """Return the new tokens of each sequence where their sum leaves no choice."""
    if total == len(contexts):
        return (1,) * total
    if total == sum(contexts):
        return contexts
    return (total,) if len(contexts) == 1 else None


def _phase(queries: tuple[int, ...] | None, contexts: tuple[int, ...]) -> str | None:
    """Return the phase where it is sure.

    Several new tokens behind a cached prefix are a chunk of a prompt or drafts to verify: the
    kernels tell which.
    """
    if queries is None:
        return None
    kinds = {
        "decode" if new == 1 else "prefill" if new == length else "either"
        for new, length in zip(queries, contexts, strict=True)
    }
    if "either" in kinds:
        return None
    return kinds.pop() if len(kinds) == 1 else "mixed"


def _numbers(cell: str, column: str, where: str, *, least: int) -> tuple[int, ...]:
    words = cell.replace(";", " ").split()
    if not words or not all(word.isascii() and word.isdigit() for word in words):
        raise _bad(f"cannot read {cell.strip()!r} as {column}", where)
    numbers = tuple(int(word) for word in words)
    if min(numbers) < least:
        raise _bad(f"{column} of {min(numbers)}", where)
    return numbers


def _bad(message: str, where: str) -> InputError:
    return InputError(
        message,
        hint="write step,new_tokens,contexts: 0,2,513 90 is step 0, 2 new tokens, KV lengths 513 "
        "and 90",
        slug="bad-schedule",
        where=where,
    )
