"""Which sections make the page of a view, and in which order."""

from __future__ import annotations

from nsysroof.outcomes import Check, Diff, WhatIf
from nsysroof.report.blocks import Section
from nsysroof.report.pages.assumptions import assumptions_section
from nsysroof.report.pages.capture import capture_section, coverage_section, steps_section
from nsysroof.report.pages.catalogue import card_sections, listing_section
from nsysroof.report.pages.estimate import estimate_sections
from nsysroof.report.pages.idle import all_gaps_section, idle_section, largest_gaps_section
from nsysroof.report.pages.kernels import (
    impossible_section,
    kernels_section,
    links_section,
    unexplained_section,
)
from nsysroof.report.pages.outcomes import check_sections, diff_sections
from nsysroof.report.pages.ranks import ranks_sections, run_sections
from nsysroof.report.pages.sampled import metrics_sections
from nsysroof.report.pages.step import (
    all_steps_section,
    budget_section,
    floors_section,
    operators_section,
)
from nsysroof.report.pages.sweep import sweep_sections
from nsysroof.report.pages.whatif import whatif_sections
from nsysroof.report.views import Card, GapsView, InfoView, KernelsView, Listing, StepsView, View
from nsysroof.results import Ranks, Report, Sweep


def page(view: View) -> tuple[Section, ...]:  # noqa: C901, PLR0912  a case for each kind of view
    """Return the sections of a view in reading order."""
    match view:
        case Report():
            return _report(view)
        case InfoView():
            capture = capture_section(view.capture)
            return capture, steps_section(view.steps, view.phases)
        case GapsView():
            return idle_section(view.timeline), all_gaps_section(view.gaps)
        case StepsView():
            return steps_section(view.steps, view.phases), all_steps_section(view.step_budgets)
        case KernelsView():
            return (kernels_section(view.kernels),)
        case Listing():
            return (listing_section(view),)
        case Card():
            return card_sections(view)
        case Diff():
            return diff_sections(view)
        case Check():
            return check_sections(view)
        case WhatIf():
            return whatif_sections(view)
        case Ranks():
            return run_sections(view)
        case Sweep():
            return sweep_sections(view)
        case _:
            return estimate_sections(view)


def _report(report: Report) -> tuple[Section, ...]:
    """What can it answer, is it covered, where does a step go, what to win, what is left."""
    return (
        capture_section(report.capture),
        coverage_section(report),
        budget_section(report),
        floors_section(report),
        operators_section(report),
        *ranks_sections(report.ranks, report.collectives),
        *metrics_sections(report.metrics),
        idle_section(
            report.timeline,
            per_step=report.per_step,
            host=report.host,
            host_late=report.host_late,
        ),
        largest_gaps_section(report.gaps),
        unexplained_section(report),
        impossible_section(report),
        links_section(report),
        assumptions_section(report.assumptions),
    )
