"""Comma-separated tables for spreadsheets: raw numbers, full names, a row a line.

A view of several tables puts each under a line ``# name``, with an empty line between them.
"""

from __future__ import annotations

import csv
from typing import TextIO

from nsysroof.report.sheets import sheets
from nsysroof.report.views import View


class CsvRenderer:
    """Writes the tables of a view with quotes where a cell needs them."""

    suffixes: tuple[str, ...] = (".csv",)

    def render(self, view: View, stream: TextIO) -> None:
        """Write ``view`` to ``stream``; one table alone comes without its name."""
        writer = csv.writer(stream, lineterminator="\n")
        tables = sheets(view)
        for position, table in enumerate(tables):
            if len(tables) > 1:
                stream.write(f"\n# {table.name}\n" if position else f"# {table.name}\n")
            writer.writerow(table.columns)
            writer.writerows(table.rows)


RENDERER = CsvRenderer()
