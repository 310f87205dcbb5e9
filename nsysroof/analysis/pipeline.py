"""The pipeline: capture verdict, timeline, steps, operators, accounts, findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl
from msgspec import structs

from nsysroof import __version__
from nsysroof.analysis import findings as find
from nsysroof.analysis.collectives import collective_rows
from nsysroof.analysis.contents import Contents, contradictions, fill_in, tell_steps
from nsysroof.analysis.impossible import impossible_rows
from nsysroof.analysis.links import link_rows
from nsysroof.analysis.nvtx_coverage import nvtx_coverage
from nsysroof.analysis.operators import OperatorGroup, group_operators, operator_rows
from nsysroof.analysis.options import Options
from nsysroof.analysis.overlap import overlap_rows
from nsysroof.analysis.plans import make_plans
from nsysroof.analysis.products import agrees, product_findings, told_products, usual_products
from nsysroof.analysis.selection import Selection, select
from nsysroof.analysis.shapes import batch_of_grids, shape_findings, usual_launches
from nsysroof.analysis.step_timeline import step_timeline
from nsysroof.analysis.steps import Analysed, choose_steps, phase_rows, step_rows
from nsysroof.analysis.tables import (
    coverage,
    gap_rows,
    host_calls,
    kernel_rows,
    stream_rows,
)
from nsysroof.analysis.theory import Hardware, assume, choose_hardware, choose_model, make_workload
from nsysroof.analysis.unexplained import unexplained_rows
from nsysroof.match.assign import Placement, Plan, place_operators
from nsysroof.match.engines import projects_value_first
from nsysroof.match.phases import attention_names, step_phases
from nsysroof.match.rules import KernelClass, load_rules
from nsysroof.results import (
    Budget,
    Capture,
    Finding,
    LinkRow,
    Phase,
    Report,
    StepBounds,
    StepTimeline,
)
from nsysroof.theory.cost import Operator
from nsysroof.theory.kinds import ATTENTION_KINDS
from nsysroof.theory.models.spec import ModelSpec
from nsysroof.theory.peaks import Peaks
from nsysroof.theory.roofline import crossed_link, link_of, step_bounds
from nsysroof.theory.workload import Workload
from nsysroof.timeline.account import account
from nsysroof.timeline.activity import collect_activities, replayed_kernels
from nsysroof.timeline.budget import Share, step_budget
from nsysroof.timeline.gaps import find_gaps
from nsysroof.timeline.intervals import advance
from nsysroof.timeline.steps import assign_steps, find_runs, find_steps
from nsysroof.trace import Trace

_NO_PLAN = Plan(fused=True, operators=[], bounds_ns=[])
_WORK_HIDDEN = "missing"  # graph mode in which the GPU works unseen: what looks idle may be busy
_KERNELS_HIDDEN = ("graph", _WORK_HIDDEN)  # … in which the model's kernels are not in the capture


@dataclass(frozen=True, slots=True, kw_only=True)
class _Theory:
    """The model's operators of one step as engines may run them, with nothing measured yet.

    ``plans`` holds one empty plan where there is no model or the kernels are hidden. ``note`` says
    whose word the workload is where it is not the options'.
    """

    model: ModelSpec | None
    workload: Workload | None
    plans: list[Plan]
    note: str | None = None

    @property
    def operators(self) -> list[Operator]:
        """The operators of the likeliest plan."""
        return self.plans[0].operators


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """Everything between the trace and the report."""

    capture: Capture
    picked: Selection
    hardware: Hardware
    theory: _Theory
    classes: list[KernelClass]
    texts: list[str]
    activities: pl.DataFrame
    steps: pl.DataFrame
    contents: Contents
    phases: list[Phase]
    analysed: Analysed
    groups: list[OperatorGroup]
    kernels: pl.DataFrame


def analyze(trace: Trace, options: Options, *, all_gaps: bool = False) -> Report:
    """Return the report on a trace.

    Args:
        trace: An open trace.
        options: What the user said; without a model there are classes, but no ratios.
        all_gaps: List every gap, not only the largest.

    Raises:
        UsageError: Options that do not fit the trace or one another.
        InputError: A file named by the options cannot be read.
    """
    return _report(trace, options, _measure(trace, options), all_gaps=all_gaps)


def analyze_kernels(trace: Trace, options: Options) -> tuple[Report, pl.DataFrame]:
    """Return the report with every gap, and the kernels as ``label_kernels`` does."""
    found = _measure(trace, options)
    return _report(trace, options, found, all_gaps=True), found.kernels


def label_kernels(trace: Trace, options: Options) -> pl.DataFrame:
    """Return every kernel analysed with its ``step``, ``role`` and ``advance_ns``.

    ``role`` is null where no operator of the model was found; ``step`` outside the analysed steps.
    The other columns are those of ``trace.kernels``.
    """
    return _measure(trace, options).kernels


def _report(trace: Trace, options: Options, found: _Measured, *, all_gaps: bool) -> Report:
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
        confirmed={at for at, one in products.items() if agrees(found.groups[at], one)},
        steps=analysed.steps.height,
        floor_ns=hardware.floor_ns,
        sm_count=hardware.gpu.sm_count if hardware.gpu else None,
    )
    mismatches = [
        *hardware.findings,
        *_layer_findings(found),
        *_shape_findings(found),
        *(product_findings(found.groups, products, theory.model.name) if theory.model else ()),
        *find.dtype_mismatch(operators, found.classes),
    ]
    doubted = {finding.slug for finding in mismatches if finding.severity == "error"}
    if not found.contents.scheduled:
        annotated = contradictions(options, found.contents, analysed)
        mismatches += [told for told in annotated if told.slug not in doubted]
    contradicted = {finding.slug for finding in mismatches}
    impossible = impossible_rows(operators, hardware, theory.workload, contradicted)
    gaps = find_gaps(trace, found.activities, find_runs(found.steps))
    idle_known = capture.graph_mode != _WORK_HIDDEN
    timeline = account(found.activities, gaps, idle_known=idle_known)
    budget = _budget(found, gaps) if idle_known else None
    covered = coverage(found.kernels)
    modelled = theory.model is not None
    links = link_rows(
        picked.copies,
        {key: peak.value for key, peak in hardware.peaks.items()},
        activities=found.activities,
        steps=analysed.steps,
    )
    assumptions = assume(
        options,
        hardware,
        theory.model,
        theory.workload,
        phase=analysed.phase,
        window_anchor_ns=picked.anchor_ns,
        devices=picked.gpus,
        peaks_used=_peaks_used(found.groups, links, hardware.peaks),
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
        steps=step_rows(analysed),
        budget=budget,
        step_timeline=_step_timeline(found, gaps) if idle_known else None,
        step_bounds=_bounds_of_step(theory, hardware, budget),
        operators=operators,
        kernels=kernel_rows(
            found.kernels,
            found.texts,
            found.classes,
            {group.role: group.bound.spec_ns for group in found.groups},
        ),
        gaps=gap_rows(gaps, found.activities, found.texts, found.steps, everything=all_gaps)
        if idle_known
        else [],
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
        collectives=collective_rows(
            found.kernels,
            {group.role for group in found.groups if group.crosses_link},
            group_size=options.tp,
            shared_clock=True,
        ),
        overlaps=overlap_rows(found.kernels),
        host=host_calls(trace),
    )


def _measure(trace: Trace, options: Options) -> _Measured:
    capture = trace.capture()
    picked = select(trace, options)
    hardware = choose_hardware(options, picked.devices)
    model = choose_model(options)
    texts = trace.names["text"].to_list()
    classes = load_rules(options.rules).classify_each(texts)
    activities = collect_activities(
        trace, picked.kernels, gpus=picked.gpus, window_ns=picked.window_ns
    )
    steps = find_steps(
        trace,
        activities,
        step_range=options.step_range,
        layers=len(model.layers) if model else None,
    )
    kernels = _with_replays(picked.kernels, activities)
    kernels = kernels.with_columns(assign_steps(kernels, steps), advance(kernels))
    contents = tell_steps(options, steps)
    phased = step_phases(
        kernels,
        steps,
        classes,
        stated=None if options.phase == "auto" else options.phase,
        known=contents.phases(steps),
    )
    analysed = choose_steps(phased, options.phase)
    visible = capture.graph_mode not in _KERNELS_HIDDEN
    in_steps = (
        kernels if analysed.steps.height == phased.height else _only_steps(kernels, analysed.steps)
    )
    theory = _theory(
        model,
        options,
        hardware,
        analysed,
        contents,
        grid_batch=batch_of_grids(kernels, analysed.steps, classes),
        visible=visible,
        value_first=projects_value_first(classes),
        attention_calls=find.attention_calls(in_steps, attention_names(classes)),
    )
    placement = place_operators(
        in_steps,
        classes,
        theory.plans,
        floor_ns=hardware.floor_ns,
    )
    groups, group_of = group_operators(
        placement,
        peaks=hardware.peaks,
        roofs=hardware.roofs,
        floor_ns=hardware.floor_ns,
    )
    return _Measured(
        capture=capture,
        picked=picked,
        hardware=hardware,
        theory=theory,
        classes=classes,
        texts=texts,
        activities=activities,
        steps=steps,
        contents=contents,
        phases=phase_rows(phased),
        analysed=analysed,
        groups=groups,
        kernels=_with_roles(placement, groups, group_of),
    )


def _theory(
    model: ModelSpec | None,
    options: Options,
    hardware: Hardware,
    analysed: Analysed,
    contents: Contents,
    *,
    grid_batch: int | None,
    visible: bool,
    value_first: bool,
    attention_calls: int,
) -> _Theory:
    if model is None:
        return _Theory(model=None, workload=None, plans=[_NO_PLAN])
    inputs = fill_in(options, contents, analysed, grid_batch=grid_batch)
    if contents.scheduled and inputs.options.context is None:
        return _Theory(model=model, workload=None, plans=[_NO_PLAN])  # none of its rows is a step
    workload = make_workload(inputs.options, _workload_phase(inputs.options, analysed.phase))
    if not visible or not analysed.steps.height:
        return _Theory(model=model, workload=workload, plans=[_NO_PLAN], note=inputs.note)
    plans = make_plans(
        model,
        workload,
        options,
        hardware.peaks,
        value_first=value_first,
        attention_calls=attention_calls,
    )
    return _Theory(model=model, workload=workload, plans=plans, note=inputs.note)


def _workload_phase(options: Options, phase: str | None) -> str:
    """Return what a step costs like: of a prompt in a mixed step only the last token has logits."""
    told = options.query_lengths is not None or options.new_tokens is not None
    return "prefill" if phase == "prefill" or (phase == "mixed" and told) else "decode"


def _with_replays(kernels: pl.DataFrame, activities: pl.DataFrame) -> pl.DataFrame:
    return kernels.with_columns(replayed_kernels(activities))


def _only_steps(kernels: pl.DataFrame, steps: pl.DataFrame) -> pl.DataFrame:
    """Forget the step of kernels whose step is not analysed."""
    wanted = steps.select("gpu", "step", pl.lit(value=True).alias("_wanted"))
    placed = kernels.select("gpu", "step")
    marked = placed.join(wanted, on=["gpu", "step"], how="left", maintain_order="left")
    return kernels.with_columns(marked.select(pl.when("_wanted").then("step").alias("step")))


def _with_roles(
    placement: Placement, groups: Sequence[OperatorGroup], group_of: Sequence[int]
) -> pl.DataFrame:
    roles = pl.Series("role", [groups[at].role for at in group_of], dtype=pl.String)
    numbers = pl.Series("group", group_of, dtype=pl.UInt32)
    covers = placement.kernels["covers"]
    return placement.kernels.with_columns(
        numbers.gather(covers).alias("group"), roles.gather(covers).alias("role")
    )


def _budget(found: _Measured, gaps: pl.DataFrame) -> Budget | None:
    median = found.analysed.median_step
    if median is None:
        return None
    kind = [_share(group) for group in found.groups]
    names = pl.Enum([str(share) for share in Share])
    shares = pl.Series("share", [str(share) for share in kind], dtype=names)
    labels = found.kernels.select(
        shares.gather(found.kernels["group"]).fill_null(str(Share.UNEXPLAINED)), "role"
    )
    inside = found.kernels.filter((pl.col("gpu") == median.gpu) & (pl.col("step") == median.step))
    instances = inside.group_by("covers").agg(pl.col("group").first())["group"].drop_nulls()
    return step_budget(
        found.activities,
        gaps,
        labels,
        gpu=median.gpu,
        step=median.step,
        start_ns=median.start_ns,
        end_ns=median.end_ns,
        bound_ns=sum(
            round(found.groups[at].bound.spec_ns or 0)
            for at in instances
            if kind[at] is Share.BOUND
        ),
        texts=found.texts,
    )


def _peaks_used(
    groups: Sequence[OperatorGroup], links: Sequence[LinkRow], peaks: Peaks
) -> set[str]:
    """Return the keys of the peaks that the report's bounds and ratios were divided by."""
    used = {"bw" if row.kind == "d2d" else row.kind for row in links if row.ratio is not None}
    for group in groups:
        used |= set(group.cost.flop)
        used |= {"bw"} if group.cost.memory_bytes else set()
        used |= {crossed_link(link_of(op), peaks) for op in group.members if op.cost.link}
    return used


def _step_timeline(found: _Measured, gaps: pl.DataFrame) -> StepTimeline | None:
    median = found.analysed.median_step
    if median is None:
        return None
    return step_timeline(found.activities, gaps, found.kernels["role"], found.texts, median)


def _share(group: OperatorGroup) -> Share:
    if group.bound.spec_ns is None:
        return Share.UNEXPLAINED
    return Share.FIXED if group.fixed else Share.BOUND


def _bounds_of_step(
    theory: _Theory, hardware: Hardware, budget: Budget | None
) -> StepBounds | None:
    if theory.workload is None or not theory.operators:
        return None
    # What an engine may fuse away is no part of a bound on the whole step.
    real = [op for op in theory.operators if not (op.auxiliary or op.optional)]
    bounds = step_bounds(
        [op.cost for op in real], hardware.peaks, links=[link_of(op) for op in real]
    )
    tokens = theory.workload.yielded_tokens
    wall = budget.wall_ns if budget else None
    return StepBounds(
        measured_ns=wall,
        serial_ns=bounds.serial_ns,
        hard_ns=bounds.hard_ns,
        weights_once_ns=bounds.weights_once_ns,
        tokens=tokens,
        tokens_per_s=tokens / wall * 1e9 if wall else None,
        tokens_per_s_bound=tokens / bounds.hard_ns * 1e9 if bounds.hard_ns else None,
    )


def _range_findings(trace: Trace, options: Options, found: _Measured) -> list[Finding]:
    if options.step_range is None:
        return []
    return find.nvtx_low_coverage(nvtx_coverage(trace, found.kernels, options.step_range))


def _shape_findings(found: _Measured) -> list[Finding]:
    theory = found.theory
    if theory.model is None or theory.workload is None:
        return []
    launches = usual_launches(found.kernels, found.groups, found.classes)
    return shape_findings(launches, theory.model, theory.workload, found.hardware.gpu)


def _layer_findings(found: _Measured) -> list[Finding]:
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
