"""One HTML file that needs nothing else: no network, no script to be read, no server."""

from __future__ import annotations

from typing import TextIO

from nsysroof.report.blocks import Section
from nsysroof.report.pages import page
from nsysroof.report.pages.assumptions import assumptions_section
from nsysroof.report.pages.capture import capture_section, coverage_section, steps_line
from nsysroof.report.pages.idle import idle_section, largest_gaps_section
from nsysroof.report.pages.kernels import impossible_section, links_section, unexplained_section
from nsysroof.report.pages.ranks import ranks_sections
from nsysroof.report.pages.sampled import metrics_sections
from nsysroof.report.pages.step import budget_section, floors_section
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
    idle = idle_section(
        report.timeline,
        per_step=report.per_step,
        host=report.host,
        host_late=report.host_late,
    )
    ranks = ranks_sections(report.ranks, report.collectives)
    step = report.step_timeline
    return (
        section_of(capture_section(report.capture), "capture"),
        section_of(coverage_section(report), "coverage"),
        titled("Where one step goes", "step", _step(report)),
        section_of(floors_section(report), "floors"),
        titled("Roofline", "roofline", roofline(report)),
        titled("Operators by time to win back", "operators", operators_table(report)),
        *(section_of(part, "metrics") for part in metrics_sections(report.metrics)),
        titled(
            "One step in time",
            "timeline",
            timeline(step) if step else element("p", _NO_TIMELINE if report.budget else _NO_STEP),
        ),
        *(section_of(part, part.title.lower()) for part in ranks),
        section_of(idle, "idle"),
        section_of(largest_gaps_section(report.gaps), "gaps"),
        section_of(unexplained_section(report), "unexplained"),
        section_of(impossible_section(report), "impossible"),
        section_of(links_section(report), "links"),
        section_of(assumptions_section(report.assumptions), "assumptions"),
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
