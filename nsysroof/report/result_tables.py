"""Which tables the formats for other programs write for a view."""

from __future__ import annotations

from nsysroof.errors import UsageError
from nsysroof.report.views import Card, Listing, View
from nsysroof.tables import Table, tables_of

_ROOT = "nsysroof"


def result_tables(view: View) -> tuple[Table, ...]:
    """Return the tables of a result with typed columns; those that a view is too small for are out.

    Raises:
        UsageError: ``no-tables`` for an entry of a catalogue, which has no columns with a type.
    """
    if isinstance(view, Listing | Card):
        raise UsageError(
            "a catalogue cannot be written in this format",
            hint="give -o a name that ends in .json or .csv",
            slug="no-tables",
        )
    name = str(getattr(view, "format", _ROOT)).removeprefix(f"{_ROOT}-")
    return tables_of(view, name)
