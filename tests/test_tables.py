from __future__ import annotations

import polars as pl
import pytest
from msgspec.structs import replace

from nsysroof.errors import UsageError
from nsysroof.results import Gap, LinkPart
from nsysroof.tables import frame_of, table_named, tables_of
from tests.report import sample


def test_the_tables_of_a_report() -> None:
    names = [table.name for table in tables_of(sample.full(), "report")]
    assert names[:5] == ["report", "capture", "processes", "devices", "findings"]
    assert {"operators", "kernels", "gaps", "steps", "budget_by_kernel", "peaks"} <= set(names)
    assert len(names) == len(set(names))


def test_one_row_is_one_object_and_absent_objects_have_none() -> None:
    heights = {t.name: len(t.rows) for t in tables_of(sample.full(), "report")}
    assert (heights["budget"], heights["operators"], heights["gaps"]) == (1, 6, 12)
    heights = {t.name: len(t.rows) for t in tables_of(sample.empty(), "report")}
    assert (heights["budget"], heights["operators"], heights["coverage"]) == (0, 0, 1)


def test_a_list_inside_a_row_names_the_row() -> None:
    report = sample.full()
    part = LinkPart(
        size="small", memory=None, copies=1, bytes=2, busy_ns=3, bytes_per_s=None, ratio=None
    )
    links = [
        replace(report.links[0], parts=[]),
        replace(report.links[0], parts=[part, replace(part, bytes=9)]),
    ]
    frame = replace(report, links=links).frame("links_parts")
    assert frame["links"].to_list() == [1, 1]
    assert frame["bytes"].to_list() == [2, 9]


def test_the_schema_does_not_depend_on_the_rows() -> None:
    for full, empty in zip(
        tables_of(sample.full(), "report"), tables_of(sample.empty(), "report"), strict=True
    ):
        assert frame_of(full).schema == frame_of(empty).schema


def test_values_and_types_of_operators() -> None:
    frame = sample.full().frame("operators")
    assert frame.schema["measured_ns"] == pl.Int64()
    assert frame.schema["bound_ns"] == pl.Float64()
    assert frame.schema["kernels"] == pl.List(pl.String())
    row = frame.row(by_predicate=pl.col("role") == "attn.core", named=True)
    assert (row["measured_ns"], row["ratio"], row["bytes.weight"]) == (41_000, 2.0467, 50_331_648)
    assert row["inputs"] == '{"k":4096,"m":8,"n":6144}'
    assert frame["ratio"].null_count() == 1  # the LM head of the sample has no bound


def test_idle_causes_are_columns_and_other_mappings_are_json() -> None:
    timeline = sample.full().frame("timeline")
    assert timeline["idle_by_cause.between_graphs"].to_list() == [10_000_000]
    assert sample.full().frame("capture")["set_aside_reasons"].to_list() == [
        '{"outside the session":2,"reversed":1}'
    ]


def test_absent_causes_are_null() -> None:
    report = sample.full()
    unknown = replace(report, timeline=[replace(report.timeline[0], idle_by_cause=None)])
    assert unknown.frame("timeline")["idle_by_cause.sync"].to_list() == [None]


def test_a_gap_without_a_cause_keeps_its_null() -> None:
    gap = Gap(gpu=0, start_ns=1, end_ns=2, cause=None, before="a", after="b", position="in step")
    assert replace(sample.full(), gaps=[gap]).frame("gaps")["cause"].to_list() == [None]


def test_a_wrong_name_lists_the_right_ones() -> None:
    with pytest.raises(UsageError) as caught:
        table_named(sample.full(), "operator")
    assert caught.value.slug == "unknown-table"
    assert "operators" in caught.value.hint


def test_an_estimate_has_frames_too() -> None:
    assert sample.estimate().frame("operators")["count"].to_list() == [32, 32]
    assert sample.estimate().frame("memory")["gpus_needed"].to_list() == [1]
