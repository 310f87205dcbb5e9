"""One HTML file that needs nothing else: no network, no script to be read, no server."""

from __future__ import annotations

from typing import TextIO

from nsysroof.report.blocks import Section
from nsysroof.report.pages import page, report_sections
from nsysroof.report.pages.capture import steps_line
from nsysroof.report.pages.step import budget_section
from nsysroof.report.views import View
from nsysroof.report.web.blocks import block_of, section_of, titled
from nsysroof.report.web.document import document
from nsysroof.report.web.glance import glance, subject
from nsysroof.report.web.markup import Markup, element, join
from nsysroof.report.web.operators import derivations, operators_table
from nsysroof.report.web.roofline import roofline
from nsysroof.report.web.timeline import timeline
from nsysroof.report.web.waterfall import waterfall
from nsysroof.results import Report

_NO_STEP = "None: no step was found."
_NO_TIMELINE = "None: this report does not hold what ran in the step."


class HtmlRenderer:
    """Writes a view as one page; a report has drawings and a table to sort and filter."""

    suffixes: tuple[str, ...] = (".html", ".htm")

    def render(self, view: View, stream: TextIO) -> None:
        """Write ``view`` to ``stream``; whatever a name holds, it stays text."""
        if isinstance(view, Report):
            title = f"{subject(view.assumptions)} – nsysroof"
            stream.write(document(title, glance(view), element("main", *_report(view))))
        else:
            sections = page(view)
            body = (section_of(part, f"s{at}") for at, part in enumerate(sections))
            title = sections[0].title if sections else "nsysroof"
            stream.write(document(f"{title} – nsysroof", element("main", *body)))


def _report(report: Report) -> tuple[Markup, ...]:
    """Return the sections of a report, two of them drawn, and those that only a page can have."""
    step = report.step_timeline
    drawn = {"step": _step(report), "operators": operators_table(report)}
    before = {
        "operators": titled("Roofline", "roofline", roofline(report)),
        "idle": titled(
            "One step in time",
            "timeline",
            timeline(step) if step else element("p", _NO_TIMELINE if report.budget else _NO_STEP),
        ),
    }
    body: list[Markup] = []
    for key, section in report_sections(report):
        if key in before:
            body.append(before[key])
        shown = drawn.get(key)
        body.append(titled(section.title, key, shown) if shown else section_of(section, key))
    return (
        *body,
        titled("How each bound was worked out", "derivations", derivations(report)),
        section_of(_origin(report), "command"),
    )


def _step(report: Report) -> Markup:
    if report.budget is None:
        return join(*(block_of(block) for block in budget_section(report).blocks))
    budget = report.budget
    told = f"The median step on GPU {budget.gpu} (number {budget.step}), to the nanosecond:"
    return join(element("p", steps_line(report.steps)), element("p", told), waterfall(budget))


def _origin(report: Report) -> Section:
    made = report.command or "made by a program: nsysroof.analyze(trace, options), with the above"
    return Section(
        title="The command that made it",
        blocks=(made, f"nsysroof {report.tool_version}, report format {report.format_version}"),
    )


RENDERER = HtmlRenderer()
