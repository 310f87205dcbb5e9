"""The options that commands share, spelled once.

A command takes a group of options as one argument; :func:`grouped` shows typer its fields::

    @grouped
    def kernels(trace: TracePath, theory: TheoryOptions, output: OutputOptions) -> None: ...
"""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from nsysroof.errors import UsageError

DEBUG = "NSYSROOF_DEBUG"
"""Environment variable: show tracebacks of unexpected errors; ``-v`` sets it."""

QUIET = "NSYSROOF_QUIET"
"""Environment variable: nothing on stderr but errors; ``-q`` sets it."""

_WINDOW = re.compile(r"(\d+(?:\.\d*)?|\.\d+)-(\d+(?:\.\d*)?|\.\d+)")


class PhaseChoice(StrEnum):
    """Which steps to analyse."""

    AUTO = "auto"
    DECODE = "decode"
    PREFILL = "prefill"


def finite(value: float | None) -> float | None:
    """Return the number of an option; ``inf`` and ``nan`` are refused."""
    if value is not None and not math.isfinite(value):
        raise typer.BadParameter("give a finite number")
    return value


def _be_quiet(wanted: bool) -> bool:
    if wanted:
        os.environ[QUIET] = "1"
    return wanted


def _show_tracebacks(wanted: bool) -> bool:
    if wanted:
        os.environ[DEBUG] = "1"
    return wanted


TracePath = Annotated[
    Path,
    typer.Argument(metavar="TRACE", help="Export of nsys: .sqlite, a parquet folder, .nsys-rep."),
]
TraceOrReport = Annotated[
    Path,
    typer.Argument(
        metavar="TRACE|REPORT",
        help="Export of nsys (.sqlite, a parquet folder, .nsys-rep), or a report saved as JSON.",
    ),
]
QuietFlag = Annotated[
    bool, typer.Option("-q", "--quiet", callback=_be_quiet, help="No progress, no `wrote FILE`.")
]
ModelName = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="NAME|FILE", help="Model: a name of `nsysroof models`, or config.json."
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class TheoryOptions:
    """What the theory takes besides the model."""

    gpu: Annotated[
        str | None,
        typer.Option(
            "--gpu",
            metavar="NAME|FILE",
            help="GPU: a name of `nsysroof gpus`, or a TOML file; default: the capture's.",
        ),
    ] = None
    batch: Annotated[
        int | None, typer.Option("--batch", metavar="N", min=1, help="Sequences in a step.")
    ] = None
    context: Annotated[
        str | None,
        typer.Option(
            "--context",
            metavar="N|N1,N2,…",
            help="KV length of every sequence, or of each, with the new tokens.",
        ),
    ] = None
    phase: Annotated[
        PhaseChoice,
        typer.Option("--phase", help="Steps to analyse; auto: the phase with the most steps."),
    ] = PhaseChoice.AUTO
    new_tokens: Annotated[
        int | None,
        typer.Option(
            "--new-tokens",
            metavar="N",
            min=1,
            help="New tokens of each sequence (prefill, or drafts to verify).",
        ),
    ] = None
    weights: Annotated[
        str | None,
        typer.Option(
            "--weights",
            metavar="FORMAT",
            help="Weights of the linear layers: bf16, fp8, fp8-block, awq, mxfp4, q4_k …",
        ),
    ] = None
    kv: Annotated[
        str | None, typer.Option("--kv", metavar="FORMAT", help="KV cache: bf16, fp8 …")
    ] = None
    activations: Annotated[
        str | None,
        typer.Option("--activations", metavar="FORMAT", help="Inputs of the linear layers."),
    ] = None
    tp: Annotated[int, typer.Option("--tp", metavar="N", min=1, help="Tensor-parallel GPUs.")] = 1
    ep: Annotated[int, typer.Option("--ep", metavar="N", min=1, help="Expert-parallel GPUs.")] = 1
    dp: Annotated[
        int, typer.Option("--dp", metavar="N", min=1, help="Data-parallel attention ranks.")
    ] = 1
    experts: Annotated[
        float | None,
        typer.Option(
            "--experts",
            metavar="N",
            min=0,
            callback=finite,
            help="Distinct experts observed per layer; default: their expected number.",
        ),
    ] = None
    floor_us: Annotated[
        float | None,
        typer.Option(
            "--floor-us",
            metavar="X",
            min=0,
            callback=finite,
            help="Latency floor of a small kernel, µs.",
        ),
    ] = None
    peak: Annotated[
        list[str] | None,
        typer.Option(
            "--peak",
            metavar="KEY=VALUE",
            help="A peak per second, such as bw=3.9e12 or bf16=850e12; may be repeated.",
        ),
    ] = None
    roofs: Annotated[
        Path | None,
        typer.Option("--roofs", metavar="FILE", help="Measured roofs: TOML."),
    ] = None
    tokens_per_step: Annotated[
        float | None,
        typer.Option(
            "--tokens-per-step",
            metavar="X",
            min=0,
            callback=finite,
            help="Tokens that a step yields over all sequences (speculative decoding).",
        ),
    ] = None
    shared_prefix: Annotated[
        int,
        typer.Option(
            "--shared-prefix",
            metavar="N",
            min=0,
            help="Cached tokens that all sequences begin with, read once.",
        ),
    ] = 0
    draft: Annotated[
        str | None,
        typer.Option(
            "--draft",
            metavar="NAME|FILE|mtp",
            help="Model that drafts tokens in the same step; mtp: the model's own head.",
        ),
    ] = None
    drafts: Annotated[
        int | None,
        typer.Option("--drafts", metavar="N", min=1, help="Drafted tokens per sequence."),
    ] = None
    expert_misses: Annotated[
        float | None,
        typer.Option(
            "--expert-misses",
            metavar="N",
            min=0,
            callback=finite,
            help="Experts loaded from the host per layer.",
        ),
    ] = None
    unprofiled_step_us: Annotated[
        float | None,
        typer.Option(
            "--unprofiled-step-us",
            metavar="X",
            min=0,
            callback=finite,
            help="Step time without the profiler, µs: shows what tracing costs.",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionOptions:
    """Which part of a trace to look at, and how strictly."""

    device: Annotated[
        list[int] | None,
        typer.Option(
            "--device", metavar="N", min=0, help="GPU to look at; may be repeated; default: all."
        ),
    ] = None
    window: Annotated[
        str | None,
        typer.Option("--window", metavar="A-B", help="Seconds from the first kernel."),
    ] = None
    step_range: Annotated[
        str | None,
        typer.Option(
            "--step-range", metavar="REGEX", help="NVTX ranges whose text matches are the steps."
        ),
    ] = None
    schedule: Annotated[
        Path | None,
        typer.Option(
            "--schedule",
            metavar="FILE",
            help="CSV with step,new_tokens,contexts: what each step works on, in place of --batch, "
            "--context and --new-tokens.",
        ),
    ] = None
    rules: Annotated[
        Path | None,
        typer.Option("--rules", metavar="FILE", help="More kernel rules: TOML."),
    ] = None
    strict: Annotated[
        bool, typer.Option("--strict", help="Exit with 4 if a finding is an error.")
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputOptions:
    """Where the result goes, and in which format."""

    format: Annotated[
        str | None,
        typer.Option(
            "-f",
            "--format",
            metavar="FORMAT",
            help="table, tsv, csv, json, md or html; with -o also parquet or db, and of analyze "
            "chrome or perfetto; default: table on a terminal, tsv in a pipe.",
        ),
    ] = None
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", metavar="FILE", help="Write to a file; its ending names the format."
        ),
    ] = None
    force: Annotated[bool, typer.Option("--force", help="Overwrite the file.")] = False
    quiet: QuietFlag = False
    verbose: Annotated[
        bool,
        typer.Option(
            "-v",
            "--verbose",
            callback=_show_tracebacks,
            help="Show the traceback of an unexpected error.",
        ),
    ] = False


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose groups of options are spelled out as single options.

    Args:
        command: A function; arguments annotated with a dataclass of options are groups.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type[Any]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        annotation = hints[parameter.name]
        if isinstance(annotation, type) and is_dataclass(annotation):
            groups[parameter.name] = annotation
            parameters += _options_of(annotation)
        else:
            parameters.append(
                parameter.replace(annotation=annotation, kind=inspect.Parameter.KEYWORD_ONLY)
            )

    @wraps(command)
    def with_single_options(**given: Any) -> None:
        collected = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **collected)

    with_single_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_single_options.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_single_options


def parse_window(text: str) -> tuple[float, float]:
    """Return the two ends of ``A-B`` in seconds.

    Raises:
        UsageError: ``bad-window`` where it is no such pair, or empty.

    >>> parse_window("14-32.5")
    (14.0, 32.5)
    """
    found = _WINDOW.fullmatch(text)
    ends = (float(found[1]), float(found[2])) if found else (0.0, 0.0)
    if ends[0] >= ends[1]:
        raise UsageError(
            f"cannot read {text!r} as a window",
            hint="give two times in seconds from the first kernel, the lower first: 14-32.5",
            slug="bad-window",
            where="--window",
        )
    return ends


def _options_of(group: type[Any]) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]
