"""Faster than theory: which single input is wrong, judged from all operators together."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from nsysroof.analysis.theory import Hardware
from nsysroof.results import ImpossibleRow, OperatorRow
from nsysroof.theory.kinds import ATTENTION_KINDS, LINK_KINDS, OperatorKind
from nsysroof.theory.peaks import USER_PEAK
from nsysroof.theory.workload import Workload

_BY_FINDING = (
    ("gpu-mismatch", "peak", "the capture was made on another GPU than the one given"),
    ("model-mismatch", "shape", "the launches are not those of the model given"),
    ("batch-mismatch", "batch", "the launches are not those of the batch given"),
    ("tp-mismatch", "tp", "the launches are not those of the TP given"),
)
_CONTEXT = "context-mismatch"
_HALF = 0.45  # at least this share of a bound is left where operands are half as wide
_ONE_COPY = 0.9  # … where all sequences read one copy of the cache
_CACHED = 2.0  # a step that touches less than this many L2 sizes may stay resident


def impossible_rows(
    rows: Sequence[OperatorRow],
    hardware: Hardware,
    workload: Workload | None,
    findings: Collection[str],
    formats: Mapping[str, tuple[str, str]],
) -> list[ImpossibleRow]:
    """Return the operators measured below their bound, the most impossible first.

    ``hard`` rows are below the minimum bound too: no choice of experts explains them.

    Args:
        rows: Every operator measured.
        hardware: The GPU that the bounds are for.
        workload: The step given, None without a model.
        findings: Slugs of what the capture contradicts; they name the wrong input first.
        formats: By role, a format that a kernel's name contradicts, and what it shows.
    """
    if workload is None:
        return []
    below = [row for row in rows if row.ratio is not None and row.ratio < 1]
    whole = _Whole(rows, below, hardware, workload)
    told = next((found for found in _BY_FINDING if found[0] in findings), None)
    found = []
    for row in below:
        cause, evidence = told[1:] if told else whole.cause(row)
        if told is None and row.role in formats:
            cause, shown = formats[row.role]
            evidence = f"the kernel's name shows {shown}"
        elif told is None and _kinds(row) & ATTENTION_KINDS and _CONTEXT in findings:
            cause, evidence = "context", "the engine annotates other KV lengths than those given"
        found.append(
            ImpossibleRow(
                role=row.role,
                ratio=row.ratio or 0.0,
                hard=_is_hard(row),
                likely_cause=cause,
                evidence=evidence,
            )
        )
    return sorted(found, key=lambda row: (row.ratio, row.role))


class _Whole:
    """All operators of a step, among which one change has to make every one possible."""

    def __init__(
        self,
        rows: Sequence[OperatorRow],
        below: Sequence[OperatorRow],
        hardware: Hardware,
        workload: Workload,
    ) -> None:
        self.below = below
        self.workload = workload
        self.l2_bytes = hardware.gpu.l2_bytes if hardware.gpu else None
        self.step_bytes = sum(row.bytes.memory * row.instances_per_step for row in rows)
        bounded = [row for row in rows if row.ratio is not None and row.limiter != "latency"]
        self.bounded = len(bounded)
        self.computing = [row for row in bounded if row.limiter == "compute"]
        self.attention = [row for row in below if _kinds(row) & ATTENTION_KINDS]
        self.experts = [row for row in below if OperatorKind.MOE_GEMM in _kinds(row)]
        self.weighty = [row for row in below if row.bytes.weight and row not in self.experts]
        self.raised = _lowered_peak(below, hardware)

    def cause(self, row: OperatorRow) -> tuple[str, str]:
        """Return the likeliest wrong input behind one row, and why."""
        if self.l2_bytes and self.step_bytes <= _CACHED * self.l2_bytes:
            return "cache", (
                f"the step touches {self.step_bytes / 1e6:.1f} MB, "
                f"the L2 holds {self.l2_bytes / 1e6:.1f} MB"
            )
        if self.raised is not None:
            return "peak", f"{self.raised}: with what the GPU has, all of them are possible"
        if len(self.below) == self.bounded and self.bounded > 1:
            return "peak", f"all {self.bounded} bounded operators are below: the peak is too low"
        if row in self.computing and len(self.computing) > 1 and self._all_below(self.computing):
            return "batch", (
                f"all {len(self.computing)} operators bound by arithmetic are below, and not all "
                "bound by memory: fewer tokens in the step"
            )
        if row in self.attention:
            return self._of_attention(row)
        if row in self.experts:
            return self._of_experts(row)
        if _kinds(row) & LINK_KINDS:
            return "peak", "a collective moved its bytes faster than the link's peak"
        if row in self.weighty and len(self.weighty) > 1:
            return self._of_weights()
        return "shape", "only this operator is below: its shape, or the match, is wrong"

    def _all_below(self, rows: Sequence[OperatorRow]) -> bool:
        return all(row in self.below for row in rows)

    def _of_attention(self, row: OperatorRow) -> tuple[str, str]:
        ratio, batch = row.ratio or 0.0, self.workload.batch
        if batch > 1 and ratio >= _ONE_COPY / batch:
            also = "; the experts agree, since like sequences choose like experts"
            return "shared-prefix", (
                f"its time reads {ratio:.2f} of the cache of {batch} sequences: they may share a "
                f"prefix{also if self.experts else ', or be shorter than --context'}"
            )
        if ratio >= _HALF and self.workload.kv is None:
            return "kv-dtype", f"its time reads {ratio:.2f} of the cache: an 8-bit cache fits"
        return "context", f"its time reads {ratio:.2f} of the cache: a shorter context fits"

    def _of_experts(self, row: OperatorRow) -> tuple[str, str]:
        if self.attention and self.workload.batch > 1:
            return "shared-prefix", "attention is below too: like sequences choose like experts"
        share = ""
        if len(self.experts) == 2:
            first, second = (one.measured_ns / (one.bound_ns or 1) for one in self.experts)
            share = f"; the expert products are at {first:.2f} and {second:.2f} of their bounds"
        if _is_hard(row):
            return "shape", "it is below the bound of the fewest experts" + share
        least, most = (row.min_bound_ns or 0) / 1e3, (row.bound_ns or 0) / 1e3
        return "experts", (
            f"{row.measured_ns / 1e3:.1f} µs lies between the bounds of the fewest ({least:.1f} µs) "
            f"and of the expected experts ({most:.1f} µs): tokens share more than chance{share}; "
            "give --experts"
        )

    def _of_weights(self) -> tuple[str, str]:
        ratio = min(one.ratio or 0.0 for one in self.weighty)
        told = f"{len(self.weighty)} operators that read weights are below, down to {ratio:.2f}"
        if ratio >= _HALF:
            return "weight-dtype", f"{told}: weights of half the width fit all of them"
        return "tp", f"{told}: the weights may be split over more GPUs"


def _lowered_peak(below: Sequence[OperatorRow], hardware: Hardware) -> str | None:
    """Return the peaks given by hand, if the GPU's own would make every operator possible."""
    own = hardware.gpu.dense_peaks() if hardware.gpu else {}
    higher = {
        key: own[key].value / peak.value
        for key, peak in hardware.peaks.items()
        if peak.source == USER_PEAK and key in own and own[key].value > peak.value
    }
    if not higher or not below:
        return None
    for row in below:
        key = "bw" if row.limiter == "memory" else row.dtype if row.limiter == "compute" else ""
        if (row.ratio or 0.0) * higher.get(key, 1.0) < 1:
            return None
    told = ", ".join(f"{key}={hardware.peaks[key].value:.4g}" for key in sorted(higher))
    return f"--peak {told} is less than the GPU has"


def _kinds(row: OperatorRow) -> set[str]:
    return set(row.kind.split("+"))


def _is_hard(row: OperatorRow) -> bool:
    least = row.min_bound_ns if row.min_bound_ns is not None else row.bound_ns
    return least is not None and row.measured_ns < least
