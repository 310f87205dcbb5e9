"""What every result is: plain data with a format version, whose lists are tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import polars as pl

FORMAT_VERSION = "1.0"
"""Minor versions add fields, major versions break. 1.0: the first."""


class Plain(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all result objects."""


class Tables(Plain, frozen=True, kw_only=True):
    """Base of the answers of whole commands, whose lists are tables."""

    def frame(self, name: str) -> pl.DataFrame:
        """Return one table as a polars frame: ``operators``, ``gaps``, ``kernels``.

        Columns are named as in every other format; ``docs/results.md`` describes them.

        Raises:
            UsageError: ``unknown-table`` where there is none of that name.
        """
        from nsysroof.tables import frame_of, table_named  # noqa: PLC0415  it imports the results

        return frame_of(table_named(self, name))

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from nsysroof.notebook import html_of  # noqa: PLC0415  it imports the results

        return html_of(self)
