"""The pipeline: capture verdict, timeline, steps, operators, accounts, findings."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import polars as pl
from msgspec import structs

from nsysroof import __version__
from nsysroof.analysis import findings as find
from nsysroof.analysis.bus_rates import with_rates
from nsysroof.analysis.collectives import collective_rows, roles_by_ranks
from nsysroof.analysis.contents import contradictions
from nsysroof.analysis.degrees import degree_findings, sums_per_step
from nsysroof.analysis.host_late import host_late_rows
from nsysroof.analysis.impossible import impossible_rows
from nsysroof.analysis.lag import slow_rank
from nsysroof.analysis.links import link_rows
from nsysroof.analysis.measured import WORK_HIDDEN, Measured, measure
from nsysroof.analysis.metrics import metric_rows
from nsysroof.analysis.nvtx_coverage import nvtx_coverage
from nsysroof.analysis.operators import operator_rows
from nsysroof.analysis.options import Options
from nsysroof.analysis.outside import work_outside_steps
from nsysroof.analysis.overlap import overlap_rows
from nsysroof.analysis.products import (
    ToldProducts,
    agrees,
    product_findings,
    told_products,
    usual_products,
)
from nsysroof.analysis.rank_time import waiting_instances
from nsysroof.analysis.ranks import compare_ranks
from nsysroof.analysis.shapes import rows_of_launches, shape_findings, usual_launches
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
from nsysroof.results import (
    SHORTENED,
    Budget,
    CollectiveRow,
    Coverage,
    Finding,
    Gap,
    HostLateRow,
    ImpossibleRow,
    KernelRow,
    LinkRow,
    OperatorRow,
    OverlapRow,
    Report,
    StepRow,
    StepTimeline,
    Timeline,
    UnexplainedRow,
)
from nsysroof.theory.kinds import ATTENTION_KINDS
from nsysroof.timeline.account import account
from nsysroof.timeline.host_waits import host_waits
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
    picked, hardware, theory = found.picked, found.hardware, found.theory
    group_size = options.tp if options.tp > 1 else max(len(picked.gpus), 1)
    judged = _judge(trace, options, found)
    with ThreadPoolExecutor(max_workers=1) as beside:  # the accounts need none of the other tables
        listing = beside.submit(_tables, found, judged, group_size)
        accounts = _account(trace, found, complete)
    tables = listing.result()
    budget = accounts.budget
    ranks, lag = compare_ranks(found, group_size=group_size)
    metrics, doubts = metric_rows(trace, found, judged.operators)
    assumptions = assume(
        options,
        hardware,
        theory.model,
        theory.workload,
        phase=found.analysed.phase,
        window_anchor_ns=picked.anchor_ns,
        devices=picked.gpus,
        peaks_used=peaks_used(found.groups, tables.links, hardware.peaks),
        notes=[theory.note] if theory.note else [],
    )
    findings = [
        *_findings(trace, options, found, judged, tables.coverage),
        *doubts,
        *slow_rank(ranks, lag),
        *find.profiler_inflation(assumptions, budget.wall_ns if budget else None),
    ]
    return Report(
        tool_version=__version__,
        capture=structs.replace(found.capture, findings=find.in_order(findings)),
        assumptions=assumptions,
        coverage=tables.coverage,
        timeline=accounts.timeline,
        streams=stream_rows(found.kernels, accounts.timeline),
        phases=found.phases,
        steps=summary(found.analysed),
        budget=budget,
        step_budgets=accounts.step_budgets,
        step_timeline=accounts.step_timeline,
        step_bounds=bounds_of_step(theory, hardware, budget),
        operators=judged.operators,
        kernels=tables.kernels,
        gaps=accounts.longest,
        host_late=accounts.host_late,
        unexplained=tables.unexplained,
        impossible=judged.impossible,
        links=tables.links,
        collectives=tables.collectives,
        ranks=ranks,
        overlaps=tables.overlaps,
        metrics=metrics,
        host=host_calls(trace),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """The operators against their bounds, and what speaks against the inputs."""

    operators: list[OperatorRow]
    impossible: list[ImpossibleRow]
    mismatches: list[Finding]
    told: ToldProducts | None

    @property
    def contradicted(self) -> set[str]:
        """The inputs that the launches contradict, by the slugs of the findings."""
        return {finding.slug for finding in self.mismatches}


def _judge(trace: Trace, options: Options, found: Measured) -> _Judged:
    told = told_products(trace, found.kernels)
    products = usual_products(told, found.kernels, found.groups)
    gpu = found.hardware.gpu
    operators = operator_rows(
        found.kernels,
        found.groups,
        found.texts,
        staged=found.staged,
        confirmed={at for at, one in products.items() if agrees(found.groups[at], one)},
        steps=found.analysed.steps.height,
        floor_ns=found.hardware.floor_ns,
        sm_count=gpu.sm_count if gpu else None,
    )
    formats = find.other_formats(operators, found.classes)
    mismatches = [*_mismatches(options, found, products), *find.dtype_mismatch(formats)]
    contradicted = {finding.slug for finding in mismatches}
    impossible = impossible_rows(
        operators, found.hardware, found.theory.workload, contradicted, formats
    )
    return _Judged(operators=operators, impossible=impossible, mismatches=mismatches, told=told)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tables:
    """What the report lists of kernels and copies."""

    coverage: Coverage
    kernels: list[KernelRow]
    unexplained: list[UnexplainedRow]
    links: list[LinkRow]
    collectives: list[CollectiveRow]
    overlaps: list[OverlapRow]


def _tables(found: Measured, judged: _Judged, group_size: int) -> _Tables:
    peaks = found.hardware.peaks
    return _Tables(
        coverage=coverage(found.kernels),
        kernels=kernel_rows(
            found.kernels,
            found.texts,
            found.classes,
            {group.role: group.bound.spec_ns for group in found.groups},
        ),
        unexplained=unexplained_rows(
            found.kernels,
            found.texts,
            found.classes,
            modelled=found.theory.model is not None,
            steps=found.analysed.steps.height,
            peaks=peaks,
            floor_ns=found.hardware.floor_ns,
            told=judged.told,
        ),
        links=link_rows(
            found.picked.copies,
            {key: peak.value for key, peak in peaks.items()},
            activities=found.activities,
            steps=found.analysed.steps,
        ),
        collectives=_collectives(found, group_size),
        overlaps=overlap_rows(found.kernels),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Accounts:
    """Where the time went. What needs the idle time is empty where that cannot be known."""

    timeline: list[Timeline]
    budget: Budget | None = None
    step_budgets: list[StepRow] = field(default_factory=list)
    step_timeline: StepTimeline | None = None
    longest: list[Gap] = field(default_factory=list)
    host_late: list[HostLateRow] = field(default_factory=list)


def _account(trace: Trace, found: Measured, complete: Collection[str]) -> _Accounts:
    gaps = found.gaps
    idle_known = found.capture.graph_mode != WORK_HIDDEN
    timeline = account(found.activities, gaps, idle_known=idle_known)
    if not idle_known:
        return _Accounts(timeline=timeline)
    shares = shares_of(found)
    waits = host_waits(trace, found.activities, gaps)
    every_gap, every_step = ("gaps" in complete), ("step_budgets" in complete)
    return _Accounts(
        timeline=timeline,
        budget=budget_of(found, shares),
        step_budgets=step_rows(found, shares, complete=every_step),
        step_timeline=timeline_of(found),
        longest=gap_rows(
            gaps, found.activities, found.texts, found.steps, waits, complete=every_gap
        ),
        host_late=[] if waits is None else host_late_rows(waits),
    )


def _findings(
    trace: Trace, options: Options, found: Measured, judged: _Judged, covered: Coverage
) -> list[Finding]:
    """Return what to know before any number: of the capture, of the steps, of the inputs."""
    stepless = found.capture.kernels and not found.steps.height
    return [
        *found.capture.findings,
        *found.contents.findings,
        *judged.mismatches,
        *find.ranks_missing(options.tp, len(found.picked.gpus)),
        *(find.no_steps(options.step_range) if stepless else []),
        *_range_findings(trace, options, found),
        *find.mixed_phases(found.phases, found.analysed.phase),
        *work_outside_steps(found.activities, found.steps, anchor_ns=found.picked.anchor_ns),
        *find.low_coverage(covered, modelled=found.theory.model is not None),
        *find.below_bound(judged.impossible),
        *find.doubtful_inputs(judged.impossible, judged.contradicted),
        *find.read_redundancy(judged.operators),
    ]


def _collectives(found: Measured, group_size: int) -> list[CollectiveRow]:
    """Return the collectives by role, without a model by the class of their kernels.

    A role may have an operator without a link too, as an embedding that is then summed has.
    """
    waiting = waiting_instances(found)
    by_ranks = roles_by_ranks(found.groups, group_size)
    if found.theory.model is None:
        by_ranks = {group_size: set(waiting["role"].unique())}
    rows = [
        row
        for ranks, roles in by_ranks.items()
        for row in collective_rows(
            waiting, roles, group_size=ranks, shared_clock=True, gpus=found.picked.gpus
        )
    ]
    rows.sort(key=lambda row: (row.role, row.gpu))
    return with_rates(rows, found.groups, found.hardware.peaks)


def _mismatches(
    options: Options,
    found: Measured,
    products: dict[int, Product],
) -> list[Finding]:
    """Return what contradicts the inputs: the GPU, grids, names, NVTX sizes and annotations."""
    model = found.theory.model
    sums = sums_per_step(found.kernels, found.classes) if found.theory.workload else 0
    shapes = _shape_findings(found, sums)
    mismatches = [
        *found.hardware.findings,
        *_layer_findings(found),
        *shapes,
        *_degree_findings(found, shapes, sums),
        *(product_findings(found.groups, products, model.name) if model else ()),
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


def _shape_findings(found: Measured, sums: int) -> list[Finding]:
    theory = found.theory
    if theory.model is None or theory.workload is None:
        return []
    launches = usual_launches(found.kernels, found.groups, found.classes)
    if any(one.slug == "gpu-mismatch" for one in found.hardware.findings):
        return []  # bounds of another GPU choose other operators, whose grids mean nothing
    gpu = found.hardware.gpu
    traced = [device.sm_count for device in found.picked.devices if device.sm_count]
    sm_count = min(traced, default=gpu.sm_count if gpu else None)
    return shape_findings(
        launches,
        theory.model,
        theory.workload,
        gpu,
        sm_count=sm_count,
        sums=sums > 0,
        rows=rows_of_launches(launches, sm_count=sm_count),
    )


def _degree_findings(found: Measured, shapes: Sequence[Finding], sums: int) -> list[Finding]:
    """Return what the collectives contradict, where the grids do not say more of it."""
    workload = found.theory.workload
    steps = found.analysed.steps.height
    if workload is None or not steps or any(one.slug == "tp-mismatch" for one in shapes):
        return []
    return degree_findings(found.kernels, found.classes, workload, sums)


def _layer_findings(found: Measured) -> list[Finding]:
    theory = found.theory
    if theory.model is None or not theory.operators:
        return []
    expected = sum(op.kind in ATTENTION_KINDS for op in theory.operators)
    calls = found.attention_calls
    # Several launches a layer are an engine's choice (two passes, two batches); fewer layers,
    # or a number that no such choice gives, are another model.
    if not calls or not expected or calls % expected == 0:
        return []
    return [find.model_mismatch(theory.model.name, expected, calls)]
