"""What a measured step would take elsewhere: another GPU, format, batch, context or split.

Every operator is priced again by the theory and keeps its measured efficiency; what the theory
does not price keeps its measured time. Where a kernel would be another one (another format, or
another limiter), its efficiency is not known, and the range says so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from msgspec import structs

from nsysroof import __version__
from nsysroof.analysis.options import Options
from nsysroof.analysis.theory import estimate_for
from nsysroof.errors import UsageError
from nsysroof.outcomes import Treatment, WhatIf, WhatIfRow
from nsysroof.results import (
    Assumptions,
    Budget,
    Estimate,
    EstimateRow,
    OperatorRow,
    Report,
)
from nsysroof.units import format_share

_LATENCY = "latency"
_PHASES = ("decode", "prefill")
_FORMATS = ("weights", "activations", "kv")  # inputs of an operator that choose another kernel


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is to be different; None keeps what was measured.

    Attributes:
        model: Catalogue name or path of the model measured, where the report's name finds none.
        gpu: Catalogue name, or path of a TOML file.
        batch: Sequences in a step.
        context: KV length of every sequence, or of each.
        new_tokens: New tokens of each sequence.
        weights: Weight format of the linear layers.
        kv: Format of the KV cache.
        activations: Format of the activations.
        tp: Tensor-parallel GPUs.
        ep: Expert-parallel GPUs.
        dp: Data-parallel replicas of the attention.
        peaks: Peaks as ``KEY=VALUE`` per second.
    """

    model: str | None = None
    gpu: str | None = None
    batch: int | None = None
    context: tuple[int, ...] | None = None
    new_tokens: int | None = None
    weights: str | None = None
    kv: str | None = None
    activations: str | None = None
    tp: int | None = None
    ep: int | None = None
    dp: int | None = None
    peaks: tuple[str, ...] = ()


def carry_over(report: Report, change: Change) -> WhatIf:
    """Return what the measured step would take under a change.

    Args:
        report: A report with a step and a model.
        change: What is to be different.

    Raises:
        UsageError: ``whatif-needs-step`` where the report has no priced step, or as ``estimate``
            where the change does not fit the model.
    """
    budget = report.budget
    measured = options_of(report, change.model)
    if budget is None or not report.operators:
        raise _unpriced("the report has no step whose operators are priced")
    wanted = _changed(measured, change, report.assumptions)
    before, after = _Prices.of(estimate_for(measured)), _Prices.of(estimate_for(wanted))
    rows = list(_rows(report, budget, before, after))
    kept = budget.unexplained_ns + budget.copy_ns + budget.idle_ns - budget.overlap_ns
    expected, low, high = (
        kept + sum(getattr(row, key) for row in rows)
        for key in ("expected_ns", "low_ns", "high_ns")
    )
    tokens = after.estimate.step.tokens
    bounds = report.step_bounds
    return WhatIf(
        tool_version=__version__,
        changes=_told(measured, wanted),
        measured_ns=budget.wall_ns,
        expected_ns=expected,
        low_ns=low,
        high_ns=high,
        serial_ns=after.estimate.step.serial_ns,
        kept_ns=kept,
        tokens=tokens,
        tokens_per_s_measured=bounds.tokens_per_s if bounds else None,
        tokens_per_s=tokens / expected * 1e9,
        rows=rows,
        notes=list(_notes(rows, after.estimate, budget)),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Price:
    """One role in theory: bound of one instance, and what chooses its kernel."""

    bound_ns: float
    count: int
    limiter: str
    choice: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Prices:
    """A step in theory by role."""

    estimate: Estimate
    by_role: Mapping[str, _Price]

    @classmethod
    def of(cls, estimate: Estimate) -> _Prices:
        rows: dict[str, list[EstimateRow]] = {}
        for row in estimate.operators:
            rows.setdefault(row.role, []).append(row)
        return cls(estimate=estimate, by_role={role: _price(own) for role, own in rows.items()})

    def fused(self, role: str) -> _Price | None:
        """Return the price of a kernel that computes several roles, None if one is not known."""
        parts = [self.by_role.get(part) for part in role.split("+")]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        largest = max(known, key=lambda part: part.bound_ns)
        return _Price(
            bound_ns=sum(part.bound_ns for part in known),
            count=min(part.count for part in known),
            limiter=largest.limiter,
            choice=tuple(word for part in known for word in part.choice),
        )


def _price(rows: Sequence[EstimateRow]) -> _Price:
    """Sum the operators of one role: layers of two kinds, or parts of one instance."""
    count = max(row.count for row in rows)
    largest = max(rows, key=lambda row: row.count * row.bound_ns)
    formats = [str(largest.inputs[key]) for key in _FORMATS if key in largest.inputs]
    return _Price(
        bound_ns=sum(row.count * row.bound_ns for row in rows) / count,
        count=count,
        limiter=largest.limiter,
        choice=(largest.kind, largest.dtype, *formats),
    )


def _rows(report: Report, budget: Budget, before: _Prices, after: _Prices) -> Iterator[WhatIfRow]:
    measured: dict[str, list[OperatorRow]] = {}
    for row in report.operators:
        measured.setdefault(row.role, []).append(row)
    worst = max(
        (row.ratio or 1.0 for row in report.operators if row.limiter != _LATENCY), default=1.0
    )
    for role, ns in sorted(budget.by_role.items()):
        old, new = before.fused(role), after.fused(role)
        own = measured.get(role)
        if old is None or not own:
            yield _unpriced_row(role, ns)
        elif new is None:
            yield _gone(role, ns)
        else:
            yield _carried(role, ns, own, old, new, worst)
    present = {part for role in measured for part in role.split("+")}
    floor_ns = max((row.floor_ns or 0.0 for row in report.operators), default=0.0)
    for role, price in sorted(after.by_role.items()):
        if role not in present and role not in before.by_role:
            yield _added(role, price, floor_ns, worst)


def _carried(
    role: str, ns: int, own: Sequence[OperatorRow], old: _Price, new: _Price, worst: float
) -> WhatIfRow:
    """Carry a role over that both steps have."""
    fixed = all(row.limiter == _LATENCY for row in own)
    instances = sum(row.instances_per_step for row in own) * new.count / old.count
    floor = max(row.floor_ns or 0.0 for row in own) * instances
    bound = new.bound_ns * instances
    same = old.choice == new.choice and (fixed or old.limiter == new.limiter)
    if fixed:
        # Its efficiency is not known: a bound above the time measured is the best that it can do.
        expected = low = max(ns * new.count / old.count, bound)
        high = max(expected, bound * worst) if bound >= expected else expected
    else:
        factor = new.bound_ns / old.bound_ns * new.count / old.count if old.bound_ns else 1.0
        expected = max(ns * factor, floor)
        low, high = (max(expected * share, floor) for share in _spread(own))
        if not same:
            low, high = min(low, max(bound, floor)), max(high, float(ns))
    return WhatIfRow(
        role=role,
        measured_ns=ns,
        expected_ns=expected,
        low_ns=low,
        high_ns=high,
        bound_ns=bound,
        ratio=None if fixed or not bound else expected / bound,
        limiter=_LATENCY if bound < expected and (fixed or expected <= floor) else new.limiter,
        treatment=Treatment.TIME if fixed else Treatment.EFFICIENCY,
        same_kernel=same,
    )


def _spread(own: Sequence[OperatorRow]) -> tuple[float, float]:
    """Return the 10th and the 90th percentile of a role's instances over their median."""
    middle = sum(row.ns_per_step for row in own)
    if not middle:
        return 1.0, 1.0
    low = sum(row.p10_ns * row.instances_per_step for row in own)
    high = sum(row.p90_ns * row.instances_per_step for row in own)
    return low / middle, high / middle


def _unpriced_row(role: str, ns: int) -> WhatIfRow:
    return WhatIfRow(
        role=role,
        measured_ns=ns,
        expected_ns=float(ns),
        low_ns=float(ns),
        high_ns=float(ns),
        bound_ns=None,
        ratio=None,
        limiter=None,
        treatment=Treatment.TIME,
        same_kernel=True,
    )


def _gone(role: str, ns: int) -> WhatIfRow:
    return structs.replace(
        _unpriced_row(role, ns),
        expected_ns=0.0,
        low_ns=0.0,
        high_ns=0.0,
        treatment=Treatment.GONE,
        same_kernel=False,
    )


def _added(role: str, price: _Price, floor_ns: float, worst: float) -> WhatIfRow:
    """Price what was not measured: at its bound or the latency floor, at worst as the others."""
    least = max(price.bound_ns, floor_ns) * price.count
    return WhatIfRow(
        role=role,
        measured_ns=None,
        expected_ns=least,
        low_ns=least,
        high_ns=least * worst,
        bound_ns=price.bound_ns * price.count,
        ratio=None,
        limiter=price.limiter if price.bound_ns > floor_ns else _LATENCY,
        treatment=Treatment.ADDED,
        same_kernel=False,
    )


def options_of(report: Report, model: str | None = None) -> Options:
    """Return the options that price the step as it was measured.

    Args:
        report: A report made with a model.
        model: Where to find the model, if the report's name for it does not.

    Raises:
        UsageError: ``whatif-needs-step`` where the report does not know enough.
    """
    a = report.assumptions
    model = model or a.model
    if model is None or a.gpu is None or a.context is None:
        raise _unpriced("the report was made without a model, a known GPU or a context")
    if a.phase not in _PHASES:
        raise _unpriced(f"the report is about {a.phase or 'no'} steps")
    if a.query_lengths is not None:
        raise _unpriced("the report is about sequences with different numbers of new tokens")
    return Options(
        model=model,
        gpu=a.gpu,
        batch=a.batch,
        context=tuple(a.context),
        phase=a.phase,
        new_tokens=a.new_tokens,
        weights=a.weights,
        kv=a.kv,
        activations=a.activations,
        tp=a.tp or 1,
        ep=a.ep or 1,
        dp=a.dp or 1,
        experts=a.experts,
        tokens_per_step=a.tokens_per_step,
        shared_prefix=a.shared_prefix or 0,
        draft=a.draft,
        drafts=a.drafts,
        peaks=tuple(f"{peak.key}={peak.value!r}" for peak in a.peaks),
    )


def _changed(measured: Options, change: Change, was: Assumptions) -> Options:
    """Return the options of the step asked for; another GPU brings its own peaks."""
    batch = measured.batch if change.batch is None else change.batch
    context = measured.context if change.context is None else change.context
    if change.context is None and change.batch is not None and was.context:
        if len(set(was.context)) > 1:
            raise UsageError(
                "the sequences measured have different lengths, so another batch needs its own",
                hint="give --context too: one length for all, or one for each",
                slug="context-missing",
                where="--batch",
            )
        context = (was.context[0],)
    routed = (change.batch, change.new_tokens, change.ep) == (None, None, None)
    base = measured.peaks if change.gpu is None else ()
    return replace(
        measured,
        gpu=change.gpu or measured.gpu,
        batch=batch,
        context=context,
        new_tokens=change.new_tokens or measured.new_tokens,
        weights=change.weights or measured.weights,
        kv=change.kv or measured.kv,
        activations=change.activations or measured.activations,
        tp=change.tp or measured.tp,
        ep=change.ep or measured.ep,
        dp=change.dp or measured.dp,
        # Observed experts are those of the measured batch.
        experts=measured.experts if routed else None,
        tokens_per_step=measured.tokens_per_step if change.batch is None else None,
        peaks=(*base, *change.peaks),
    )


def _told(measured: Options, wanted: Options) -> dict[str, str]:
    """Return what differs, from and to."""
    found = {}
    for key in (
        "gpu",
        "batch",
        "context",
        "new_tokens",
        "weights",
        "kv",
        "activations",
        "tp",
        "ep",
        "dp",
    ):
        before, after = getattr(measured, key), getattr(wanted, key)
        if before != after:
            found[key] = f"{_plain(before)} → {_plain(after)}"
    peaks = [peak for peak in wanted.peaks if peak not in measured.peaks]
    return found | ({"peaks": ", ".join(peaks)} if peaks else {})


def _plain(value: object) -> str:
    if value is None:
        return "as the model has it"
    if isinstance(value, tuple):
        return f"{value[0]:,}" if len(set(value)) == 1 else f"{len(value)} lengths"
    return str(value)


def _notes(rows: Sequence[WhatIfRow], estimate: Estimate, budget: Budget) -> Iterator[str]:
    kept = budget.idle_ns + budget.unexplained_ns + budget.copy_ns
    yield (
        f"kept as measured: idle {budget.idle_ns / 1e3:,.1f} µs, unexplained kernels "
        f"{budget.unexplained_ns / 1e3:,.1f} µs, copies {budget.copy_ns / 1e3:,.1f} µs "
        f"({format_share(kept / budget.wall_ns)} of the measured step), and kernels at the latency floor"
    )
    others = [row.role for row in rows if not row.same_kernel and row.treatment == "efficiency"]
    if others:
        yield (
            f"another kernel would run for {', '.join(others)}: the range reaches from its bound "
            "to the time measured"
        )
    added = [row.role for row in rows if row.treatment == Treatment.ADDED]
    if added:
        yield f"not measured, so at the bound or the latency floor: {', '.join(added)}"
    gone = [row.role for row in rows if row.treatment == Treatment.GONE]
    if gone:
        yield f"nothing does any more: {', '.join(gone)}"
    if estimate.memory.share_fits is False:
        yield "this does not fit into the memory of the GPUs; see `nsysroof estimate`"


def _unpriced(reason: str) -> UsageError:
    return UsageError(
        f"{reason}, so it cannot be carried over",
        hint="analyse a trace with steps, and give --model, --batch and --context",
        slug="whatif-needs-step",
    )
