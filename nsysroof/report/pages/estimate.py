"""The page of an estimate: the step, the layer, what must fit, and every operator."""

from __future__ import annotations

from nsysroof.report.blocks import Block, Grid, Item, Items, Row, Section, name, number, word
from nsysroof.report.pages.assumptions import assumptions_section
from nsysroof.results import Estimate, EstimateRow
from nsysroof.units import format_bytes, format_flop, format_time, format_us


def estimate_sections(estimate: Estimate) -> tuple[Section, ...]:
    """Return the sections of an estimate in reading order."""
    return (
        _step(estimate),
        _layer(estimate),
        _memory(estimate),
        _operators(estimate),
        _ridge(estimate),
        assumptions_section(estimate.assumptions),
    )


def _step(estimate: Estimate) -> Section:
    step = estimate.step
    rows = (
        ("method 1: matmuls, attention, LM head in turn", step.serial_ns),
        ("method 1 with activations", step.serial_with_activations_ns),
        ("method 2: busiest resource", step.hard_ns),
        ("weights and KV cache once", step.weights_once_ns),
        ("small kernels at the latency floor, on top", step.small_kernels_ns),
    )
    grid = Grid(
        columns=(word("floor of a step"), number("µs")),
        rows=tuple(Row(cells=(label, format_us(ns))) for label, ns in rows),
    )
    blocks: list[Block] = [
        grid,
        f"{step.tokens:,g} tokens per step: {step.tokens_per_s:,.0f} tokens/s at method 1",
        f"{format_bytes(step.bytes)} and {format_flop(step.flop)} per step",
    ]
    if step.tokens_per_s_with_small_kernels is not None:
        blocks.insert(
            2, f"{step.tokens_per_s_with_small_kernels:,.0f} tokens/s with the small kernels"
        )
    return Section(title="The best a step can do", blocks=tuple(blocks))


def _layer(estimate: Estimate) -> Section:
    layer = estimate.layer
    text = (
        f"{layer.layers:,} layers; one reads {format_bytes(layer.bytes)} of weights and KV cache "
        f"in {format_time(layer.bound_ns)}; with {format_bytes(layer.activation_bytes)} of "
        f"activations {format_time(layer.bound_with_activations_ns)}; "
        f"{layer.small_kernels:,} small kernels besides"
    )
    return Section(title="One layer", blocks=(text,))


def _memory(estimate: Estimate) -> Section:
    memory = estimate.memory
    text = f"weights {format_bytes(memory.weight_bytes)}, KV cache {format_bytes(memory.kv_bytes)}"
    if memory.gpus_needed is None:
        text += "; the capacity of the GPU is not known, so neither is how many it takes"
    else:
        text += f"; GPUs needed: {memory.gpus_needed:,} of {format_bytes(memory.capacity_bytes)}"
    return Section(title="What must fit", blocks=(text,))


def _operators(estimate: Estimate) -> Section:
    columns = (
        name("role", least=20),
        number("n/step"),
        number("bound µs"),
        word("limiter"),
        number("bytes"),
        number("FLOP"),
        number("FLOP/B"),
        word("dtype"),
    )
    rows = tuple(_operator(row) for row in estimate.operators)
    blocks: list[Block] = [Grid(columns=columns, rows=rows), "In order of execution; one instance."]
    return Section(title="Operators", blocks=tuple(blocks))


def _operator(row: EstimateRow) -> Row:
    cells = (
        row.role,
        f"{row.count:,}",
        format_us(row.bound_ns),
        row.limiter,
        format_bytes(row.bytes.memory),
        format_flop(row.flop),
        "–" if row.intensity is None else f"{row.intensity:,.1f}",
        row.dtype,
    )
    return Row(cells=cells)


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
