"""Limits on a report, for CI: what exceeds one trips, what cannot be judged is never a pass.

A regression is judged from the reports of earlier runs. It trips where an operator takes longer
by more than a share of the baseline, and by more than a time, and by more than the repeats of
the baseline differ among themselves.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median_low

from nsysroof import __version__
from nsysroof.errors import UsageError
from nsysroof.findings import CATALOGUE
from nsysroof.outcomes import Check, Difference, Rule
from nsysroof.results import OperatorRow, Report, Timeline
from nsysroof.theory.nearest import did_you_mean
from nsysroof.units import format_share, format_time

ANY_ROLE = "*"
CONDITIONS_DIFFER = "conditions-differ"
"""What ``allowed`` may hold besides slugs of findings."""

_LATENCY = "latency"
_IRRELEVANT = frozenset({"nsys_version", "steps", "window_s", "devices"})
_NO_MODEL = "no model was given, so no kernel has a theory"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a report must keep; a limit that is None or empty is not judged.

    Attributes:
        max_ratio: Measured / bound by role; ``*``: every role that the roofline bounds and that
            has no limit of its own.
        max_idle: Share of the time inside runs of steps, 0..1, on every GPU.
        max_unexplained: Share of the kernel time inside steps without a theory.
        min_coverage: Share of all kernel time with a theory.
        max_regression: Share of the baseline by which a time may grow.
        max_regression_ns: Time by which it may grow.
        noise_ns: Least noise to allow for; repeats of the baseline may show more.
        allowed: Slugs of error findings that do not make the report unfit to be judged.
    """

    max_ratio: Mapping[str, float] = field(default_factory=dict)
    max_idle: float | None = None
    max_unexplained: float | None = None
    min_coverage: float | None = None
    max_regression: float = 0.03
    max_regression_ns: int = 1_000
    noise_ns: int = 0
    allowed: frozenset[str] = frozenset()

    @property
    def any_of_one_report(self) -> bool:
        """Whether something is limited that needs no baseline."""
        shares = (self.max_idle, self.max_unexplained, self.min_coverage)
        return bool(self.max_ratio) or any(share is not None for share in shares)


def check(report: Report, limits: Limits, *, name: str, baselines: Sequence[Report] = ()) -> Check:
    """Return the verdict on a report.

    A rule that trips decides (``fail``), then one that cannot be judged (``inconclusive``).

    Args:
        report: The report to judge.
        limits: What it must keep.
        name: What to call it, such as its file name.
        baselines: Reports of earlier runs; several are repeats of one.

    Raises:
        UsageError: ``no-limits`` where nothing is limited, ``unknown-finding`` where ``allowed``
            has a slug that no finding has.
    """
    if not limits.any_of_one_report and not baselines:
        raise UsageError(
            "nothing is limited, so there is nothing to check",
            hint="give --max-ratio ROLE=X, --max-idle 5%, --max-unexplained 5%, --min-coverage 95% "
            "or --baseline report.json",
            slug="no-limits",
        )
    known = [*(kind.slug for kind in CATALOGUE), CONDITIONS_DIFFER]
    for slug in sorted(limits.allowed.difference(known)):
        raise UsageError(
            f"no finding is called {slug!r}",
            hint=did_you_mean(slug, known, otherwise="docs/findings.md lists them"),
            slug="unknown-finding",
            where="--allow",
        )
    rules = [
        *_capture_rules(report, limits),
        *_ratio_rules(report, limits),
        *_share_rules(report, limits),
        *_baseline_rules(report, limits, baselines),
    ]
    verdicts = {rule.verdict for rule in rules}
    worst = next((v for v in ("fail", "inconclusive") if v in verdicts), "pass")
    return Check(tool_version=__version__, report=name, verdict=worst, rules=rules)


def _judge(
    rule: str,
    value: float | None,
    limit: float,
    unit: str,
    *,
    least: bool = False,
    baseline: float | None = None,
    reason: str = "",
) -> Rule:
    """Return a rule with its verdict; ``least``: the limit is one from below."""
    if value is None or not math.isfinite(value):
        verdict, value = "inconclusive", None
    else:
        verdict = "fail" if (value < limit if least else value > limit) else "pass"
    return Rule(
        rule=rule,
        limit=limit,
        value=value,
        verdict=verdict,
        unit=unit,
        baseline=baseline,
        reason=reason,
    )


def _capture_rules(report: Report, limits: Limits) -> Iterator[Rule]:
    """Yield why the report is unfit to be judged, if it is."""
    errors = [
        finding
        for finding in report.capture.findings
        if finding.severity == "error" and finding.slug not in limits.allowed
    ]
    if errors:
        told = "; ".join(f"{finding.text} [{finding.slug}]" for finding in errors)
        yield Rule(
            rule="capture",
            limit=0,
            value=len(errors),
            verdict="inconclusive",
            unit="count",
            reason=f"{told}; --allow SLUG if that does not matter here",
        )


def _ratio_rules(report: Report, limits: Limits) -> Iterator[Rule]:
    rows: dict[str, list[OperatorRow]] = {}
    for row in report.operators:
        rows.setdefault(row.role, []).append(row)
    named = {role: _rows_of(role, rows) for role in limits.max_ratio if role != ANY_ROLE}
    for role, own in named.items():
        yield _ratio_rule(role, own, limits.max_ratio[role], report)
    if ANY_ROLE not in limits.max_ratio:
        return
    taken = {row.role for own in named.values() for row in own}
    bounded = {
        role: own
        for role, own in rows.items()
        if role not in taken and any(row.limiter != _LATENCY for row in own)
    }
    for role, own in sorted(bounded.items()):
        yield _ratio_rule(role, own, limits.max_ratio[ANY_ROLE], report)
    if not bounded and not taken:
        why = _NO_MODEL if report.assumptions.model is None else "no operator has a roofline bound"
        yield _judge("max-ratio *", None, limits.max_ratio[ANY_ROLE], "ratio", reason=why)


def _rows_of(role: str, rows: Mapping[str, list[OperatorRow]]) -> list[OperatorRow]:
    """Return the rows of a role, or of the kernels that compute it together with others."""
    if role in rows:
        return rows[role]
    return [row for joined, own in rows.items() if role in joined.split("+") for row in own]


def _ratio_rule(role: str, rows: Sequence[OperatorRow], limit: float, report: Report) -> Rule:
    """Judge the highest ratio of a role; one that is impossible proves nothing good."""
    ratios = [row.ratio for row in rows if row.ratio is not None]
    value: float | None = max(ratios, default=None)
    reason = ""
    if not rows:
        reason = "the report has no such role"
    elif len(ratios) < len(rows):
        value, reason = None, "no bound is known for it; see the notes of the operator"
    elif value is not None and value <= limit:
        joined = {row.role for row in rows}
        if any(row.role in joined and row.hard for row in report.impossible):
            value, reason = None, "faster than its least bound: an input of the theory is wrong"
    return _judge(f"max-ratio {role}", value, limit, "ratio", reason=reason)


def _share_rules(report: Report, limits: Limits) -> Iterator[Rule]:
    if limits.max_idle is not None:
        for line in report.timeline:
            share = _idle_share(line)
            why = "" if share is not None else "this capture cannot tell idle from hidden work"
            yield _judge(f"max-idle gpu {line.gpu}", share, limits.max_idle, "share", reason=why)
        if not report.timeline:
            yield _judge("max-idle", None, limits.max_idle, "share", reason="no GPU was active")
    covered = report.coverage if report.assumptions.model is not None else None
    why = _NO_MODEL if covered is None else ""
    if limits.max_unexplained is not None:
        explained = covered.in_steps_time_explained if covered else None
        if covered and explained is None:
            explained = covered.time_explained
        unexplained = None if explained is None else round(1 - explained, 12)
        yield _judge("max-unexplained", unexplained, limits.max_unexplained, "share", reason=why)
    if limits.min_coverage is not None:
        share = covered.time_explained if covered else None
        yield _judge("min-coverage", share, limits.min_coverage, "share", least=True, reason=why)


def _idle_share(line: Timeline) -> float | None:
    """Return idle over the time inside runs of steps that the profiler did not take itself."""
    if line.idle_ns is None or line.idle_by_cause is None:
        return None
    foreign = sum(line.idle_by_cause.get(cause, 0) for cause in ("outside_steps", "profiler"))
    inside = line.window_ns - foreign
    return (line.idle_ns - foreign) / inside if inside else None


def _baseline_rules(report: Report, limits: Limits, baselines: Sequence[Report]) -> Iterator[Rule]:
    if not baselines:
        return
    differing = {
        row.field: f"{row.field} {row.a} → {row.b}"
        for baseline in baselines
        for row in Difference.between(baseline, report)
        if row.field not in _IRRELEVANT
    }
    if differing and CONDITIONS_DIFFER not in limits.allowed:
        yield Rule(
            rule="baseline conditions",
            limit=0,
            value=len(differing),
            verdict="inconclusive",
            unit="count",
            reason=f"{'; '.join(differing.values())}; --allow {CONDITIONS_DIFFER} to compare all "
            "the same",
        )
    modelled = any(baseline.operators for baseline in baselines)
    now = _times(report, modelled=modelled)
    before: dict[str, list[int]] = {}
    for baseline in baselines:
        for key, ns in _times(baseline, modelled=modelled).items():
            before.setdefault(key, []).append(ns)
    shared = len(before.keys() & now.keys())
    if not shared:
        yield _judge(
            "baseline",
            shared,
            1,
            "count",
            least=True,
            reason="nothing in the report can be compared with the baseline",
        )
    for key, repeats in before.items():
        yield _regression_rule(key, now.get(key), repeats, limits)


def _times(report: Report, *, modelled: bool) -> dict[str, int]:
    """Return what regressions are judged by, ns: the step, and each operator or else kernel."""
    times: dict[str, int] = {}
    if report.steps.wall_ns is not None:
        times["step"] = report.steps.wall_ns.p50
    if modelled:
        found = [(row.role, row.measured_ns) for row in report.operators]
    else:
        found = [(f"{row.name} {row.grid} {row.block}", row.p50_ns) for row in report.kernels]
    seen: dict[str, int] = {}
    for key, ns in found:
        # Costs of one role stand in model order: sliding and full attention, say.
        seen[key] = seen.get(key, 0) + 1
        times[key if seen[key] == 1 else f"{key} #{seen[key]}"] = ns
    return times


def _regression_rule(key: str, ns: int | None, repeats: Sequence[int], limits: Limits) -> Rule:
    baseline = median_low(repeats)
    noise = max(limits.noise_ns, max(repeats) - min(repeats))
    allowed = max(limits.max_regression * baseline, limits.max_regression_ns, noise)
    if ns is None:
        reason = "in the baseline, but not in the report: gone is not faster"
    else:
        reason = (
            f"{ns - baseline:+,} ns; may grow by the largest of "
            f"{format_share(limits.max_regression)}, {format_time(limits.max_regression_ns)} and "
            f"the noise of {format_time(noise)}"
        )
    return _judge(
        f"regression {key}", ns, baseline + allowed, "ns", baseline=baseline, reason=reason
    )
