from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from nsysroof.analysis import Options
from nsysroof.results import Report
from tests.cli.conftest import Library, Outcome
from tests.report import sample
from tests.report.render import to_file

Command = Callable[..., Outcome]
FIXTURE = Path(__file__).parents[2] / "fixtures/qwen3-30b-a3b-gh200.sqlite"
# The contract, typed by hand.
KEYS = {"format", "wall_ns", "delta", "roles", "idle_by_cause"}
CAUSES = {
    "in_graph", "between_graphs", "host_late", "sync", "dependency", "profiler",
    "outside_steps", "unknown",
}  # fmt: skip


def saved(path: Path, report: Report) -> Path:
    path.write_text(to_file(report, "json"), encoding="utf-8")
    return path


def slower(report: Report, by_ns: int) -> Report:
    assert report.budget is not None
    budget = msgspec.structs.replace(
        report.budget, wall_ns=report.budget.wall_ns + by_ns, idle_ns=report.budget.idle_ns + by_ns
    )
    return msgspec.structs.replace(report, budget=budget)


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    whole = sample.full()
    return saved(tmp_path / "a.json", whole), saved(tmp_path / "b.json", slower(whole, 250))


def test_json_has_the_keys_of_the_contract(command: Command, two: tuple[Path, Path]) -> None:
    result = command("diff", *two, "-f", "json")
    assert (result.code, result.err) == (0, "")
    found = json.loads(result.out)
    assert found.keys() >= KEYS
    assert found["format"] == "nsysroof-diff"
    assert found["wall_ns"] == {"a": 6_100_000, "b": 6_100_250, "delta": 250}
    assert found["delta"] == {"work_ns": 0, "overlap_ns": 0, "idle_ns": 250}
    assert found["idle_by_cause"].keys() == CAUSES
    assert all(change.keys() == {"a", "b", "delta"} for change in found["idle_by_cause"].values())
    assert (found["a"], found["b"]) == ("a.json", "b.json")


@pytest.mark.parametrize("fmt", ["table", "tsv", "csv", "json", "md", "html"])
def test_no_folder_is_named(command: Command, two: tuple[Path, Path], fmt: str) -> None:
    result = command("diff", *two, "-f", fmt)
    assert "a.json" in result.out
    assert two[0].parent.name not in result.out


def test_a_trace_and_a_saved_report_of_it_differ_in_nothing(
    command: Command, tmp_path: Path
) -> None:
    theory = ("--model", "qwen3-30b-a3b", "--batch", "1", "--context", "4096")
    path = tmp_path / "run.json"
    assert command("analyze", FIXTURE, *theory, "-o", path).code == 0
    for pair in ((FIXTURE, path), (path, FIXTURE)):
        found = json.loads(command("diff", *pair, *theory, "-f", "json").out)
        assert found["wall_ns"]["delta"] == 0
        assert {row["status"] for row in found["roles"]} == {"same"}
        roles = {row["role"] for row in found["roles"]}
        assert {"attn.core", "moe.down", "lm_head"} <= roles
        assert found["differences"] == []
    assert "Nothing differs." in command("diff", path, path, "-f", "table").out


def test_noise_is_in_the_output(command: Command, two: tuple[Path, Path]) -> None:
    exact = command("diff", *two, "-f", "table").out
    assert "noise: exact" in exact
    rough = command("diff", *two, "--noise-us", "1.5", "-f", "table").out
    assert "changes of up to 1,500 ns count as the same" in " ".join(rough.split())
    found = json.loads(command("diff", *two, "--noise-us", "1.5", "-f", "json").out)
    assert found["noise_ns"] == 1500


def test_options_reach_the_analysis_of_traces_only(
    library: Library, command: Command, two: tuple[Path, Path], tmp_path: Path
) -> None:
    result = command("diff", two[0], tmp_path / "run.sqlite", "--batch", "2", "--device", "1")
    assert result.code == 0
    assert library.options == [Options(batch=2, devices=(1,))]
    for options in (("--batch", "2"), ("--model", "qwen3-8b"), ("--window", "1-2")):
        result = command("diff", *two, *options)
        assert result.code == 2
        assert "[options-without-trace]" in result.err


def test_strict_looks_at_both(command: Command, tmp_path: Path) -> None:
    broken = sample.full()
    clean = msgspec.structs.replace(broken, capture=sample.capture(findings=[]))
    a, b = saved(tmp_path / "a.json", clean), saved(tmp_path / "b.json", broken)
    assert command("diff", a, a, "--strict").code == 0
    result = command("diff", a, b, "--strict")
    assert result.code == 4
    assert result.out
    assert "[strict]" in result.err


def test_an_input_is_never_overwritten(command: Command, two: tuple[Path, Path]) -> None:
    for path in two:
        before = path.read_bytes()
        result = command("diff", *two, "-o", path, "--force")
        assert result.code == 2
        assert "[output-is-input]" in result.err
        assert path.read_bytes() == before


def test_reports_with_nothing_in_common_are_inconclusive(command: Command, tmp_path: Path) -> None:
    empty = saved(tmp_path / "a.json", sample.empty())
    result = command("diff", empty, empty)
    assert result.code == 4
    assert result.out == ""
    assert "[nothing-to-compare]" in result.err


@pytest.mark.parametrize("name", ["none.json", "none.sqlite"])
def test_a_missing_file_is_a_mistake(
    command: Command, two: tuple[Path, Path], tmp_path: Path, name: str
) -> None:
    result = command("diff", two[0], tmp_path / name)
    assert (result.code, result.out) == (2, "")
