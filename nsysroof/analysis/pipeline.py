"""The pipeline: capture verdict, timeline, steps, operators, accounts, findings."""

from __future__ import annotations

from collections.abc import Collection

import polars as pl
from msgspec import structs

from nsysroof import __version__
from nsysroof.analysis import findings as find
from nsysroof.analysis.bus_rates import with_rates
from nsysroof.analysis.collectives import collective_rows
from nsysroof.analysis.contents import contradictions
from nsysroof.analysis.host_late import host_late_rows
from nsysroof.analysis.impossible import impossible_rows
from nsysroof.analysis.lag import slow_rank
from nsysroof.analysis.links import link_rows
from nsysroof.analysis.measured import WORK_HIDDEN, Measured, measure
from nsysroof.analysis.metrics import metric_rows
from nsysroof.analysis.nvtx_coverage import nvtx_coverage
from nsysroof.analysis.operators import operator_rows
from nsysroof.analysis.options import Options
from nsysroof.analysis.overlap import overlap_rows
from nsysroof.analysis.products import agrees, product_findings, told_products, usual_products
from nsysroof.analysis.ranks import compare_ranks
from nsysroof.analysis.shapes import shape_findings, usual_launches
from nsysroof.analysis.step_accounts import (
    bounds_of_step,
    budget_of,
    peaks_used,
    shares_of,
    step_rows,
    timeline_of,
)
from nsysroof.analysis.steps import summary
from nsysroof.analysis.tables import (
    coverage,
    gap_rows,
    host_calls,
    kernel_rows,
    stream_rows,
)
from nsysroof.analysis.theory import assume
from nsysroof.analysis.unexplained import unexplained_rows
from nsysroof.errors import UsageError
from nsysroof.match.op_sizes import Product
from nsysroof.match.phases import attention_names
from nsysroof.results import SHORTENED, Finding, OperatorRow, Report
from nsysroof.theory.kinds import ATTENTION_KINDS
from nsysroof.timeline.account import account
from nsysroof.timeline.gaps import find_gaps
from nsysroof.timeline.host_waits import host_waits
from nsysroof.timeline.steps import find_runs
from nsysroof.trace import Trace


def analyze(trace: Trace, options: Options, *, complete: Collection[str] = ()) -> Report:
    """Return the report on a trace.

    Args:
        trace: An open trace.
        options: What the user said; without a model there are classes, but no ratios.
        complete: Which of ``SHORTENED`` to list in full.

    Raises:
        UsageError: Options that do not fit the trace or one another.
        InputError: A file named by the options cannot be read.
    """
    if unknown := sorted(set(complete) - set(SHORTENED)):
        raise UsageError(
            f"there is no table {unknown[0]!r} to list in full",
            hint=f"tables are {', '.join(SHORTENED)}",
            slug="unknown-table",
        )
    return _report(trace, options, measure(trace, options), complete=complete)


def analyze_kernels(trace: Trace, options: Options) -> tuple[Report, pl.DataFrame]:
    """Return the report with every gap, and the kernels as ``label_kernels`` does."""
    found = measure(trace, options)
    return _report(trace, options, found, complete=SHORTENED), found.kernels


def label_kernels(trace: Trace, options: Options) -> pl.DataFrame:
    """Return every kernel analysed with its ``step``, ``role`` and ``advance_ns``.

    ``role`` is null where no operator of the model was found; ``step`` outside the analysed steps.
    The other columns are those of ``trace.kernels``.
    """
    return measure(trace, options).kernels


def _report(
    trace: Trace, options: Options, found: Measured, *, complete: Collection[str]
) -> Report:
    capture = found.capture
    picked, hardware, theory, analysed = (
        found.picked,
        found.hardware,
        found.theory,
        found.analysed,
    )
    told = told_products(trace, found.kernels)
    products = usual_products(told, found.kernels, found.groups)
    operators = operator_rows(
        found.kernels,
        found.groups,
        found.texts,
        staged=found.staged,
        confirmed={at for at, one in products.items() if agrees(found.groups[at], one)},
        steps=analysed.steps.height,
        floor_ns=hardware.floor_ns,
        sm_count=hardware.gpu.sm_count if hardware.gpu else None,
    )
    mismatches = _mismatches(options, found, operators, products)
    contradicted = {finding.slug for finding in mismatches}
    impossible = impossible_rows(operators, hardware, theory.workload, contradicted)
    gaps = find_gaps(trace, found.activities, find_runs(found.steps))
    idle_known = capture.graph_mode != WORK_HIDDEN
    timeline = account(found.activities, gaps, idle_known=idle_known)
    shares = shares_of(found)
    budget = budget_of(found, gaps, shares) if idle_known else None
    waits = host_waits(trace, found.activities, gaps) if idle_known else None
    covered = coverage(found.kernels)
    modelled = theory.model is not None
    group_size = options.tp if options.tp > 1 else max(len(picked.gpus), 1)
    ranks, lag = compare_ranks(found, gaps, group_size=group_size)
    links = link_rows(
        picked.copies,
        {key: peak.value for key, peak in hardware.peaks.items()},
        activities=found.activities,
        steps=analysed.steps,
    )
    metrics, doubts = metric_rows(trace, found, operators)
    assumptions = assume(
        options,
        hardware,
        theory.model,
        theory.workload,
        phase=analysed.phase,
        window_anchor_ns=picked.anchor_ns,
        devices=picked.gpus,
        peaks_used=peaks_used(found.groups, links, hardware.peaks),
        notes=[theory.note] if theory.note else [],
    )
    findings = [
        *capture.findings,
        *found.contents.findings,
        *mismatches,
        *find.ranks_missing(options.tp, len(picked.gpus)),
        *(find.no_steps(options.step_range) if capture.kernels and not found.steps.height else []),
        *_range_findings(trace, options, found),
        *find.mixed_phases(found.phases, analysed.phase),
        *find.low_coverage(covered, modelled=modelled),
        *find.below_bound(impossible),
        *find.doubtful_inputs(impossible, contradicted),
        *find.read_redundancy(operators),
        *doubts,
        *slow_rank(ranks, lag),
        *find.profiler_inflation(assumptions, budget.wall_ns if budget else None),
    ]
    return Report(
        tool_version=__version__,
        capture=structs.replace(capture, findings=find.in_order(findings)),
        assumptions=assumptions,
        coverage=covered,
        timeline=timeline,
        streams=stream_rows(found.kernels, timeline),
        phases=found.phases,
        steps=summary(analysed),
        budget=budget,
        step_budgets=step_rows(found, gaps, shares, complete="step_budgets" in complete)
        if idle_known
        else [],
        step_timeline=timeline_of(found, gaps) if idle_known else None,
        step_bounds=bounds_of_step(theory, hardware, budget),
        operators=operators,
        kernels=kernel_rows(
            found.kernels,
            found.texts,
            found.classes,
            {group.role: group.bound.spec_ns for group in found.groups},
        ),
        gaps=gap_rows(
            gaps, found.activities, found.texts, found.steps, waits, complete="gaps" in complete
        )
        if idle_known
        else [],
        host_late=[] if waits is None else host_late_rows(waits),
        unexplained=unexplained_rows(
            found.kernels,
            found.texts,
            found.classes,
            modelled=modelled,
            steps=analysed.steps.height,
            peaks=hardware.peaks,
            floor_ns=hardware.floor_ns,
            told=told,
        ),
        impossible=impossible,
        links=links,
        collectives=with_rates(
            collective_rows(
                found.kernels,
                {group.role for group in found.groups if group.crosses_link},
                group_size=group_size,
                shared_clock=True,
            ),
            found.groups,
            hardware.peaks,
        ),
        ranks=ranks,
        overlaps=overlap_rows(found.kernels),
        metrics=metrics,
        host=host_calls(trace),
    )


def _mismatches(
    options: Options,
    found: Measured,
    operators: list[OperatorRow],
    products: dict[int, Product],
) -> list[Finding]:
    """Return what contradicts the inputs: the GPU, grids, names, NVTX sizes and annotations."""
    model = found.theory.model
    mismatches = [
        *found.hardware.findings,
        *_layer_findings(found),
        *_shape_findings(found),
        *(product_findings(found.groups, products, model.name) if model else ()),
        *find.dtype_mismatch(operators, found.classes),
    ]
    if found.contents.scheduled:
        return mismatches
    doubted = {finding.slug for finding in mismatches if finding.severity == "error"}
    annotated = contradictions(options, found.contents, found.analysed)
    return [*mismatches, *(finding for finding in annotated if finding.slug not in doubted)]


def _range_findings(trace: Trace, options: Options, found: Measured) -> list[Finding]:
    if options.step_range is None:
        return []
    return find.nvtx_low_coverage(nvtx_coverage(trace, found.kernels, options.step_range))


def _shape_findings(found: Measured) -> list[Finding]:
    theory = found.theory
    if theory.model is None or theory.workload is None:
        return []
    launches = usual_launches(found.kernels, found.groups, found.classes)
    return shape_findings(launches, theory.model, theory.workload, found.hardware.gpu)


def _layer_findings(found: Measured) -> list[Finding]:
    theory = found.theory
    if theory.model is None or not theory.operators:
        return []
    expected = sum(op.kind in ATTENTION_KINDS for op in theory.operators)
    calls = find.attention_calls(found.kernels, attention_names(found.classes))
    # Several launches a layer are an engine's choice (two passes, two batches); fewer layers,
    # or a number that no such choice gives, are another model.
    if not calls or not expected or calls % expected == 0:
        return []
    return [find.model_mismatch(theory.model.name, expected, calls)]
