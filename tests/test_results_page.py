"""docs/results.md names every table and column that a report has, with its type, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from nsysroof.tables import tables_of
from tests.report import sample

PAGE = (Path(__file__).parents[1] / "docs" / "results.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `([^`]+)` \| ([a-z ]+\??) \| (.+) \|$")


def documented() -> dict[str, list[tuple[str, str]]]:
    """Return (column, type) of each table of the page."""
    found: dict[str, list[tuple[str, str]]] = {}
    for part in PAGE.split("\n## ")[1:]:
        lines = part.splitlines()
        rows = [ROW.match(line) for line in lines if line.startswith("| `")]
        assert all(rows), lines[0]
        found[lines[0]] = [(row[1], row[2]) for row in rows if row]
    return found


def test_the_page_has_the_tables_and_columns_of_the_code() -> None:
    code = {
        table.name: [
            (column.name, f"{column.kind}{'?' if column.nullable else ''}")
            for column in table.columns
        ]
        for table in tables_of(sample.full(), "report")
    }
    assert documented() == code


def test_every_table_says_what_it_is() -> None:
    for part in PAGE.split("\n## ")[1:]:
        name, empty, told, *_ = part.splitlines()
        assert (empty, told.startswith("|")) == ("", False), name
        assert len(told) > 15, name
