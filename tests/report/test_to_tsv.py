from __future__ import annotations

import csv
from io import StringIO

import pytest

from nsysroof.report.views import Card, GapsView, InfoView, KernelsView, Listing
from tests.report import sample
from tests.report.render import to_file, to_terminal


def tables(text: str) -> dict[str, list[list[str]]]:
    """Split TSV into its named tables, splitting lines as the strictest reader would."""
    found: dict[str, list[list[str]]] = {}
    rows: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("# "):
            rows = found.setdefault(line.removeprefix("# "), [])
        elif line:
            rows.append(line.split("\t"))
    return found


def test_sections_come_in_the_order_a_reader_asks() -> None:
    assert list(tables(to_file(sample.full(), "tsv"))) == [
        "capture", "devices", "processes", "findings", "coverage", "steps", "phases", "budget",
        "budget_by_kernel",
        "step_budgets",
        "step_bounds", "operators", "timeline", "largest_gaps", "host_late", "unexplained",
        "impossible",
        "links", "metrics", "kernels", "host", "assumptions", "peaks",
    ]  # fmt: skip


def test_ranks_and_their_collectives_are_tables_where_there_are_several() -> None:
    found = tables(to_file(sample.ranks(), "tsv"))
    assert list(found)[-6:-3] == ["ranks", "collectives", "kernels"]
    slow = dict(zip(found["ranks"][0], found["ranks"][2], strict=True))
    assert (slow["pids"], slow["behind_ns"], slow["slowest"]) == ("[4712]", "8400000", "true")
    assert dict(zip(*found["collectives"][:2], strict=True))["skew_ns"] == "262500"


@pytest.mark.parametrize("fmt", ["tsv", "csv"])
def test_every_row_has_the_cells_of_its_header_whatever_a_name_holds(fmt: str) -> None:
    for report in (sample.full(), sample.empty(), sample.worst(), sample.ranks(), sample.run()):
        lines = to_file(report, fmt).split("\n")
        assert lines.pop() == ""
        width = 0
        for previous, line in zip(["", *lines], lines, strict=False):
            if line.startswith("# ") or not line:
                continue
            cells = line.split("\t") if fmt == "tsv" else next(csv.reader([line]))
            width = len(cells) if previous.startswith("# ") else width
            assert len(cells) == width, line


def test_names_are_full_and_numbers_raw() -> None:
    text = to_file(sample.full(), "tsv")
    kernels = tables(text)["kernels"]
    assert kernels[0][:4] == ["name", "class", "grid", "block"]
    assert kernels[1] == [
        sample.FLASH, "attention_decode", "[1,8,64]", "[128,1,1]", "1216", "49856000", "41000",
        "40100", "44000", "attn.core", "2.0467",
    ]  # fmt: skip
    assert kernels[2][-2:] == ["", ""]  # no role, no ratio: empty, not 0
    assert sample.FLASH in dict(zip(*tables(text)["operators"][:3:2], strict=True))["kernels"]
    assert ["wall_ns", "6100000"] in tables(text)["budget"]


def test_nested_objects_have_dotted_columns() -> None:
    found = tables(to_file(sample.full(), "tsv"))
    header, row = found["operators"][:2]
    assert dict(zip(header, row, strict=True))["bytes.weight"] == "50331648"
    timeline = dict(zip(*found["timeline"], strict=True))
    assert timeline["idle_by_cause.between_graphs"] == "10000000"
    assert timeline["kernel_window.idle_ns"] == "19500000"
    assert ["wall_ns.p50", "6100000"] in found["steps"]


def test_a_name_can_be_read_back() -> None:
    rows = to_file(KernelsView.of(sample.worst()), "tsv").splitlines()[1:]
    names = [row.split("\t")[0] for row in rows]
    assert len(names) == len(sample.WORST_NAMES)
    back = [name.encode("latin-1", "backslashreplace").decode("unicode_escape") for name in names]
    assert tuple(back) == sample.WORST_NAMES
    assert all(name.isprintable() for name in names)


@pytest.mark.parametrize(
    ("view", "header"),
    [
        (
            GapsView.of(sample.full()),
            "gpu\tstart_ns\tend_ns\tcause\tbefore\tafter\tposition\thost_ns",
        ),
        (
            KernelsView.of(sample.full()),
            "name\tclass\tgrid\tblock\tinstances\ttotal_ns\tp50_ns\tmin_ns\tmax_ns\trole\tratio",
        ),
        (Listing(title="gpus", columns=("name", "sm"), rows=[{"name": "h", "sm": 1}]), "name\tsm"),
    ],
)
def test_one_table_is_a_header_and_rows_and_nothing_else(
    view: GapsView | KernelsView | Listing, header: str
) -> None:
    lines = to_file(view, "tsv").splitlines()
    assert lines[0] == header
    assert not any(line == "" or line.startswith("#") for line in lines)


def test_all_gaps_are_listed_but_a_report_has_only_the_largest() -> None:
    report = sample.full()
    assert len(to_file(GapsView.of(report), "tsv").splitlines()) == 1 + 12
    largest = tables(to_file(report, "tsv"))["largest_gaps"]
    assert len(largest) == 1 + 10
    assert largest[1][:4] == ["0", "110000", "112100", "between_graphs"]


def test_absent_objects_have_no_rows() -> None:
    found = tables(to_file(sample.empty(), "tsv"))
    assert found["budget"] == [["field", "value"]]
    assert ["time_explained", ""] in found["coverage"]


def test_a_terminal_gets_the_same_bytes() -> None:
    assert to_terminal(sample.worst(), "tsv") == to_file(sample.worst(), "tsv")


def test_csv_quotes_what_tsv_need_not() -> None:
    rows = list(csv.reader(StringIO(to_file(KernelsView.of(sample.full()), "csv"))))
    assert rows[1][:3] == [sample.FLASH, "attention_decode", "[1,8,64]"]


def test_info_and_cards_and_estimates_have_sections() -> None:
    assert list(tables(to_file(InfoView.of(sample.full()), "tsv"))) == [
        "capture", "devices", "processes", "findings", "steps", "phases",
    ]  # fmt: skip
    card = Card(title="h100", fields={"sm": 132, "peaks": [{"key": "bw", "value": 3.35e12}]})
    assert tables(to_file(card, "tsv")) == {
        "h100": [["field", "value"], ["sm", "132"]],
        "peaks": [["key", "value"], ["bw", "3350000000000.0"]],
    }
    estimate = tables(to_file(sample.estimate(), "tsv"))
    assert ["serial_ns", "5000000.0"] in estimate["step"]
    assert [row[0] for row in estimate["operators"]] == ["role", "attn.qkv_proj", "attn.core"]
    assert estimate["notes"] == [["note"], ["lm_head keeps bf16"]]
