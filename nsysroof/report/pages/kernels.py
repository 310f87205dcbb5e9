"""The kernels themselves: all of them, those without a theory, those faster than it, copies."""

from __future__ import annotations

from nsysroof.report.blocks import Block, Grid, Row, Section, count, name, number, word
from nsysroof.results import ImpossibleRow, KernelRow, LinkPart, LinkRow, Report, UnexplainedRow
from nsysroof.units import format_bytes, format_rate, format_ratio, format_share, format_us

_UNEXPLAINED_SHOWN = 10
_STUBS = (
    "Rules to fill in for those of class unknown: `nsysroof rules stub TRACE > own.toml`, then "
    "--rules own.toml."
)


def unexplained_section(report: Report) -> Section:
    """Return the kernels without an operator that take most time."""
    title = "Unexplained kernels"
    if not report.unexplained:
        return Section(title=title, blocks=("None.",))
    ordered = sorted(report.unexplained, key=lambda row: (-row.total_ns, row.name, row.grid))
    shown = ordered[:_UNEXPLAINED_SHOWN]
    columns = (
        number("of time"),
        number("µs"),
        number("n"),
        word("grid"),
        word("class"),
        name("kernel", least=20),
    )
    hints = {row.hint for row in shown}
    hinted = len(hints) > 1  # one hint for all of them is told once
    grid = Grid(columns=columns, rows=tuple(_unexplained(row, hinted=hinted) for row in shown))
    after: list[Block] = [] if hinted else [f"hint: {hint}" for hint in hints if hint]
    left = len(ordered) - len(shown)
    if left:
        after.append(f"… and {left:,} more: -f tsv lists all.")
    if any(row.stub for row in ordered):
        after.append(_STUBS)
    return Section(title=title, blocks=(grid, *after))


def impossible_section(report: Report) -> Section:
    """Return the operators measured faster than their bound, with the input to doubt."""
    title = "Impossible: faster than the bound"
    if not report.impossible:
        known = any(row.bound_ns is not None for row in report.operators)
        text = "None: no operator is faster than its bound." if known else _NO_BOUND
        return Section(title=title, blocks=(text,))
    columns = (name("role", least=20), number("ratio"), word("below"), word("likely cause"))
    rows = tuple(_impossible(row) for row in sorted(report.impossible, key=_by_ratio))
    return Section(title=title, blocks=(Grid(columns=columns, rows=rows),))


def links_section(report: Report) -> Section:
    """Return the copies of each kind against the link they cross."""
    if not report.links:
        return Section(title="Copies and links", blocks=("None: nothing was copied.",))
    columns = (
        word("link"),
        number("GPU"),
        number("copies"),
        number("size"),
        number("busy µs"),
        number("of step"),
        number("hidden"),
        number("rate"),
        number("peak"),
        number("ratio"),
    )
    grid = Grid(columns=columns, rows=tuple(_link(row) for row in report.links))
    legend = (
        "of step: share of the analysed steps in which they ran; hidden: share of their time in "
        "which a kernel ran too."
    )
    return Section(title="Copies and links", blocks=(grid, legend))


def kernels_section(kernels: list[KernelRow]) -> Section:
    """Return every kernel, the costliest first."""
    if not kernels:
        return Section(title="Kernels", blocks=("None.",))
    columns = (
        number("µs"),
        number("n"),
        number("p50 µs"),
        number("min µs"),
        number("max µs"),
        number("ratio"),
        word("grid"),
        word("block"),
        name("role", least=14),
        name("kernel", least=14),
    )
    ordered = sorted(kernels, key=lambda row: (-row.total_ns, row.name, row.grid, row.block))
    grid = Grid(columns=columns, rows=tuple(_kernel(row) for row in ordered))
    return Section(title=f"Kernels: {count(len(kernels), 'row')}", blocks=(grid,))


_NO_BOUND = "Not known: no operator has a bound."


def _unexplained(row: UnexplainedRow, *, hinted: bool) -> Row:
    cells = (
        format_share(row.share),
        format_us(row.total_ns),
        f"{row.instances:,}",
        _dimensions(row.grid),
        row.klass,
        row.name,
    )
    told = [_moved(row), f"hint: {row.hint}" if hinted and row.hint else ""]
    return Row(cells=cells, below="; ".join(filter(None, told)))


def _moved(row: UnexplainedRow) -> str:
    """Return the bytes of one instance and what they would take, in so far as they are known."""
    if row.bytes_low is None:
        return ""
    least = format_bytes(row.bytes_low)
    size = f"≥ {least}" if row.bytes_high is None else f"{least} to {format_bytes(row.bytes_high)}"
    if row.bytes_low == row.bytes_high or least == format_bytes(row.bytes_high):
        size = least
    told = f"each moves {size} by its launch geometry"
    if row.ratio is None:
        return told
    times = f"≥ {format_us(row.bound_ns)} µs, p50 {format_us(row.p50_ns)} µs"
    return f"{told}: {times}, ratio ≤ {format_ratio(row.ratio)}"


def _by_ratio(row: ImpossibleRow) -> tuple[float, str, str]:
    return row.ratio, row.role, row.evidence


def _impossible(row: ImpossibleRow) -> Row:
    below = "the least possible" if row.hard else "the expected"
    cells = (row.role, format_ratio(row.ratio), below, row.likely_cause)
    return Row(cells=cells, below=row.evidence)


def _link(row: LinkRow) -> Row:
    cells = (
        row.kind,
        f"{row.gpu}",
        f"{row.copies:,}",
        format_bytes(row.bytes),
        format_us(row.busy_ns),
        format_share(row.step_share),
        format_share(row.overlapped_share),
        format_rate(row.bytes_per_s, "B"),
        format_rate(row.peak_bytes_per_s, "B"),
        format_ratio(row.ratio),
    )
    parts = [_part(part) for part in row.parts] if len(row.parts) > 1 else []
    return Row(cells=cells, below="; ".join([*parts, *([row.note] if row.note else [])]))


def _part(part: LinkPart) -> str:
    memory = f"{part.memory} " if part.memory else ""
    return (
        f"{memory}{part.size}: {count(part.copies, 'copy', 'copies')}, "
        f"{format_bytes(part.bytes)} at {format_rate(part.bytes_per_s, 'B')}"
    )


def _kernel(row: KernelRow) -> Row:
    cells = (
        format_us(row.total_ns),
        f"{row.instances:,}",
        format_us(row.p50_ns),
        format_us(row.min_ns),
        format_us(row.max_ns),
        format_ratio(row.ratio),
        _dimensions(row.grid),
        _dimensions(row.block),
        row.role or "–",
        row.name,
    )
    return Row(cells=cells)


def _dimensions(sizes: list[int]) -> str:
    return "×".join(str(size) for size in sizes)
