"""What can be rendered: a whole report or estimate, or the part of one that a command shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import msgspec

from nsysroof.outcomes import Check, Diff, WhatIf
from nsysroof.results import (
    Capture,
    Estimate,
    Gap,
    HostLateRow,
    KernelRow,
    Phase,
    Ranks,
    Report,
    StepRow,
    Steps,
    Sweep,
    Timeline,
)


class InfoView(msgspec.Struct, frozen=True, kw_only=True):
    """What a capture can answer, and the steps in it."""

    capture: Capture
    steps: Steps
    phases: list[Phase]

    @classmethod
    def of(cls, report: Report) -> InfoView:
        """Return the part of a report that ``info`` shows."""
        return cls(capture=report.capture, steps=report.steps, phases=report.phases)


class GapsView(msgspec.Struct, frozen=True, kw_only=True):
    """The account of each GPU, every gap, and what late hosts waited in."""

    timeline: list[Timeline]
    gaps: list[Gap]
    host_late: list[HostLateRow] = []

    @classmethod
    def of(cls, report: Report) -> GapsView:
        """Return the part of a report that ``gaps`` shows."""
        return cls(timeline=report.timeline, gaps=report.gaps, host_late=report.host_late)


class StepsView(msgspec.Struct, frozen=True, kw_only=True):
    """Where each analysed step goes."""

    steps: Steps
    phases: list[Phase]
    step_budgets: list[StepRow]

    @classmethod
    def of(cls, report: Report) -> StepsView:
        """Return the part of a report that ``steps`` shows."""
        return cls(steps=report.steps, phases=report.phases, step_budgets=report.step_budgets)


class KernelsView(msgspec.Struct, frozen=True, kw_only=True):
    """Every distinct kernel."""

    kernels: list[KernelRow]

    @classmethod
    def of(cls, report: Report) -> KernelsView:
        """Return the part of a report that ``kernels`` shows."""
        return cls(kernels=report.kernels)


class Listing(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of a catalogue, all with the keys of ``columns``.

    ``units`` names the unit of raw numbers (``B``, ``B/s``, ``FLOP/s``) for pages that round them;
    ``lists`` the columns whose words hold no comma, and are joined by commas in tables.
    """

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Mapping[str, Any]]
    units: Mapping[str, str] = {}
    lists: tuple[str, ...] = ()


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a catalogue; a field whose value is a list of mappings is a table of its own."""

    title: str
    fields: Mapping[str, Any]


View: TypeAlias = (
    Report
    | Estimate
    | Sweep
    | Ranks
    | InfoView
    | GapsView
    | StepsView
    | KernelsView
    | Diff
    | Check
    | WhatIf
    | Listing
    | Card
)
