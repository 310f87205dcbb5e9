"""Which sections make the page of a view, and in which order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

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
from nsysroof.results import Estimate, Ranks, Report, Sweep


def page(view: View) -> tuple[Section, ...]:
    """Return the sections of a view in reading order."""
    return _PAGES[type(view)](view)


def report_sections(report: Report) -> tuple[tuple[str, Section], ...]:
    """Return the sections of a report in reading order, each with a short name of its own.

    What can it answer, is it covered, where does a step go, what to win, what is left.
    """
    return (
        ("capture", capture_section(report.capture)),
        ("coverage", coverage_section(report)),
        ("step", budget_section(report)),
        ("floors", floors_section(report)),
        ("operators", operators_section(report)),
        *((part.title.lower(), part) for part in ranks_sections(report.ranks, report.collectives)),
        *(("metrics", part) for part in metrics_sections(report.metrics)),
        (
            "idle",
            idle_section(
                report.timeline,
                per_step=report.per_step,
                host=report.host,
                host_late=report.host_late,
            ),
        ),
        ("gaps", largest_gaps_section(report.gaps)),
        ("unexplained", unexplained_section(report)),
        ("impossible", impossible_section(report)),
        ("links", links_section(report)),
        ("assumptions", assumptions_section(report.assumptions)),
    )


def _report(report: Report) -> tuple[Section, ...]:
    return tuple(section for _, section in report_sections(report))


def _info(view: InfoView) -> tuple[Section, ...]:
    return capture_section(view.capture), steps_section(view.steps, view.phases)


def _gaps(view: GapsView) -> tuple[Section, ...]:
    idle = idle_section(view.timeline, host_late=view.host_late)
    return idle, all_gaps_section(view.gaps)


def _steps(view: StepsView) -> tuple[Section, ...]:
    return steps_section(view.steps, view.phases), all_steps_section(view.step_budgets)


def _kernels(view: KernelsView) -> tuple[Section, ...]:
    return (kernels_section(view.kernels),)


def _listing(view: Listing) -> tuple[Section, ...]:
    return (listing_section(view),)


_PAGES: dict[type, Callable[[Any], tuple[Section, ...]]] = {
    Report: _report,
    InfoView: _info,
    StepsView: _steps,
    GapsView: _gaps,
    KernelsView: _kernels,
    Ranks: run_sections,
    Estimate: estimate_sections,
    Sweep: sweep_sections,
    Diff: diff_sections,
    Check: check_sections,
    WhatIf: whatif_sections,
    Listing: _listing,
    Card: card_sections,
}
