from __future__ import annotations

from io import StringIO
from xml.etree import ElementTree as ET

from nsysroof.outcomes import Check, Rule
from nsysroof.report.base import GATE_FORMATS, renderer_named


def rule(name: str, verdict: str, value: float | None, reason: str = "") -> Rule:
    return Rule(rule=name, limit=2.0, value=value, verdict=verdict, unit="ratio", reason=reason)


def parsed(check: Check) -> ET.Element:
    stream = StringIO()
    renderer_named("junit", GATE_FORMATS).render(check, stream)
    assert stream.getvalue().endswith("</testsuites>\n")
    return ET.fromstring(stream.getvalue())


def test_a_parser_finds_cases_failures_and_errors() -> None:
    check = Check(
        tool_version="0",
        report="run.json",
        verdict="fail",
        rules=[
            rule("max-ratio attn.core", "fail", 3.25),
            rule("max-ratio lm_head", "inconclusive", None, "no such role"),
            rule("max-ratio mlp.act", "pass", 1.5),
        ],
    )
    suites = parsed(check)
    (suite,) = suites
    for element in (suites, suite):
        counts = [element.get(key) for key in ("tests", "failures", "errors")]
        assert counts == ["3", "1", "1"]
    assert suite.get("name") == "run.json"
    cases = {case.get("name"): case for case in suite}
    assert list(cases) == ["max-ratio attn.core", "max-ratio lm_head", "max-ratio mlp.act"]
    failure = cases["max-ratio attn.core"].find("failure")
    assert failure is not None
    assert failure.get("message") == "value 3.25, limit 2.0 (ratio)"
    error = cases["max-ratio lm_head"].find("error")
    assert error is not None
    assert (error.text, error.get("message")) == (
        "no such role",
        "value not known, limit 2.0 (ratio)",
    )
    assert [child.tag for child in cases["max-ratio mlp.act"]] == ["system-out"]


def test_names_cannot_break_the_document() -> None:
    name = 'regression void <unnamed>::f<"a" & b>\x1b[31m\ud800]]>\ufffe'
    check = Check(
        tool_version="0", report="a\x00b.json", verdict="fail", rules=[rule(name, "fail", 1.0)]
    )
    (suite,) = parsed(check)
    assert suite.get("name") == "ab.json"
    assert suite[0].get("name") == 'regression void <unnamed>::f<"a" & b>[31m]]>'
