"""``nsysroof kernels``: every distinct kernel."""

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
from nsysroof.cli.reading import check_answered, check_strictly, read_runs
from nsysroof.report.views import KernelsView


@grouped
def kernels(
    trace: TraceOrReport,
    *,
    model: ModelName = None,
    theory: TheoryOptions,
    selection: SelectionOptions,
    output: OutputOptions,
) -> None:
    """List every kernel with its class, times, role and ratio.

    One row for each name, grid, block and role.
    """
    destination = choose_destination(output, source=trace)
    (report,) = read_runs([trace], model, theory, selection)
    destination.write(KernelsView.of(report))
    check_answered(report)
    check_strictly(report, selection)
