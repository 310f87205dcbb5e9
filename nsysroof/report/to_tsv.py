"""Tab-separated tables for ``cut``, ``awk`` and ``grep``: raw numbers, full names, a row a line.

A view of several tables puts each under a line ``# name``, with an empty line between them.
"""

from __future__ import annotations

from typing import TextIO

from nsysroof.report.sheets import sheets
from nsysroof.report.views import View


class TsvRenderer:
    """Writes the tables of a view; the first line of each names its columns."""

    suffixes: tuple[str, ...] = (".tsv",)

    def render(self, view: View, stream: TextIO) -> None:
        """Write ``view`` to ``stream``; one table alone comes without its name."""
        tables = sheets(view)
        for position, table in enumerate(tables):
            if len(tables) > 1:
                stream.write(f"\n# {table.name}\n" if position else f"# {table.name}\n")
            stream.write("\t".join(table.columns) + "\n")
            stream.writelines("\t".join(row) + "\n" for row in table.rows)


RENDERER = TsvRenderer()
