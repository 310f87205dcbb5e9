"""From the command line to the library's calls, and from a report to an exit code."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from nsysroof.cli.options import SelectionOptions, TheoryOptions, parse_window
from nsysroof.cli.origin import command_of
from nsysroof.cli.progress import reading_line
from nsysroof.errors import Inconclusive, UsageError
from nsysroof.results import Ranks, Report

if TYPE_CHECKING:
    from nsysroof.analysis import Options
    from nsysroof.slices import Slices

_NO_KERNELS = "no-kernels"
_SAVED = ".json"
_SNIFFED = 64  # bytes: more white space than that stands before no report


def library_options(
    model: str | None, theory: TheoryOptions, selection: SelectionOptions | None = None
) -> Options:
    """Return the options as the library takes them.

    Raises:
        UsageError: A context or a window that cannot be read.
    """
    from nsysroof.analysis import Options
    from nsysroof.theory.workload import parse_contexts

    chosen = selection or SelectionOptions()
    return Options(
        model=model,
        gpu=theory.gpu,
        batch=theory.batch,
        context=None if theory.context is None else parse_contexts(theory.context),
        phase=theory.phase.value,
        new_tokens=theory.new_tokens,
        weights=theory.weights,
        kv=theory.kv,
        activations=theory.activations,
        tp=theory.tp,
        ep=theory.ep,
        dp=theory.dp,
        experts=theory.experts,
        floor_us=theory.floor_us,
        peaks=tuple(theory.peak or ()),
        roofs=theory.roofs,
        tokens_per_step=theory.tokens_per_step,
        shared_prefix=theory.shared_prefix,
        draft=theory.draft,
        drafts=theory.drafts,
        expert_misses=theory.expert_misses,
        unprofiled_step_us=theory.unprofiled_step_us,
        devices=tuple(chosen.device or ()),
        window=None if chosen.window is None else parse_window(chosen.window),
        step_range=chosen.step_range,
        schedule=chosen.schedule,
        rules=chosen.rules,
    )


def read_report(
    trace: Path,
    model: str | None,
    theory: TheoryOptions,
    selection: SelectionOptions,
    *,
    complete: Collection[str] = (),
) -> Report:
    """Return the report on a trace, with the command that makes it.

    Raises:
        UsageError: ``not-saved`` where a saved report is given, which lists the longest alone.
        NsysroofError: As ``open_trace`` and ``analyze`` do.
    """
    if complete and is_saved_report(trace):
        raise UsageError(
            f"a saved report does not hold all {' and '.join(complete)}, only the longest",
            hint="give the trace; `nsysroof analyze REPORT` shows those that the report holds",
            slug="not-saved",
            where=str(trace),
        )
    options = library_options(model, theory, selection)

    from nsysroof.analysis import analyze
    from nsysroof.trace import open_trace

    with reading_line() as tell:
        opened = open_trace(trace) if tell is None else open_trace(trace, tell=tell)
        report = analyze(opened, options, complete=complete)
    return structs.replace(report, command=command_of(trace, model, theory, selection))


def read_ranks(
    traces: Sequence[Path], model: str | None, theory: TheoryOptions, selection: SelectionOptions
) -> Ranks:
    """Return the ranks of a run in several files, with the command that makes them.

    Raises:
        UsageError: ``same-file`` where a file is given twice.
        NsysroofError: As ``open_trace`` and ``compare_files`` do.
    """
    options = library_options(model, theory, selection)
    given = [trace.resolve() for trace in traces]
    if len(set(given)) < len(given):
        twice = next(
            trace for trace, path in zip(traces, given, strict=True) if given.count(path) > 1
        )
        raise UsageError(
            f"{twice.name} is given twice",
            hint="give each file of the run once, in the order of the ranks",
            slug="same-file",
            where=str(twice),
        )

    from nsysroof.analysis.run_files import compare_files
    from nsysroof.trace import open_trace

    with reading_line() as tell:
        opened = ((trace.name, open_trace(trace, tell=tell)) for trace in traces)
        run = compare_files(opened, options)
    command = command_of(traces, model, theory, selection, verb="ranks")
    return structs.replace(run, command=command)


def read_slices(
    trace: Path, model: str | None, theory: TheoryOptions, selection: SelectionOptions
) -> Slices:
    """Return what ran when in a trace, for timeline viewers.

    Raises:
        Inconclusive: ``no-kernels`` where nothing did.
        NsysroofError: As ``open_trace`` and ``trace_slices`` do.
    """
    options = library_options(model, theory, selection)

    from nsysroof.analysis.slices import trace_slices
    from nsysroof.trace import open_trace

    with reading_line() as tell:
        slices = trace_slices(open_trace(trace, tell=tell), options)
    if not slices.slices:
        raise Inconclusive(
            "nothing ran on a GPU in this capture",
            hint="`nsysroof info TRACE` tells why; profile again with -t cuda",
            slug=_NO_KERNELS,
        )
    return slices


def is_saved_report(path: Path) -> bool:
    """Return whether a file is JSON, as saved reports are and exports are not."""
    if not path.is_file():
        return path.suffix.lower() == _SAVED
    with path.open("rb") as file:
        return file.read(_SNIFFED).lstrip()[:1] == b"{"


def read_runs(
    paths: Sequence[Path], model: str | None, theory: TheoryOptions, selection: SelectionOptions
) -> list[Report]:
    """Return a report for each path: read where it was saved, analysed where it is a trace.

    Raises:
        UsageError: ``options-without-trace`` where options for the analysis of a trace are given,
            but every path is a saved report.
        NsysroofError: As ``load_report``, ``open_trace`` and ``analyze`` do.
    """
    saved = [is_saved_report(path) for path in paths]
    chosen = replace(selection, strict=False)
    analysis = (model, theory, chosen) != (None, TheoryOptions(), SelectionOptions())
    if all(saved) and analysis:
        raise UsageError(
            "options for the analysis have no effect on saved reports",
            hint="leave them out, or give the trace itself",
            slug="options-without-trace",
        )

    from nsysroof.report.saved import load_report

    return [
        load_report(path) if is_saved else read_report(path, model, theory, selection)
        for path, is_saved in zip(paths, saved, strict=True)
    ]


def check_answered(report: Report) -> None:
    """Raise where the capture has no kernel, so that nothing asked of it is answered.

    Raises:
        Inconclusive: ``no-kernels``.
    """
    if report.capture.kernels_used:
        return
    for finding in report.capture.findings:
        if finding.slug == _NO_KERNELS:
            raise Inconclusive(finding.text, hint=finding.hint, slug=_NO_KERNELS)
    raise Inconclusive(
        "no kernel of the capture can be used",
        hint="`nsysroof info TRACE` tells why; profile again with -t cuda",
        slug=_NO_KERNELS,
    )


def check_strictly(report: Report | Ranks, selection: SelectionOptions) -> None:
    """Raise where ``--strict`` was given and a finding is an error.

    Raises:
        Inconclusive: ``strict``.
    """
    findings = report.findings if isinstance(report, Ranks) else report.capture.findings
    errors = [found for found in findings if found.severity == "error"]
    if selection.strict and errors:
        slugs = ", ".join(dict.fromkeys(found.slug for found in errors))
        raise Inconclusive(
            f"--strict: the report has errors: {slugs}",
            hint=errors[0].hint or "see the findings at the head of the report",
            slug="strict",
        )
