"""``nsysroof gaps``: every idle stretch of a GPU."""

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
from nsysroof.report.views import GapsView


@grouped
def gaps(
    trace: TracePath,
    *,
    model: ModelName = None,
    theory: TheoryOptions,
    selection: SelectionOptions,
    output: OutputOptions,
) -> None:
    """List every gap in which a GPU idles, with its cause.

    One row each: when, why, and what ran before and after it.
    """
    destination = choose_destination(output, source=trace)
    report = read_report(trace, model, theory, selection, complete=("gaps",))
    destination.write(GapsView.of(report))
    check_answered(report)
    check_strictly(report, selection)
