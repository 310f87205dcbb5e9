"""Where one step goes: its budget, the floors under it, and every operator against its bound."""

from __future__ import annotations

from nsysroof.report.blocks import Block, Grid, Item, Items, Row, Section, name, number, word
from nsysroof.report.pages.capture import steps_line
from nsysroof.results import Budget, OperatorRow, Report, StepBounds, StepRow
from nsysroof.units import format_ratio, format_share, format_us, format_us_exact

_LATENCY = "latency"
_BELOW_BOUND = " (!)"
_NOTES_SHOWN = 10
_LONG = 1.05  # times the median step: a step that took longer is told
_PART = 0.1  # share of what it took longer from which a term is told


def budget_section(report: Report) -> Section:
    """Return the budget of the median step; its rows add up to the wall time exactly."""
    blocks: list[Block] = [steps_line(report.steps)]
    if report.budget is not None:
        budget = report.budget
        blocks += [
            f"The median step on GPU {budget.gpu} (number {budget.step}), to the nanosecond:",
            _budget_grid(budget),
            *_longest(budget, report.step_budgets),
        ]
    elif report.steps.source is not None:
        blocks.append(
            "No budget: the idle time of a step cannot be known from this capture; see the findings."
        )
    return Section(title="Where one step goes", blocks=tuple(blocks))


def floors_section(report: Report) -> Section:
    """Return measured and the floors of a step side by side, with what each leaves out."""
    bounds = report.step_bounds
    if bounds is None:
        why = "no steps" if report.steps.source is None else "no model"
        text = f"No floor of a step is known: {why}."
        return Section(title="What a step could take", blocks=(text,))
    rows = (
        _floor("measured", bounds, bounds.measured_ns),
        _floor("method 1: kernel by kernel", bounds, bounds.serial_ns),
        _floor("method 2: busiest resource", bounds, bounds.hard_ns),
        _floor("weights and KV cache once", bounds, bounds.weights_once_ns),
    )
    columns = (word("floor"), number("µs"), number("measured is"))
    blocks: list[Block] = [Grid(columns=columns, rows=rows), _METHODS]
    if bounds.tokens_per_s is not None or bounds.tokens_per_s_bound is not None:
        blocks.append(
            f"{_amount(bounds.tokens)} tokens per step: {_amount(bounds.tokens_per_s)} tokens/s "
            f"measured, {_amount(bounds.tokens_per_s_bound)} tokens/s at method 1"
        )
    return Section(title="What a step could take", blocks=tuple(blocks))


_METHODS = Items(
    items=(
        Item(
            label="method 1",
            text="adds each operator at its own roof; leaves out gaps, latency floors, and "
            "kernels that overlap",
        ),
        Item(
            label="method 2",
            text="adds FLOP and bytes of all operators and takes the slowest resource; leaves out "
            "that compute and memory do not overlap across kernels",
        ),
        Item(
            label="weights",
            text="reads every weight and the KV cache once; leaves out activations, arithmetic "
            "and links",
        ),
    )
)


def operators_section(report: Report) -> Section:
    """Return the operators, those first that cost most above their bound."""
    title = "Operators by time to win back"
    if not report.operators:
        return Section(title=title, blocks=(_why_no_operators(report),))
    rows = sorted(report.operators, key=_by_excess)
    reachable = any(row.reachable_ratio is not None for row in rows)
    columns = (
        name("role", least=20),
        number("n/step"),
        number("µs"),
        number("bound µs"),
        number("ratio"),
        *((number("to reach"),) if reachable else ()),
        word("limiter"),
        number("µs/step"),
        name("main kernel", least=12, optional=True),
    )
    grid = Grid(columns=columns, rows=tuple(_operator(row, reachable) for row in rows))
    return Section(title=title, blocks=(grid, *_legend(rows, reachable), *_notes(rows)))


def _longest(budget: Budget, rows: list[StepRow]) -> list[str]:
    """Return what the longest step of the same GPU took more, if that is worth telling."""
    own = [row for row in rows if row.gpu == budget.gpu]
    longest = max(own, key=lambda row: (row.wall_ns, -row.step), default=None)
    if longest is None or longest.wall_ns < _LONG * budget.wall_ns:
        return []
    more = [
        (field, getattr(longest, f"{field}_ns") - getattr(budget, f"{field}_ns"))
        for field in ("bound", "over_bound", "fixed", "unexplained", "copy", "idle")
    ]
    extra = longest.wall_ns - budget.wall_ns
    told = [
        f"{field.replace('_', ' ')} {ns / 1e3:+,.1f} µs"
        for field, ns in sorted(more, key=lambda pair: -abs(pair[1]))
        if abs(ns) >= _PART * extra
    ]
    text = (
        f"The longest step, number {longest.step}, took {format_us(longest.wall_ns)} µs: "
        f"{', '.join(told)}; see `nsysroof steps TRACE`."
    )
    return [text]


def all_steps_section(rows: list[StepRow]) -> Section:
    """Return the budget of every step, a line each; its columns add up as those of the median."""
    title = "Budget of each step, µs"
    if not rows:
        return Section(title=title, blocks=("No step has a budget; see `nsysroof info TRACE`.",))
    several = len({row.gpu for row in rows}) > 1
    columns = (
        *((number("GPU"),) if several else ()),
        number("step"),
        number("at ms"),
        number("wall"),
        number("=bound"),
        number("+over"),
        number("+fixed"),
        number("+unexp"),
        number("+copy"),
        number("+idle"),
        number("-twice"),
        word("idle mostly by"),
    )
    grid = Grid(columns=columns, rows=tuple(_step(row, several=several) for row in rows))
    legend = (
        "over: operators above their roofs; fixed: kernels at the latency floor; unexp: kernels "
        "without an operator; twice: overlap, counted twice before it"
    )
    return Section(title=title, blocks=(grid, legend))


def _step(row: StepRow, *, several: bool) -> Row:
    causes = sorted(row.idle_by_cause.items(), key=lambda pair: (-pair[1], pair[0]))
    terms = (
        row.wall_ns,
        row.bound_ns,
        row.over_bound_ns,
        row.fixed_ns,
        row.unexplained_ns,
        row.copy_ns,
        row.idle_ns,
        row.overlap_ns,
    )
    cells = (
        *((f"{row.gpu}",) if several else ()),
        f"{row.step}",
        f"{row.start_ns / 1e6:,.1f}",
        *map(format_us, terms),
        causes[0][0] if causes and causes[0][1] else "–",
    )
    return Row(cells=cells)


def _budget_grid(budget: Budget) -> Grid:
    parts = (
        ("  bound", budget.bound_ns, "at the roofs"),
        ("+ over bound", budget.over_bound_ns, "operators above their roofs"),
        ("+ fixed", budget.fixed_ns, "kernels at the latency floor"),
        ("+ unexplained", budget.unexplained_ns, "kernels without an operator"),
        ("+ copies", budget.copy_ns, "copies and fills"),
        ("+ idle", budget.idle_ns, "nothing runs on the GPU"),
        ("- overlap", budget.overlap_ns, "counted twice above"),
        ("= wall", budget.wall_ns, "first kernel to the next step's first kernel"),
    )
    rows = (
        Row(cells=(label, format_us_exact(ns), format_share(budget.share(ns)), meaning))
        for label, ns, meaning in parts
    )
    columns = (word("budget"), number("µs"), number("share of wall"), word("what it is"))
    return Grid(columns=columns, rows=tuple(rows))


def _floor(label: str, bounds: StepBounds, ns: float | None) -> Row:
    is_measured = ns is not None and label == "measured"
    over = "–" if is_measured or ns is None else f"{format_ratio(bounds.over(ns))} ×"
    return Row(cells=(label, format_us(ns), over))


def _amount(value: float | None) -> str:
    return "–" if value is None else f"{value:,.1f}".removesuffix(".0")


def _by_excess(row: OperatorRow) -> tuple[float, str, str, str]:
    excess = float("-inf") if row.excess_ns_per_step is None else row.excess_ns_per_step
    return -excess, row.role, row.kind, repr(row)


def _operator(row: OperatorRow, reachable: bool) -> Row:
    fixed = row.limiter == _LATENCY
    ratio = "fixed" if fixed else format_ratio(row.ratio)
    if row.ratio is not None and row.ratio < 1:
        ratio = format_ratio(row.ratio) + _BELOW_BOUND
    cells = (
        row.role,
        f"{row.instances_per_step:,.1f}".removesuffix(".0"),
        format_us(row.measured_ns),
        format_us(row.floor_ns if fixed else row.bound_ns),
        ratio,
        *(("fixed" if fixed else format_ratio(row.reachable_ratio),) if reachable else ()),
        row.limiter or "–",
        format_us(row.excess_ns_per_step),
        row.kernels[0] if row.kernels else "–",
    )
    return Row(cells=cells)


def _legend(rows: list[OperatorRow], reachable: bool) -> list[str]:
    lines = ["µs: the median instance, helpers included; ratio: measured / bound; µs/step: to win"]
    lines[0] += " back per step at the bound."
    if reachable:
        lines.append("to reach: measured / what the measured roofs allow.")
    if any(row.limiter == _LATENCY for row in rows):
        lines.append(
            "fixed: so small that the latency floor bounds it, which the bound column then gives; "
            "fewer such kernels help, faster ones do not."
        )
    if any(row.ratio is not None and row.ratio < 1 for row in rows):
        lines.append("(!): faster than the bound, so an input is wrong; see Impossible below.")
    if all(row.ratio is None for row in rows):
        lines.append("No ratios: no peak is known for this GPU; see the findings.")
    return lines


def _notes(rows: list[OperatorRow]) -> list[Block]:
    """Return doubts and notes, each once with the roles it is about, the costliest first."""
    roles: dict[str, list[str]] = {}
    for row in rows:
        for text in (*_doubts(row), *row.notes):
            roles.setdefault(text, []).append(row.role)
    items = [
        Item(label="note", text=f"{', '.join(dict.fromkeys(of))}: {text}")
        for text, of in roles.items()
    ]
    if not items:
        return []
    left = len(items) - _NOTES_SHOWN
    more: list[Block] = [f"… and {left:,} more notes: -f json has them all."] if left > 0 else []
    return [Items(items=tuple(items[:_NOTES_SHOWN])), *more]


def _doubts(row: OperatorRow) -> list[str]:
    if row.confidence == "high":
        return []
    return [f"assigned with {row.confidence} confidence, on the evidence of: {row.evidence}"]


def _why_no_operators(report: Report) -> str:
    if report.capture.kernels_used == 0:
        return "None: the capture has no kernels."
    if report.assumptions.model is None:
        return (
            "None: without a model no kernel has a bound. Give --model NAME or config.json, with "
            "--batch and --context; `nsysroof models` lists the names."
        )
    return "None: no kernel could be matched to an operator of the model; see the findings."
