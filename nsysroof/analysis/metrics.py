"""Sampled counters of the GPUs over the analysed steps and the roles, beside the theory's bytes.

Samples are of a whole GPU: whoever else used it is in them. Percent are of what it can sustain at
its present clocks, so bytes are percent times the bandwidth of the device as it is built.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from nsysroof.analysis.measured import Measured
from nsysroof.analysis.metric_findings import low_dram_reads, unusable_samples
from nsysroof.analysis.theory import Hardware
from nsysroof.results import Finding, MetricRow, OperatorRow
from nsysroof.theory.gpus import Gpu, detect_gpu, resolve_peaks
from nsysroof.theory.peaks import Peak
from nsysroof.timeline.intervals import Intervals, union
from nsysroof.timeline.samples import (
    LoneRuns,
    Mean,
    Sampling,
    lone_runs,
    mean_inside,
    means_by_label,
)
from nsysroof.trace import GpuFacts, Trace
from nsysroof.trace.schema import SAMPLED_METRICS

_MARGIN_NS = 200_000_000  # two intervals of the slowest sampling, 10 Hz
_CLOCK = "gpc_clock"
_NO_SAMPLES = Mean(value=None, samples=0, ns=0)

Means = Mapping[str, Mean]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Amount:
    """What one step or one instance of a role takes: time, and bytes by the theory."""

    ns: float | None
    theory_bytes: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Device:
    """One sampled GPU: its peak bandwidth, its rated clock, and the samples by metric."""

    gpu: int
    peak: Peak | None
    rated_clock_hz: float | None
    sampled: Mapping[str, Sampling]


def metric_rows(
    trace: Trace, found: Measured, operators: Sequence[OperatorRow]
) -> tuple[list[MetricRow], list[Finding]]:
    """Return what was sampled on each GPU, by steps and by role, and what to know about it.

    Nothing is read where the export has no samples.
    """
    if not trace.has_gpu_samples:
        return [], []
    sliced = [device.gpu for device in found.picked.devices if device.mig]
    gpus = [gpu for gpu in found.picked.gpus if gpu not in sliced]
    known = {gpu for gpu, _ in trace.sampled_metrics}
    reasons = [
        f"GPU {gpu} is a MIG slice, and the counters are of the whole GPU"
        for gpu in sliced
        if gpu in known
    ]
    if not known and trace.count_gpu_samples():
        reasons.append("none of the metrics has a name and a unit that are known")
    rows: list[MetricRow] = []
    spans = {gpu: _spans_of(found, gpu) for gpu in gpus if gpu in known}
    spans = {gpu: inside for gpu, inside in spans.items() if inside.starts.size}
    if spans:
        devices, doubts = _read(trace, found, spans)
        reasons += doubts
        for device in devices:
            rows += _rows(found, device, spans[device.gpu], operators)
    return rows, [*unusable_samples(reasons), *low_dram_reads(rows, operators)]


def _spans_of(found: Measured, gpu: int) -> Intervals:
    """Return the analysed steps of a GPU, without steps the time from its first to its last work."""
    steps = found.analysed.steps.filter(pl.col("gpu") == gpu)
    if found.steps.height:
        return union(steps["start_ns"].to_numpy(), steps["end_ns"].to_numpy())
    work = found.activities.filter(pl.col("gpu") == gpu)
    ends = work.select(pl.col("start_ns").min(), pl.col("end_ns").max())
    return union(ends["start_ns"].drop_nulls().to_numpy(), ends["end_ns"].drop_nulls().to_numpy())


def _read(
    trace: Trace, found: Measured, spans: Mapping[int, Intervals]
) -> tuple[list[_Device], list[str]]:
    window = (
        min(int(inside.starts[0]) for inside in spans.values()) - _MARGIN_NS,
        max(int(inside.ends[-1]) for inside in spans.values()) + _MARGIN_NS,
    )
    samples = trace.gpu_samples(spans, window)
    reasons = [
        f"{metric} of GPU {gpu} has values that cannot be" for gpu, metric in samples.implausible
    ]
    facts = {device.gpu: device for device in found.picked.devices}
    devices = []
    for gpu in spans:
        own = samples.frame.filter(pl.col("gpu") == gpu)
        parts = {metric: own.filter(pl.col("metric") == metric) for metric in SAMPLED_METRICS}
        sampled = {
            metric: Sampling.of(
                part["timestamp_ns"].to_numpy(), part["value"].to_numpy().astype(np.float64)
            )
            for metric, part in parts.items()
            if part.height
        }
        if not any(mean_inside(one, spans[gpu]).samples for one in sampled.values()):
            reasons.append(f"no sample of GPU {gpu} lies in the time analysed")
            continue
        built_as = _built_as(facts[gpu])
        clock = facts[gpu].clock_hz or (built_as.clock_hz if built_as else None)
        devices.append(
            _Device(
                gpu=gpu,
                peak=_peak_of(facts[gpu], built_as, found.hardware),
                rated_clock_hz=clock,
                sampled=sampled,
            )
        )
    return devices, sorted(reasons)


def _built_as(device: GpuFacts) -> Gpu | None:
    """Return the entry of the catalogue that the device itself is, whatever ``--gpu`` says."""
    return detect_gpu(device.name or "", sm_count=device.sm_count, memory_bytes=device.memory_bytes)


def _peak_of(device: GpuFacts, built_as: Gpu | None, hardware: Hardware) -> Peak | None:
    """Return the bandwidth that percent are of: that of the device itself, as it is built.

    What ``--gpu`` and ``--peak`` say counts only where the capture does not know the device.
    """
    own = resolve_peaks(built_as, device_bandwidth=device.bytes_per_s)
    if "bw" in own:
        return own["bw"]
    other = any(finding.slug == "gpu-mismatch" for finding in hardware.findings)
    return None if other else hardware.peaks.get("bw")


def _rows(
    found: Measured, device: _Device, inside: Intervals, operators: Sequence[OperatorRow]
) -> list[MetricRow]:
    stepped = bool(found.steps.height)
    steps = found.analysed.steps.filter(pl.col("gpu") == device.gpu).height
    whole = _Amount(
        ns=inside.total_ns / steps if stepped else float(inside.total_ns),
        theory_bytes=_bytes_of_step(operators) if stepped else None,
    )
    means = {metric: mean_inside(one, inside) for metric, one in device.sampled.items()}
    sampled_ns = max(mean.ns for mean in means.values())
    first = _row(
        device,
        means,
        whole,
        scope="step" if stepped else "window",
        sampled_share=sampled_ns / inside.total_ns,
    )
    if not stepped:
        return [first]
    roles = sorted({row.role for row in operators})
    order = {role: number for number, role in enumerate(roles)}
    runs = _runs_of(found, device.gpu, order)
    by_metric = {
        metric: means_by_label(one, runs, len(roles)) for metric, one in device.sampled.items()
    }
    model_order = list(dict.fromkeys(row.role for row in operators))
    return [
        first,
        *(
            _row(
                device,
                {metric: by_role[order[role]] for metric, by_role in by_metric.items()},
                _amount_of(role, operators),
                scope="role",
                role=role,
            )
            for role in model_order
        ),
    ]


def _runs_of(found: Measured, gpu: int, order: Mapping[str, int]) -> LoneRuns:
    """Return where the kernels of one role ran alone, in the analysed steps of one GPU."""
    work = found.activities.filter(pl.col("gpu") == gpu)
    numbers = pl.Series([order.get(group.role, -1) for group in found.groups], dtype=pl.Int64)
    groups = found.kernels["group"].gather(work["kernel"])
    labels = numbers.gather(groups).fill_null(-1) if numbers.len() else groups.cast(pl.Int64)
    return lone_runs(
        work["start_ns"].to_numpy(), work["end_ns"].to_numpy(), labels.fill_null(-1).to_numpy()
    )


def _bytes_of_step(operators: Sequence[OperatorRow]) -> float | None:
    if not operators:
        return None
    return sum(row.bytes.memory * row.instances_per_step for row in operators)


def _amount_of(role: str, operators: Sequence[OperatorRow]) -> _Amount:
    """Return the time and the bytes of the mean instance of a role, over its distinct costs."""
    own = [row for row in operators if row.role == role]
    instances = sum(row.instances_per_step for row in own)
    return _Amount(
        ns=sum(row.advance_ns * row.instances_per_step for row in own) / instances,
        theory_bytes=sum(row.bytes.memory * row.instances_per_step for row in own) / instances,
    )


def _row(
    device: _Device,
    means: Means,
    amount: _Amount,
    *,
    scope: str,
    role: str | None = None,
    sampled_share: float | None = None,
) -> MetricRow:
    shares = {
        metric: None if (mean := means.get(metric, _NO_SAMPLES).value) is None else mean / 100
        for metric in SAMPLED_METRICS
        if metric != _CLOCK
    }
    moved = _moved(shares["dram_read"], shares["dram_write"], device.peak, amount.ns)
    theory = amount.theory_bytes
    intervals = [one.interval_ns for one in device.sampled.values() if one.interval_ns]
    return MetricRow(
        gpu=device.gpu,
        scope=scope,
        role=role,
        samples=max(mean.samples for mean in means.values()),
        interval_ns=min(intervals, default=None),
        sampled_share=sampled_share,
        **shares,
        clock_hz=means.get(_CLOCK, _NO_SAMPLES).value,
        rated_clock_hz=device.rated_clock_hz,
        span_ns=amount.ns,
        dram_bytes=moved,
        theory_bytes=theory,
        bytes_ratio=moved / theory if moved is not None and theory else None,
        peak_bytes_per_s=device.peak.value if device.peak else None,
        peak_source=device.peak.source if device.peak else None,
    )


def _moved(
    read: float | None, written: float | None, peak: Peak | None, ns: float | None
) -> float | None:
    if read is None or written is None or peak is None or ns is None:
        return None
    return (read + written) * peak.value * ns / 1e9
