"""Comparisons and gates on the page and as tables."""

from __future__ import annotations

import csv
from io import StringIO

import msgspec
import pytest
from rich.cells import cell_len

from nsysroof import gate
from nsysroof.compare import compare
from nsysroof.outcomes import VERDICTS, Check, Diff
from nsysroof.results import Budget, Report, StepKernel
from tests.report import sample
from tests.report.render import to_file, to_terminal


@pytest.fixture(autouse=True)
def _monochrome(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


def report(flash_ns: int, idle_ns: int, *, foreign: str = sample.FOREIGN) -> Report:
    budget = Budget(
        gpu=0,
        step=3,
        wall_ns=flash_ns + 4_000 + idle_ns,
        bound_ns=flash_ns,
        over_bound_ns=0,
        fixed_ns=0,
        unexplained_ns=4_000,
        copy_ns=0,
        idle_ns=idle_ns,
        overlap_ns=0,
        by_role={"attn.core": flash_ns},
        by_kernel=[
            StepKernel(name=sample.FLASH, role="attn.core", instances=32, ns=flash_ns),
            StepKernel(name=foreign, role=None, instances=2, ns=4_000),
        ],
        idle_by_cause={"sync": idle_ns},
    )
    return msgspec.structs.replace(sample.full(), budget=budget)


def diff() -> Diff:
    slower = report(1_312_345, 90_000, foreign=sample.NORM)
    assumed = msgspec.structs.replace(slower.assumptions, batch=16)
    slower = msgspec.structs.replace(slower, assumptions=assumed)
    return compare(report(1_300_000, 80_500), slower, names=("before.json", "after.json"))


def check() -> Check:
    limits = gate.Limits(max_ratio={"*": 1.5, "lm_head": 2.0}, min_coverage=0.9, max_idle=1.0)
    return gate.check(sample.full(), limits, name="run.json", baselines=[sample.full()])


@pytest.mark.parametrize("view", [diff(), check()])
def test_every_line_fits_a_terminal(view: Diff | Check) -> None:
    for line in to_terminal(view).splitlines():
        assert cell_len(line) <= 100, line
        assert line == line.rstrip()


def lines(text: str, title: str) -> list[str]:
    rows = text.splitlines()
    start = rows.index(title) + 1
    return [" ".join(row.split()) for row in rows[start : rows.index("", start)]]


def test_a_comparison_begins_with_the_account_and_names_what_changed() -> None:
    text = to_terminal(diff()) + "\n"
    head = lines(text, "What changed from a to b")
    assert head[:2] == ["a: before.json", "b: after.json"]
    assert "= wall 1,384.500 1,406.345 +21.845 first kernel to the next step's first kernel" in head
    assert "+ idle 80.500 90.000 +9.500 nothing runs on the GPU" in head
    assert lines(text, "Roles that changed")[1] == (
        "attn.core slower 1,300.000 1,312.345 +12.345 1.01"
    )
    assert lines(text, "Idle time by cause")[1] == "sync 80.500 90.000 +9.500"
    kernels = lines(text, "Kernels that changed")
    assert [row.split()[0] for row in kernels[1:]] == ["slower", "disappeared", "appeared"]
    assert lines(text, "Conditions that differ")[1] == "batch 8 → 16"


def test_a_comparison_of_windows_says_so() -> None:
    a = msgspec.structs.replace(report(1_000, 10), budget=None)
    text = to_terminal(compare(a, a, names=("a", "b")))
    assert "the whole window of each, summed over its GPUs" in " ".join(text.split())
    assert "first to last activity" in text
    assert "Nothing differs." in text


def test_a_check_lists_what_failed_first() -> None:
    rows = lines(to_terminal(check()) + "\n", "Check")
    verdicts = [row.split()[0] for row in rows if row.split()[0] in VERDICTS]
    assert verdicts == sorted(verdicts, key=["fail", "inconclusive", "pass"].index)
    assert "max-ratio attn.core 2.05 1.50 –" in " | ".join(rows)


def test_tables_have_full_names_and_raw_numbers() -> None:
    tables = {
        block.splitlines()[0]: list(csv.reader(StringIO("\n".join(block.splitlines()[1:]))))
        for block in to_file(diff(), "csv").removeprefix("# ").split("\n# ")
    }
    assert ["attn.core", "1300000", "1312345", "12345", "slower"] in tables["roles"]
    assert ["sync", "80500", "90000", "9500"] in tables["idle_by_cause"]
    assert [row[0] for row in tables["kernels"][1:]] == [
        sample.FLASH,
        sample.FOREIGN,  # of equal changes, by name
        sample.NORM,
    ]
    assert ["batch", "8", "16"] in tables["differences"]
    assert {"window", "window_roles", "window_kernels", "window_idle_by_cause"} <= tables.keys()
    rules = to_file(check(), "tsv").partition("# rules\n")[2].splitlines()
    assert rules[0].split("\t")[:5] == ["rule", "limit", "value", "verdict", "unit"]


def test_markdown_has_the_same_sections() -> None:
    titles = [line for line in to_file(diff(), "md").splitlines() if line.startswith("## ")]
    assert titles == [
        "## What changed from a to b",
        "## Roles that changed",
        "## Idle time by cause",
        "## Kernels that changed",
        "## The whole window",
        "## Conditions that differ",
    ]
