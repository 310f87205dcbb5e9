"""Calls of the OS runtime (poll, futex, read …) of some threads, where something asks for them.

The profiler records only calls longer than a threshold, by default a microsecond, so time without
a call is no proof that the thread computed.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from nsysroof.trace import fields
from nsysroof.trace.contract import fit_fields
from nsysroof.trace.fields import Field
from nsysroof.trace.reader import Only, TableReader, read_strings
from nsysroof.trace.schema import OS_CALLS
from nsysroof.trace.texts import UNKNOWN_TEXT

_TABLE = "OSRT_API"
_FIELDS = {
    "start_ns": fields.number("start", pl.Int64()),
    "end_ns": fields.number("end", pl.Int64()),
    "pid": fields.process("globalTid"),
    "tid": fields.thread("globalTid"),
    "name": fields.number("nameId", pl.UInt32()),
}
_ID_BITS = 24
_THREAD_MASK = (1 << 2 * _ID_BITS) - 1  # process and thread; the bits above are the machine

Times = npt.NDArray[np.int64]


def has_os_calls(reader: TableReader) -> bool:
    """Return whether the export has a whole table of OS runtime calls; it may be empty."""
    return bool(_present(reader))


def count_os_calls(reader: TableReader) -> int:
    """Return the number of calls of all threads; it takes a pass over the table."""
    return reader.count(_TABLE)


def read_os_calls(
    reader: TableReader, threads: Collection[tuple[int, int]], starts: Times, ends: Times
) -> pl.DataFrame:
    """Return the calls of some threads that overlap some stretches of time.

    Args:
        reader: The export.
        threads: Process and thread ids.
        starts: Starts of disjoint stretches in ascending order.
        ends: Their ends.

    Returns:
        A frame with the schema ``OS_CALLS``, sorted by its columns in order. Time belongs to the
        call that began first, so of nested calls the outermost is a row.
    """
    present = _present(reader)
    if not present or not threads or not starts.size:
        return pl.DataFrame(schema=OS_CALLS)
    only = Only(
        column="globalTid",
        values=tuple(sorted(pid << _ID_BITS | tid for pid, tid in threads)),
        mask=_THREAD_MASK,
        least=(("end", int(starts[0]) + 1),),
        most=(("start", int(ends[-1]) - 1),),
    )
    sieve = _Sieve(starts=starts, ends=ends)
    blocks = reader.map_blocks(_TABLE, present, sieve.sift, only=only)
    schema = {name: field.dtype for name, field in _FIELDS.items()}
    calls = pl.concat([pl.DataFrame(schema=schema), *blocks], rechunk=False)
    texts = read_strings(reader, calls["name"].unique().to_list())
    text = pl.col("name").replace_strict(
        list(texts), list(texts.values()), default=UNKNOWN_TEXT, return_dtype=pl.String
    )
    named = calls.with_columns(text=text).select(list(OS_CALLS))
    return _disjoint(named).sort(list(OS_CALLS))


def _present(reader: TableReader) -> dict[str, Field]:
    """Return the fields of the table, empty where it or a column is missing."""
    present = fit_fields(reader.layout, _TABLE, _FIELDS, _TABLE)
    return present if all(field.columns for field in present.values()) else {}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Sieve:
    """Keeps what overlaps the stretches, in the threads that read."""

    starts: Times
    ends: Times

    def sift(self, rows: pl.DataFrame) -> pl.DataFrame:
        rows = rows.drop_nulls().filter(pl.col("end_ns") > pl.col("start_ns"))
        begun, ended = rows["start_ns"].to_numpy(), rows["end_ns"].to_numpy()
        at = np.searchsorted(self.ends, begun, side="right")
        next_start = self.starts[np.minimum(at, self.starts.size - 1)]
        return rows.filter(pl.Series((at < self.starts.size) & (next_start < ended)))


def _disjoint(calls: pl.DataFrame) -> pl.DataFrame:
    """Return the calls of each thread with the time that no call begun earlier covers."""
    thread = ["pid", "tid"]
    ordered = calls.sort(
        *thread, "start_ns", "end_ns", "text", descending=[False, False, False, True, False]
    )
    reach = pl.col("end_ns").cum_max().shift(1).over(thread)
    return ordered.with_columns(start_ns=pl.max_horizontal("start_ns", reach)).filter(
        pl.col("end_ns") > pl.col("start_ns")
    )
