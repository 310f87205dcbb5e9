from __future__ import annotations

import fcntl
import os
import re
import struct
import termios
from pathlib import Path

import msgspec
import pytest
from rich.cells import cell_len

from nsysroof.report.base import renderer_named
from nsysroof.report.views import Card, GapsView, InfoView, KernelsView, Listing, StepsView, View
from nsysroof.results import CaptureDevice, Gap, PeakUsed, RankRow, Report
from tests.report import sample
from tests.report.render import to_file, to_terminal

SNAPSHOTS = Path(__file__).parent / "snapshots"


@pytest.fixture(autouse=True)
def _monochrome(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


def views_of(report: Report) -> list[View]:
    views = (InfoView, StepsView, GapsView, KernelsView)
    return [report, *(view.of(report) for view in views)]


def section(text: str, title: str) -> list[str]:
    """Return the lines under a heading, up to the next empty line."""
    lines = text.splitlines()
    start = lines.index(title) + 1
    return lines[start : lines.index("", start) if "" in lines[start:] else None]


@pytest.mark.parametrize(
    "view",
    [
        *views_of(sample.full()),
        *views_of(sample.empty()),
        *views_of(sample.worst()),
        sample.ranks(),
        sample.run(),
        sample.estimate(),
    ],
)
def test_every_line_fits_100_columns_and_holds_no_control_character(view: View) -> None:
    for line in to_terminal(view).splitlines():
        assert cell_len(line) <= 100, line
        assert line.isprintable(), line
        assert line == line.rstrip(), line


def test_sections_come_in_the_order_of_the_first_five_minutes() -> None:
    text = to_terminal(sample.full())
    assert [line for line in text.splitlines() if line and not line.startswith(" ")] == [
        "What this capture can answer",
        "Coverage",
        "Where one step goes",
        "What a step could take",
        "Operators by time to win back",
        "Idle time by cause",
        "Largest gaps",
        "Unexplained kernels",
        "Impossible: faster than the bound",
        "Copies and links",
        "Assumptions",
    ]


def test_several_ranks_stand_side_by_side_before_the_idle_time() -> None:
    text = to_terminal(sample.ranks())
    titles = [line for line in text.splitlines() if line and not line.startswith(" ")]
    at = titles.index("Ranks")
    assert titles[at - 1 : at + 3] == [
        "Operators by time to win back", "Ranks", "Collectives", "Idle time by cause",
    ]  # fmt: skip
    rows = [line.split() for line in section(text, "Ranks") if " 1,038 " in line]
    # GPU, steps, wall, work, collectives, wait, idle, its cause, behind, slowest
    wide = [cell.replace(",", "") for cell in rows[1]]
    assert wide[:7] == ["1", "1038", "153400.0", "128400.0", "20000.0", "0.0", "5000.0"]
    assert wide[-2:] == ["8400.0", "yes"]
    assert (rows[0][-2:], rows[0][5]) == (["0.0", "no"], "8,400.0")
    collectives = [line.split() for line in section(text, "Collectives") if "arrival" in line]
    assert collectives[0][:6] == ["attn.all_reduce", "0", "33,216", "262.5", "625.0", "262.5"]


def test_a_lone_rank_has_collectives_but_no_ranks_to_compare() -> None:
    several = sample.ranks()
    lone = msgspec.structs.replace(several, ranks=several.ranks[:1])
    titles = [line for line in to_terminal(lone).splitlines() if line and not line.startswith(" ")]
    assert "Ranks" not in titles
    assert "Collectives" in titles


def test_the_rate_of_a_collective_is_that_of_the_rank_where_it_took_longest() -> None:
    rows = [
        msgspec.structs.replace(
            row,
            transfer_ns=transfer,
            operation="all_reduce",
            ranks=8,
            bytes=5_114_880,
            algorithm_bytes_per_s=5_114_880 / transfer * 1e9,
            bus_bytes_per_s=1.75 * 5_114_880 / transfer * 1e9,
            peak_bytes_per_s=900e9,
            ratio=ratio,
        )
        for row, transfer, ratio in zip(
            sample.ranks().collectives, (25_000, 50_000), (4.4, 8.8), strict=True
        )
    ]
    text = to_terminal(msgspec.structs.replace(sample.ranks(), collectives=rows))
    [rate] = [line.split() for line in section(text, "Collectives") if "5.11 MB" in line]
    # 5.11 MB in 50 µs are 102 GB/s, and 1.75 times that on the bus of eight ranks.
    assert " ".join(rate) == "attn.all_reduce all_reduce 8 5.11 MB 102 GB/s 179 GB/s 900 GB/s 8.80"


def test_a_run_in_several_files_counts_its_ranks_through_them() -> None:
    text = to_terminal(sample.run())
    titles = [line for line in text.splitlines() if line and not line.startswith(" ")]
    assert titles == ["Files of the run", "Ranks", "Collectives"]
    files = [line.split() for line in section(text, "Files of the run") if " 1,038 " in line]
    assert files[1][-3:] == ["0", "system", "86,400,000,000.001"]
    assert "1,038 steps that all ranks ran at the same time." in text
    rows = [line.split() for line in section(text, "Ranks") if " 1,038 " in line]
    assert [row[:4] for row in rows] == [["0", "0", "0", "1,038"], ["1", "1", "1", "1,038"]]
    collectives = [line.split() for line in section(text, "Collectives") if "arrival" in line]
    assert [row[1:4] for row in collectives] == [["0", "0", "0"], ["1", "1", "1"]]


def test_ranks_without_steps_are_no_table_of_dashes() -> None:
    report = sample.ranks()
    bare = [RankRow(gpu=row.gpu, name=None, pids=[], steps=0) for row in report.ranks]
    lines = section(to_terminal(msgspec.structs.replace(report, ranks=bare)), "Ranks")
    assert lines == [
        "  2 ranks, none with a step that is analysed: there is nothing to compare per step."
    ]


def test_ranks_that_are_not_compared_say_so() -> None:
    report = sample.ranks()
    unknown = [
        msgspec.structs.replace(row, decided_by=None, behind_ns=None, slowest=False)
        for row in report.ranks
    ]
    text = to_terminal(msgspec.structs.replace(report, ranks=unknown))
    assert "Not compared: collectives show on some ranks only" in text


def test_findings_come_first_errors_before_the_rest_and_say_what_to_do() -> None:
    lines = section(to_terminal(sample.full()), "What this capture can answer")
    labels = [line.split()[0] for line in lines if "[" in line]
    assert labels == ["error", "warning", "note"]
    assert "           hint: what to do about low-coverage" in lines


def test_coverage_is_one_line() -> None:
    expected = "  coverage 97.3 % of kernel time, 98.9 % of launches; unexplained 2.7 %"
    assert section(to_terminal(sample.full()), "Coverage")[0] == expected


def test_the_longest_step_is_told_by_what_it_took_more() -> None:
    lines = section(to_terminal(sample.full()), "Where one step goes")
    # 700 µs of idle time more, 100 µs of unexplained kernels; the rest is equal.
    assert " ".join(line.strip() for line in lines[-2:]) == (
        "The longest step, number 7, took 6,900.0 µs: idle +700.0 µs, unexplained +100.0 µs; see "
        "`nsysroof steps TRACE`."
    )


def test_the_budget_adds_up_as_printed() -> None:
    lines = section(to_terminal(sample.full()), "Where one step goes")
    rows = [re.match(r"  ([ +=-]) [a-z ]+? +([\d,]+\.\d{3}) ", line) for line in lines]
    amounts = [(row[1], float(row[2].replace(",", ""))) for row in rows if row]
    assert [sign for sign, _ in amounts] == [" ", "+", "+", "+", "+", "+", "-", "="]
    total = sum(-amount if sign == "-" else amount for sign, amount in amounts[:-1])
    assert total == pytest.approx(amounts[-1][1], abs=1e-6)
    assert amounts[-1] == ("=", 6_100.0)


def test_operators_are_ranked_by_what_can_be_won_and_fixed_cost_does_not_alarm() -> None:
    lines = section(to_terminal(sample.full()), "Operators by time to win back")
    rows = [line.split() for line in lines if " 32 " in line]
    # role, n, µs, bound, ratio, limiter, µs/step: 32 x (41.0 - 20.032) = 671.0 µs to win first
    assert rows[0][:7] == ["attn.core", "32", "41.0", "20.0", "2.05", "memory", "671.0"]
    assert [row[0] for row in rows[1:]] == [
        "attn.qkv_proj", "attn.qk_norm+a…v_write", "mlp.norm", "mlp.act", "lm_head",
    ]  # fmt: skip
    assert rows[3][:7] == ["mlp.norm", "32", "2.1", "2.0", "fixed", "latency", "3.2"]
    assert "35" not in " ".join(rows[3])
    assert rows[4][4:6] == ["0.81", "(!)"]
    assert rows[5][2:5] == ["18.0", "–", "–"]


def test_a_column_for_measured_roofs_appears_when_there_are_any() -> None:
    row = sample.operator("attn.core", reachable_ns=17_000.0, reachable_ratio=1.0606)
    report = msgspec.structs.replace(sample.full(), operators=[row])
    lines = section(to_terminal(report), "Operators by time to win back")
    assert "to reach" in lines[0]
    assert lines[1].split()[:6] == ["attn.core", "32", "18.0", "15.0", "1.20", "1.06"]


def test_idle_time_is_told_per_step_but_not_for_what_lies_outside_steps() -> None:
    lines = section(to_terminal(sample.full()), "Idle time by cause")
    rows = {line.split()[0]: line.split()[1:5] for line in lines if line.startswith("  ")}
    # 10 ms over 2 + 38 steps; 10 of 260 ms
    assert rows["between_graphs"] == ["10,000.0", "250.0", "3.8", "%"]
    assert rows["outside_steps"] == ["1,000.0", "–", "0.4", "%"]
    assert "profiler" not in rows


def test_idle_that_cannot_be_known_is_not_called_zero() -> None:
    unknown = msgspec.structs.replace(sample.full().timeline[0], idle_ns=None, idle_by_cause=None)
    report = msgspec.structs.replace(sample.full(), timeline=[unknown])
    lines = section(to_terminal(report), "Idle time by cause")
    assert "idle not known" in lines[0]
    assert "idle 0" not in " ".join(lines)


def test_largest_gaps_are_ten_and_the_longest_first() -> None:
    lines = section(to_terminal(sample.full()), "Largest gaps")
    assert [line.split()[3] for line in lines[1:4]] == ["2.1", "2.0", "1.9"]
    assert len([line for line in lines if "in step" in line]) == 10
    assert lines[-1] == "  `nsysroof gaps TRACE` lists every gap."


def test_an_empty_capture_says_why_in_words() -> None:
    text = to_terminal(sample.empty())
    assert "coverage not known: the capture has no kernels" in text
    assert "No steps were found" in text
    assert "error  no GPU kernel records; 5 launch calls were traced [no-kernels]" in text
    assert "0.0 %" not in text


def test_without_a_model_the_report_says_how_to_give_one() -> None:
    report = sample.full()
    bare = msgspec.structs.replace(
        report,
        operators=[],
        step_bounds=None,
        assumptions=msgspec.structs.replace(report.assumptions, model=None),
        coverage=msgspec.structs.replace(
            report.coverage, time_explained=None, count_explained=None
        ),
    )
    text = to_terminal(bare)
    assert "coverage not known: no model was given" in text
    assert "--model NAME or config.json" in "".join(section(text, "Operators by time to win back"))


def test_names_keep_the_function_and_lose_the_rest_on_a_terminal_only() -> None:
    terminal, file = to_terminal(sample.full()), to_file(sample.full(), "table")
    assert sample.FLASH not in terminal
    shown = section(terminal, "Operators by time to win back")[1].split("  ")[-1]
    assert shown.endswith("…")
    assert len(shown) > 12
    # Without return type and namespaces: the function and as much of its arguments as fits.
    assert shown[:-1] in sample.FLASH
    assert "flash_fwd_splitkv_kernel".startswith(shown[:12])
    assert sample.FLASH in file
    assert "…" not in file


def test_long_numbers_are_never_cut() -> None:
    hour = Gap(
        gpu=7, start_ns=10**18, end_ns=10**18 + 3_600 * 10**9, cause="outside_steps",
        before=sample.FLASH, after=sample.FLASH, position="between steps",
    )  # fmt: skip
    text = to_terminal(GapsView(timeline=[], gaps=[hour]))
    assert "1,000,000,000,000.000" in text
    assert "3,600,000,000.0" in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_gpus_that_are_alike_are_told_together() -> None:
    devices = [
        CaptureDevice(gpu=gpu, name="NVIDIA B200", kernels=0 if gpu else 768) for gpu in range(4)
    ]
    lines = to_terminal(
        msgspec.structs.replace(sample.full(), capture=sample.capture(devices=devices))
    ).splitlines()
    expected = (
        "  1 process, 4 GPUs: GPU 0 NVIDIA B200: 768 kernels; GPU 1, 2, 3 NVIDIA B200: 0 kernels"
    )
    assert expected in lines


def test_a_single_step_has_a_wall_time_but_no_spread() -> None:
    steps = msgspec.structs.replace(sample.full().steps, count=1)
    report = msgspec.structs.replace(sample.full(), steps=steps)
    first = section(to_terminal(report), "Where one step goes")[0]
    assert first == "  1 decode step, found by graph replays; wall 6,100.0 µs"


def test_peaks_of_one_source_share_a_line() -> None:
    peaks = [
        PeakUsed(key="bw", value=8e12, source="brief"),
        PeakUsed(key="int8", value=150e12, source="brief"),
        PeakUsed(key="h2d", value=121e9, source="--peak"),
    ]
    assumptions = msgspec.structs.replace(sample.full().assumptions, peaks=peaks)
    report = msgspec.structs.replace(sample.full(), assumptions=assumptions)
    lines = section(to_terminal(report), "Assumptions")
    assert "  peaks      bw 8.00 TB/s, int8 150 TOP/s, from brief" in lines
    assert "  peaks      h2d 121 GB/s, from --peak" in lines


def test_markup_in_names_is_text() -> None:
    named = sample.capture(devices=[CaptureDevice(gpu=0, name="[red]GPU[/red] :smile:", kernels=1)])
    report = msgspec.structs.replace(sample.full(), capture=named)
    assert "GPU 0 [red]GPU[/red] :smile:" in to_terminal(report)


def test_colour_only_where_it_is_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    plain = to_terminal(sample.worst())
    monkeypatch.delenv("NO_COLOR")
    coloured = to_terminal(sample.worst())
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    assert "\x1b" not in to_file(sample.worst(), "table")
    monkeypatch.setenv("TERM", "dumb")
    assert to_terminal(sample.worst()) == plain


@pytest.mark.parametrize(("columns", "widest"), [(60, 80), (80, 80), (130, 130), (900, 200)])
def test_the_width_is_that_of_the_terminal_within_reason(columns: int, widest: int) -> None:
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    kernels = KernelsView(
        kernels=[msgspec.structs.replace(sample.full().kernels[0], name="k" * 999)]
    )
    with os.fdopen(slave, "w", encoding="utf-8") as stream, os.fdopen(master, "rb") as reader:
        renderer_named("table").render(kernels, stream)
        stream.flush()
        text = reader.read1().decode()
    assert max(cell_len(line) for line in text.splitlines()) == widest


def test_cards_and_listings() -> None:
    listing = Listing(
        title="GPUs",
        columns=("name", "bw"),
        rows=[{"name": "h100-sxm", "bw": 3.35e12}, {"name": "odd", "bw": None}],
    )
    assert to_terminal(listing).splitlines() == [
        "GPUs",
        "  name            bw",
        "  h100-sxm  3.35e+12",
        "  odd              –",
    ]
    card = Card(title="h100", fields={"sm": 1132, "match": ["a", "b"], "peaks": [{"key": "bw"}]})
    assert to_terminal(card).splitlines() == [
        "h100",
        "  sm     1,132",
        "  match  a, b",
        "",
        "peaks",
        "  key",
        "  bw",
    ]


@pytest.mark.parametrize(
    ("view", "name"),
    [
        (sample.full(), "full.txt"),
        (sample.empty(), "empty.txt"),
        (sample.estimate(), "estimate.txt"),
        (InfoView.of(sample.full()), "info.txt"),
        (StepsView.of(sample.full()), "steps.txt"),
        (GapsView.of(sample.full()), "gaps.txt"),
        (KernelsView.of(sample.full()), "kernels.txt"),
    ],
)
def test_pages_look_as_they_did(view: View, name: str) -> None:
    assert to_terminal(view) == (SNAPSHOTS / name).read_text(encoding="utf-8")
