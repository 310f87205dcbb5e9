"""JSON Schemas of what the commands write with ``-f json``, made from the results themselves."""

from __future__ import annotations

from typing import Any

import msgspec

from nsysroof.errors import UsageError
from nsysroof.outcomes import Check, Diff, WhatIf
from nsysroof.results import FORMAT_VERSION, Estimate, Ranks, Report, Sweep

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_RESULTS: dict[str, type[msgspec.Struct]] = {
    "report": Report,
    "estimate": Estimate,
    "sweep": Sweep,
    "diff": Diff,
    "check": Check,
    "whatif": WhatIf,
    "ranks": Ranks,
}
RESULTS = tuple(_RESULTS)
"""Names of the results that have a schema."""


def json_schema(result: str) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a result.

    Later minor versions add fields, so a schema allows fields that it does not know.

    Args:
        result: One of ``RESULTS``: ``report`` is what ``nsysroof analyze`` writes.

    Raises:
        UsageError: ``unknown-schema`` where there is none of that name.

    >>> json_schema("report")["title"]
    'nsysroof report, format 1.0'
    """
    if result not in _RESULTS:
        raise UsageError(
            f"there is no schema {result!r}",
            hint=f"schemas are {', '.join(RESULTS)}",
            slug="unknown-schema",
        )
    title = f"nsysroof {result}, format {FORMAT_VERSION}"
    return {"$schema": _DIALECT, "title": title, **msgspec.json.schema(_RESULTS[result])}
