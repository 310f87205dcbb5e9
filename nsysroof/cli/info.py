"""``nsysroof info``: what a capture can answer."""

from __future__ import annotations

from nsysroof.cli.options import (
    ModelName,
    OutputOptions,
    SelectionOptions,
    TheoryOptions,
    TraceOrReport,
    grouped,
)
from nsysroof.cli.output import choose_destination
from nsysroof.cli.reading import check_strictly, read_runs
from nsysroof.report.views import InfoView


@grouped
def info(
    trace: TraceOrReport,
    *,
    model: ModelName = None,
    theory: TheoryOptions,
    selection: SelectionOptions,
    output: OutputOptions,
) -> None:
    """Tell what a capture can answer.

    What was recorded, what is missing and what to do about it, and the steps found.
    """
    destination = choose_destination(output, source=trace)
    (report,) = read_runs([trace], model, theory, selection)
    destination.write(InfoView.of(report))
    check_strictly(report, selection)
