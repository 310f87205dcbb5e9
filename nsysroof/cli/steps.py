"""``nsysroof steps``: the budget of every step."""

from __future__ import annotations

from nsysroof.cli.options import (
    ModelName,
    OutputOptions,
    SelectionOptions,
    TheoryOptions,
    TracePath,
    grouped,
)
from nsysroof.cli.output import choose_destination
from nsysroof.cli.reading import check_answered, check_strictly, read_report
from nsysroof.report.views import StepsView


@grouped
def steps(
    trace: TracePath,
    *,
    model: ModelName = None,
    theory: TheoryOptions,
    selection: SelectionOptions,
    output: OutputOptions,
) -> None:
    """List every step with its budget.

    One row each: its wall time, and the work and idle time that add up to it.
    """
    destination = choose_destination(output, source=trace)
    report = read_report(trace, model, theory, selection, complete=("step_budgets",))
    destination.write(StepsView.of(report))
    check_answered(report)
    check_strictly(report, selection)
