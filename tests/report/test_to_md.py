from __future__ import annotations

import re

import msgspec

from nsysroof.report.views import KernelsView
from tests.report import sample
from tests.report.render import to_file


def test_headings_lists_and_tables() -> None:
    lines = to_file(sample.full(), "md").splitlines()
    assert lines[0] == "## What this capture can answer"
    assert (
        "| = wall | 6,100.000 | 100.0 % | first kernel to the next step's first kernel |" in lines
    )
    error = next(line for line in lines if line.startswith("- **error** "))
    assert error.endswith("<br>hint: what to do about low-coverage")


def test_names_are_full_code_spans() -> None:
    assert f"| `{sample.NVJET}` |" in to_file(sample.full(), "md")
    text = to_file(KernelsView.of(sample.worst()), "md")
    assert "k" * 10_000 in text
    assert "```a \\| pipe ` and `` ticks```" in text
    assert "`[bold]not bold[/bold] [red]not red`" in text


def test_every_row_has_as_many_cells_as_its_header() -> None:
    rows = [row for row in to_file(sample.worst(), "md").splitlines() if row.startswith("|")]
    bars = [len(re.findall(r"(?<!\\)\|", row)) for row in rows]
    for rule in (at for at, row in enumerate(rows) if set(row) <= set("| -:")):
        assert bars[rule - 1] == bars[rule]
        for below in range(rule + 1, len(rows)):
            if below + 1 < len(rows) and set(rows[below + 1]) <= set("| -:"):
                break
            assert bars[below] == bars[rule], rows[below]


def test_text_outside_code_spans_cannot_be_markup() -> None:
    text = to_file(sample.worst(), "md")
    outside = re.sub(r"(`+).+?\1", "", text)
    assert "<script>" not in outside
    assert "&lt;script&gt;" in outside
    assert "\\[bold\\]" in outside
    assert set(re.findall(r"<\w+>", outside)) == {"<br>"}


def test_control_characters_are_gone() -> None:
    renamed = msgspec.structs.replace(sample.full().kernels[0], name="a\u202e\x1b[31m\nb")
    text = to_file(KernelsView(kernels=[renamed]), "md")
    assert "`a[31m b`" in text
    assert all(line.isprintable() for line in text.splitlines())
