from __future__ import annotations

from pathlib import Path

import pytest

from nsysroof.errors import UsageError
from nsysroof.report.base import (
    FILE_FORMATS,
    FORMATS,
    GATE_FORMATS,
    TRACE_FORMATS,
    FileRenderer,
    any_renderer,
    renderer_for,
    renderer_named,
)


def test_the_formats_of_this_release() -> None:
    assert FORMATS == ("table", "tsv", "csv", "json", "md", "html")
    assert FILE_FORMATS == ("parquet", "db")
    assert TRACE_FORMATS == ("chrome", "perfetto")


@pytest.mark.parametrize(
    ("file", "fmt"),
    [("a.json", "json"), ("a.TSV", "tsv"), ("a.b.csv", "csv"), ("a.md", "md"), ("a.txt", "table")],
)
def test_the_ending_of_a_file_names_the_format(file: str, fmt: str) -> None:
    assert renderer_for(Path(file)) is renderer_named(fmt)


@pytest.mark.parametrize(("file", "fmt"), [("a.parquet", "parquet"), ("b/A.DB", "db")])
def test_formats_that_are_no_text_save_files(file: str, fmt: str) -> None:
    assert renderer_for(Path(file)) is any_renderer(fmt)
    assert isinstance(any_renderer(fmt), FileRenderer)
    assert not isinstance(renderer_named("json"), FileRenderer)


@pytest.mark.parametrize("file", ["report", "report.docx", ".json"])
def test_an_ending_that_means_nothing_lists_those_that_do(file: str) -> None:
    with pytest.raises(UsageError) as caught:
        renderer_for(Path(file))
    assert caught.value.slug == "unknown-format"
    assert ".json" in caught.value.hint


def test_no_ending_means_two_formats() -> None:
    endings = [
        suffix for name in GATE_FORMATS for suffix in any_renderer(name, GATE_FORMATS).suffixes
    ]
    assert len(endings) == len(set(endings))


def test_a_misspelt_format_gets_a_suggestion() -> None:
    with pytest.raises(UsageError) as caught:
        renderer_named("jsn")
    assert caught.value.hint.startswith("did you mean json?")
