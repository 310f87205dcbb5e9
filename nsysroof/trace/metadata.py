"""What an export says about itself and its capture, by allow-list.

The same tables hold the environment, user and host names, paths and arguments of the profiled
program. Only the keys named here are read; nothing else of these tables leaves this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import polars as pl

from nsysroof.trace import fields
from nsysroof.trace.contract import EXPORT_METADATA, fit_fields
from nsysroof.trace.fields import Field
from nsysroof.trace.reader import Only, TableReader, read_table

_VERSION = re.compile(r"\d+(\.\d+){1,3}\Z")
_MODE_KEY = "CUDA_GRAPH_TRACE_OPTIONS:MODE"
_EXPORT_KEYS = (
    "EXPORT_PRODUCT_VERSION",
    "EXPORT_SCHEMA_VERSION",
    "EXPORT_PARAM_TIME_NORMALIZE",
    "EXPORT_PARAM_TIME_SHIFT",
    "EXPORT_PARAM_TABLES_TO_EXPORT",
    "EXPORT_PARAM_TIMES_TO_EXPORT",
    "DERIVED_WINDOW_NS",
)
_TEXT_OF_EVENTS = re.compile(r"number of cuda events collected:\s*(\d+)", re.IGNORECASE)
_HARDWARE = re.compile(r"hardware tracing used", re.IGNORECASE)
_SOFTWARE = re.compile(
    r"hardware tracing is not supported|legacy \(software instrumented\) trace", re.IGNORECASE
)
_LOSSES = (
    (
        "records were dropped as incomplete",
        re.compile(r"incomplete cupti events dropped:\s*[1-9]", re.IGNORECASE),
    ),
    ("buffers could not be allocated", re.compile(r"couldn't allocate cupti", re.IGNORECASE)),
    (
        "the limit of recorded events was reached",
        re.compile(r"reached the size limit on recording trace events", re.IGNORECASE),
    ),
)
_CAVEAT = re.compile(r"not all cuda events might have been collected", re.IGNORECASE)
_UNATTRIBUTED = re.compile(r"getgraph(node)?id.*invalid_parameter", re.IGNORECASE)
_DRIVER = re.compile(r"driver version \([\d.]+\) is not supported by this build", re.IGNORECASE)
_HOUR_NS = 3_600_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The few facts about an export that are kept.

    ``graph_option`` is the value of ``--cuda-graph-trace`` (graph or node). ``origin_ns`` is the
    timestamp of the session's start, 0 unless the export shifted its times, None where it did and
    does not say by how much. ``events_collected`` is what the profiler counted; ``losses`` are
    its own reports of lost records, ``maybe_incomplete`` its caveat that there might be some;
    ``graphs_unattributed`` its failures to tell the graph or node of a record.
    """

    nsys_version: str | None
    schema_version: str | None
    graph_option: str | None
    filtered: bool
    windowed: bool
    origin_ns: int | None
    session_ns: int | None
    trace_kind: str
    events_collected: int | None
    losses: tuple[str, ...]
    maybe_incomplete: bool
    graphs_unattributed: int
    driver_newer: bool

    @property
    def start_window_ns(self) -> tuple[int, int] | None:
        """The timestamps at which work can start: the session and one hour around it."""
        if self.session_ns is None or self.origin_ns is None:
            return None
        return self.origin_ns - _HOUR_NS, self.origin_ns + self.session_ns + _HOUR_NS


def read_metadata(reader: TableReader) -> Metadata:
    """Return the allowed facts of an export's metadata tables."""
    export = _export_values(reader)
    texts = read_texts(reader, "DIAGNOSTIC_EVENT", "text")
    counts = [int(found[1]) for text in texts if (found := _TEXT_OF_EVENTS.search(text))]
    duration = read_integers(reader, "ANALYSIS_DETAILS", "duration")
    return Metadata(
        nsys_version=_version(export.get("EXPORT_PRODUCT_VERSION")),
        schema_version=_version(export.get("EXPORT_SCHEMA_VERSION")),
        graph_option=_graph_option(reader),
        filtered=bool(
            export.get("EXPORT_PARAM_TABLES_TO_EXPORT")
            or export.get("EXPORT_PARAM_TIMES_TO_EXPORT")
        ),
        windowed="DERIVED_WINDOW_NS" in export,
        origin_ns=_origin(reader, export),
        session_ns=max(duration, default=None),
        trace_kind=_trace_kind(texts),
        events_collected=sum(counts) if counts else None,
        losses=tuple(loss for loss, text in _LOSSES if any(map(text.search, texts))),
        maybe_incomplete=any(map(_CAVEAT.search, texts)),
        graphs_unattributed=sum(_UNATTRIBUTED.search(text) is not None for text in texts),
        driver_newer=any(map(_DRIVER.search, texts)),
    )


def _export_values(reader: TableReader) -> dict[str, str]:
    for table in EXPORT_METADATA:
        values = _named_values(reader, table, _EXPORT_KEYS)
        if values:
            return dict(values)
    return {}


def _graph_option(reader: TableReader) -> str | None:
    """Return the graph mode; newer exports keep stale values under a process prefix."""
    table = "META_DATA_CAPTURE"
    names = sorted({name for name in read_texts(reader, table, "name") if name.endswith(_MODE_KEY)})
    if not names:
        return None
    key = min(names, key=lambda name: (name != _MODE_KEY, name))
    values = [value.lower() for _, value in _named_values(reader, table, (key,))]
    return values[0] if values and values[0] in {"graph", "node"} else None


def _origin(reader: TableReader, export: dict[str, str]) -> int | None:
    shift = export.get("EXPORT_PARAM_TIME_SHIFT") or "0"
    if not re.fullmatch(r"-?\d+", shift):
        return None
    if export.get("EXPORT_PARAM_TIME_NORMALIZE", "").lower() != "true":
        return int(shift)
    epoch = read_integers(reader, "TARGET_INFO_SESSION_START_TIME", "utcEpochNs")
    return epoch[0] + int(shift) if epoch else None


def _trace_kind(texts: list[str]) -> str:
    hardware, software = (any(map(said.search, texts)) for said in (_HARDWARE, _SOFTWARE))
    if hardware == software:
        return "unknown"
    return "hardware" if hardware else "software"


def _version(value: str | None) -> str | None:
    return value if value and _VERSION.match(value) else None


def _named_values(reader: TableReader, table: str, keys: Iterable[str]) -> list[tuple[str, str]]:
    wanted = {"name": fields.text("name"), "value": fields.text("value")}
    rows = _rows(reader, table, wanted, only=Only(column="name", values=tuple(keys)))
    return list(rows.iter_rows())


def system_value(reader: TableReader, name: str) -> str | None:
    """Return one value of the target's description, None where it is not told or not one."""
    values = {value for _, value in _named_values(reader, "TARGET_INFO_SYSTEM_ENV", (name,))}
    return values.pop() if len(values) == 1 else None


def read_texts(reader: TableReader, table: str, column: str) -> list[str]:
    """Return the values of a text column, none where there is no such column."""
    return _rows(reader, table, {column: fields.text(column)}).to_series().to_list()


def read_integers(reader: TableReader, table: str, column: str) -> list[int]:
    """Return the values of an integer column that are not null."""
    rows = _rows(reader, table, {column: fields.number(column, pl.Int64())})
    return rows.to_series().drop_nulls().to_list()


def _rows(
    reader: TableReader, table: str, wanted: dict[str, Field], *, only: Only | None = None
) -> pl.DataFrame:
    present = fit_fields(reader.layout, table, wanted, table)
    if not present:
        return pl.DataFrame(schema={name: field.dtype for name, field in wanted.items()})
    return read_table(reader, table, present, only=only)
