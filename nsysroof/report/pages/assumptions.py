"""Every input of the theory, and where each peak comes from, in a few lines."""

from __future__ import annotations

from nsysroof.report.blocks import Block, Item, Items, Section
from nsysroof.results import Assumptions, PeakUsed
from nsysroof.units import format_rate

_BYTE_PEAKS = frozenset({"bw", "h2d", "d2h", "p2p", "nvlink", "c2c", "nic"})
_INTEGER_PEAKS = frozenset({"int8", "int4"})
_CONTEXTS_SHOWN = 8


def assumptions_section(assumptions: Assumptions) -> Section:
    """Return what was assumed, what was not given, and the peaks with their sources."""
    fields = _fields(assumptions)
    given = [f"{label} {value}" for label, value in fields if value is not None]
    absent = [label for label, value in fields if value is None]
    items = [Item(label="given", text="; ".join(given) or "nothing")]
    if absent:
        items.append(Item(label="not given", text=", ".join(absent)))
    items += [Item(label="peaks", text=text) for text in _peaks(assumptions.peaks)]
    items += [Item(label="note", text=note) for note in assumptions.notes]
    blocks: list[Block] = [Items(items=tuple(items))]
    if not assumptions.peaks:
        blocks.append("No peak was used: without a known GPU nothing has a bound; give --gpu.")
    return Section(title="Assumptions", blocks=tuple(blocks))


def _fields(assumptions: Assumptions) -> list[tuple[str, str | None]]:
    a = assumptions
    return [
        ("model", a.model),
        ("GPU", _with_source(a.gpu, a.gpu_source)),
        ("phase", a.phase),
        ("batch", _plain(a.batch)),
        ("context", _context(a.context)),
        ("new tokens", _context(a.query_lengths) or _plain(a.new_tokens)),
        ("weights", a.weights),
        ("KV cache", a.kv),
        ("activations", a.activations),
        ("TP", _plain(a.tp)),
        ("EP", _plain(a.ep)),
        ("DP", _plain(a.dp)),
        ("experts", _plain(a.experts)),
        ("latency floor", _with_source(_us(a.floor_us), a.floor_source)),
        ("tokens per step", _plain(a.tokens_per_step)),
        ("shared prefix", _plain(a.shared_prefix)),
        ("draft", a.draft if a.drafts is None else f"{a.draft}, {a.drafts} tokens"),
        ("unprofiled step", _us(a.unprofiled_step_us)),
        ("devices", _list(a.devices)),
        ("window", _window(a)),
    ]


def _plain(value: float | None) -> str | None:
    return None if value is None else f"{value:,}".removesuffix(".0")


def _us(value: float | None) -> str | None:
    return None if value is None else f"{value:,g} µs"


def _list(values: list[int] | None) -> str | None:
    return None if values is None else ", ".join(str(value) for value in values)


def _with_source(value: str | None, source: str | None) -> str | None:
    return f"{value} ({source})" if value is not None and source else value


def _context(context: list[int] | None) -> str | None:
    if context is None:
        return None
    if len(set(context)) == 1:
        return f"{context[0]:,}" + (f" in each of {len(context):,}" if len(context) > 1 else "")
    if len(context) <= _CONTEXTS_SHOWN:
        return ", ".join(f"{length:,}" for length in context)
    return f"{len(context):,} lengths from {min(context):,} to {max(context):,}"


def _window(assumptions: Assumptions) -> str | None:
    if assumptions.window_s is None:
        return None
    start, end = assumptions.window_s
    anchor = assumptions.window_anchor_ns
    anchored = "" if anchor is None else f", counted from {anchor:,} ns"
    return f"{start:g} to {end:g} s{anchored}"


def _peaks(peaks: list[PeakUsed]) -> list[str]:
    """Return the peaks of each source in one line."""
    by_source: dict[str, list[str]] = {}
    for peak in peaks:
        unit = "B" if peak.key in _BYTE_PEAKS else "OP" if peak.key in _INTEGER_PEAKS else "FLOP"
        by_source.setdefault(peak.source, []).append(f"{peak.key} {format_rate(peak.value, unit)}")
    return [f"{', '.join(values)}, from {source}" for source, values in by_source.items()]
