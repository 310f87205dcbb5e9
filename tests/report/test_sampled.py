"""Sampled counters in the formats: a table where there are any, and nothing where there are none."""

from __future__ import annotations

from pathlib import Path

import msgspec
import polars as pl
import pytest

from nsysroof.report.saved import load_report
from nsysroof.results import Report
from tests.report import sample
from tests.report.render import to_file, to_terminal
from tests.report.sampled_sample import with_metrics


@pytest.fixture(autouse=True)
def _monochrome(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


def test_the_page_has_what_was_measured_beside_the_theory() -> None:
    page = to_terminal(with_metrics())
    part = page.split("Sampled GPU metrics\n")[1].split("\n\n")[0]
    lines = [" ".join(line.split()) for line in part.splitlines()]
    assert lines[1:3] == [
        "0 the mean step 2,318 82.3 % 11.7 % 39.0 % 1.0 % 8.17 GB 16.3 GB 0.50",
        "0 lm_head 38 82.3 % 11.7 % 85.0 % 1.0 % 951 MB 1.05 GB 0.90",
    ]
    assert "attn.core" not in part
    told = " ".join(part.split())
    assert "1 role without a sample" in told
    assert "a sample every 100 µs, 99.8 % of the time covered" in told
    assert "percent of 3.35 TB/s (reported by the device)" in told
    assert "clock 1.755 GHz, rated 1.980 GHz; no bound is changed by it" in told


def test_bytes_that_are_not_known_are_said_to_be_so() -> None:
    report = with_metrics()
    bare = msgspec.structs.replace(
        report.metrics[0], dram_bytes=None, bytes_ratio=None, peak_bytes_per_s=None
    )
    page = to_terminal(msgspec.structs.replace(report, metrics=[bare]))
    assert "the bandwidth that percents are of is not known" in " ".join(page.split())


@pytest.mark.parametrize("fmt", ["table", "md", "html"])
def test_pages_without_samples_do_not_speak_of_them(fmt: str) -> None:
    assert "Sampled GPU metrics" in to_file(with_metrics(), fmt)
    assert "Sampled GPU metrics" not in to_file(sample.full(), fmt)


def test_tables_for_programs_have_every_column() -> None:
    lines = to_file(with_metrics(), "tsv").split("\n")
    at = lines.index("# metrics")
    header, first = lines[at + 1].split("\t"), lines[at + 2].split("\t")
    assert dict(zip(header, first, strict=True))["dram_read"] == "0.39"
    assert dict(zip(header, first, strict=True))["role"] == ""
    frame = with_metrics().frame("metrics")
    assert frame["samples"].to_list() == [2_318, 38, 0]
    assert frame["dram_read"].to_list() == [0.39, 0.85, None]
    assert frame.schema["bytes_ratio"] == pl.Float64


def test_a_saved_report_holds_them(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    path.write_text(to_file(with_metrics(), "json"), encoding="utf-8")
    read = load_report(path)
    assert isinstance(read, Report)
    assert read.metrics == with_metrics().metrics
