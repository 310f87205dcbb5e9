"""What the host did: API calls, NVTX ranges and the time that the profiler itself took."""

from __future__ import annotations

import re

import polars as pl

from nsysroof.trace.contract import NVTX, OVERHEAD, RUNTIME, STRING_FIELDS, STRINGS
from nsysroof.trace.fields import Field
from nsysroof.trace.order import sort_frame
from nsysroof.trace.reader import Only, TableReader, read_strings, read_table
from nsysroof.trace.schema import API_CALLS, APIS, GRAPH_NODE_CREATIONS, OVERHEADS, RANGES
from nsysroof.trace.texts import UNKNOWN_TEXT, index_texts

_CALL_STACK_TWIN = 67  # 2022 exports repeat a call with this event class to hang its stack on
_VERSION_SUFFIX = re.compile(r"(_v\d+|_ptsz|_ptds)+$")
_KINDS = (
    ("kernel_launch", re.compile(r"cu(da)?Launch((Cooperative)?Kernel\w*|Grid\w*)?$")),
    ("graph_launch", re.compile(r"cu(da)?GraphLaunch$")),
    (
        "synchronize",
        re.compile(r"cuda(Device|Stream|Event)Synchronize$|cu(Ctx|Stream|Event)Synchronize$"),
    ),
    ("copy", re.compile(r"cu(da)?(Memcpy\w*Async\w*|Memset\w+|Memset)$")),
    ("blocking_copy", re.compile(r"cu(da)?Memcpy\w*$")),
)
_RANGE_KINDS = {59: "push_pop", 60: "start_end", 34: "mark", 70: "push_pop", 71: "start_end"}
_MARK_KIND = "mark"
_DOMAIN_CREATED = 75


def api_name(text: str) -> str:
    """Return the name of an API call without the version that exports append.

    >>> api_name("cudaLaunchKernelExC_v11060"), api_name("cuMemcpyHtoDAsync_v2")
    ('cudaLaunchKernelExC', 'cuMemcpyHtoDAsync')
    >>> api_name("cudaMemcpyAsync_ptsz_v7000")
    'cudaMemcpyAsync'
    """
    return _VERSION_SUFFIX.sub("", text)


def api_kind(name: str) -> str:
    """Return what a call does to the device, one of the kinds of the APIS frame.

    >>> [api_kind(name) for name in ("cuLaunchKernelEx", "cudaGraphLaunch", "cudaMemcpy2D")]
    ['kernel_launch', 'graph_launch', 'blocking_copy']
    """
    return next((kind for kind, pattern in _KINDS if pattern.match(name)), "other")


def read_calls(reader: TableReader, fields: dict[str, Field]) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the API_CALLS and APIS frames."""
    if not fields:
        return pl.DataFrame(schema=API_CALLS), pl.DataFrame(schema=APIS)

    blocks = reader.map_blocks(RUNTIME, fields, lambda rows: drop_twins(rows).drop("event_class"))
    calls = pl.concat([_empty(fields).drop("event_class"), *blocks], rechunk=False)
    del blocks
    ids = calls["name"].unique().to_list()
    index = index_texts(ids, read_strings(reader, ids), api_name)
    api = index.number(calls["name"])
    calls = calls.drop("name").with_columns(api=api).select(*API_CALLS)
    apis = pl.DataFrame(
        {
            "api": range(len(index.texts)),
            "text": index.texts,
            "kind": [api_kind(text) for text in index.texts],
        },
        schema=APIS,
    )
    return sort_frame(calls, list(API_CALLS)), apis


def drop_twins(rows: pl.DataFrame) -> pl.DataFrame:
    """Return the calls without the rows that only hang a stack on another row of the call."""
    twin = rows["event_class"].eq_missing(_CALL_STACK_TWIN)
    return rows.filter(~twin) if twin.any() else rows


def read_ranges(
    reader: TableReader, fields: dict[str, Field], latest_ns: int | None
) -> pl.DataFrame:
    """Return the RANGES frame.

    Args:
        reader: The export.
        fields: The fields of NVTX_EVENTS that the export has.
        latest_ns: No range can end after this; ranges that were open at the end of a capture
            carry arbitrary later ends, and count as never ended.
    """
    if not fields:
        return pl.DataFrame(schema=RANGES)
    only = Only(column="eventType", values=(*_RANGE_KINDS, _DOMAIN_CREATED))
    return _ranges_of(reader, read_table(reader, NVTX, fields, only=only), latest_ns)


def read_ranges_beginning(
    reader: TableReader,
    fields: dict[str, Field],
    latest_ns: int | None,
    prefixes: tuple[str, ...],
) -> pl.DataFrame:
    """Return the ranges whose text begins so, without reading the others; ``domain`` is empty.

    Args:
        reader: The export.
        fields: The fields of NVTX_EVENTS that the export has.
        latest_ns: As for ``read_ranges``.
        prefixes: How the texts begin, in ASCII.
    """
    parts = []
    if fields and fields["text"].columns:
        parts.append(read_table(reader, NVTX, fields, only=Only(column="text", prefixes=prefixes)))
    if fields and fields["text_id"].columns:
        named = Only(column="value", prefixes=prefixes)
        ids = tuple(read_table(reader, STRINGS, STRING_FIELDS, only=named)["id"].to_list())
        if ids:
            parts.append(read_table(reader, NVTX, fields, only=Only(column="textId", values=ids)))
    if not parts:
        return pl.DataFrame(schema=RANGES)
    rows = pl.concat(parts).filter(pl.col("event_type").is_in(list(_RANGE_KINDS)))
    return _ranges_of(reader, rows, latest_ns)


def _ranges_of(reader: TableReader, rows: pl.DataFrame, latest_ns: int | None) -> pl.DataFrame:
    texts = read_strings(reader, rows["text_id"].drop_nulls().unique().to_list())
    registered = pl.col("text_id").replace_strict(
        list(texts), list(texts.values()), default="", return_dtype=pl.String
    )
    rows = rows.with_columns(
        text=pl.when(pl.col("text_id").is_null()).then(pl.col("text")).otherwise(registered)
    )
    created = pl.col("event_type") == _DOMAIN_CREATED
    domains = (
        rows.filter(created)
        .unique(["pid", "domain_id"], keep="first", maintain_order=True)
        .select("pid", "domain_id", domain="text")
    )
    ended = pl.col("end_ns") >= pl.col("start_ns")
    if latest_ns is not None:
        ended &= pl.col("end_ns") <= latest_ns
    kind = pl.col("event_type").replace_strict(_RANGE_KINDS, return_dtype=pl.String)
    ranges = (
        rows.filter(~created)
        .join(domains, on=["pid", "domain_id"], how="left", maintain_order="left")
        .with_columns(
            kind=kind, domain=pl.col("domain").fill_null(""), end_ns=pl.when(ended).then("end_ns")
        )
        .with_columns(
            end_ns=pl.when(pl.col("kind") != _MARK_KIND).then("end_ns"),
            end_tid=pl.when(pl.col("end_tid") != pl.col("tid")).then("end_tid"),
        )
        .select(*RANGES)
    )
    return sort_frame(ranges, list(RANGES))


def read_overheads(reader: TableReader, fields: dict[str, Field]) -> pl.DataFrame:
    """Return the OVERHEADS frame."""
    if not fields:
        return pl.DataFrame(schema=OVERHEADS)
    rows = read_table(reader, OVERHEAD, fields)
    texts = read_strings(reader, rows["name"].unique().to_list())
    text = pl.col("name").replace_strict(
        list(texts), list(texts.values()), default=UNKNOWN_TEXT, return_dtype=pl.String
    )
    return sort_frame(rows.with_columns(text=text).select(*OVERHEADS), list(OVERHEADS))


def read_node_creations(reader: TableReader, table: str, fields: dict[str, Field]) -> pl.DataFrame:
    """Return the GRAPH_NODE_CREATIONS frame from the table that an export has them in."""
    if not fields:
        return pl.DataFrame(schema=GRAPH_NODE_CREATIONS)
    rows = read_table(reader, table, fields).drop_nulls(["start_ns", "node"])
    return sort_frame(rows.select(*GRAPH_NODE_CREATIONS), list(GRAPH_NODE_CREATIONS))


def _empty(fields: dict[str, Field]) -> pl.DataFrame:
    return pl.DataFrame(schema={name: field.dtype for name, field in fields.items()})
