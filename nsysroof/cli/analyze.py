"""``nsysroof analyze``: the main job."""

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
from nsysroof.cli.reading import (
    check_answered,
    check_strictly,
    is_saved_report,
    read_report,
    read_runs,
    read_slices,
)
from nsysroof.report.base import ANALYSIS_FORMATS


@grouped
def analyze(
    trace: TraceOrReport,
    *,
    model: ModelName = None,
    theory: TheoryOptions,
    selection: SelectionOptions,
    output: OutputOptions,
) -> None:
    """Measure every kernel of a capture against theory.

    What the capture can answer, the budget of a step, operators by time to win back, idle time
    by cause, kernels without a theory, and results that are impossible. A report saved as JSON
    is written again, in another format.
    """
    destination = choose_destination(output, source=trace, formats=ANALYSIS_FORMATS)
    if destination.takes_slices:
        destination.write(read_slices(trace, model, theory, selection))
        return
    if is_saved_report(trace):
        (report,) = read_runs([trace], model, theory, selection)
    else:
        report = read_report(trace, model, theory, selection, complete=destination.listed_in_full)
    destination.write(report)
    check_answered(report)
    check_strictly(report, selection)
