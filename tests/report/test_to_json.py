from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysroof.report.views import Card, GapsView, InfoView, KernelsView, Listing, StepsView
from nsysroof.results import Finding, ImpossibleRow, Report
from tests.report import sample
from tests.report.render import to_file

# The contract, typed by hand: fields may be added, none may be renamed or dropped.
REPORT_KEYS = {
    "format", "format_version", "tool_version", "capture", "assumptions", "coverage", "timeline",
    "phases", "steps", "budget", "operators", "kernels", "unexplained", "impossible", "links",
    "host",
}  # fmt: skip
CAPTURE_KEYS = {
    "nsys_version", "schema_version", "graph_mode", "trace_kind", "kernels", "kernels_used",
    "set_aside", "set_aside_reasons", "launches", "graph_launches", "graph_kernels", "processes",
    "devices", "findings",
}  # fmt: skip
ROW_KEYS = {
    "timeline": {
        "gpu", "window_ns", "sum_ns", "busy_ns", "overlap_ns", "idle_ns", "kernel_busy_ns",
        "copy_only_ns", "idle_by_cause",
    },
    "phases": {"phase", "count", "total_ns"},
    "operators": {
        "role", "kind", "instances_per_step", "reads_per_step", "kernels", "measured_ns",
        "main_ns", "p10_ns", "p90_ns", "advance_ns", "bound_ns", "min_bound_ns", "reachable_ns",
        "floor_ns", "limiter", "ratio", "reachable_ratio", "excess_ns_per_step", "flop", "bytes",
        "dtype", "evidence", "confidence", "notes",
    },
    "kernels": {
        "name", "class", "grid", "block", "instances", "total_ns", "p50_ns", "min_ns", "max_ns",
        "role", "ratio",
    },
    "unexplained": {"name", "class", "grid", "instances", "total_ns", "share", "hint"},
    "impossible": {"role", "ratio", "hard", "likely_cause", "evidence"},
    "links": {"kind", "bytes", "busy_ns", "bytes_per_s", "peak_bytes_per_s", "ratio"},
}  # fmt: skip
OBJECT_KEYS = {
    "coverage": {"time_explained", "count_explained"},
    "steps": {"count", "source", "phase", "wall_ns"},
    "budget": {
        "wall_ns", "bound_ns", "over_bound_ns", "fixed_ns", "unexplained_ns", "copy_ns",
        "idle_ns", "overlap_ns",
    },
    "host": {"launch_calls", "launch_ns", "sync_ns"},
}  # fmt: skip
BYTE_KEYS = ["weight", "scale", "act_read", "act_write", "kv_read", "kv_write", "state", "link"]
CAUSE_KEYS = {
    "in_graph", "between_graphs", "host_late", "sync", "dependency", "profiler",
    "outside_steps", "unknown",
}  # fmt: skip


def parsed(view: Any) -> Any:
    """Parse strictly: NaN and Infinity are no JSON."""

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(to_file(view, "json"), parse_constant=refuse)


def test_report_has_every_key_of_the_contract() -> None:
    document = parsed(sample.full())
    assert document.keys() >= REPORT_KEYS
    assert document["format"] == "nsysroof-report"
    assert document["format_version"] == "1.0"
    assert document["capture"].keys() >= CAPTURE_KEYS
    for key, names in ROW_KEYS.items():
        assert document[key][0].keys() >= names, key
    for key, names in OBJECT_KEYS.items():
        assert document[key].keys() >= names, key
    assert list(document["operators"][0]["bytes"]) == BYTE_KEYS
    assert document["timeline"][0]["idle_by_cause"].keys() == CAUSE_KEYS
    assert document["steps"]["wall_ns"].keys() == {"p10", "p50", "p90", "min", "max"}
    assert document["capture"]["findings"][0].keys() == {"slug", "severity", "text", "hint"}
    assert document["capture"]["devices"][0].keys() == {"gpu", "name", "kernels"}
    assert document["assumptions"]["peaks"][0].keys() == {"key", "value", "source"}


def test_parts_of_a_report_have_exactly_the_keys_of_the_contract() -> None:
    report = sample.full()
    assert parsed(InfoView.of(report)).keys() == {"capture", "steps", "phases"}
    assert parsed(GapsView.of(report)).keys() == {"timeline", "gaps", "host_late"}
    assert parsed(StepsView.of(report)).keys() == {"steps", "phases", "step_budgets"}
    assert parsed(KernelsView.of(report)).keys() == {"kernels"}
    gap = parsed(GapsView.of(report))["gaps"][0]
    assert list(gap) == [
        "gpu",
        "start_ns",
        "end_ns",
        "cause",
        "before",
        "after",
        "position",
        "host_ns",
    ]


def test_estimate_has_every_key_of_the_contract() -> None:
    document = parsed(sample.estimate())
    assert document["format"] == "nsysroof-estimate"
    assert document["operators"][0].keys() >= {
        "role", "kind", "count", "flop", "bytes", "bound_ns", "limiter", "intensity",
    }  # fmt: skip
    assert document["layer"].keys() >= {"bytes", "bound_ns"}
    assert document["step"].keys() >= {
        "serial_ns", "hard_ns", "weights_once_ns", "small_kernels_ns", "tokens_per_s", "bytes",
        "flop",
    }  # fmt: skip
    assert document["memory"].keys() >= {"weight_bytes", "kv_bytes", "gpus_needed"}
    assert document["ridge"] == {"bf16": 295.3}


def test_info_shows_the_findings_of_the_analysis_too() -> None:
    slugs = [row["slug"] for row in parsed(InfoView.of(sample.full()))["capture"]["findings"]]
    assert slugs == ["low-coverage", "software-node-trace", "warm-up-in-window"]


def test_absent_knowledge_is_null() -> None:
    document = parsed(sample.empty())
    assert document["budget"] is None
    assert document["coverage"]["time_explained"] is None
    assert document["steps"]["source"] is None


@pytest.mark.parametrize("report", [sample.full(), sample.empty(), sample.worst()])
def test_nothing_is_lost_and_the_same_report_gives_the_same_bytes(report: Report) -> None:
    text = to_file(report, "json")
    again = msgspec.json.decode(text, type=Report)
    assert again == report
    assert to_file(again, "json") == text
    assert text.endswith("}\n")


FINITE = st.floats(allow_nan=False, allow_infinity=False)
MAYBE = st.none() | FINITE
COUNT = st.integers(min_value=0, max_value=2**63 - 1)
INPUTS = st.dictionaries(st.text(), st.integers(-(2**63), 2**64 - 1) | FINITE | st.text())


@given(
    text=st.text(), ratio=MAYBE, excess=MAYBE, flop=COUNT, inputs=INPUTS, notes=st.lists(st.text())
)
def test_any_row_survives_a_round_trip(
    text: str,
    ratio: float | None,
    excess: float | None,
    flop: int,
    inputs: dict[str, int | float | str],
    notes: list[str],
) -> None:
    row = sample.operator(
        text,
        kernels=[text],
        ratio=ratio,
        excess_ns_per_step=excess,
        flop=flop,
        inputs=inputs,
        notes=notes,
    )
    found = Finding(slug="x", severity="note", text=text, hint=text)
    impossible = ImpossibleRow(
        role=text, ratio=ratio or 0.5, hard=True, likely_cause="tp", evidence=text
    )
    report = msgspec.structs.replace(
        sample.full(),
        operators=[row],
        capture=sample.capture(findings=[found]),
        impossible=[impossible],
    )
    assert msgspec.json.decode(to_file(report, "json"), type=Report) == report


def test_catalogues_are_lists_and_objects() -> None:
    listing = Listing(title="gpus", columns=("name",), rows=[{"name": "h100"}, {"name": "b200"}])
    assert parsed(listing) == [{"name": "h100"}, {"name": "b200"}]
    assert parsed(Card(title="h100", fields={"sm": 132, "peaks": []})) == {"sm": 132, "peaks": []}
