"""What a late host did, in the formats: where calls were recorded, and not a word elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from nsysroof.report.saved import load_report
from nsysroof.results import HostLateRow, Report
from tests.report import sample
from tests.report.render import to_file, to_terminal


@pytest.fixture(autouse=True)
def _monochrome(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


def told() -> Report:
    """The full sample, whose first gap was late by 1.2 ms of poll and a little more."""
    report = sample.full()
    host = {"poll": 1_200_000, "(launching)": 6_000, "(no call)": 4_000, "read": 1_000}
    late = msgspec.structs.replace(
        report.gaps[0], cause="host_late", end_ns=report.gaps[0].start_ns + 1_211_000, host_ns=host
    )
    rows = [
        HostLateRow(gpu=0, doing="os_call", call="poll", ns=1_500_000, gaps=3, share=0.75),
        HostLateRow(gpu=0, doing="no_call", call=None, ns=400_000, gaps=2, share=0.2),
        HostLateRow(gpu=0, doing="launching", call=None, ns=100_000, gaps=3, share=0.05),
    ]
    return msgspec.structs.replace(report, gaps=[late, *report.gaps[1:]], host_late=rows)


def test_the_page_names_the_calls() -> None:
    page = [" ".join(line.split()) for line in to_terminal(told()).splitlines()]
    at = page.index("launching thread µs of host_late gaps what it is")
    assert page[at + 1] == "poll 1,500.0 75.0 % 3"
    assert page[at + 2].startswith("no call 400.0 20.0 % 2 none recorded")
    assert page[at + 3].startswith("launching 100.0 5.0 % 3 from the beginning")
    assert "the host: poll 1.20 ms, (launching) 6.00 µs, (no call) 4.00 µs" in page


@pytest.mark.parametrize("fmt", ["table", "md", "html"])
def test_pages_without_recorded_calls_do_not_speak_of_them(fmt: str) -> None:
    assert "launching thread" in to_file(told(), fmt)
    assert "launching thread" not in to_file(sample.full(), fmt)
    assert "the host: " not in to_file(sample.full(), fmt)


def test_tables_for_programs_have_both(tmp_path: Path) -> None:
    lines = to_file(told(), "tsv").split("\n")
    at = lines.index("# host_late")
    assert lines[at + 1 : at + 3] == [
        "gpu\tdoing\tcall\tns\tgaps\tshare",
        "0\tos_call\tpoll\t1500000\t3\t0.75",
    ]
    held = told().frame("gaps")["host_ns"].to_list()
    assert json.loads(held[0])["poll"] == 1_200_000
    assert held[1:] == [None] * (len(held) - 1)
    path = tmp_path / "run.json"
    path.write_text(to_file(told(), "json"), encoding="utf-8")
    assert load_report(path) == told()
