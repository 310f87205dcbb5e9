"""Faster than theory: which input is wrong, judged from all operators together."""

from __future__ import annotations

from collections.abc import Sequence

from nsysroof.analysis.theory import Hardware
from nsysroof.results import ImpossibleRow, OperatorRow
from nsysroof.theory.kinds import ATTENTION_KINDS, LINK_KINDS, OperatorKind
from nsysroof.theory.workload import Workload

_NARROWER = 0.45  # below half of a 16-bit bound even 8-bit operands would not do
_CACHED = 2.0  # a step that touches less than this many L2 sizes may stay resident


def impossible_rows(
    rows: Sequence[OperatorRow],
    hardware: Hardware,
    workload: Workload | None,
) -> list[ImpossibleRow]:
    """Return the operators measured below their bound, the most impossible first.

    ``hard`` rows are below the minimum bound too: no choice of experts explains them.
    """
    if workload is None:
        return []
    below = [row for row in rows if row.ratio is not None and row.ratio < 1]
    bounded = [row for row in rows if row.ratio is not None and row.limiter != "latency"]
    step_bytes = sum(row.bytes.memory * row.instances_per_step for row in rows)
    found = []
    for row in below:
        least = row.min_bound_ns if row.min_bound_ns is not None else row.bound_ns
        hard = least is not None and row.measured_ns < least
        cause, evidence = _cause(row, below, bounded, hardware, workload, step_bytes, hard=hard)
        found.append(
            ImpossibleRow(
                role=row.role,
                ratio=row.ratio or 0.0,
                hard=hard,
                likely_cause=cause,
                evidence=evidence,
            )
        )
    return sorted(found, key=lambda row: (row.ratio, row.role))


def _cause(
    row: OperatorRow,
    below: Sequence[OperatorRow],
    bounded: Sequence[OperatorRow],
    hardware: Hardware,
    workload: Workload,
    step_bytes: float,
    *,
    hard: bool,
) -> tuple[str, str]:
    ratio = row.ratio or 0.0
    kinds = set(row.kind.split("+"))
    if OperatorKind.MOE_GEMM in kinds and not hard:
        return "experts", (
            f"measured {row.measured_ns / 1e3:.1f} µs lies between the bound of the fewest experts "
            f"({(row.min_bound_ns or 0) / 1e3:.1f} µs) and that of the expected number "
            f"({(row.bound_ns or 0) / 1e3:.1f} µs): tokens share more experts than chance; "
            "give --experts"
        )
    l2 = hardware.gpu.l2_bytes if hardware.gpu else None
    if l2 and step_bytes <= _CACHED * l2:
        return (
            "cache",
            f"the step touches {step_bytes / 1e6:.1f} MB, the L2 holds {l2 / 1e6:.1f} MB",
        )
    shared = _shared_cause(row, below, bounded)
    if shared is not None:
        return shared
    if kinds & ATTENTION_KINDS:
        if workload.batch > 1 and ratio < _NARROWER:
            return "shared-prefix", (
                f"it reads {ratio:.2f} of the KV cache of {workload.batch} sequences: "
                "they may share a prefix, or be shorter than --context"
            )
        if ratio < _NARROWER:
            return "context", f"it reads {ratio:.2f} of the KV cache: the context is shorter"
        return "context", (
            f"it reads at most {ratio:.2f} of the KV cache: a shorter context, or an 8-bit cache"
        )
    if kinds & LINK_KINDS:
        return "peak", "a collective moved its bytes faster than the link's peak"
    weighty = [other for other in below if other.bytes.weight]
    if row.bytes.weight and len(weighty) > 1:
        if ratio >= _NARROWER:
            return "weight-dtype", (
                f"{len(weighty)} weight-reading operators are below, this one at {ratio:.2f}: "
                "narrower weights than assumed"
            )
        return "tp", (
            f"{len(weighty)} weight-reading operators are below, this one at {ratio:.2f}: "
            "the weights may be split over more GPUs"
        )
    return "shape", "only this operator is below: its shape, or the match, is wrong"


def _shared_cause(
    row: OperatorRow, below: Sequence[OperatorRow], bounded: Sequence[OperatorRow]
) -> tuple[str, str] | None:
    """Return what would explain all operators, or all that compute, at once."""
    if len(below) == len(bounded) and len(bounded) > 1:
        return "peak", f"all {len(bounded)} bounded operators are below: the peak is too low"
    computing = [other for other in bounded if other.limiter == "compute"]
    if row.limiter == "compute" and len(computing) > 1 and all(o in below for o in computing):
        return "batch", (
            f"all {len(computing)} operators bound by arithmetic are below, this one at "
            f"{row.ratio or 0:.2f}, and not all bound by memory: fewer tokens in the step"
        )
    return None
