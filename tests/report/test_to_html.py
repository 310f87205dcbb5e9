from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from typing import Any

import pytest
from msgspec.structs import replace

from nsysroof.report.views import GapsView, InfoView, KernelsView, Listing, View
from nsysroof.results import Assumptions, Budget, Report, StepIdle, StepSlice, StepTimeline
from tests.report import sample
from tests.report.page_of_html import Element, read_page
from tests.report.render import to_file

STEP = StepTimeline(
    gpu=0,
    step=19,
    start_ns=1_000,
    end_ns=101_000,
    slices=[
        StepSlice(stream=7, start_ns=1_000, end_ns=31_000, activity="operator", what="attn.core"),
        StepSlice(stream=7, start_ns=41_000, end_ns=81_000, activity="operator", what="mlp.act"),
        StepSlice(stream=9, start_ns=50_000, end_ns=60_000, activity="copy", what="copy h2d"),
        StepSlice(
            stream=7,
            start_ns=81_000,
            end_ns=101_000,
            activity="unexplained",
            what=sample.FOREIGN,
        ),
    ],
    idle=[StepIdle(start_ns=31_000, end_ns=41_000, cause="host_late")],
)


def drawn(**changed: Any) -> Report:
    """Return the full sample with a step to draw."""
    return replace(sample.full(), **{"step_timeline": STEP, **changed})


def page(view: View) -> Element:
    return read_page(to_file(view, "html"))


def section(view: View, anchor: str) -> Element:
    return page(view).one("section", id=anchor)


def test_sections_come_in_the_order_a_reader_asks() -> None:
    headings = [part.one("h2").text for part in page(drawn()).all("section")]
    assert headings == [
        "What this capture can answer",
        "Coverage",
        "Where one step goes",
        "What a step could take",
        "Roofline",
        "Operators by time to win back",
        "One step in time",
        "Idle time by cause",
        "Largest gaps",
        "Unexplained kernels",
        "Impossible: faster than the bound",
        "Copies and links",
        "Assumptions",
        "How each bound was worked out",
        "The command that made it",
    ]


def test_ranks_stand_before_the_idle_time() -> None:
    shown = [part.one("h2").text for part in page(sample.ranks()).all("section")]
    at = shown.index("Ranks")
    assert shown[at : at + 4] == [
        "Ranks",
        "Collectives",
        "One step in time",
        "Idle time by cause",
    ]
    assert "8,400.0" in section(sample.ranks(), "ranks").text
    assert "attn.all_reduce" in section(sample.ranks(), "collectives").text


def test_the_worst_file_names_of_a_run_stay_text() -> None:
    shown = page(sample.run())
    assert [part.one("h2").text for part in shown.all("section")] == [
        "Files of the run", "Ranks", "Collectives",
    ]  # fmt: skip
    assert not shown.all("bold")


def test_the_first_screen_names_the_three_largest_wins() -> None:
    wins = page(drawn()).one("header").all("ol")[0]
    assert [line.text for line in wins.all("li")] == [
        "671.0attn.core2.05 × its bound",
        "96.2attn.qkv_proj1.20 × its bound",
        "12.8attn.qk_norm+attn.rope+attn.kv_writeat the latency floor",
    ]


def test_the_longest_waits_of_the_step_stand_beside_them() -> None:
    budget = sample.full().budget
    assert budget is not None
    caused = replace(budget, idle_by_cause={"sync": 40_945, "in_graph": 500_000, "profiler": 0})
    head = page(drawn(budget=caused)).one("header")
    assert [line.text for line in head.all("ol")[1].all("li")] == [
        "500.0in_graphinside one graph replay",
        "40.9syncthe host waited in a synchronising call",
    ]
    assert "inflated by tracing" in head.text  # the sample was traced in software


def test_the_verdict_leads_to_the_findings() -> None:
    tile = page(drawn()).one("header").all("dd")[0]
    assert tile.text == "read first 1 error, 1 warning, 1 note"
    assert tile.one("a").attributes == {"href": "#capture", "class": "error"}
    assert page(sample.empty()).one("header").all("dd")[0].text == "no kernels 1 error"


def test_the_waterfall_adds_up() -> None:
    budget = Budget(
        gpu=0,
        step=3,
        wall_ns=1_000,
        bound_ns=400,
        over_bound_ns=300,
        fixed_ns=100,
        unexplained_ns=50,
        copy_ns=10,
        idle_ns=160,
        overlap_ns=20,
        idle_by_cause={"sync": 60, "in_graph": 100},
    )
    rows = section(drawn(budget=budget), "step").one("table").one("tbody").all("tr")
    shown = [(row.one("th").text, row.all("td")[1].text) for row in rows]
    assert shown == [
        ("bound", "0.400"),
        ("+ over bound", "0.300"),
        ("+ fixed", "0.100"),
        ("+ unexplained", "0.050"),
        ("+ copies", "0.010"),
        ("+ idle in_graph", "0.100"),
        ("+ idle sync", "0.060"),
        ("− overlap", "0.020"),
        ("= wall", "1.000"),
    ]
    bars = [row.one("rect").attributes for row in rows]
    highest = 1_020  # all parts before the overlap is taken off
    starts = [0, 400, 700, 800, 850, 860, 960, 1_000, 0]
    lengths = [400, 300, 100, 50, 10, 100, 60, 20, 1_000]
    for bar, start, length in zip(bars, starts, lengths, strict=True):
        assert float(bar["x"] or "") == pytest.approx(start / highest * 1_000, abs=0.01)
        assert float(bar["width"] or "") == pytest.approx(length / highest * 1_000, abs=0.01)


def test_a_dot_for_each_operator_lies_under_the_roof_by_its_ratio() -> None:
    dots = section(drawn(), "roofline").all("circle")
    told = [dot.one("title").text.partition(":")[0] for dot in dots]
    assert sorted(told) == sorted(row.role for row in sample.full().operators)
    # Area is time per step: attn.core takes 41.00 µs where attn.qkv_proj takes 18.03.
    radius = {name: float(dot.attributes["r"] or "") for name, dot in zip(told, dots, strict=True)}
    ratio = (radius["attn.core"] / radius["attn.qkv_proj"]) ** 2
    assert ratio == pytest.approx(41_000 / 18_030, rel=0.01)


def test_vertical_distance_to_the_roof_is_the_ratio() -> None:
    slow = sample.operator("slow", intensity=8.0, flop=8_000_000, measured_ns=29_850)
    # 3.35 TB/s x 8 FLOP/B = 26.8 TFLOP/s at the roof; 8e6 FLOP in 29.85 µs are 0.268: a hundredth.
    drawing = section(drawn(operators=[slow]), "roofline")
    stem = drawing.one("line", class_="stem").attributes
    grid = [
        float(text.attributes["y"] or "") for text in drawing.all("text", class_="end")
    ]  # labels of the decades
    decade = grid[0] - grid[1]
    height = float(stem["y2"] or "") - float(stem["y1"] or "")
    assert height == pytest.approx(2 * decade, abs=0.05)


def test_operators_without_arithmetic_are_named_not_drawn() -> None:
    copy = sample.operator("moe.align", flop=0, intensity=0.0)
    found = section(drawn(operators=[sample.operator("attn.core"), copy]), "roofline")
    assert len(found.all("circle")) == 1
    assert "not drawn: moe.align." in found.text


def test_bound_reachable_and_measured_stand_side_by_side() -> None:
    row = sample.operator("attn.core", reachable_ns=16_000.0, reachable_ratio=1.127)
    table = section(drawn(operators=[row]), "operators").one("table")
    heads = [cell.text for cell in table.one("thead").all("th")]
    at = heads.index("measured µs")
    assert heads[at : at + 3] == ["measured µs", "bound µs", "reachable µs"]
    cells = table.one("tbody").all("td")  # the role is a heading
    assert [cell.text for cell in cells[at - 1 : at + 2]] == ["18.0", "15.0", "16.0"]


def test_every_role_leads_to_how_its_bound_was_worked_out() -> None:
    whole = page(drawn())
    links = whole.one("section", id="operators").one("tbody").all("a")
    for link in links:
        target = (link.attributes["href"] or "").removeprefix("#")
        article = whole.one("article", id=target)
        assert article.one("h3").text.startswith(link.text)
        assert "2*m*n*k" in article.text


def test_a_step_is_drawn_with_its_gaps() -> None:
    drawing = section(drawn(), "timeline").all("svg", role="img")[0]
    told = [rect.one("title").text for rect in drawing.all("rect")]
    assert set(told) == {
        "attn.core: 30.0 µs",
        "mlp.act: 40.0 µs",
        "copy h2d: 10.0 µs",
        f"{sample.FOREIGN}: 20.0 µs",
        "idle 10.0 µs: host_late",
    }
    # 100 µs in lines of 10: attn.core fills the first three, and the gap the fourth.
    widths = [
        float(rect.attributes["width"] or "")
        for rect in drawing.all("rect")
        if rect.one("title").text.startswith(("attn.core", "idle"))
    ]
    assert widths == [1_200.0] * 4


def test_without_a_step_there_is_a_reason() -> None:
    assert "no step was found" in section(sample.empty(), "timeline").text
    bare = drawn(step_timeline=None)
    assert "does not hold what ran in the step" in section(bare, "timeline").text


def test_the_command_that_made_it_and_every_peak_are_told() -> None:
    report = drawn(command="nsysroof analyze run.sqlite --model llama-3.1-8b --batch 8")
    assert "nsysroof analyze run.sqlite --model" in section(report, "command").text
    peaks = section(report, "assumptions").text
    assert "bw 3.35 TB/s, from H100 datasheet" in peaks
    assert "bf16 989 TFLOP/s, from H100 datasheet, dense" in peaks


def policy(text: str) -> str:
    metas = read_page(text).all("meta")
    (found,) = [
        meta.attributes["content"]
        for meta in metas
        if meta.attributes.get("http-equiv") == "Content-Security-Policy"
    ]
    return found or ""


def test_the_policy_allows_the_style_and_the_script_of_the_page_and_nothing_else() -> None:
    text = to_file(drawn(), "html")
    hashes = {}
    for tag in ("style", "script"):
        (content,) = re.findall(f"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        hashes[tag] = b64encode(sha256(content.encode()).digest()).decode()
    assert policy(text) == (
        f"default-src 'none'; style-src 'sha256-{hashes['style']}'; "
        f"script-src 'sha256-{hashes['script']}'; base-uri 'none'; form-action 'none'"
    )


@pytest.mark.parametrize("report", [drawn(), sample.empty(), sample.worst()])
def test_nothing_is_loaded_and_nothing_runs_inline(report: Report) -> None:
    text = to_file(report, "html")
    for element in every(read_page(text)):
        for name, value in element.attributes.items():
            assert not name.startswith("on")
            assert name not in {"src", "srcset", "style", "action", "data", "poster"}
            if name == "href":
                assert (value or "").startswith("#")
    assert "url(" not in text
    assert "@import" not in text


def every(element: Element) -> list[Element]:
    return [one for child in element.children for one in (child, *every(child))]


def test_the_worst_names_stay_text() -> None:
    text = to_file(sample.worst(), "html")
    whole = read_page(text)
    assert len(whole.all("script")) == 1
    assert "<script>alert" not in text
    for character in "\u202e\u2066\u2069\u200f\x1b\x85\u2028":
        assert character not in text
    assert "</script><script>alert(1)</script>" in whole.one("section", id="unexplained").text


def test_names_from_right_to_left_are_set_apart() -> None:
    report = drawn(operators=[sample.operator("attn.core", kernels=["\u05d0\u05d1 kernel"])])
    cell = section(report, "operators").one("td", class_="names")
    assert cell.one("bdi").text == "\u05d0\u05d1 kernel"


@pytest.mark.parametrize("report", [drawn(), sample.empty(), sample.worst()])
def test_the_same_report_gives_the_same_bytes(report: Report) -> None:
    assert to_file(report, "html") == to_file(report, "html")


def test_every_other_view_is_a_page_too() -> None:
    full = sample.full()
    views: list[View] = [
        sample.estimate(),
        InfoView.of(full),
        GapsView.of(full),
        KernelsView.of(full),
        Listing(title="gpus", columns=("name",), rows=[{"name": "h100 <sxm>"}]),
    ]
    for view in views:
        assert page(view).all("section")
    assert "h100 <sxm>" in page(views[-1]).one("table").text


def test_a_step_of_many_kernels_stays_below_a_megabyte() -> None:
    slices = [
        StepSlice(
            stream=stream,
            start_ns=10_000 * at,
            end_ns=10_000 * at + 9_000,
            activity="operator",
            what="attn.residual+mlp.norm",
        )
        for at in range(20_000)
        for stream in (7,)
    ]
    idle = [
        StepIdle(start_ns=10_000 * at + 9_000, end_ns=10_000 * at + 10_000, cause="in_graph")
        for at in range(20_000)
    ]
    long = replace(STEP, start_ns=0, end_ns=200_000_000, slices=slices, idle=idle)
    text = to_file(drawn(step_timeline=long), "html")
    assert len(text.encode()) < 1_000_000
    assert "16,000 shorter or further activities not drawn" in text


def test_nothing_known_is_said_so() -> None:
    bare = drawn(assumptions=Assumptions(), operators=[])
    assert page(bare).one("h1").text == "an unknown GPU, no model given"
    assert section(bare, "operators").all("table") == []
