from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest

from nsysroof.analysis import Options
from nsysroof.results import Report
from tests.cli.conftest import Library, Outcome
from tests.report import sample
from tests.report.render import to_file

Command = Callable[..., Outcome]
FIXTURE = Path(__file__).parents[2] / "fixtures/qwen3-30b-a3b-gh200.sqlite"
THEORY = ("--model", "qwen3-30b-a3b", "--batch", "1", "--context", "4096")


def saved(path: Path, report: Report) -> Path:
    path.write_text(to_file(report, "json"), encoding="utf-8")
    return path


@pytest.fixture
def clean(tmp_path: Path) -> Path:
    """A saved report without findings: attn.core at 2.0467, lm_head without a bound."""
    capture = sample.capture(findings=[])
    return saved(tmp_path / "run.json", msgspec.structs.replace(sample.full(), capture=capture))


@pytest.mark.parametrize(
    ("limits", "code", "verdict"),
    [
        (["--max-ratio", "attn.core=2.1"], 0, "pass"),
        (["--max-ratio", "attn.core=2.0"], 3, "fail"),
        (["--max-ratio", "lm_head=9"], 4, "inconclusive"),
        (["--max-ratio", "lm_head=9", "--max-ratio", "attn.core=2"], 3, "fail"),
        (["--min-coverage", "97%"], 0, "pass"),
        (["--min-coverage", "0.98"], 3, "fail"),
        (["--max-unexplained", "2%"], 0, "pass"),  # 98.1 % inside steps
        (["--max-unexplained", "1.5%"], 3, "fail"),
    ],
)
def test_the_exit_code_is_the_verdict(
    command: Command, clean: Path, limits: list[str], code: int, verdict: str
) -> None:
    result = command("check", clean, *limits, "-f", "json")
    assert result.code == code
    found = json.loads(result.out)
    assert found["format"] == "nsysroof-check"
    assert found["verdict"] == verdict
    assert found["rules"][0].keys() >= {"rule", "limit", "value", "verdict"}
    assert bool(result.err) == bool(code)


def test_what_went_wrong_is_said_in_a_line(command: Command, clean: Path) -> None:
    tripped = command("check", clean, "--max-ratio", "attn.core=2", "--min-coverage", "99%")
    assert tripped.err.splitlines() == [
        "error: 2 of 2 limits exceeded: max-ratio attn.core, min-coverage",
        "hint: the result lists value and limit of each rule   [gate-tripped]",
    ]
    unknown = command("check", clean, "--max-ratio", "lm_head=2", "--min-coverage", "9%")
    assert unknown.err.splitlines() == [
        "error: 1 of 2 limits cannot be judged: max-ratio lm_head",
        "hint: the result gives the reason for each rule   [gate-inconclusive]",
    ]


def test_a_trace_is_analysed_and_gated(command: Command) -> None:
    """moe.down was planted at 3.0 times its bound, its neighbours at 1.2 to 1.7."""
    ratios = ("--max-ratio", "*=1.8", "--max-ratio", "attn.core=3.1")
    result = command("check", FIXTURE, *THEORY, *ratios, "-f", "json")
    assert result.code == 3
    rules = {rule["rule"]: rule for rule in json.loads(result.out)["rules"]}
    assert [name for name, rule in rules.items() if rule["verdict"] == "fail"] == [
        "max-ratio moe.down"
    ]
    assert rules["max-ratio moe.down"]["value"] == pytest.approx(3.0, rel=0.01)
    assert rules["max-ratio attn.core"]["verdict"] == "pass"
    assert command("check", FIXTURE, *THEORY, "--max-ratio", "moe.down=3.1").code == 0


def test_a_run_holds_its_own_baseline(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    command("analyze", FIXTURE, *THEORY, "-o", path)
    result = command("check", FIXTURE, *THEORY, "--baseline", path, "-f", "json")
    assert result.code == 0
    rules = json.loads(result.out)["rules"]
    assert {rule["verdict"] for rule in rules} == {"pass"}
    assert all(rule["value"] == rule["baseline"] for rule in rules)
    assert {"regression step", "regression moe.down"} <= {rule["rule"] for rule in rules}


def test_junit_by_ending_and_by_name(command: Command, clean: Path, tmp_path: Path) -> None:
    path = tmp_path / "check.xml"
    result = command("check", clean, "--max-ratio", "attn.core=2", "-o", path)
    assert (result.code, result.out) == (3, "")
    by_name = command("check", clean, "--max-ratio", "attn.core=2", "-f", "junit").out
    for root in (ET.parse(path).getroot(), ET.fromstring(by_name)):
        assert (root.tag, root.get("tests"), root.get("failures")) == ("testsuites", "1", "1")


@pytest.mark.parametrize("fmt", ["table", "tsv", "csv", "json", "md", "html", "junit"])
def test_no_folder_is_named(command: Command, clean: Path, fmt: str) -> None:
    result = command("check", clean, "--min-coverage", "9%", "-f", fmt)
    assert "run.json" in result.out
    assert clean.parent.name not in result.out


def test_other_commands_have_no_junit(command: Command, clean: Path) -> None:
    for arguments in (("analyze", "run.sqlite"), ("diff", clean, clean)):
        result = command(*arguments, "-f", "junit")
        assert result.code == 2
        assert "[unknown-format]" in result.err


def test_text_puts_what_failed_first(command: Command, clean: Path) -> None:
    limits = ("--min-coverage", "9%", "--max-ratio", "lm_head=2", "--max-ratio", "attn.core=2")
    text = command("check", clean, *limits, "-f", "table").out
    places = [text.index(word) for word in ("max-ratio attn.core", "max-ratio lm_head", "min-cov")]
    assert places == sorted(places)
    assert "1 tripped, 1 cannot be judged, 1 passed" in text


def test_errors_of_the_capture_can_be_allowed(command: Command, tmp_path: Path) -> None:
    broken = saved(tmp_path / "broken.json", sample.full())  # low-coverage is an error in it
    limits = ("--min-coverage", "9%")
    assert command("check", broken, *limits).code == 4
    assert command("check", broken, *limits, "--allow", "low-coverage").code == 0
    strict = command("check", broken, *limits, "--allow", "low-coverage", "--strict")
    assert strict.code == 4
    assert "[strict]" in strict.err


@pytest.mark.parametrize(
    ("arguments", "slug"),
    [
        ([], "no-limits"),
        (["--max-regression", "5%"], "no-limits"),
        (["--max-ratio", "attn.core"], "bad-limit"),
        (["--max-ratio", "=2"], "bad-limit"),
        (["--max-ratio", "attn.core=fast"], "bad-limit"),
        (["--max-ratio", "attn.core=nan"], "bad-limit"),
        (["--max-ratio", "attn.core=inf"], "bad-limit"),
        (["--max-idle", "5"], "bad-limit"),
        (["--max-idle", "-5%"], "bad-limit"),
        (["--min-coverage", "95 percent"], "bad-limit"),
        (["--max-regression-us", "nan", "--max-idle", "5%"], "usage"),
        (["--baseline", "none.json"], "no-such-file"),
    ],
)
def test_mistakes_exit_with_2(
    command: Command, clean: Path, arguments: list[str], slug: str
) -> None:
    result = command("check", clean, *arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err.splitlines()[-1].endswith(f"[{slug}]")


def test_options_reach_the_analysis(library: Library, command: Command) -> None:
    library.report = msgspec.structs.replace(sample.full(), capture=sample.capture(findings=[]))
    result = command("check", "run.sqlite", "--batch", "2", "--min-coverage", "9%")
    assert result.code == 0
    assert library.options == [Options(batch=2)]


def test_a_finding_that_does_not_exist_cannot_be_allowed(command: Command, clean: Path) -> None:
    limits = ("--min-coverage", "9%")
    result = command("check", clean, *limits, "--allow", "below-bond")
    assert (result.code, result.out) == (2, "")
    assert "no finding is called 'below-bond'" in result.err
    assert "below-bound" in result.err.splitlines()[-1]
    assert command("check", clean, *limits, "--allow", "below-bound").code == 0
    assert command("check", clean, *limits, "--allow", "conditions-differ").code == 0
