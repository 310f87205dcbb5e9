"""The page of a sweep: a line per point, or machines side by side."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from nsysroof.report.blocks import Column, Grid, Item, Items, Row, Section, number, word
from nsysroof.results import Sweep, SweepRow
from nsysroof.units import format_bytes, format_us

Show = Callable[[SweepRow], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quantity:
    """One number of a point: its heading, and how a cell shows it."""

    title: str
    show: Show
    is_word: bool = False

    @property
    def column(self) -> Column:
        return word(self.title) if self.is_word else number(self.title)


def _rate(row: SweepRow) -> str:
    return "–" if row.tokens_per_s is None else f"{row.tokens_per_s:,.0f}"


_STEP = _Quantity(title="step µs", show=lambda row: format_us(row.serial_ns))
_TOKENS = _Quantity(title="tokens/s", show=_rate)
_LIMITER = _Quantity(title="limiter", show=lambda row: row.limiter or "–", is_word=True)
_PARTS = (
    _Quantity(title="memory µs", show=lambda row: format_us(row.memory_ns)),
    _Quantity(title="compute µs", show=lambda row: format_us(row.compute_ns)),
)
_LINK = _Quantity(title="link µs", show=lambda row: format_us(row.link_ns))
_BYTES = (
    _Quantity(title="weights read", show=lambda row: format_bytes(row.weight_bytes)),
    _Quantity(title="KV", show=lambda row: format_bytes(row.kv_bytes)),
    _Quantity(title="activations", show=lambda row: format_bytes(row.activation_bytes)),
)
_EXPERTS = _Quantity(
    title="experts", show=lambda row: "–" if row.experts is None else f"{row.experts:,.1f}"
)
_GPUS = _Quantity(
    title="GPUs", show=lambda row: "–" if row.gpus_needed is None else f"{row.gpus_needed:,}"
)
_HELD = _Quantity(title="held", show=lambda row: format_bytes(row.resident_bytes))
_TIME_LEGEND = (
    "step µs and tokens/s: matmuls, attention, LM head and collectives in turn, without "
    "activations. memory, compute and link µs: all bytes and all arithmetic of a step, activations "
    "included, each over its peak; the longest limits."
)
_BYTES_LEGEND = (
    "weights read, KV, activations: what one GPU moves in a step. held: weights, KV cache and "
    "states over all GPUs, and the GPUs they need."
)


def sweep_sections(sweep: Sweep) -> tuple[Section, ...]:
    """Return the sections of a sweep."""
    title = f"{sweep.model}, {sweep.phase}"
    if not sweep.compared:
        layout = _lines
    elif set(sweep.axes) == set(sweep.compared):
        layout = _side_by_side
    else:
        return (*_crossed_sections(sweep, title), *_notes(sweep))
    return (
        Section(title=f"{title}: time", blocks=(layout(sweep, _times(sweep)), _TIME_LEGEND)),
        Section(title=f"{title}: bytes", blocks=(layout(sweep, _sizes(sweep)), _BYTES_LEGEND)),
        *_notes(sweep),
    )


def _crossed_sections(sweep: Sweep, title: str) -> list[Section]:
    quantities = (_STEP, _TOKENS, _LIMITER)
    return [Section(title=f"{title}: {q.title}", blocks=(_crossed(sweep, q),)) for q in quantities]


def _notes(sweep: Sweep) -> list[Section]:
    reasons = [f"{_point(row, sweep.axes)}: {row.note}" for row in sweep.rows if row.note]
    texts = [*reasons, *sweep.notes]
    if not texts:
        return []
    items = Items(items=tuple(Item(label="note", text=text) for text in texts))
    return [Section(title="Notes", blocks=(items,))]


def _times(sweep: Sweep) -> list[_Quantity]:
    links = [_LINK] if any(row.link_bytes for row in sweep.rows) else []
    return [_STEP, _TOKENS, *_PARTS, *links, _LIMITER]


def _sizes(sweep: Sweep) -> list[_Quantity]:
    experts = [_EXPERTS] if any(row.experts is not None for row in sweep.rows) else []
    return [*_BYTES, *experts, _HELD, _GPUS]


def _lines(sweep: Sweep, quantities: list[_Quantity]) -> Grid:
    axes = [number(axis) if _is_number(sweep, axis) else word(axis) for axis in sweep.axes]
    rows = (
        Row(cells=(*(_value(row, axis) for axis in sweep.axes), *(q.show(row) for q in quantities)))
        for row in sweep.rows
    )
    return Grid(columns=(*axes, *(q.column for q in quantities)), rows=tuple(rows))


def _side_by_side(sweep: Sweep, quantities: list[_Quantity]) -> Grid:
    labels = [_point(row, sweep.axes) for row in sweep.rows]
    rows = (
        Row(cells=(quantity.title, *(quantity.show(row) for row in sweep.rows)))
        for quantity in quantities
    )
    return Grid(columns=(word(""), *(number(label) for label in labels)), rows=tuple(rows))


def _crossed(sweep: Sweep, quantity: _Quantity) -> Grid:
    """Return one quantity: a line per point of what is swept, a column per machine."""
    down = [axis for axis in sweep.axes if axis not in sweep.compared]
    across = list(dict.fromkeys(_point(row, sweep.compared) for row in sweep.rows))
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for row in sweep.rows:
        at = tuple(_value(row, axis) for axis in down)
        lines.setdefault(at, {})[_point(row, sweep.compared)] = quantity.show(row)
    columns = [number(axis) if _is_number(sweep, axis) else word(axis) for axis in down]
    columns += [number(label) for label in across]
    rows = (
        Row(cells=(*at, *(cells.get(label, "–") for label in across)))
        for at, cells in lines.items()
    )
    return Grid(columns=tuple(columns), rows=tuple(rows))


def _point(row: SweepRow, axes: list[str]) -> str:
    """Return a point as text: names alone, numbers with what they count."""
    parts = []
    for axis in axes:
        value = getattr(row, axis.replace("-", "_"), None)
        parts.append(f"{axis} {value:,}" if isinstance(value, int) else str(value))
    return " ".join(parts)


def _value(row: SweepRow, axis: str) -> str:
    value = getattr(row, axis.replace("-", "_"), None)
    return f"{value:,}" if isinstance(value, int) else str(value)


def _is_number(sweep: Sweep, axis: str) -> bool:
    return any(isinstance(getattr(row, axis.replace("-", "_"), None), int) for row in sweep.rows)
