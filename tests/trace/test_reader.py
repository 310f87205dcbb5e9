"""Bulk reading: the same frames from both forms of an export, strict casts, text of any bytes."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.builder import ExportBuilder
from fixtures.ids import graph_node_id
from nsysroof.errors import InputError
from nsysroof.trace import Trace, open_trace, sqlite
from nsysroof.trace.schema import pack_block, pack_grid, unpack_block, unpack_grid

FRAMES = (
    "kernels", "names", "copies", "fills", "replays", "api_calls", "apis", "ranges", "overheads",
)  # fmt: skip


def varied(schema: str = "3.25.0") -> ExportBuilder:
    export = ExportBuilder(schema).gpu(0, "NVIDIA H100 80GB HBM3", sm_count=132).session(10**9)
    export.graph_mode("node").diagnostic("Number of CUDA events collected: \t 11.", pid=4000)
    export.launch("cudaGraphLaunch", 100, 900, correlation=1)
    for node in range(3):
        start = 1_000 + 500 * node
        export.kernel(
            f"k{node}", start, start + 400, correlation=1, graph_node=graph_node_id(2, node)
        )
    export.launch("cudaLaunchKernel", 3_000, 3_100, correlation=2, tid=4001)
    export.kernel("k1", 4_000, 5_000, correlation=2, grid=(2**31 - 1, 65_535, 3), stream=9)
    export.api("cudaMemcpyAsync", 5_100, 5_200, correlation=3)
    export.copy("h2d", 4_096, 5_300, 5_500, correlation=3)
    export.api("cudaMemsetAsync", 5_600, 5_650, correlation=4)
    export.fill(1 << 33, 5_700, 5_800, correlation=4)
    export.graph_trace(7_000, 9_000)
    export.nvtx("step", 50, 9_500).nvtx("née", 60, 9_000, domain="engine", registered=True)
    export.nvtx("end", 61, None, kind="mark").nvtx("x", 62, 70, kind="start_end", end_tid=7)
    return export.overhead("CUPTI Buffer flush", 9_600, 9_700)


@pytest.mark.parametrize("schema", ["3.11.1", "3.25.0"])
def test_parquet_and_sqlite_give_the_same_frames(tmp_path: Path, schema: str) -> None:
    rows = open_trace(varied(schema).write(tmp_path / "run.sqlite"))
    columns = open_trace(varied(schema).write_parquet(tmp_path / "run_pqtdir"))
    for name in FRAMES:
        assert getattr(columns, name).equals(getattr(rows, name)), name
        assert not getattr(rows, name).is_empty(), name
    assert columns.capture() == rows.capture()
    assert columns.gpus == rows.gpus


def test_parquet_ids_above_two_to_the_63(tmp_path: Path) -> None:
    """Unsigned ids of parquet appear negative in SQLite; both name the same process."""
    huge = 0xFE << 56 | 1 << 48 | 4242 << 24
    for name, dtype, value in (
        ("u", pa.uint64(), huge),
        ("s", pa.int64(), huge - 2**64),
    ):
        folder = ExportBuilder().kernel("k", 10, 20).write_parquet(tmp_path / name)
        file = folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
        table = pq.read_table(file)
        place = table.schema.names.index("globalPid")
        column = pa.array([value], type=dtype)
        pq.write_table(table.set_column(place, pa.field("globalPid", dtype), column), file)
        assert open_trace(folder).kernels["pid"].to_list() == [4242]


def test_damaged_parquet_table(tmp_path: Path) -> None:
    folder = ExportBuilder().kernel("k", 10, 20).write_parquet(tmp_path / "run")
    (folder / "StringIds.parquet").write_bytes(b"PAR1 not really")
    with pytest.raises(InputError) as caught:
        open_trace(folder)
    assert caught.value.slug == "damaged-file"
    assert "StringIds" in caught.value.message


def write_kernels(path: Path, rows: int, *, first_node: int) -> None:
    """Write kernels i of 10 ns at 100 i, with a graph node from row ``first_node`` on."""
    ExportBuilder().kernel("k", 1, 2, graph_node=9).write(path)
    table = "CUPTI_ACTIVITY_KIND_KERNEL"
    with sqlite3.connect(path) as connection:
        columns = [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]
        values = {
            "start": "100 * i",
            "end": "100 * i + 10",
            "correlationId": "i",
            "graphNodeId": f"CASE WHEN i >= {first_node} THEN 8589934592 + i END",
        }
        listed = ", ".join(values.get(c, f"k.[{c}]") for c in columns)
        connection.execute(
            f"WITH n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows})"
            f" INSERT INTO {table} SELECT {listed} FROM n, {table} k WHERE k.rowid = 1"
        )
        connection.execute(f"DELETE FROM {table} WHERE rowid = 1")
    connection.close()


def test_rows_of_both_halves_come_once_and_in_order(tmp_path: Path) -> None:
    """Enough rows for two threads; the node column is null throughout the first batch."""
    rows = 300_001
    write_kernels(tmp_path / "run.sqlite", rows, first_node=sqlite.BATCH_ROWS + 5)
    kernels = open_trace(tmp_path / "run.sqlite").kernels
    assert kernels["correlation"].to_list() == list(range(1, rows + 1))
    assert kernels["graph_node"].null_count() == sqlite.BATCH_ROWS + 4
    assert kernels["graph_node"].to_list()[-1] == 8_589_934_592 + rows
    assert kernels["start_ns"].sum() == 100 * rows * (rows + 1) // 2


def change(path: Path, statement: str) -> Trace:
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()
    return open_trace(path)


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("streamId", "4294967296"),  # one above uint32
        ("streamId", "-1"),
        ("correlationId", "1 << 40"),
        ("contextId", "'seven'"),
        ("end", "20.5"),
        ("correlationId", "'x'"),
    ],
)
def test_values_that_do_not_fit_are_refused_never_wrapped(
    tmp_path: Path, column: str, value: str
) -> None:
    path = ExportBuilder().kernel("k", 10, 20, correlation=1).write(tmp_path / "run.sqlite")
    trace = change(path, f"UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET [{column}] = {value}")
    with pytest.raises(InputError) as caught:
        _ = trace.kernels
    assert caught.value.slug == "bad-value"
    assert column in caught.value.message


def test_null_where_every_row_has_a_value(tmp_path: Path) -> None:
    folder = ExportBuilder().kernel("k", 10, 20).write_parquet(tmp_path / "run")
    file = folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet"
    table = pq.read_table(file)
    nothing = pa.array([None], type=pa.int64())
    place = table.schema.names.index("start")
    pq.write_table(table.set_column(place, pa.field("start", pa.int64()), nothing), file)
    trace = open_trace(folder)
    with pytest.raises(InputError) as caught:
        _ = trace.kernels
    assert caught.value.slug == "bad-value"
    assert "start" in caught.value.message


def test_graph_nodes_above_two_to_the_63_stay_unsigned(tmp_path: Path) -> None:
    path = ExportBuilder().kernel("k", 10, 20, graph_node=-2).write(tmp_path / "run.sqlite")
    assert open_trace(path).kernels["graph_node"].to_list() == [2**64 - 2]


def test_text_that_is_not_utf8(tmp_path: Path) -> None:
    export = ExportBuilder().kernel("kernel", 10, 20).nvtx("range", 1, 30).nvtx("plain", 2, 3)
    path = export.write(tmp_path / "run.sqlite")
    change(path, "UPDATE StringIds SET value = cast(x'6bff21' AS TEXT) WHERE value = 'kernel'")
    trace = change(path, "UPDATE NVTX_EVENTS SET text = cast(x'72c3' AS TEXT) WHERE text = 'range'")
    assert trace.names["text"].to_list() == ["k\ufffd!"]
    assert trace.ranges["text"].to_list() == ["r\ufffd", "plain"]


def test_only_the_strings_that_occur_are_read(tmp_path: Path) -> None:
    export = ExportBuilder().kernel("b", 10, 20).kernel("a", 30, 40)
    export.string("never used")
    trace = open_trace(export.write(tmp_path / "run.sqlite"))
    assert trace.names.rows() == [(0, "a"), (1, "b")]
    assert trace.kernels["name"].to_list() == [1, 0]


def test_two_ids_of_one_text_share_a_number(tmp_path: Path) -> None:
    path = ExportBuilder().kernel("a", 10, 20).kernel("b", 30, 40).write(tmp_path / "run.sqlite")
    trace = change(path, "UPDATE StringIds SET value = 'same' WHERE value IN ('a', 'b')")
    assert trace.names.rows() == [(0, "same")]
    assert trace.kernels["name"].to_list() == [0, 0]


def test_name_without_text_is_counted(tmp_path: Path) -> None:
    path = ExportBuilder().kernel("a", 10, 20).kernel("b", 30, 40).write(tmp_path / "run.sqlite")
    trace = change(path, "DELETE FROM StringIds WHERE value = 'b'")
    assert trace.names["text"].to_list() == ["[Unknown]", "a"]
    finding = next(f for f in trace.capture().findings if f.slug == "missing-names")
    assert finding.text.startswith("1 kernels")


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    grid=st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 65_535), st.integers(0, 65_535)),
    block=st.tuples(st.integers(0, 1_024), st.integers(0, 1_024), st.integers(0, 64)),
)
def test_grids_and_blocks_survive_the_packing(
    tmp_path: Path, grid: tuple[int, int, int], block: tuple[int, int, int]
) -> None:
    export = ExportBuilder().kernel("k", 10, 20, grid=grid, block=block)
    for path in (export.write(tmp_path / "r.sqlite"), export.write_parquet(tmp_path / "r_dir")):
        kernels = open_trace(path).kernels
        assert kernels["grid"].to_list() == [pack_grid(*grid)]
        assert unpack_grid(kernels["grid"][0]) == list(grid)
        assert kernels["block"].to_list() == [pack_block(*block)]
        assert unpack_block(kernels["block"][0]) == list(block)
        if path.is_file():
            path.unlink()


@pytest.mark.parametrize("form", ["sqlite", "parquet"])
@pytest.mark.parametrize(
    ("grid", "block"),
    [
        ((2**31, 1, 1), (1, 1, 1)),
        ((1, 65_536, 1), (1, 1, 1)),
        ((1, 1, -1), (1, 1, 1)),
        ((1, 1, 1), (1_025, 1, 1)),
        ((1, 1, 1), (1, 1, 65)),
    ],
)
def test_impossible_geometry_is_set_aside(
    tmp_path: Path, form: str, grid: tuple[int, int, int], block: tuple[int, int, int]
) -> None:
    export = ExportBuilder().kernel("k", 10, 20, grid=grid, block=block).kernel("k", 30, 40)
    path = (
        export.write(tmp_path / "r.sqlite")
        if form == "sqlite"
        else export.write_parquet(tmp_path / "r_dir")
    )
    trace = open_trace(path)
    assert trace.kernels["start_ns"].to_list() == [30]
    assert trace.set_aside == {"bad-geometry": 1}


def test_frames_are_made_once(tmp_path: Path) -> None:
    trace = open_trace(ExportBuilder().kernel("k", 10, 20).write(tmp_path / "run.sqlite"))
    assert trace.kernels is trace.kernels
    assert isinstance(trace.kernels, pl.DataFrame)
