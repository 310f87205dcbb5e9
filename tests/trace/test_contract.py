"""Schema drift: columns and tables that come, go or change their spelling between versions."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.builder import ExportBuilder
from nsysroof.errors import InputError
from nsysroof.trace import Trace, open_trace

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
Open = Callable[[ExportBuilder], Trace]


def two_kernels(schema: str = "3.25.0") -> ExportBuilder:
    export = ExportBuilder(schema).gpu(0, "NVIDIA L40S").session(10**9)
    for number in (1, 2):
        at = 1_000 * number
        export.launch("cudaLaunchKernel", at, at + 100, correlation=number)
        export.kernel("void add<int>(T1)", at + 200, at + 500, correlation=number)
    return export


def slugs(trace: Trace) -> dict[str, str]:
    return {finding.slug: finding.severity for finding in trace.capture().findings}


def test_whole_export_has_no_findings(opened: Open) -> None:
    assert slugs(opened(two_kernels())) == {}


def test_o5a_without_correlation_ids_durations_stay(opened: Open) -> None:
    trace = opened(two_kernels().drop_column(KERNEL, "correlationId"))
    assert trace.kernels["correlation"].to_list() == [None, None]
    durations = trace.kernels["end_ns"] - trace.kernels["start_ns"]
    assert durations.to_list() == [300, 300]
    assert slugs(trace) == {"missing-columns": "warning", "missing-launch-rows": "note"}
    finding = next(f for f in trace.capture().findings if f.slug == "missing-columns")
    assert f"{KERNEL}.correlationId" in finding.text


def test_o5b_without_short_names(opened: Open) -> None:
    trace = opened(two_kernels().drop_column(KERNEL, "shortName"))
    assert trace.names["text"].to_list() == ["void add<int>(T1)"]
    assert slugs(trace) == {}


def test_o5b_without_demangled_names(opened: Open) -> None:
    trace = opened(two_kernels().drop_column(KERNEL, "demangledName"))
    assert trace.names["text"].to_list() == ["add"]


def test_o5c_unknown_columns_change_nothing(tmp_path: Path) -> None:
    export = two_kernels()
    plain = open_trace(export.write(tmp_path / "plain.sqlite"))
    for number in range(5):
        export.add_column(KERNEL, f"future{number} INTEGER", number)
    trace = open_trace(export.write(tmp_path / "future.sqlite"))
    assert trace.kernels.equals(plain.kernels)
    assert trace.capture() == plain.capture()


def test_o5d_without_end_is_an_error_that_names_it(opened: Open) -> None:
    with pytest.raises(InputError) as caught:
        opened(two_kernels().drop_column(KERNEL, "end"))
    assert caught.value.slug == "missing-column"
    assert "column end" in caught.value.message
    assert KERNEL in caught.value.message


def test_without_any_name_column(opened: Open) -> None:
    export = two_kernels().drop_column(KERNEL, "shortName").drop_column(KERNEL, "demangledName")
    with pytest.raises(InputError) as caught:
        opened(export)
    assert "demangledName or shortName" in caught.value.message


def test_without_string_table(opened: Open) -> None:
    with pytest.raises(InputError) as caught:
        opened(two_kernels().drop_table("StringIds"))
    assert caught.value.slug == "missing-table"
    assert "StringIds" in caught.value.message


@pytest.mark.parametrize(
    ("version", "newer"),
    [("3.28.1", False), ("3.28.99", False), ("3.29.0", True), ("4.0.0", True), ("2.9.1", False)],
)
def test_newer_schema_warns_and_goes_on(opened: Open, version: str, *, newer: bool) -> None:
    trace = opened(two_kernels().meta_export("EXPORT_SCHEMA_VERSION", version))
    assert trace.kernels.height == 2
    assert trace.capture().schema_version == version
    assert slugs(trace) == ({"schema-newer": "warning"} if newer else {})


def test_older_name_of_the_metadata_table(opened: Open) -> None:
    trace = opened(two_kernels().rename_table("META_DATA_EXPORT", "EXPORT_META_DATA"))
    assert trace.capture().schema_version == "3.25.0"
    assert slugs(trace) == {}


def test_export_without_metadata(opened: Open) -> None:
    trace = opened(two_kernels().drop_table("META_DATA_EXPORT"))
    capture = trace.capture()
    assert (capture.nsys_version, capture.schema_version) == (None, None)
    assert slugs(trace) == {"schema-unknown": "note"}


def test_names_are_compared_without_case(tmp_path: Path) -> None:
    folder = two_kernels().write_parquet(tmp_path / "run")
    (folder / f"{KERNEL}.parquet").rename(folder / f"{KERNEL.lower()}.parquet")
    assert open_trace(folder).kernels.height == 2
    path = two_kernels().write(tmp_path / "run.sqlite")
    with sqlite3.connect(path) as connection:
        connection.execute(f"ALTER TABLE {KERNEL} RENAME COLUMN gridX TO GRIDX")
        connection.execute("ALTER TABLE StringIds RENAME TO STRINGIDS_")
        connection.execute("ALTER TABLE STRINGIDS_ RENAME TO stringids")
    connection.close()
    assert open_trace(path).names["text"].to_list() == ["void add<int>(T1)"]


ACTIVITIES = ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE", "RUNTIME")


@pytest.mark.parametrize("form", ["sqlite", "parquet"])
def test_tables_without_rows(tmp_path: Path, form: str) -> None:
    """Exports with --lazy=false have every table."""
    export = ExportBuilder().keep_table("NVTX_EVENTS").keep_table("PROFILER_OVERHEAD")
    for table in ACTIVITIES:
        export.keep_table(f"CUPTI_ACTIVITY_KIND_{table}")
    path = tmp_path / "run"
    trace = open_trace(export.write(path) if form == "sqlite" else export.write_parquet(path))
    frames = (
        trace.kernels, trace.names, trace.copies, trace.fills, trace.replays, trace.api_calls,
        trace.apis, trace.ranges, trace.overheads,
    )  # fmt: skip
    assert [frame.height for frame in frames] == [0] * 9
    assert slugs(trace) == {"no-kernels": "error"}


def test_empty_tables_of_eager_exports(opened: Open) -> None:
    export = two_kernels()
    for table in ("CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_GRAPH_TRACE", "NVTX_EVENTS"):
        export.keep_table(table)
    trace = opened(export)
    assert (trace.copies.height, trace.replays.height, trace.ranges.height) == (0, 0, 0)
    assert slugs(trace) == {}
