"""Everything between the trace and the report: steps, workload, plans, and which kernel is what."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import polars as pl

from nsysroof.analysis.contents import Contents, fill_in, tell_steps
from nsysroof.analysis.operators import OperatorGroup, group_operators
from nsysroof.analysis.options import Options
from nsysroof.analysis.plans import make_plans
from nsysroof.analysis.selection import Selection, select
from nsysroof.analysis.shapes import batch_of_grids
from nsysroof.analysis.staging import staged_copies
from nsysroof.analysis.steps import Analysed, calls_per_step, choose_steps, phase_rows
from nsysroof.analysis.theory import Hardware, choose_hardware, choose_model, make_workload
from nsysroof.match.assign import Placement, Plan, place_operators
from nsysroof.match.engines import projects_value_first
from nsysroof.match.phases import attention_names, step_phases
from nsysroof.match.rules import KernelClass, load_rules
from nsysroof.results import (
    Capture,
    Phase,
)
from nsysroof.theory.cost import Operator
from nsysroof.theory.models.spec import ModelSpec
from nsysroof.theory.workload import Workload
from nsysroof.timeline.activity import collect_activities, replayed_kernels
from nsysroof.timeline.gaps import find_gaps
from nsysroof.timeline.intervals import advance
from nsysroof.timeline.steps import assign_steps, find_runs, find_steps
from nsysroof.trace import Trace
from nsysroof.trace.order import in_equal_chunks

_NO_PLAN = Plan(fused=True, operators=[], bounds_ns=[])
WORK_HIDDEN = "missing"  # graph mode in which the GPU works unseen: what looks idle may be busy
_KERNELS_HIDDEN = ("graph", WORK_HIDDEN)  # … in which the model's kernels are not in the capture


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTheory:
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
class Measured:
    """Everything between the trace and the report."""

    capture: Capture
    picked: Selection
    hardware: Hardware
    theory: StepTheory
    classes: list[KernelClass]
    texts: list[str]
    activities: pl.DataFrame
    steps: pl.DataFrame
    gaps: pl.DataFrame  # as ``find_gaps`` returns
    contents: Contents
    phases: list[Phase]
    analysed: Analysed
    attention_calls: int  # in the typical analysed step
    groups: list[OperatorGroup]
    kernels: pl.DataFrame
    staged: pl.DataFrame  # copies that count with a collective


def measure(trace: Trace, options: Options) -> Measured:
    """Find the steps of a trace, what they hold, and the operator of every kernel.

    Raises:
        UsageError: Options that do not fit the trace or one another.
        InputError: A file named by the options cannot be read.
    """
    capture = trace.capture()
    picked = select(trace, options)
    hardware = choose_hardware(options, picked.devices)
    model = choose_model(options)
    texts = trace.names["text"].to_list()
    with ThreadPoolExecutor(max_workers=1) as beside:
        # Names and times need nothing of each other, nor idle time and operators.
        named = beside.submit(lambda: load_rules(options.rules).classify_each(texts))
        activities = collect_activities(
            trace, picked.kernels, gpus=picked.gpus, window_ns=picked.window_ns
        )
        steps = find_steps(
            trace,
            activities,
            step_range=options.step_range,
            layers=len(model.layers) if model else None,
        )
        classes = named.result()
        matching = beside.submit(
            _match,
            picked.kernels,
            activities,
            steps,
            classes,
            options=options,
            hardware=hardware,
            model=model,
            visible=capture.graph_mode not in _KERNELS_HIDDEN,
        )
        gaps = find_gaps(trace, activities, find_runs(steps))
    found = matching.result()
    return Measured(
        capture=capture,
        picked=picked,
        hardware=hardware,
        theory=found.theory,
        classes=classes,
        texts=texts,
        activities=activities,
        steps=steps,
        gaps=gaps,
        contents=found.contents,
        phases=phase_rows(found.phased),
        analysed=found.analysed,
        attention_calls=found.attention_calls,
        groups=found.groups,
        kernels=found.kernels,
        staged=staged_copies(activities, picked.copies, found.kernels, found.groups),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Matched:
    """What the steps hold and what each kernel is; ``phased`` are the steps with their phase."""

    contents: Contents
    phased: pl.DataFrame
    analysed: Analysed
    attention_calls: int
    theory: StepTheory
    groups: list[OperatorGroup]
    kernels: pl.DataFrame


def _match(
    kernels: pl.DataFrame,
    activities: pl.DataFrame,
    steps: pl.DataFrame,
    classes: list[KernelClass],
    *,
    options: Options,
    hardware: Hardware,
    model: ModelSpec | None,
    visible: bool,
) -> _Matched:
    """Match the kernels of the steps with operators; ``visible``: those in graphs were traced."""
    kernels = _with_replays(kernels, activities)
    kernels = kernels.with_columns(assign_steps(kernels, steps), advance(kernels))
    kernels = in_equal_chunks(kernels)
    contents = tell_steps(options, steps)
    phased = step_phases(
        kernels,
        steps,
        classes,
        stated=None if options.phase == "auto" else options.phase,
        known=contents.phases(steps),
    )
    analysed = choose_steps(phased, options.phase)
    whole = analysed.steps.height == phased.height
    in_steps = kernels if whole else _only_steps(kernels, analysed.steps)
    calls = calls_per_step(in_steps, attention_names(classes))
    theory = _theory(
        model,
        options,
        hardware,
        analysed,
        contents,
        grid_batch=batch_of_grids(kernels, analysed.steps, classes),
        visible=visible,
        value_first=projects_value_first(classes),
        attention_calls=calls,
    )
    placement = place_operators(in_steps, classes, theory.plans, floor_ns=hardware.floor_ns)
    groups, group_of = group_operators(
        placement, peaks=hardware.peaks, roofs=hardware.roofs, floor_ns=hardware.floor_ns
    )
    return _Matched(
        contents=contents,
        phased=phased,
        analysed=analysed,
        attention_calls=calls,
        theory=theory,
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
) -> StepTheory:
    if model is None:
        return StepTheory(model=None, workload=None, plans=[_NO_PLAN])
    inputs = fill_in(options, contents, analysed, grid_batch=grid_batch)
    if contents.scheduled and inputs.options.context is None:
        return StepTheory(
            model=model, workload=None, plans=[_NO_PLAN]
        )  # none of its rows is a step
    workload = make_workload(inputs.options, _workload_phase(inputs.options, analysed.phase))
    if not visible or not analysed.steps.height:
        return StepTheory(model=model, workload=workload, plans=[_NO_PLAN], note=inputs.note)
    plans = make_plans(
        model,
        workload,
        options,
        hardware.peaks,
        value_first=value_first,
        attention_calls=attention_calls,
    )
    return StepTheory(model=model, workload=workload, plans=plans, note=inputs.note)


def _workload_phase(options: Options, phase: str | None) -> str:
    """Return what a step costs like: of a prompt in a mixed step only the last token has logits."""
    told = options.query_lengths is not None or options.new_tokens is not None
    return "prefill" if phase == "prefill" or (phase == "mixed" and told) else "decode"


def _with_replays(kernels: pl.DataFrame, activities: pl.DataFrame) -> pl.DataFrame:
    return in_equal_chunks(kernels.with_columns(replayed_kernels(activities)))


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
    return in_equal_chunks(
        placement.kernels.with_columns(
            numbers.gather(covers).alias("group"), roles.gather(covers).alias("role")
        )
    )
