"""The page of an estimate: the step, what must fit, and every operator with its layer."""

from __future__ import annotations

from nsysroof.report.blocks import Block, Grid, Item, Items, Row, Section, name, number, word
from nsysroof.report.pages.assumptions import assumptions_section
from nsysroof.results import Estimate, EstimateMemory, EstimateOffload, EstimateRow
from nsysroof.units import format_bytes, format_flop, format_rate, format_share, format_us

_HALF_DIGIT = 0.05  # below it one decimal would read as zero
_LEAST = 0.001
_QUOTED = "active parameters as quoted"
_LEGEND = (
    "In order of execution, n of each in a step, one instance. w+KV: weights with their scales, KV "
    "cache and state, and the µs they take or the arithmetic, the longer; act.: activations, which "
    "small steps keep in L2; all µs: with them."
)


def estimate_sections(estimate: Estimate) -> tuple[Section, ...]:
    """Return the sections of an estimate in reading order."""
    offload = () if estimate.offload is None else (_offload(estimate.offload),)
    return (
        _step(estimate),
        _operators(estimate),
        _memory(estimate),
        *offload,
        _ridge(estimate),
        assumptions_section(estimate.assumptions),
    )


def one_decimal(value: float | None) -> str:
    """Return a number with one decimal, or with two digits where that would read as zero.

    >>> one_decimal(20.97), one_decimal(0.131), one_decimal(0.0031), one_decimal(3e-5)
    ('21.0', '0.1', '0.0031', '<0.001')
    """
    if value is None:
        return "–"
    if value == 0 or value >= _HALF_DIGIT:
        return f"{value:,.1f}"
    return f"{value:.2g}" if value >= _LEAST else f"<{_LEAST:g}"


def _step(estimate: Estimate) -> Section:
    step = estimate.step
    rows = (
        ("method 1: kernels in turn", step.serial_ns, "activations and small kernels"),
        ("method 1 with activations", step.serial_with_activations_ns, "launches and idle time"),
        ("method 2: the busiest resource", step.hard_ns, "that kernels run in turn"),
        (
            "method 2: weights and KV cache once",
            step.weights_once_ns,
            "activations, arithmetic and links",
        ),
        (f"method 2: {_QUOTED}", step.quoted_active_ns, "the KV cache; counts unread embedding"),
        ("small kernels at the latency floor, on top", step.small_kernels_ns, ""),
        ("method 1 at measured roofs", step.serial_reachable_ns, "activations and small kernels"),
    )
    grid = Grid(
        columns=(word("floor of a step"), number("µs"), word("what it leaves out")),
        rows=tuple(
            Row(cells=(label, format_us(ns), out))
            for label, ns, out in rows
            if ns is not None or label.startswith("small")
        ),
    )
    blocks: list[Block] = [grid, *_rates(estimate)]
    return Section(title="The best a step can do", blocks=tuple(blocks))


def _rates(estimate: Estimate) -> list[Block]:
    step, layer = estimate.step, estimate.layer
    blocks: list[Block] = [
        f"{step.tokens:,g} tokens per step: {step.tokens_per_s:,.0f} tokens/s at method 1"
    ]
    if step.tokens_per_s_with_small_kernels is not None and step.small_kernels_ns is not None:
        blocks.append(
            f"{step.tokens_per_s_with_small_kernels:,.0f} tokens/s with the small kernels, "
            f"{layer.small_kernels:,} in a layer: {step.small_kernels_ns / 1e6:,.2f} ms more"
        )
    blocks.append(f"{format_bytes(step.bytes)} and {format_flop(step.flop)} per step")
    return blocks


def _operators(estimate: Estimate) -> Section:
    reachable = any(row.reachable_ns is not None for row in estimate.operators)
    columns = (
        name("role", least=20),
        number("n"),
        number("w+KV MB"),
        number("µs"),
        number("act. MB"),
        number("all µs"),
        word("limiter"),
        number("reach µs" if reachable else "FLOP/B"),
        word("dtype"),
    )
    rows = tuple(_operator(row, reachable=reachable) for row in estimate.operators)
    totals = (_layer(estimate), _whole_step(estimate))
    blocks: list[Block] = [Grid(columns=columns, rows=(*rows, *totals)), _LEGEND]
    if reachable:
        blocks.append("reach µs: with activations at the measured roofs.")
    return Section(title="Operators", blocks=tuple(blocks))


def _operator(row: EstimateRow, *, reachable: bool) -> Row:
    activations = row.bytes.act_read + row.bytes.act_write
    last = one_decimal(_us(row.reachable_ns)) if reachable else one_decimal(row.intensity)
    cells = (
        row.role,
        f"{row.count:,}",
        one_decimal((row.bytes.memory - activations) / 1e6),
        one_decimal(_us(row.resident_ns)),
        one_decimal(activations / 1e6),
        one_decimal(_us(row.bound_ns)),
        row.limiter,
        last,
        row.dtype,
    )
    return Row(cells=cells)


def _us(ns: float | None) -> float | None:
    return None if ns is None else ns / 1e3


def _layer(estimate: Estimate) -> Row:
    layer = estimate.layer
    cells = (
        "one layer",
        f"{layer.layers:,}",
        one_decimal(layer.bytes / 1e6),
        one_decimal(layer.bound_ns / 1e3),
        one_decimal(layer.activation_bytes / 1e6),
        one_decimal(layer.bound_with_activations_ns / 1e3),
        "",
        "",
        "",
    )
    return Row(cells=cells)


def _whole_step(estimate: Estimate) -> Row:
    step = estimate.step
    held = None if step.serial_bytes is None else step.serial_bytes / 1e6
    cells = (
        "the step",
        "1",
        one_decimal(held),
        one_decimal(step.serial_ns / 1e3),
        "–",
        one_decimal(step.serial_with_activations_ns / 1e3),
        "",
        "",
        "",
    )
    return Row(cells=cells)


def _memory(estimate: Estimate) -> Section:
    memory = estimate.memory
    parts = [f"weights {format_bytes(memory.weight_bytes)}"]
    parts.append(f"KV cache {format_bytes(memory.kv_bytes)}")
    if memory.state_bytes:
        parts.append(f"recurrent states {format_bytes(memory.state_bytes)}")
    blocks = [", ".join(parts) + " over all GPUs", _needed(memory), *_parallel(memory)]
    return Section(title="What must fit", blocks=tuple(blocks))


def _needed(memory: EstimateMemory) -> str:
    if memory.gpus_needed is None:
        return "the memory of the GPU is not known, so neither is how many it takes"
    size = _gigabytes(memory.capacity_bytes)
    if memory.nominal_bytes is None or memory.nominal_bytes == memory.capacity_bytes:
        return f"GPUs needed: {memory.gpus_needed:,} of {size}, if every byte were usable"
    return (
        f"GPUs needed: {memory.gpus_needed:,} by the {size} that the device reports, "
        f"{memory.gpus_needed_nominal:,} by the {_gigabytes(memory.nominal_bytes)} on the box, "
        "if every byte were usable"
    )


def _gigabytes(size: int | None) -> str:
    return "–" if size is None else f"{size / 1e9:,.1f} GB"


def _parallel(memory: EstimateMemory) -> list[str]:
    told: list[str] = []
    if memory.next_tp is not None and memory.next_tp > 1:
        text = f"tensor parallelism has to divide the heads: {memory.next_tp:,} GPUs"
        if memory.next_tp_nominal not in (None, memory.next_tp):
            text += f" ({memory.next_tp_nominal:,} from the size on the box)"
        if memory.fitting_tp is not None and memory.fitting_tp != memory.next_tp:
            text += f"; with what it replicates, a share fits from {memory.fitting_tp:,}"
        told.append(text)
    if memory.share_bytes is not None and memory.share_fits is not None:
        verdict = "fits" if memory.share_fits else "does not fit"
        told.append(f"one GPU of this step holds {format_bytes(memory.share_bytes)}: it {verdict}")
    return told


def _offload(offload: EstimateOffload) -> Section:
    cap = offload.cap_tokens_per_s
    host = offload.host_bytes_per_s
    slower = f"; host memory {format_rate(host, 'B')}" if host is not None else ""
    items = [
        Item(
            label="over the link",
            text=f"{format_bytes(offload.link_bytes_per_step)} per step, "
            f"{format_bytes(offload.link_bytes_per_token)} per token; one expert is "
            f"{format_bytes(offload.expert_bytes)}, {offload.misses_per_layer:g} missed per layer",
        ),
        Item(
            label="hit rate",
            text=f"{format_share(offload.hit_rate)} of the "
            f"{format_bytes(offload.routed_bytes_per_step)} of experts that a step touches",
        ),
        Item(
            label="cap",
            text=f"{'–' if cap is None else f'{cap:,.1f}'} tokens/s by the {offload.limiter} at "
            f"{format_rate(offload.link_bytes_per_s, 'B')}{slower}",
        ),
        *(Item(label="note", text=note) for note in offload.notes),
    ]
    return Section(title="Experts from the host", blocks=(Items(items=tuple(items)),))


def _ridge(estimate: Estimate) -> Section:
    items = [
        Item(label=f"ridge {dtype}", text=f"compute bound above {ridge:,.0f} FLOP/B")
        for dtype, ridge in estimate.ridge.items()
    ]
    items += [
        Item(label=_words(key), text=f"{value:,.2f} distinct experts")
        for key, value in (estimate.experts or {}).items()
    ]
    items += [
        Item(label=f"parameters {_words(key)}", text=f"{n:,}")
        for key, n in estimate.parameters.items()
    ]
    items += [Item(label="note", text=note) for note in estimate.notes]
    return Section(title="Ridge points, parameters and notes", blocks=(Items(items=tuple(items)),))


def _words(key: str) -> str:
    return key.replace("_", " ")
