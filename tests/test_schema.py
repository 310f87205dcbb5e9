"""The schemas describe what is written, and refuse what is not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from nsysroof import Options, analyze, estimate, open_trace
from nsysroof.cli.main import run
from nsysroof.errors import UsageError
from nsysroof.results import Report
from nsysroof.schema import RESULTS, json_schema
from tests.report import sample
from tests.report.render import to_file

FIXTURES = Path(__file__).parents[1] / "fixtures"


def validator(result: str) -> Draft202012Validator:
    return Draft202012Validator(json_schema(result))


@pytest.mark.parametrize("result", RESULTS)
def test_every_schema_is_one(result: str) -> None:
    Draft202012Validator.check_schema(json_schema(result))


@pytest.mark.parametrize("report", [sample.full(), sample.empty(), sample.worst()])
def test_reports_keep_it(report: Report) -> None:
    validator("report").validate(json.loads(to_file(report, "json")))


def test_a_real_report_and_a_real_estimate_keep_theirs() -> None:
    trace = open_trace(FIXTURES / "llama-3.1-8b-h100-tp2.sqlite")
    report = analyze(trace, Options(model="llama-3.1-8b", batch=8, context=(1024,), tp=2))
    validator("report").validate(json.loads(to_file(report, "json")))
    best = estimate(Options(model="qwen3-30b-a3b", gpu="gh200-96", batch=1, context=(4096,)))
    validator("estimate").validate(json.loads(to_file(best, "json")))


def broken(**changed: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(to_file(sample.full(), "json"))
    return {**document, **changed}


@pytest.mark.parametrize(
    "changed",
    [
        {"operators": [{"role": "attn.core"}]},
        {"coverage": {"time_explained": "97 %", "count_explained": None}},
        {"gaps": None},
        {"budget": {"gpu": 0.5}},
    ],
)
def test_what_is_missing_or_of_another_type_is_refused(changed: dict[str, Any]) -> None:
    assert not validator("report").is_valid(broken(**changed))


def test_a_report_without_its_capture_is_refused() -> None:
    document = broken()
    del document["capture"]
    assert not validator("report").is_valid(document)


def test_fields_of_later_minor_versions_are_allowed() -> None:
    assert validator("report").is_valid(broken(weather="fine"))


def test_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["schema", "diff"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema("diff")
    assert run(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == json_schema("report")
    assert run(["schema", "reports"]) == 2
    assert "[unknown-schema]" in capsys.readouterr().err


def test_a_wrong_name_lists_the_right_ones() -> None:
    with pytest.raises(UsageError) as caught:
        json_schema("reports")
    assert (caught.value.slug, "report" in caught.value.hint) == ("unknown-schema", True)
