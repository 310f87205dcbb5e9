from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from fixtures.builder import ExportBuilder
from fixtures.ids import graph_node_id
from fixtures.schema import load_schema

REFERENCE = Path(__file__).parents[2] / "../shared/reference"
VERSIONS = ("3.25.0", "3.11.1")


def rows(path: Path, query: str) -> list[Any]:
    connection = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


@pytest.mark.parametrize("version", VERSIONS)
def test_columns_are_those_of_real_exports(version: str) -> None:
    reference = REFERENCE / "nsys-tables.json"
    if not reference.exists():
        pytest.skip("the columns read from real exports are in the shared folder")
    real = json.loads(reference.read_text(encoding="utf-8"))
    schema = load_schema(version)
    for table, declarations in schema.tables.items():
        assert declarations == real[schema.borrowed.get(table, version)][table], table
    for table in schema.borrowed:
        assert table not in real[version]
    for table in schema.absent:
        assert table not in real[version]


@pytest.mark.parametrize("version", VERSIONS)
def test_enumerations_are_rows_of_the_real_ones(version: str) -> None:
    reference = REFERENCE / "nsys-enums.json"
    if not reference.exists():
        pytest.skip("the enumerations read from real exports are in the shared folder")
    real = json.loads(reference.read_text(encoding="utf-8"))
    for name, values in load_schema(version).enums.items():
        assert {value for value, _, _ in values} <= {row[0] for row in real[name]}
        assert all(list(value) in real[name] for value in values)


def everything(version: str) -> ExportBuilder:
    export = ExportBuilder(version)
    export.gpu(0, "NVIDIA H100 80GB HBM3", memory_bandwidth=3_352_320_000_000, compute=(9, 0))
    export.process(4000).context(1).stream(7).thread("worker", pid=4000, tid=4001)
    export.launch("cudaLaunchKernel", 100, 200, correlation=7)
    export.kernel("void ns::add<(int)4>(T1 *)", 1_000, 3_000, correlation=7, grid=(2, 3, 4))
    export.copy("d2h", 8, 3_500, 4_000, correlation=8).fill(64, 4_100, 4_200, correlation=9)
    export.graph_trace(5_000, 9_000, correlation=10).graph_created(1, 50).graph_node(5, 60)
    export.synchronization(9_000, 9_500, correlation=11)
    export.api("cuStreamSynchronize", 9_000, 9_500, correlation=11)
    export.nvtx("step", 90, 9_600).nvtx("push", 95, 96, domain="NCCL", registered=True)
    export.overhead("CUPTI Buffer flush", 10, 20).diagnostic("odd", "warning", at=5, pid=4000)
    export.session(10_000).system_env("NvDriverVersion", "575.1").graph_mode("node")
    export.os_call("poll", 300, 900, tid=4001)
    export.metric_names(0, ["SMs Active [Throughput %]"]).metric_sample(0, 1_500, [93])
    return export


@pytest.mark.parametrize("version", VERSIONS)
def test_a_written_file_declares_what_the_schema_says(version: str, tmp_path: Path) -> None:
    path = everything(version).write(tmp_path / "all.sqlite")
    schema = load_schema(version)
    written = {name for (name,) in rows(path, "SELECT name FROM sqlite_master")}
    left_out = {"TARGET_INFO_CUDA_DEVICE", "CUPTI_ACTIVITY_KIND_OVERHEAD"}
    assert written == (set(schema.tables) - left_out) | set(schema.enums)
    for table in written & set(schema.tables):
        declared = [
            f"{name} {kind}{' NOT NULL' if required else ''}"
            for _, name, kind, required, _, _ in rows(path, f'PRAGMA table_info("{table}")')
        ]
        assert declared == schema.tables[table]


def test_rows_read_back_with_ids_resolved(tmp_path: Path) -> None:
    path = everything("3.25.0").write(tmp_path / "all.sqlite")
    kernel = rows(
        path,
        "SELECT k.start, k.end, d.value, s.value, gridX, gridY, gridZ, k.globalPid / 0x1000000"
        " % 0x1000000, l.start, a.value FROM CUPTI_ACTIVITY_KIND_KERNEL k"
        " JOIN StringIds d ON d.id = demangledName JOIN StringIds s ON s.id = shortName"
        " JOIN CUPTI_ACTIVITY_KIND_RUNTIME l ON l.correlationId = k.correlationId"
        " JOIN StringIds a ON a.id = l.nameId",
    )
    name = "void ns::add<(int)4>(T1 *)"
    assert kernel == [
        (1_000, 3_000, name, "add", 2, 3, 4, 4000, 100, "cudaLaunchKernel_v7000"),
    ]
    assert rows(path, "SELECT bytes, copyKind, srcKind FROM CUPTI_ACTIVITY_KIND_MEMCPY") == [
        (8, 2, 2)
    ]
    assert rows(
        path,
        "SELECT n.start, eventType, domainId, coalesce(text, value) FROM NVTX_EVENTS n"
        " LEFT JOIN StringIds s ON s.id = textId",
    ) == [(90, 59, 0, "step"), (95, 75, 1, "NCCL"), (95, 59, 1, "push")]
    assert rows(path, "SELECT value FROM META_DATA_EXPORT WHERE name = 'DERIVED_FROM'") == [
        ("synthetic",)
    ]
    mode = "SELECT value FROM META_DATA_CAPTURE WHERE name = 'CUDA_GRAPH_TRACE_OPTIONS:MODE'"
    assert rows(path, mode) == [("Node",)]


def test_graph_nodes_carry_the_id_of_the_instance(tmp_path: Path) -> None:
    # 2 << 32 is the first node of the second graph, as an 8-node graph was seen to number them.
    assert graph_node_id(2, 0) == 8_589_934_592
    export = ExportBuilder().kernel("k", 1, 2, graph_node=graph_node_id(2, 3), graph=1)
    path = export.write(tmp_path / "graph.sqlite")
    query = "SELECT graphNodeId >> 32, graphId FROM CUPTI_ACTIVITY_KIND_KERNEL"
    assert rows(path, query) == [(2, 1)]


def test_tables_exist_only_with_rows_or_when_kept(tmp_path: Path) -> None:
    names = "SELECT name FROM sqlite_master ORDER BY name"
    bare = ExportBuilder().write(tmp_path / "bare.sqlite")
    assert rows(bare, names) == [("META_DATA_EXPORT",), ("StringIds",)]
    kept = ExportBuilder().keep_table("CUPTI_ACTIVITY_KIND_KERNEL").write(tmp_path / "k.sqlite")
    assert rows(kept, "SELECT count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL") == [(0,)]


def test_changes_to_the_schema(tmp_path: Path) -> None:
    export = ExportBuilder().kernel("k", 1, 2).drop_column("CUPTI_ACTIVITY_KIND_KERNEL", "end")
    export.add_column("CUPTI_ACTIVITY_KIND_KERNEL", "kernel_name TEXT", "third party")
    export.rename_table("META_DATA_EXPORT", "EXPORT_META_DATA").drop_table("StringIds")
    export.meta_export("EXPORT_SCHEMA_VERSION", "2.9.1")
    path = export.write(tmp_path / "changed.sqlite")
    columns = [row[1] for row in rows(path, "PRAGMA table_info(CUPTI_ACTIVITY_KIND_KERNEL)")]
    assert len(columns) == 40  # 40 of the schema, one less, one more
    assert "end" not in columns
    assert rows(path, "SELECT kernel_name FROM CUPTI_ACTIVITY_KIND_KERNEL") == [("third party",)]
    version = "SELECT value FROM EXPORT_META_DATA WHERE name = 'EXPORT_SCHEMA_VERSION'"
    assert rows(path, version) == [("2.9.1",)]
    assert rows(path, "SELECT 1 FROM sqlite_master WHERE name = 'StringIds'") == []


def test_what_a_schema_lacks_is_refused() -> None:
    with pytest.raises(ValueError, match=r"3\.11\.1 has no table TARGET_INFO_CUDA_DEVICE"):
        ExportBuilder("3.11.1").process(1, cuda_devices=[0])
    with pytest.raises(ValueError, match="no columns of schema 9"):
        ExportBuilder("9.0.0")
    with pytest.raises(ValueError, match=r"has no \['speed'\]"):
        ExportBuilder().row("PROCESSES", speed=1)


def test_two_builds_give_the_same_bytes(tmp_path: Path) -> None:
    one = everything("3.25.0").write(tmp_path / "one.sqlite").read_bytes()
    two = everything("3.25.0").write(tmp_path / "two.sqlite").read_bytes()
    assert one == two
    assert int.from_bytes(one[96:100], "big") == 3_045_000  # not the library's own version
    assert rows(tmp_path / "one.sqlite", "PRAGMA integrity_check") == [("ok",)]


def test_the_parquet_folder_holds_the_same_tables(tmp_path: Path) -> None:
    export = everything("3.25.0")
    path = export.write(tmp_path / "all.sqlite")
    folder = export.write_parquet(tmp_path / "all_pqtdir")
    written = {name for (name,) in rows(path, "SELECT name FROM sqlite_master")}
    assert {file.stem for file in folder.iterdir()} == written
    kernels = pl.read_parquet(folder / "CUPTI_ACTIVITY_KIND_KERNEL.parquet")
    assert kernels.rows() == rows(path, "SELECT * FROM CUPTI_ACTIVITY_KIND_KERNEL")
    assert kernels.schema["globalPid"] == pl.UInt64()
