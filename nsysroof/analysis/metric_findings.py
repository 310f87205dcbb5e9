"""What to warn of where a GPU's counters were sampled: samples of no use, reads of too few bytes."""

from __future__ import annotations

from collections.abc import Sequence

from nsysroof.findings import finding
from nsysroof.results import Finding, MetricRow, OperatorRow
from nsysroof.units import format_bytes

_ROUNDED = 0.01  # samples are whole percents, so a mean may lie one below the truth
_FEWEST = 0.5  # share of the weights' bytes below which reads contradict the theory
_SAMPLED = 0.9  # share of the steps' time that must have been sampled to say so


def unusable_samples(reasons: Sequence[str]) -> list[Finding]:
    """GPU metrics are in the capture, but some or all of them say nothing."""
    if not reasons:
        return []
    return [
        finding(
            slug="gpu-metrics-unusable",
            severity="warning",
            text=f"sampled GPU metrics are left out: {'; '.join(reasons)}",
            hint="sample the whole GPU with --gpu-metrics-devices and its default metric set",
        )
    ]


def low_dram_reads(rows: Sequence[MetricRow], operators: Sequence[OperatorRow]) -> list[Finding]:
    """A step reads far less memory than its weights alone are, beyond what rounding explains."""
    weights = sum(
        (row.bytes.weight + row.bytes.scale) * row.instances_per_step for row in operators
    )
    told = []
    for row in rows:
        if row.scope != "step" or (row.sampled_share or 0) < _SAMPLED:
            continue
        if row.dram_read is None or row.peak_bytes_per_s is None or row.span_ns is None:
            continue
        at_peak = row.peak_bytes_per_s * row.span_ns / 1e9
        if (row.dram_read + _ROUNDED) * at_peak < _FEWEST * weights:
            read = format_bytes(row.dram_read * at_peak)
            told.append(f"{read} on GPU {row.gpu}")
    if not told:
        return []
    return [
        finding(
            slug="dram-reads-low",
            severity="warning",
            text=f"sampled DRAM reads of a step are {', '.join(told)}, less than half of the "
            f"{format_bytes(weights)} of weights that the theory counts: they lie in a cache, or "
            "the step does not read them",
            hint="check --model, --weights and --tp, and the bandwidth that percents were taken of",
        )
    ]
