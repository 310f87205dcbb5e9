"""JUnit XML of a check: one test case for each rule, as CI systems show them.

A rule that trips is a failure; one that cannot be judged is an error, so that no system counts it
as passed.
"""

from __future__ import annotations

from typing import TextIO
from xml.etree import ElementTree as ET

from nsysroof.outcomes import Check, Rule
from nsysroof.report.characters import printable
from nsysroof.report.views import View

_TAGS = {"fail": "failure", "inconclusive": "error"}


class JunitRenderer:
    """Writes the rules of a check; names hold no character that XML forbids."""

    suffixes: tuple[str, ...] = (".xml",)

    def render(self, view: View, stream: TextIO) -> None:
        """Write ``view``, which is a check, to ``stream``."""
        assert isinstance(view, Check)
        counts = {
            "tests": f"{len(view.rules)}",
            "failures": f"{len(view.rules_with('fail'))}",
            "errors": f"{len(view.rules_with('inconclusive'))}",
        }
        suites = ET.Element("testsuites", {"name": "nsysroof check", **counts})
        suite = ET.SubElement(suites, "testsuite", {"name": printable(view.report), **counts})
        for rule in view.rules:
            _add_case(suite, rule)
        ET.indent(suites)
        stream.write('<?xml version="1.0" encoding="UTF-8"?>\n')
        stream.write(ET.tostring(suites, encoding="unicode"))
        stream.write("\n")


def _add_case(suite: ET.Element, rule: Rule) -> None:
    case = ET.SubElement(suite, "testcase", classname="nsysroof.check", name=printable(rule.rule))
    told = f"value {_number(rule.value)}, limit {_number(rule.limit)} ({rule.unit})"
    if rule.verdict in _TAGS:
        outcome = ET.SubElement(case, _TAGS[rule.verdict], message=told, type=rule.verdict)
        outcome.text = printable(rule.reason or told)
    else:
        ET.SubElement(case, "system-out").text = told


def _number(value: float | None) -> str:
    return "not known" if value is None else repr(value)


RENDERER = JunitRenderer()
