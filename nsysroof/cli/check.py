"""``nsysroof check``: limits for CI."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from nsysroof.cli.options import (
    ModelName,
    OutputOptions,
    SelectionOptions,
    TheoryOptions,
    TraceOrReport,
    finite,
    grouped,
)
from nsysroof.cli.output import choose_destination
from nsysroof.cli.reading import check_strictly, read_runs
from nsysroof.errors import GateTripped, Inconclusive, UsageError
from nsysroof.report.base import GATE_FORMATS

if TYPE_CHECKING:
    from nsysroof.gate import Limits
    from nsysroof.outcomes import Check, Rule

_TOLD = 3  # rules that the last line names


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitOptions:
    """What the report must keep."""

    max_ratio: Annotated[
        list[str] | None,
        typer.Option(
            "--max-ratio",
            metavar="ROLE=X",
            help="Highest measured / bound of a role; '*=X': of every other; may be repeated.",
        ),
    ] = None
    max_idle: Annotated[
        str | None,
        typer.Option("--max-idle", metavar="5%", help="Idle share of the time inside steps."),
    ] = None
    max_unexplained: Annotated[
        str | None,
        typer.Option(
            "--max-unexplained",
            metavar="5%",
            help="Share of the kernel time inside steps without a theory.",
        ),
    ] = None
    min_coverage: Annotated[
        str | None,
        typer.Option(
            "--min-coverage", metavar="95%", help="Least share of kernel time with a theory."
        ),
    ] = None
    baseline: Annotated[
        list[Path] | None,
        typer.Option(
            "--baseline",
            metavar="REPORT",
            help="Saved report of an earlier run; repeat it to show how much repeats differ.",
        ),
    ] = None
    max_regression: Annotated[
        str,
        typer.Option(
            "--max-regression", metavar="3%", help="Share by which a time may grow; default: 3%."
        ),
    ] = "3%"
    max_regression_us: Annotated[
        float,
        typer.Option(
            "--max-regression-us",
            metavar="X",
            min=0,
            callback=finite,
            help="Time by which it may grow, µs; default: 1. A regression exceeds both.",
        ),
    ] = 1.0
    noise_us: Annotated[
        float,
        typer.Option(
            "--noise-us",
            metavar="X",
            min=0,
            callback=finite,
            help="Noise to allow for, µs; more where the baselines differ by more; default: 0.",
        ),
    ] = 0.0
    allow: Annotated[
        list[str] | None,
        typer.Option(
            "--allow",
            metavar="SLUG",
            help="A finding of severity error that does not matter here, or conditions-differ; "
            "may be repeated.",
        ),
    ] = None


@grouped
def check(
    report: TraceOrReport,
    *,
    limits: LimitOptions,
    model: ModelName = None,
    theory: TheoryOptions,
    selection: SelectionOptions,
    output: OutputOptions,
) -> None:
    """Hold a run to limits: exit with 3 where one is exceeded, with 4 where one cannot be judged.

    A limit that trips decides, then one that cannot be judged. -f junit writes JUnit XML.
    """
    baselines = limits.baseline or []
    destination = choose_destination(output, source=[report, *baselines], formats=GATE_FORMATS)
    wanted = library_limits(limits)
    judged, *earlier = read_runs([report, *baselines], model, theory, selection)

    from nsysroof import gate

    found = gate.check(judged, wanted, name=report.name, baselines=earlier)
    destination.write(found)
    _exit_by_verdict(found)
    check_strictly(judged, selection)


def library_limits(options: LimitOptions) -> Limits:
    """Return the limits as the library takes them.

    Raises:
        UsageError: ``bad-limit`` where one cannot be read.
    """
    from nsysroof.gate import Limits

    return Limits(
        max_ratio=dict(_role_limit(text) for text in options.max_ratio or ()),
        max_idle=_share(options.max_idle, "--max-idle"),
        max_unexplained=_share(options.max_unexplained, "--max-unexplained"),
        min_coverage=_share(options.min_coverage, "--min-coverage"),
        max_regression=_number(options.max_regression, "--max-regression"),
        max_regression_ns=round(options.max_regression_us * 1e3),
        noise_ns=round(options.noise_us * 1e3),
        allowed=frozenset(options.allow or ()),
    )


def _role_limit(text: str) -> tuple[str, float]:
    role, separator, ratio = text.rpartition("=")
    if not separator or not role:
        raise _bad_limit(text, "--max-ratio", "ROLE=X, such as attn.core=3 or '*=5'")
    return role, _number(ratio, "--max-ratio")


def _share(text: str | None, option: str) -> float | None:
    if text is None:
        return None
    share = _number(text, option)
    if share > 1:
        raise _bad_limit(text, option, "a share of at most 100%, such as 5% or 0.05")
    return share


def _number(text: str, option: str) -> float:
    """Return a number that is at least 0; a percentage as its hundredth."""
    percent = text.endswith("%")
    try:
        number = float(text.removesuffix("%"))
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise _bad_limit(text, option, "a number, or a percentage such as 5%")
    return number / 100 if percent else number


def _bad_limit(text: str, option: str, wanted: str) -> UsageError:
    return UsageError(
        f"cannot read {text!r} as a limit", hint=f"give {wanted}", slug="bad-limit", where=option
    )


def _exit_by_verdict(found: Check) -> None:
    if found.verdict == "fail":
        tripped = found.rules_with("fail")
        raise GateTripped(
            f"{len(tripped)} of {len(found.rules)} limits exceeded: {_told(tripped)}",
            hint="the result lists value and limit of each rule",
            slug="gate-tripped",
        )
    if found.verdict == "inconclusive":
        unknown = found.rules_with("inconclusive")
        raise Inconclusive(
            f"{len(unknown)} of {len(found.rules)} limits cannot be judged: {_told(unknown)}",
            hint="the result gives the reason for each rule",
            slug="gate-inconclusive",
        )


def _told(rules: list[Rule]) -> str:
    names = [rule.rule for rule in rules[:_TOLD]]
    return ", ".join(names) + (", …" if len(rules) > _TOLD else "")
