"""The Python API: whatever the command line can do is one call, in the same words.

Inputs are keywords with the names of ``Options``; a trace or a report may be given by its path.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, replace
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nsysroof import compare as comparing
from nsysroof import gate
from nsysroof.analysis import pipeline
from nsysroof.analysis.options import Options
from nsysroof.analysis.run_files import compare_files
from nsysroof.analysis.slices import trace_slices
from nsysroof.analysis.theory import estimate_for
from nsysroof.carryover import Change, carry_over
from nsysroof.errors import UsageError
from nsysroof.gate import Limits
from nsysroof.match.rules import KernelClass, load_rules
from nsysroof.outcomes import Check, Diff, WhatIf
from nsysroof.report.base import (
    ANALYSIS_FORMATS,
    FileRenderer,
    TraceRenderer,
    renderer_for,
    renderer_named,
)
from nsysroof.report.saved import load_report
from nsysroof.report.views import View
from nsysroof.results import Estimate, Ranks, Report, Sweep
from nsysroof.slices import Slices
from nsysroof.theory import sweep as sweeping
from nsysroof.theory.sweep import Axis
from nsysroof.theory.workload import Workload
from nsysroof.trace import Trace
from nsysroof.trace import open_trace as _open

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_OPTIONS = frozenset(field.name for field in fields(Options))
_OF_WORKLOAD = tuple(field.name for field in fields(Workload) if field.name in _OPTIONS)


def open_trace(path: str | Path) -> Trace:
    """Open an export of nsys (SQLite or a folder of Parquet files), read-only.

    Raises:
        InputError: It cannot be read, or is none.
    """
    return _open(Path(path))


def analyze(
    trace: Trace | str | Path,
    options: Options | None = None,
    *,
    workload: Workload | None = None,
    complete: Collection[str] = (),
    **given: Any,
) -> Report:
    """Return the report on a trace.

    Args:
        trace: An open trace, or its path.
        options: What is known of the run, in one object.
        workload: The step, as ``Workload.create`` makes it.
        complete: Tables to list in full rather than their longest rows: ``gaps``, ``step_budgets``.
        given: Fields of ``Options`` by name: ``model="qwen3-8b", batch=8, context=4096``.

    Raises:
        UsageError: The inputs do not fit one another or the trace.
        InputError: A file cannot be read.
    """
    chosen = _options(options, workload, given)
    return pipeline.analyze(_opened(trace), chosen, complete=complete)


def ranks(
    traces: Sequence[Trace | str | Path],
    options: Options | None = None,
    *,
    workload: Workload | None = None,
    **given: Any,
) -> Ranks:
    """Return the ranks of a run that lies in several files; other arguments as for ``analyze``.

    Args:
        traces: Open traces or their paths, in the order of the ranks.
        options: What is known of the run; it holds for every file.
        workload: The step.
        given: Fields of ``Options`` by name.

    Raises:
        Inconclusive: ``one-rank`` where there are not two ranks to compare.
        UsageError: The inputs do not fit one another or a trace.
        InputError: A file cannot be read.
    """
    opened = (_opened(trace) for trace in traces)
    named = ((trace.path.name, trace) for trace in opened)
    return compare_files(named, _options(options, workload, given))


def timeline_slices(
    trace: Trace | str | Path,
    options: Options | None = None,
    *,
    workload: Workload | None = None,
    **given: Any,
) -> Slices:
    """Return what ran when, for timeline viewers; arguments as for ``analyze``."""
    return trace_slices(_opened(trace), _options(options, workload, given))


def estimate(
    options: Options | None = None, *, workload: Workload | None = None, **given: Any
) -> Estimate:
    """Return the best that a model can do on a GPU; arguments as for ``analyze``.

    Raises:
        UsageError: Model, GPU or workload is not given or not known.

    >>> best = estimate(model="qwen3-30b-a3b", gpu="gh200-96", context=4096)
    >>> round(best.step.tokens_per_s, 1)
    616.7
    """
    return estimate_for(_options(options, workload, given))


def sweep(
    options: Options | None = None,
    *,
    over: Mapping[str, Sequence[int | str]] | None = None,
    compared: Mapping[str, Sequence[int | str]] | None = None,
    **given: Any,
) -> Sweep:
    """Return estimates over several workloads or machines, a row for each.

    Args:
        options: As for ``analyze``.
        over: Values by name, such as ``{"batch": [1, 8, 64]}``.
        compared: The same for what stands side by side: ``{"gpu": ["h100-sxm", "b200"]}``.
        given: Fields of ``Options`` by name.

    >>> rows = sweep(model="qwen3-8b", gpu="l4", context=1024, over={"batch": [1, 2]}).rows
    >>> [row.batch for row in rows]
    [1, 2]
    """
    base = _options(options, None, given)
    swept = [_axis(name, values) for name, values in (over or {}).items()]
    beside = [_axis(name, values) for name, values in (compared or {}).items()]

    def price(point: Mapping[str, int | str]) -> Estimate:
        changed: dict[str, Any] = {name.replace("-", "_"): value for name, value in point.items()}
        return estimate_for(_options(base, None, changed))

    return sweeping.sweep(price, [*swept, *beside], compared=[axis.name for axis in beside])


def whatif(report: Report | str | Path, **change: Any) -> WhatIf:
    """Return what the measured step would take under a change.

    Args:
        report: A report, or the path of a saved one.
        change: Fields of ``carryover.Change`` by name: ``gpu="h200-sxm", batch=16``.
    """
    context = change.get("context")
    if isinstance(context, int):
        change["context"] = (context,)
    return carry_over(_loaded(report), Change(**change))


def diff(a: Report | str | Path, b: Report | str | Path, *, noise_ns: int = 0) -> Diff:
    """Return where the time went between two runs; changes up to ``noise_ns`` are the same."""
    return comparing.compare(
        _loaded(a), _loaded(b), names=(_name(a, "a"), _name(b, "b")), noise_ns=noise_ns
    )


def check(
    report: Report | str | Path,
    limits: Limits,
    *,
    baselines: Sequence[Report | str | Path] = (),
) -> Check:
    """Return how a report stands to limits; ``verdict`` is pass, fail or inconclusive."""
    return gate.check(
        _loaded(report),
        limits,
        name=_name(report, "report"),
        baselines=[_loaded(earlier) for earlier in baselines],
    )


def classify(*names: str, rules: Path | None = None) -> list[KernelClass]:
    """Return class and attributes of kernel names.

    >>> classify("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096>)")[0].klass
    'allreduce'
    """
    return load_rules(rules).classify_each(list(names))


def render(result: View, fmt: str = "table") -> str:
    """Return a result as text: table, tsv, csv, json, md or html."""
    stream = StringIO()
    renderer_named(fmt).render(result, stream)
    return stream.getvalue()


def save(result: View | Slices, path: str | Path) -> Path:
    """Write a result as the file that the ending of its name asks for, and return its path.

    Raises:
        UsageError: ``unknown-format``, or ``wrong-result`` where the format takes another result.
        FileExistsError: Something is there already.
    """
    path = Path(path)
    renderer = renderer_for(path, ANALYSIS_FORMATS)
    if path.exists():
        raise FileExistsError(f"{path} exists already")
    match renderer:
        case TraceRenderer() if isinstance(result, Slices):
            renderer.save_slices(result, path)
        case FileRenderer() if not isinstance(result, Slices):
            renderer.save(result, path)
        case TraceRenderer() | FileRenderer():
            raise _wrong_result(path)
        case _ if isinstance(result, Slices):
            raise _wrong_result(path)
        case _:
            with path.open("w", encoding="utf-8", newline="\n") as stream:
                renderer.render(result, stream)
    return path


def figure(result: Report | Estimate | Sweep, kind: str = "roofline") -> Figure:
    """Return a picture as a matplotlib figure, which a notebook shows.

    Args:
        result: A report; or an estimate or a sweep, which have one picture each.
        kind: Of a report: roofline, step, timeline or gaps.

    Raises:
        UsageError: ``nothing-to-draw`` where the result does not hold it.
    """
    from nsysroof.report.plots import figure_of, report_figure  # noqa: PLC0415  it is slow to load

    return report_figure(result, kind) if isinstance(result, Report) else figure_of(result)


def _wrong_result(path: Path) -> UsageError:
    return UsageError(
        f"{path.name} takes another result",
        hint="timeline viewers take what nsysroof.timeline_slices returns, other formats the rest",
        slug="wrong-result",
    )


def _options(options: Options | None, workload: Workload | None, given: dict[str, Any]) -> Options:
    """Join the three ways to say what is known; later ones win."""
    chosen = options or Options()
    unknown = sorted(set(given) - _OPTIONS)
    if unknown:
        raise UsageError(
            f"there is no option {unknown[0]!r}",
            hint=f"options are {', '.join(sorted(_OPTIONS))}",
            slug="unknown-option",
        )
    if workload is not None:
        told = {name: getattr(workload, name) for name in _OF_WORKLOAD}
        chosen = replace(chosen, context=workload.contexts, batch=workload.batch, **told)
    if isinstance(given.get("context"), int):
        given = {**given, "context": (given["context"],)}
    return replace(chosen, **given)


def _axis(name: str, values: Sequence[int | str]) -> Axis:
    """Return an axis whose name and values are checked as those of the command line."""
    text = ",".join(str(value) for value in values)
    return sweeping.parse_axis(f"{name}={text}", where=name)


def _opened(trace: Trace | str | Path) -> Trace:
    return open_trace(trace) if isinstance(trace, str | Path) else trace


def _loaded(report: Report | str | Path) -> Report:
    return load_report(report) if isinstance(report, str | Path) else report


def _name(report: Report | str | Path, otherwise: str) -> str:
    return otherwise if isinstance(report, Report) else Path(report).name
