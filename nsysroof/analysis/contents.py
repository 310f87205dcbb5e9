"""What each step works on, on whose word, and whether the options agree with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl

from nsysroof.analysis.options import Options
from nsysroof.analysis.schedule import read_schedule
from nsysroof.analysis.steps import Analysed
from nsysroof.errors import UsageError
from nsysroof.findings import finding
from nsysroof.results import Finding
from nsysroof.timeline.annotations import Content, parse_annotation

_ROUNDED = 0.01  # a context may be given to this share of itself


@dataclass(frozen=True, slots=True, kw_only=True)
class Contents:
    """What is told of the steps.

    Attributes:
        by_step: Content of a step of a GPU; steps of which nothing is told are absent.
        scheduled: Whether a schedule tells it, not NVTX.
        findings: Where the schedule and the steps found differ.
    """

    by_step: dict[tuple[int, int], Content]
    scheduled: bool
    findings: tuple[Finding, ...]

    def phases(self, steps: pl.DataFrame) -> pl.Series:
        """Return the phase of each step, null where it is not told."""
        told = [self.by_step.get(key) for key in steps.select("gpu", "step").iter_rows()]
        return pl.Series("phase", [one.phase if one else None for one in told], dtype=pl.String)

    def typical(self, analysed: Analysed) -> tuple[int, Content] | None:
        """Return the step with the median wall time of those that are told, and what it holds."""
        own = self.ascending(analysed)
        return own[(len(own) - 1) // 2] if own else None

    def ascending(self, analysed: Analysed) -> list[tuple[int, Content]]:
        """Return the analysed steps of the lowest GPU that are told, the shortest first."""
        keys = analysed.lowest.select("gpu", "step").iter_rows()
        return [(key[1], self.by_step[key]) for key in keys if key in self.by_step]


@dataclass(frozen=True, slots=True, kw_only=True)
class Inputs:
    """The options with what they leave open filled in.

    Attributes:
        options: Batch, context and new tokens as they are used.
        note: Whose word was taken and for which step, None where the options said it all.
    """

    options: Options
    note: str | None = None


def tell_steps(options: Options, steps: pl.DataFrame) -> Contents:
    """Return what a schedule, or else the text of NVTX ranges, tells of the steps.

    Raises:
        UsageError: ``schedule-and-options`` where both say what a step works on.
        InputError: The schedule cannot be read.
    """
    if options.schedule is None:
        marks = steps.filter(pl.col("mark").is_not_null()).select("gpu", "step", "mark")
        read = {text: parse_annotation(text) for text in marks["mark"].unique().to_list()}
        told = {(gpu, step): read[text] for gpu, step, text in marks.iter_rows()}
        known = {key: content for key, content in told.items() if content is not None}
        return Contents(by_step=known, scheduled=False, findings=())
    twice = [
        name
        for name, value in (
            ("--batch", options.batch),
            ("--context", options.context),
            ("--new-tokens", options.new_tokens or options.query_lengths),
        )
        if value is not None
    ]
    if twice:
        raise UsageError(
            f"{' and '.join(twice)} and --schedule both say what a step works on",
            hint="leave one of them out: the schedule has contexts and new tokens of every step",
            slug="schedule-and-options",
            where="--schedule",
        )
    schedule = read_schedule(Path(options.schedule))
    by_step = {
        key: schedule[key[1]]
        for key in steps.select("gpu", "step").iter_rows()
        if key[1] in schedule
    }
    return Contents(
        by_step=by_step, scheduled=True, findings=tuple(_misfit(sorted(schedule), steps))
    )


def fill_in(
    options: Options, contents: Contents, analysed: Analysed, *, grid_batch: int | None
) -> Inputs:
    """Return the inputs of the theory; what the options say is never replaced.

    The step taken is the one with the median wall time, as for the budget: KV lengths grow with
    every decode step, and it stands for all of them.

    Args:
        options: What the user said.
        contents: What is told of the steps.
        analysed: The steps analysed.
        grid_batch: Sequences by the grids of decode attention, for want of better.

    Raises:
        UsageError: ``new-tokens-missing`` where the schedule has only a sum that several
            sequences can share in more than one way.
    """
    typical = contents.typical(analysed)
    if typical is None:
        return _with_grid_batch(options, grid_batch)
    step, content = typical
    if contents.scheduled and content.queries is None:
        raise UsageError(
            f"step {step} has more new tokens than sequences, and they may be shared in many ways",
            hint="write the new tokens of each sequence into the schedule, such as 1 1 512",
            slug="new-tokens-missing",
            where=content.told_by,
        )
    filled = _sequences(options, content)
    lengths = _queries(filled, content, analysed.phase)
    if lengths is not None and len(set(lengths)) == 1:
        filled = replace(filled, new_tokens=lengths[0])
    elif lengths is not None:
        filled = replace(filled, query_lengths=lengths)
    note = _note(step, content, contents, analysed) if filled != options else None
    return Inputs(options=filled, note=note)


def _with_grid_batch(options: Options, grid_batch: int | None) -> Inputs:
    one_length = options.context is not None and len(options.context) == 1
    if options.batch is not None or grid_batch is None or not one_length:
        return Inputs(options=options)
    return Inputs(
        options=replace(options, batch=grid_batch),
        note="the batch is what the grids of decode attention cover",
    )


def _sequences(options: Options, content: Content) -> Options:
    """Return the options with batch and context where they leave them open."""
    batch, context = options.batch, options.context
    if context is None and content.contexts is not None:
        context = content.contexts
        if batch is not None and batch != len(context):
            context = (round(sum(context) / len(context)),)
    if batch is None and (context is None or len(context) == 1):
        batch = content.requests
    return replace(options, batch=batch, context=context)


def contradictions(options: Options, contents: Contents, analysed: Analysed) -> list[Finding]:
    """Return where batch or context of the options are those of no analysed step."""
    told = [content for _, content in contents.ascending(analysed)]
    if not told:
        return []
    found = []
    requests = [content.requests for content in told]
    batch = options.batch
    if batch is None and options.context is not None and len(options.context) > 1:
        batch = len(options.context)
    if batch is not None and not min(requests) <= batch <= max(requests):
        found.append(
            finding(
                slug="batch-mismatch",
                severity="error",
                text=f"NVTX annotates {_span(requests)} sequences in a step, but the batch given "
                f"is {batch}",
                hint=f"give --batch {requests[(len(requests) - 1) // 2]}, or leave it out",
            )
        )
    means = [content.mean_context for content in told if content.mean_context is not None]
    if options.context is None or not means:
        return found
    given = sum(options.context) / len(options.context)
    if not min(means) * (1 - _ROUNDED) <= given <= max(means) * (1 + _ROUNDED):
        found.append(
            finding(
                slug="context-mismatch",
                severity="error",
                text=f"NVTX annotates {_span(means)} KV tokens of a sequence in the mean, but the "
                f"context given is {given:,.0f}",
                hint="leave --batch and --context out to take both from NVTX",
            )
        )
    return found


def _queries(options: Options, content: Content, phase: str | None) -> tuple[int, ...] | None:
    """Return the new tokens of each sequence, None where the phase alone says them.

    None too where the options name other sequences than these.
    """
    lengths, context = content.queries, options.context
    said = options.new_tokens is not None or options.query_lengths is not None
    if lengths is None or said or context is None:
        return None
    contexts = context * (options.batch or 1) if len(context) == 1 else context
    usual = contexts if phase == "prefill" else ((options.drafts or 0) + 1,) * len(contexts)
    if len(lengths) != len(contexts) or lengths == usual:
        return None
    return lengths if all(q <= s for q, s in zip(lengths, contexts, strict=True)) else None


def _note(step: int, content: Content, contents: Contents, analysed: Analysed) -> str:
    means = [
        one.mean_context for _, one in contents.ascending(analysed) if one.mean_context is not None
    ]
    note = (
        f"the step worked on is that of step {step}, the median step, as {content.told_by} has it"
    )
    if content.contexts is not None and not contents.scheduled:
        note += ": its sums are shared out evenly over the sequences"
    if len(means) > 1:
        note += f"; over the {len(means)} steps analysed a context is {_span(means)} in the mean"
    return note


def _misfit(scheduled: Sequence[int], steps: pl.DataFrame) -> list[Finding]:
    """Return where the steps of the schedule are not those that were found."""
    for (gpu,), own in sorted(steps.partition_by("gpu", as_dict=True).items()):
        found = own["step"].to_list()
        if found != list(scheduled):
            return [_schedule_mismatch(scheduled, found, f" on GPU {gpu}")]
    return [] if steps.height else [_schedule_mismatch(scheduled, [], "")]


def _schedule_mismatch(scheduled: Sequence[int], found: Sequence[int], where: str) -> Finding:
    unused = len(set(scheduled) - set(found))
    untold = len(set(found) - set(scheduled))
    return finding(
        slug="schedule-mismatch",
        severity="error",
        text=f"the schedule has {len(scheduled):,} steps, but {len(found):,} were found{where}: "
        f"{unused:,} of its rows are no step found, {untold:,} steps have no row",
        hint="number the rows from 0 at the first step of the window; cut with --window",
    )


def _span(values: Sequence[float]) -> str:
    """Return the range of some numbers.

    >>> _span([512.06, 513.0]), _span([16, 16])
    ('512.1 to 513', '16')
    """
    low, high = (f"{value:,.1f}".removesuffix(".0") for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"
