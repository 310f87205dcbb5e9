"""The pages of a comparison and of a gate: the answer first, then what it rests on."""

from __future__ import annotations

from nsysroof.outcomes import (
    Account,
    Change,
    Check,
    Diff,
    Difference,
    KernelChange,
    RoleChange,
    Rule,
)
from nsysroof.report.blocks import (
    Block,
    Grid,
    Item,
    Items,
    Row,
    Section,
    count,
    name,
    number,
    word,
)
from nsysroof.units import format_ratio, format_share, format_us, format_us_exact

_WALLS = {
    "step": "first kernel to the next step's first kernel",
    "window": "first to last activity",
}
_KERNELS_SHOWN = 20
_SAME = "same"


def diff_sections(diff: Diff) -> tuple[Section, ...]:
    """Return the sections of a comparison in reading order."""
    return (
        _wall_section(diff),
        _roles_section(diff),
        _causes_section(diff),
        _kernels_section(diff.kernels),
        *_window_sections(diff),
        *_conditions_sections(diff.differences),
    )


def check_sections(check: Check) -> tuple[Section, ...]:
    """Return the verdict, and every rule, those that did not pass first."""
    outcomes = ", ".join(
        f"{len(check.rules_with(verdict)):,} {told}"
        for verdict, told in (
            ("fail", "tripped"),
            ("inconclusive", "cannot be judged"),
            ("pass", "passed"),
        )
    )
    columns = (
        word("verdict"),
        name("rule", least=24),
        number("value"),
        number("limit"),
        number("baseline"),
    )
    grid = Grid(columns=columns, rows=tuple(_rule(rule) for rule in _worst_first(check)))
    opening = f"{check.verdict}: of {count(len(check.rules), 'rule')} {outcomes}"
    return (Section(title="Check", blocks=(opening, check.report, grid)),)


def _wall_section(diff: Diff) -> Section:
    what = {
        "step": "the median step of each",
        "window": "the whole window of each, summed over its GPUs",
    }
    noise = f"changes of up to {diff.noise_ns:,} ns count as the same" if diff.noise_ns else "exact"
    blocks: list[Block] = [
        f"a: {diff.a}",
        f"b: {diff.b}",
        f"Compared is {what[diff.scope]}, in integer ns; noise: {noise}.",
        _account_grid(diff, _WALLS[diff.scope]),
    ]
    if diff.is_empty:
        blocks.append("Nothing differs.")
    return Section(title="What changed from a to b", blocks=tuple(blocks))


def _account_grid(account: Account, wall: str) -> Grid:
    parts = (
        ("  roles", _rest(account), "kernels with an operator"),
        ("+ unexplained", account.unexplained_ns, "kernels without an operator"),
        ("+ copies", account.copy_ns, "copies and fills"),
        ("- overlap", account.overlap_ns, "counted twice above"),
        ("+ idle", account.idle_ns, "nothing runs on the GPU"),
        ("= wall", account.wall_ns, wall),
    )
    rows = (Row(cells=(label, *_cells(change), meaning)) for label, change, meaning in parts)
    columns = (
        word("part"),
        number("a µs"),
        number("b µs"),
        number("change µs"),
        word("what it is"),
    )
    return Grid(columns=columns, rows=tuple(rows))


def _rest(account: Account) -> Change:
    """Return the time of the roles: all work but what has none."""
    work, foreign, copies = account.work_ns, account.unexplained_ns, account.copy_ns
    return Change(
        a=work.a - foreign.a - copies.a,
        b=work.b - foreign.b - copies.b,
        delta=work.delta - foreign.delta - copies.delta,
    )


def _roles_section(account: Account) -> Section:
    title = "Roles that changed"
    changed = [row for row in account.roles if row.status != _SAME]
    if not account.roles:
        return Section(title=title, blocks=("None: neither report has roles; give --model.",))
    if not changed:
        return Section(title=title, blocks=(f"None of {count(len(account.roles), 'role')}.",))
    columns = (
        name("role", least=20),
        word("status"),
        number("a µs"),
        number("b µs"),
        number("change µs"),
        number("b/a"),
    )
    grid = Grid(columns=columns, rows=tuple(_role(row) for row in changed))
    return Section(title=title, blocks=(grid, *_left(len(account.roles) - len(changed), "role")))


def _causes_section(account: Account) -> Section:
    title = "Idle time by cause"
    shown = [
        (cause, change) for cause, change in account.idle_by_cause.items() if change.a or change.b
    ]
    if not shown:
        return Section(title=title, blocks=("The GPU idles in neither.",))
    shown.sort(key=lambda pair: (-abs(pair[1].delta), pair[0]))
    rows = tuple(Row(cells=(cause, *_cells(change))) for cause, change in shown)
    columns = (word("cause"), number("a µs"), number("b µs"), number("change µs"))
    return Section(title=title, blocks=(Grid(columns=columns, rows=rows),))


def _kernels_section(kernels: list[KernelChange]) -> Section:
    title = "Kernels that changed"
    changed = [row for row in kernels if row.status != _SAME]
    if not changed:
        return Section(title=title, blocks=(f"None of {count(len(kernels), 'kernel')}.",))
    columns = (
        word("status"),
        number("a n"),
        number("b n"),
        number("a µs"),
        number("b µs"),
        number("change µs"),
        name("role", least=12),
        name("kernel", least=16),
    )
    grid = Grid(columns=columns, rows=tuple(_kernel(row) for row in changed[:_KERNELS_SHOWN]))
    hidden = len(changed) - _KERNELS_SHOWN
    more = (f"… and {hidden:,} more: -f tsv lists all.",) if hidden > 0 else ()
    return Section(title=title, blocks=(grid, *more, *_left(len(kernels) - len(changed), "kernel")))


def _window_sections(diff: Diff) -> tuple[Section, ...]:
    """Return the whole window beside the step; where it is what was compared, once is enough."""
    if diff.scope == "window":
        return ()
    title = "The whole window"
    if diff.window is None:
        text = "Not compared: the idle time of one capture is not known."
        return (Section(title=title, blocks=(text,)),)
    window = diff.window
    change = (
        f"wall {format_us_exact(window.wall_ns.delta)} µs = work "
        f"{format_us_exact(window.delta.work_ns)} - overlap "
        f"{format_us_exact(window.delta.overlap_ns)} + idle {format_us_exact(window.delta.idle_ns)}"
    )
    return (Section(title=title, blocks=(f"Change over all GPUs: {change}.",)),)


def _conditions_sections(differences: list[Difference]) -> tuple[Section, ...]:
    if not differences:
        return ()
    items = tuple(
        Item(label=row.field, text=f"{row.a or 'not known'} → {row.b or 'not known'}")
        for row in differences
    )
    opening = "Times may differ by these alone:"
    return (Section(title="Conditions that differ", blocks=(opening, Items(items=items))),)


def _cells(change: Change) -> tuple[str, str, str]:
    return format_us_exact(change.a), format_us_exact(change.b), _signed(change.delta)


def _signed(ns: int) -> str:
    return f"{'+' if ns > 0 else ''}{format_us_exact(ns)}"


def _role(row: RoleChange) -> Row:
    times = row.b_ns / row.a_ns if row.a_ns and row.b_ns is not None else None
    cells = (
        row.role,
        row.status,
        format_us_exact(row.a_ns),
        format_us_exact(row.b_ns),
        _signed(row.delta_ns),
        format_ratio(times),
    )
    return Row(cells=cells)


def _kernel(row: KernelChange) -> Row:
    cells = (
        row.status,
        _amount(row.a_instances),
        _amount(row.b_instances),
        format_us_exact(row.a_ns),
        format_us_exact(row.b_ns),
        _signed(row.delta_ns),
        row.role or "–",
        row.name,
    )
    return Row(cells=cells)


def _amount(instances: int | None) -> str:
    return "–" if instances is None else f"{instances:,}"


def _left(unchanged: int, noun: str) -> tuple[str, ...]:
    return (f"{count(unchanged, noun)} unchanged.",) if unchanged else ()


def _worst_first(check: Check) -> list[Rule]:
    order = ("fail", "inconclusive", "pass")
    return sorted(check.rules, key=lambda rule: order.index(rule.verdict))


def _rule(rule: Rule) -> Row:
    cells = (
        rule.verdict,
        rule.rule,
        _quantity(rule.value, rule.unit),
        _quantity(rule.limit, rule.unit),
        _quantity(rule.baseline, rule.unit),
    )
    return Row(cells=cells, below=rule.reason)


def _quantity(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    if unit == "ns":
        return f"{format_us(value)} µs"
    if unit == "share":
        return format_share(value)
    return format_ratio(value) if unit == "ratio" else f"{value:,}"
