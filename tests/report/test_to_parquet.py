"""Parquet files are read with readers of others: Arrow and DuckDB."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest

from nsysroof.errors import UsageError
from nsysroof.report.to_parquet import RENDERER
from nsysroof.report.views import Card, GapsView
from nsysroof.results import Report
from nsysroof.tables import tables_of
from tests.report import sample


def test_arrow_reads_the_numbers_of_the_report(tmp_path: Path) -> None:
    RENDERER.save(sample.full(), tmp_path / "run.parquet")
    operators = pq.read_table(tmp_path / "run.parquet" / "operators.parquet").to_pydict()
    assert operators["role"][1] == "attn.core"
    assert operators["measured_ns"][1] == 41_000
    assert operators["bytes.weight"][1] == 50_331_648
    assert operators["ratio"][-1] is None


def test_duckdb_joins_two_files(tmp_path: Path) -> None:
    RENDERER.save(sample.full(), tmp_path / "run.parquet")
    found = duckdb.sql(
        f"""
        select o.role, k.instances, o.measured_ns * o.instances_per_step
        from '{tmp_path}/run.parquet/operators.parquet' o
        join '{tmp_path}/run.parquet/kernels.parquet' k using (role)
        """
    )
    assert found is not None
    assert found.fetchall() == [("attn.core", 1_216, 41_000 * 32.0)]


def test_there_is_a_file_for_every_table_also_where_it_is_empty(tmp_path: Path) -> None:
    RENDERER.save(sample.empty(), tmp_path / "run.parquet")
    files = {file.stem for file in (tmp_path / "run.parquet").iterdir()}
    assert files == {table.name for table in tables_of(sample.full(), "report")}
    assert pq.read_table(tmp_path / "run.parquet" / "operators.parquet").num_rows == 0


@pytest.mark.parametrize("report", [sample.full(), sample.empty(), sample.worst()])
def test_the_same_report_gives_the_same_bytes(report: Report, tmp_path: Path) -> None:
    for name in ("a.parquet", "b.parquet"):
        RENDERER.save(report, tmp_path / name)
    for file in sorted((tmp_path / "a.parquet").iterdir()):
        assert file.read_bytes() == (tmp_path / "b.parquet" / file.name).read_bytes()


def test_the_worst_names_come_back_as_they_were(tmp_path: Path) -> None:
    RENDERER.save(sample.worst(), tmp_path / "run.parquet")
    kernels = pq.read_table(tmp_path / "run.parquet" / "kernels.parquet")
    assert kernels.column("name").to_pylist() == list(sample.WORST_NAMES)


def test_a_part_of_a_report_has_fewer_tables(tmp_path: Path) -> None:
    RENDERER.save(GapsView.of(sample.full()), tmp_path / "gaps.parquet")
    tables = {file.stem for file in (tmp_path / "gaps.parquet").iterdir()}
    assert tables == {"gaps", "timeline", "host_late"}


def test_a_catalogue_has_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        RENDERER.save(Card(title="h100", fields={"sm": 132}), tmp_path / "gpu.parquet")
    assert caught.value.slug == "no-tables"
    assert not (tmp_path / "gpu.parquet").exists()
