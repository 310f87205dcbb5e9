"""What an export must hold: tables and columns by name, and the schema versions that are known.

Tables are probed, never assumed: an export has a table only when it has rows, and columns come
and go with versions. Names are compared without case, as SQLite does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from nsysroof.errors import InputError
from nsysroof.trace import fields
from nsysroof.trace.fields import Field

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
GRAPH_TRACE = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
NVTX = "NVTX_EVENTS"
OVERHEAD = "PROFILER_OVERHEAD"
GRAPH_NODES = "CUDA_GRAPH_NODE_EVENTS"
OLD_GRAPH_NODES = "CUDA_GRAPH_EVENTS"
"""Where graph nodes stood until 2023; the table has held whole graphs since."""
STRINGS = "StringIds"
EXPORT_METADATA = ("META_DATA_EXPORT", "EXPORT_META_DATA")
"""The table of the export's own metadata: since 2024, and 2022 to 2023."""

NEWEST_SCHEMA = (3, 28)
"""The newest schema whose tables are known, as (major, minor); micro versions only add."""

Layout = Mapping[str, tuple[str, ...]]
"""Table name to column names, as the export spells them."""

_I64, _U64, _U32 = pl.Int64(), pl.UInt64(), pl.UInt32()

_ACTIVITY = {
    "start_ns": fields.number("start", _I64, required=True),
    "end_ns": fields.number("end", _I64, required=True),
    "device": fields.number("deviceId", _U32, required=True),
    "pid": fields.process("globalPid"),
    "context": fields.number("contextId", _U32),
    "stream": fields.number("streamId", _U32, required=True),
    "correlation": fields.natural("correlationId", _U32),
}
KERNEL_FIELDS = {
    **_ACTIVITY,
    "name": fields.either("demangledName", "shortName", _U32),
    "graph_node": fields.nonzero("graphNodeId", _U64),
    "grid": fields.packed(("gridX", "gridY", "gridZ"), (2**31 - 1, 65535, 65535), (16, 16), _U64),
    "block": fields.packed(("blockX", "blockY", "blockZ"), (1024, 1024, 64), (11, 7), _U32),
}
MEMCPY_FIELDS = {
    **_ACTIVITY,
    "graph_node": fields.nonzero("graphNodeId", _U64),
    "bytes": fields.number("bytes", _I64, required=True),
    "copy_kind": fields.number("copyKind", _I64, required=True),
    "src_kind": fields.number("srcKind", _I64),
    "dst_kind": fields.number("dstKind", _I64),
    "src_device": fields.number("srcDeviceId", _I64),
    "dst_device": fields.number("dstDeviceId", _I64),
}
MEMSET_FIELDS = {
    **_ACTIVITY,
    "graph_node": fields.nonzero("graphNodeId", _U64),
    "bytes": fields.number("bytes", _I64, required=True),
}
GRAPH_TRACE_FIELDS = {**_ACTIVITY, "graph": fields.number("graphId", _U32)}
RUNTIME_FIELDS = {
    "start_ns": fields.number("start", _I64, required=True),
    "end_ns": fields.number("end", _I64, required=True),
    "pid": fields.process("globalTid"),
    "tid": fields.thread("globalTid"),
    "correlation": fields.natural("correlationId", _U32),
    "name": fields.number("nameId", _U32, required=True),
    "event_class": fields.number("eventClass", pl.UInt16()),
}
NVTX_FIELDS = {
    "start_ns": fields.number("start", _I64, required=True),
    "end_ns": fields.number("end", _I64),
    "pid": fields.process("globalTid"),
    "tid": fields.thread("globalTid"),
    "end_tid": fields.thread("endGlobalTid"),
    "event_type": fields.number("eventType", _I64, required=True),
    "domain_id": fields.number("domainId", _I64),
    "text": fields.text("text"),
    "text_id": fields.number("textId", _I64),
}
OVERHEAD_FIELDS = {
    "start_ns": fields.number("start", _I64, required=True),
    "end_ns": fields.number("end", _I64, required=True),
    "pid": fields.process("globalTid"),
    "name": fields.number("nameId", _U32, required=True),
}
GRAPH_NODE_FIELDS = {
    "start_ns": fields.number("start", _I64),
    "pid": fields.process("globalTid"),
    "tid": fields.thread("globalTid"),
    "node": fields.nonzero("graphNodeId", _U64),
    "original": fields.nonzero("originalGraphNodeId", _U64),
}
STRING_FIELDS = {
    "id": fields.number("id", _I64, required=True),
    "text": fields.text("value", required=True),
}
TABLES: dict[str, dict[str, Field]] = {
    KERNEL: KERNEL_FIELDS,
    MEMCPY: MEMCPY_FIELDS,
    MEMSET: MEMSET_FIELDS,
    GRAPH_TRACE: GRAPH_TRACE_FIELDS,
    RUNTIME: RUNTIME_FIELDS,
    NVTX: NVTX_FIELDS,
    OVERHEAD: OVERHEAD_FIELDS,
    GRAPH_NODES: GRAPH_NODE_FIELDS,
    STRINGS: STRING_FIELDS,
}
"""The tables whose rows become frames, with the fields read from each."""

_MARKS_OF_AN_EXPORT = re.compile(
    r"CUPTI_ACTIVITY_KIND_|META_DATA_EXPORT|EXPORT_META_DATA|TARGET_INFO_|NVTX_EVENTS|OSRT_API",
    re.IGNORECASE,
)


def find_table(layout: Layout, name: str) -> str | None:
    """Return how the export spells a table, or None where it has none.

    >>> find_table({"stringids": ("id", "value")}, "StringIds")
    'stringids'
    """
    return next((table for table in sorted(layout) if table.lower() == name.lower()), None)


def check_layout(layout: Layout, where: str) -> None:
    """Raise InputError where the tables are not those of an Nsight Systems export."""
    tables = {table.lower() for table in layout}
    kernel = find_table(layout, KERNEL)
    if "stringtable" in tables or (kernel and "_id_" in layout[kernel]):
        raise InputError(
            "an nvprof database, which has other tables than Nsight Systems",
            hint="profile with nsys profile --cuda-graph-trace=node -t cuda,nvtx, then export",
            slug="nvprof-database",
            where=where,
        )
    if Path(where).name.startswith("dlprof_dldb") or any(t.startswith("dlprof") for t in tables):
        raise InputError(
            "a DLProf database, which holds no kernel records of Nsight Systems",
            hint="export the .qdrep or .nsys-rep report that DLProf was run on",
            slug="dlprof-database",
            where=where,
        )
    if not any(_MARKS_OF_AN_EXPORT.match(table) for table in layout):
        raise InputError(
            "a database without a table of Nsight Systems",
            hint="give the file that nsys export --type sqlite wrote",
            slug="not-a-trace",
            where=where,
        )
    if find_table(layout, STRINGS) is None:
        raise InputError(
            f"the export has no table {STRINGS}, so nothing in it has a name",
            hint="export again without --tables, or with --tables that include it",
            slug="missing-table",
            where=where,
        )
    for table, wanted in TABLES.items():
        fit_fields(layout, table, wanted, where)


def fit_fields(
    layout: Layout, table: str, wanted: Mapping[str, Field], where: str
) -> dict[str, Field]:
    """Return the fields of a table as the export can fill them: those it lacks become null.

    Empty where there is no such table.

    Raises:
        InputError: A required column is missing; the message names it.
    """
    spelled = find_table(layout, table)
    if spelled is None:
        return {}
    columns = {column.lower() for column in layout[spelled]}
    return {name: _fit(field, columns, table, where) for name, field in wanted.items()}


def _fit(field: Field, columns: set[str], table: str, where: str) -> Field:
    there = [column for column in field.columns if column.lower() in columns]
    if field.any_of and there:
        return fields.number(there[0], field.dtype, required=True)
    if len(there) == len(field.columns):
        return field
    if not field.required:
        return fields.absent(field)
    lacking = [column for column in field.columns if column not in there]
    raise InputError(
        f"{table} has no column {' or '.join(lacking)}",
        hint="export again from the report; a changed or cut export cannot be read",
        slug="missing-column",
        where=where,
    )


def missing_columns(layout: Layout) -> list[tuple[str, str]]:
    """Return (table, column) of the optional columns that the export's tables lack, in order."""
    missing: list[tuple[str, str]] = []
    for table, wanted in TABLES.items():
        spelled = find_table(layout, table)
        if spelled is None:
            continue
        columns = {column.lower() for column in layout[spelled]}
        names = {
            column for field in wanted.values() if not field.required for column in field.columns
        }
        missing += [(table, name) for name in sorted(names) if name.lower() not in columns]
    return missing


def is_newer_schema(version: str | None) -> bool:
    """Return whether a schema version is newer than the newest known.

    >>> is_newer_schema("3.29.0"), is_newer_schema("3.28.7"), is_newer_schema(None)
    (True, False, False)
    """
    parts = re.match(r"(\d+)\.(\d+)", version or "")
    return parts is not None and (int(parts[1]), int(parts[2])) > NEWEST_SCHEMA
