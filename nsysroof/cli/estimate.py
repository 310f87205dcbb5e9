"""``nsysroof estimate``: theory alone, for one step, over a sweep, or machines side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from nsysroof.cli.options import OutputOptions, TheoryOptions, grouped
from nsysroof.cli.output import check_free, choose_destination
from nsysroof.cli.reading import library_options
from nsysroof.errors import UsageError

if TYPE_CHECKING:
    from nsysroof.analysis import Options
    from nsysroof.results import Estimate, Sweep

_PLOT_SUFFIXES = (".png", ".svg")


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepOptions:
    """What changes from point to point, and the picture of it."""

    sweep: Annotated[
        list[str] | None,
        typer.Option(
            "--sweep",
            metavar="NAME=VALUES",
            help="Go through batch=1:256 (doubling), context=1000:9000:1000, tp=1,2,4, "
            "weights=bf16,fp8 …; may be repeated.",
        ),
    ] = None
    compare: Annotated[
        list[str] | None,
        typer.Option(
            "--compare",
            metavar="NAME=VALUES",
            help="Put machines or formats side by side: gpu=h100-sxm,h200-sxm,b200.",
        ),
    ] = None
    plot: Annotated[
        Path | None,
        typer.Option(
            "--plot",
            metavar="FILE",
            help="Draw .png or .svg: the roofline; with --sweep batch= step time and tokens/s, "
            "with --sweep context= the bytes of a step.",
        ),
    ] = None
    acceptance: Annotated[
        str | None,
        typer.Option(
            "--acceptance",
            metavar="X|X1,X2,…",
            help="Share of drafts accepted, or one per position, instead of --tokens-per-step; "
            "--new-tokens counts the drafts and one.",
        ),
    ] = None


@grouped
def estimate(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="A name of `nsysroof models`, or config.json.")
    ],
    theory: TheoryOptions,
    sweep: SweepOptions,
    output: OutputOptions,
) -> None:
    """Tell the best that a model can do on a GPU, without a trace.

    The floor of a step, of a layer and of every operator, and what must fit into memory.
    """
    destination = choose_destination(output)
    if sweep.plot is not None:
        _check_plot(sweep.plot, force=output.force)
    options = library_options(model, theory)
    view = _view(options, sweep)
    if sweep.plot is not None:
        from nsysroof.report.plots import draw

        draw(view, sweep.plot)
    destination.write(view)


def _view(options: Options, sweep: SweepOptions) -> Estimate | Sweep:
    from nsysroof.analysis import estimate_for
    from nsysroof.theory.sweep import parse_axis
    from nsysroof.theory.sweep import sweep as go_through

    swept = [parse_axis(text, where="--sweep") for text in sweep.sweep or ()]
    compared = [parse_axis(text, where="--compare") for text in sweep.compare or ()]

    def price(point: Mapping[str, int | str]) -> Estimate:
        return estimate_for(_drafted(_at(options, point), sweep.acceptance))

    if not swept and not compared:
        return price({})
    return go_through(price, [*swept, *compared], compared=[axis.name for axis in compared])


def _at(options: Options, point: Mapping[str, int | str]) -> Options:
    changed: dict[str, Any] = {name.replace("-", "_"): value for name, value in point.items()}
    if "context" in changed:
        changed["context"] = (changed["context"],)
    return replace(options, **changed)


def _drafted(options: Options, acceptance: str | None) -> Options:
    """Return options whose step yields what accepted drafts make of it.

    Raises:
        UsageError: ``bad-acceptance``: it cannot be read, or does not go with the other options.
    """
    if acceptance is None:
        return options
    from nsysroof.theory.speculation import expected_tokens, expected_tokens_by_position

    shares = _shares(acceptance)
    new_tokens = options.new_tokens
    if new_tokens is None and len(shares) > 1:
        new_tokens = len(shares) + 1
    if options.tokens_per_step is not None or new_tokens is None:
        raise _bad_acceptance(
            "--acceptance needs --new-tokens, and replaces --tokens-per-step",
            "give --new-tokens N: the drafts of each sequence and one",
        )
    drafts = new_tokens - 1
    if len(shares) not in (1, drafts):
        raise _bad_acceptance(
            f"{len(shares)} acceptances for {drafts} drafts", "give one, or one for each draft"
        )
    each = (
        expected_tokens(shares[0], drafts)
        if len(shares) == 1
        else expected_tokens_by_position(shares)
    )
    sequences = options.batch or len(options.context or (0,))
    return replace(options, new_tokens=new_tokens, tokens_per_step=sequences * each)


def _shares(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise _bad_acceptance(
            f"cannot read {text!r} as shares", "give one share, or one per draft: 0.92,0.72,0.36"
        ) from None


def _bad_acceptance(message: str, hint: str) -> UsageError:
    return UsageError(message, hint=hint, slug="bad-acceptance", where="--acceptance")


def _check_plot(path: Path, *, force: bool) -> None:
    """Refuse a picture that cannot be drawn or that is there already.

    Raises:
        UsageError: ``unknown-format``, or as ``check_free``.
    """
    if path.suffix.lower() not in _PLOT_SUFFIXES:
        raise UsageError(
            f"the ending of {path.name!r} means no picture",
            hint=f"end the name in {' or '.join(_PLOT_SUFFIXES)}",
            slug="unknown-format",
            where="--plot",
        )
    check_free(path, force=force, inputs=())
