"""The report on a trace."""

from __future__ import annotations

from nsysroof.results.base import FORMAT_VERSION, Tables
from nsysroof.results.capture import Assumptions, Capture
from nsysroof.results.ranks import RankRow
from nsysroof.results.rows import (
    CollectiveRow,
    Coverage,
    Host,
    ImpossibleRow,
    KernelRow,
    LinkRow,
    OperatorRow,
    OverlapRow,
    UnexplainedRow,
)
from nsysroof.results.sampled import MetricRow
from nsysroof.results.timeline import (
    Budget,
    Gap,
    HostLateRow,
    Phase,
    StepBounds,
    StepRow,
    Steps,
    StepTimeline,
    StreamRow,
    Timeline,
)

SHORTENED = ("gaps", "step_budgets")
"""Tables of a report that hold their longest rows only, unless all are asked for."""


class Report(Tables, frozen=True, kw_only=True):
    """The answer of ``analyze``: saved, rendered, compared and gated as it is.

    ``gaps`` and ``step_budgets`` are the longest unless all were asked for, which come in order of
    time. ``command`` is what made it, with files by their name alone; null from the library.
    """

    format: str = "nsysroof-report"
    format_version: str = FORMAT_VERSION
    tool_version: str
    command: str | None = None
    capture: Capture
    assumptions: Assumptions
    coverage: Coverage
    timeline: list[Timeline]
    streams: list[StreamRow] = []
    phases: list[Phase]
    steps: Steps
    budget: Budget | None
    step_budgets: list[StepRow] = []
    step_timeline: StepTimeline | None = None
    step_bounds: StepBounds | None
    operators: list[OperatorRow]
    kernels: list[KernelRow]
    gaps: list[Gap]
    host_late: list[HostLateRow] = []
    unexplained: list[UnexplainedRow]
    impossible: list[ImpossibleRow]
    links: list[LinkRow]
    collectives: list[CollectiveRow] = []
    ranks: list[RankRow] = []
    overlaps: list[OverlapRow] = []
    metrics: list[MetricRow] = []
    host: Host

    def per_step(self, ns: int) -> float | None:
        """Return ``ns`` of a whole window per step of any phase, null where there are none."""
        steps = sum(phase.count for phase in self.phases)
        return ns / steps if steps else None
