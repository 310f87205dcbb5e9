"""A folder of Parquet files, one per table, for DuckDB, polars, pandas and Arrow."""

from __future__ import annotations

from pathlib import Path

from nsysroof.report.result_tables import result_tables
from nsysroof.report.views import View
from nsysroof.tables import frame_of


class ParquetRenderer:
    """Writes every table of a result, the empty ones too, so that a query never misses a file."""

    suffixes: tuple[str, ...] = (".parquet",)

    def save(self, view: View, path: Path) -> None:
        """Create the folder ``path`` and write ``TABLE.parquet`` for each table.

        Raises:
            UsageError: ``no-tables`` for a catalogue.
            FileExistsError: The folder is there already.
        """
        tables = result_tables(view)
        path.mkdir()
        for table in tables:
            frame_of(table).write_parquet(path / f"{table.name}.parquet")


RENDERER = ParquetRenderer()
