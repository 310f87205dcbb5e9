"""What sampled counters of the GPUs tell: busy units, memory traffic, clocks."""

from __future__ import annotations

from nsysroof.report.blocks import Block, Grid, Row, Section, count, name, number
from nsysroof.results import MetricRow
from nsysroof.units import format_bytes, format_rate, format_ratio, format_share, format_time

_WHOLE = {"step": "the mean step", "window": "first to last activity"}


def metrics_sections(rows: list[MetricRow]) -> tuple[Section, ...]:
    """Return the section of the samples, or none where nothing was sampled."""
    if not rows:
        return ()
    told = [row for row in rows if row.scope != "role" or row.samples]
    wholes = [row for row in rows if row.scope != "role"]
    blocks: list[Block] = [_grid(told)]
    blocks += [_remarks(row, [one for one in rows if one.gpu == row.gpu]) for row in wholes]
    blocks.append(
        "Samples are of the whole GPU, in percent of what it sustains at its clocks; a role has "
        "those that its kernels alone fill. Caches serve part of the theory's bytes."
    )
    return (Section(title="Sampled GPU metrics", blocks=tuple(blocks)),)


def _grid(rows: list[MetricRow]) -> Grid:
    columns = (
        number("GPU"),
        name("of", least=12),
        number("samples"),
        number("SMs"),
        number("tensor"),
        number("DRAM read"),
        number("write"),
        number("moved"),
        number("theory"),
        number("ratio"),
    )
    return Grid(columns=columns, rows=tuple(map(_row, rows)))


def _row(row: MetricRow) -> Row:
    cells = (
        f"{row.gpu}",
        row.role or _WHOLE[row.scope],
        f"{row.samples:,}",
        format_share(row.sm_active),
        format_share(row.tensor_active),
        format_share(row.dram_read),
        format_share(row.dram_write),
        format_bytes(row.dram_bytes),
        format_bytes(row.theory_bytes),
        format_ratio(row.bytes_ratio),
    )
    return Row(cells=cells)


def _remarks(whole: MetricRow, rows: list[MetricRow]) -> str:
    """Return how one GPU was sampled, what its bytes rest on, and its clock."""
    every, covered = format_time(whole.interval_ns), format_share(whole.sampled_share)
    lines = [f"GPU {whole.gpu}: a sample every {every}, {covered} of the time covered."]
    if whole.peak_bytes_per_s is None:
        lines.append("No bytes: the bandwidth that percents are of is not known.")
    else:
        peak = f"{format_rate(whole.peak_bytes_per_s, 'B')} ({whole.peak_source})"
        lines.append(f"Moved: percent of {peak}, times the time.")
    if whole.clock_hz is not None:
        rated = f", rated {_ghz(whole.rated_clock_hz)}" if whole.rated_clock_hz else ""
        lines.append(f"Mean GPC clock {_ghz(whole.clock_hz)}{rated}; no bound is changed by it.")
    short = sum(row.scope == "role" and not row.samples for row in rows)
    if short:
        lines.append(f"{count(short, 'role')} without a sample: shorter than two of them.")
    return " ".join(lines)


def _ghz(hertz: float | None) -> str:
    """Return a clock.

    >>> _ghz(1_755_000_000)
    '1.755 GHz'
    """
    return "–" if hertz is None else f"{hertz / 1e9:.3f} GHz"
