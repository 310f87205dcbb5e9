"""Copies of a shipped capture with time put in: what runs at an instant runs longer by it.

Time put inside a kernel makes that kernel slower; time put where nothing runs makes the GPU wait.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

FIXTURES = Path(__file__).parents[2] / "fixtures"
CAPTURE = FIXTURES / "qwen3-30b-a3b-gh200.sqlite"


def truth() -> dict[str, Any]:
    """Return what was planted in the capture when it was made."""
    loaded: dict[str, Any] = json.loads(
        (FIXTURES / "qwen3-30b-a3b-gh200.truth.json").read_text(encoding="utf-8")
    )
    return loaded


def with_time_put_in(path: Path, places: Iterable[tuple[int, int]]) -> Path:
    """Write a copy of the capture; each place is (instant, ns), the instants of the original.

    Rows that begin at the instant or later move; rows that are under way end later.
    """
    shutil.copyfile(CAPTURE, path)
    connection = sqlite3.connect(path)
    try:
        query = "SELECT m.name FROM sqlite_master m, pragma_table_info(m.name) c"
        timed = [name for (name,) in connection.execute(f"{query} WHERE c.name = 'end'")]
        for at, ns in sorted(places, reverse=True):
            for table in timed:
                connection.execute(f'UPDATE "{table}" SET end = end + {ns} WHERE end > {at}')
                connection.execute(f'UPDATE "{table}" SET start = start + {ns} WHERE start >= {at}')
            connection.execute(f"UPDATE ANALYSIS_DETAILS SET duration = duration + {ns}")
        connection.commit()
    finally:
        connection.close()
    return path


def inside_kernel(role: str, number: int) -> list[int]:
    """Return an instant inside the given instance of a role in every step."""
    planted = truth()
    starts = planted["steps"]["starts_ns"]
    edges = [*starts, max(start for start, _, _ in planted["kernels"]) + 1]
    found = []
    for first, last in pairwise(edges):
        own = [s for s, _, of in planted["kernels"] if of == role and first <= s < last]
        found.append(own[number] + 1)
    return found
