"""The page of a step carried over to something else: both times, what was kept, every role."""

from __future__ import annotations

from nsysroof.outcomes import WhatIf, WhatIfRow
from nsysroof.report.blocks import Block, Grid, Item, Items, Row, Section, name, number, word
from nsysroof.units import format_ratio, format_us

_TREATMENTS = {
    "efficiency": "ratio kept",
    "time": "time kept",
    "added": "at its bound",
    "gone": "gone",
}


def whatif_sections(found: WhatIf) -> tuple[Section, ...]:
    """Return the step before and after, then its operators, the largest change first."""
    return _step(found), _operators(found)


def _step(found: WhatIf) -> Section:
    changes = "; ".join(f"{key} {change}" for key, change in found.changes.items())
    span = f"{format_us(found.low_ns)} to {format_us(found.high_ns)}"
    rows = (
        ("measured", format_us(found.measured_ns), "–", _rate(found.tokens_per_s_measured)),
        ("expected", format_us(found.expected_ns), span, _rate(found.tokens_per_s)),
        ("its bound", format_us(found.serial_ns), "–", _rate(_per_s(found))),
    )
    columns = (word("step"), number("µs"), number("range"), number("tokens/s"))
    blocks: list[Block] = [
        f"With {changes}:" if changes else "With nothing changed:",
        Grid(columns=columns, rows=tuple(Row(cells=cells) for cells in rows)),
        f"expected is measured × {found.expected_ns / found.measured_ns:.2f}",
        Items(items=tuple(Item(label="note", text=note) for note in found.notes)),
    ]
    return Section(title="What the step would take", blocks=tuple(blocks))


def _operators(found: WhatIf) -> Section:
    columns = (
        name("role", least=20),
        number("measured µs"),
        number("expected µs"),
        number("range"),
        number("bound µs"),
        number("ratio"),
        word("limiter"),
        word("how"),
    )
    rows = sorted(found.rows, key=_by_change)
    grid = Grid(columns=columns, rows=tuple(_operator(row) for row in rows))
    legend = "µs per step; ratio kept: the new bound at the measured ratio."
    return Section(title="Operators by change", blocks=(grid, legend))


def _operator(row: WhatIfRow) -> Row:
    is_sure = format_us(row.low_ns) == format_us(row.high_ns)
    cells = (
        row.role,
        format_us(row.measured_ns),
        format_us(row.expected_ns),
        "–" if is_sure else f"{format_us(row.low_ns)} to {format_us(row.high_ns)}",
        format_us(row.bound_ns),
        format_ratio(row.ratio),
        row.limiter or "–",
        _TREATMENTS.get(row.treatment, row.treatment),
    )
    return Row(cells=cells)


def _by_change(row: WhatIfRow) -> tuple[float, str]:
    return -abs(row.expected_ns - (row.measured_ns or 0)), row.role


def _rate(tokens_per_s: float | None) -> str:
    return "–" if tokens_per_s is None else f"{tokens_per_s:,.1f}"


def _per_s(found: WhatIf) -> float | None:
    return found.tokens / found.serial_ns * 1e9 if found.serial_ns else None
