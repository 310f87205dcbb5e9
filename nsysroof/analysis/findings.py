"""What the analysis itself must warn of, beyond the verdict on the capture."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import log2
from typing import TYPE_CHECKING

from nsysroof.findings import finding
from nsysroof.results import (
    SEVERITIES,
    Assumptions,
    Coverage,
    Finding,
    ImpossibleRow,
    OperatorRow,
    Phase,
)
from nsysroof.theory.dtypes import KV_BITS, weight_format
from nsysroof.theory.kinds import ATTENTION_KINDS, MATMUL_KINDS, OperatorKind

if TYPE_CHECKING:
    from nsysroof.match.rules import KernelClass
    from nsysroof.trace.clock import Alignment

_LOW_COVERAGE = 0.8
_ROLES_TOLD = 3
_BITS = {"fp32": 32, "tf32": 32, "bf16": 16, "fp16": 16, "fp8": 8, "int8": 8, "fp4": 4, "int4": 4}
_PLAIN_PRODUCTS = ("gemm", "gemv", "router_gemm")
_CACHE_KINDS = ATTENTION_KINDS | {OperatorKind.KV_WRITE}
_INFLATED = 1.05
_COVERED_BY_RANGES = 0.5  # share of kernel time that ranges named as steps should launch

_DOUBTS = {
    "batch": "batch-mismatch",
    "context": "context-mismatch",
    "shared-prefix": "context-mismatch",
    "tp": "tp-mismatch",
    "weight-dtype": "dtype-mismatch",
    "kv-dtype": "dtype-mismatch",
    "peak": "peak-too-low",
}
"""Slug of the input that a likely cause of an impossible result doubts."""

_DOUBT_HINTS = {
    "batch-mismatch": "give the number of sequences in a step with --batch",
    "context-mismatch": "give the KV length of each sequence with --context, and what they "
    "share with --shared-prefix",
    "tp-mismatch": "give the number of GPUs that share the model with --tp",
    "dtype-mismatch": "give the formats with --weights, --kv and --activations",
    "peak-too-low": "check --gpu, or give the peak that holds with --peak KEY=VALUE",
}


def in_order(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings with errors first, each slug and text once."""
    unique = {(found.slug, found.text): found for found in findings}
    return sorted(unique.values(), key=lambda f: (SEVERITIES.index(f.severity), f.slug, f.text))


def unknown_gpu(names: Sequence[str | None]) -> Finding:
    """The device has no known peaks, so there are no ratios."""
    told = ", ".join(sorted({name for name in names if name})) or "not named in the capture"
    return finding(
        slug="unknown-gpu",
        severity="warning",
        text=f"the peaks of this GPU are not known ({told}): no bounds and no ratios",
        hint="give --gpu NAME or FILE.toml, or --peak bw=… and the dtype used (nsysroof gpus lists)",
    )


def gpu_mismatch(given: str, traced: str) -> Finding:
    """The user named another GPU than the trace does."""
    return finding(
        slug="gpu-mismatch",
        severity="warning",
        text=f"--gpu {given} was given, but the capture was made on {traced}",
        hint="leave --gpu out to use the device of the capture",
    )


def no_steps(step_range: str | None) -> list[Finding]:
    """Nothing shows where a step begins."""
    why = (
        f"no NVTX range matches {step_range!r}"
        if step_range is not None
        else "no annotation of an engine in NVTX, no graph replay, no repeating kernel pattern"
    )
    return [
        finding(
            slug="no-steps",
            severity="warning",
            text=f"steps not detected: {why}; times are over the whole window",
            hint="mark steps with NVTX and give --step-range, or capture more of them",
        )
    ]


def nvtx_low_coverage(coverage: float | None) -> list[Finding]:
    """The ranges that mark the steps launched little of the kernel time."""
    if coverage is None or coverage >= _COVERED_BY_RANGES:
        return []
    return [
        finding(
            slug="nvtx-low-coverage",
            severity="warning",
            text=f"{100 * coverage:.1f} % of the kernel time was launched inside the NVTX ranges "
            "that --step-range names; the steps speak for that part only",
            hint="name ranges that enclose whole steps, or leave --step-range out",
        )
    ]


def ranks_missing(tp: int, gpus: int) -> list[Finding]:
    """Fewer GPUs have kernels than tensor-parallel ranks were given."""
    if gpus >= tp:
        return []
    return [
        finding(
            slug="rank-missing",
            severity="error",
            text=f"kernels on {gpus} of {tp} ranks: per-rank and collective results are partial",
            hint="trace every rank (start workers with spawn, one report per node)",
        )
    ]


def clocks_differ(files: Sequence[str], axes: Sequence[tuple[int, Alignment]]) -> list[Finding]:
    """Which files have no clock in common with the first, and why; ``axes`` by ``find_axes``."""
    reasons: dict[int, str] = {}
    apart: dict[int, list[str]] = {}
    for file, (axis, alignment) in zip(files, axes, strict=True):
        if axis:
            reasons.setdefault(axis, str(alignment.apart))
            apart.setdefault(axis, []).append(file)
    return [
        finding(
            slug="clocks-differ",
            severity="note",
            text=f"{_listed(names)}: no clock in common with {files[0]}, {reasons[axis]}; "
            "nothing is computed from the difference of their times",
            hint="for skew over all ranks of a node, profile them in one session",
        )
        for axis, names in apart.items()
    ]


def phases_differ(files: Sequence[str], others: Sequence[str], phase: str) -> list[Finding]:
    """Files of a run whose steps are of another phase, so that they are not compared."""
    return [
        finding(
            slug="mixed-phases",
            severity="note",
            text=f"{_listed(files)}: the most frequent steps are {', '.join(others)}, not {phase} as in "
            "the files before, and are not compared",
            hint="choose with --phase, or give files of the same stretch of the run",
        )
    ]


def model_mismatch(model: str, layers: int, found: int) -> Finding:
    """The step repeats another number of layers than the model has."""
    return finding(
        slug="model-mismatch",
        severity="error",
        text=f"{model} has {layers} layers, but the step runs attention {found} times",
        hint="give the model that was served with --model NAME or config.json",
    )


def mixed_phases(phases: Sequence[Phase], chosen: str | None) -> list[Finding]:
    """Steps of several phases are in the window; only one is analysed."""
    if len(phases) <= 1:
        return []
    told = ", ".join(f"{phase.count} {phase.phase}" for phase in phases)
    return [
        finding(
            slug="mixed-phases",
            severity="note",
            text=f"the window holds {told} steps; the {chosen} steps are analysed",
            hint="choose with --phase, or cut with --window",
        )
    ]


def low_coverage(coverage: Coverage, *, modelled: bool) -> list[Finding]:
    """Too little of the kernel time has a theory; without a model that goes without saying."""
    share = coverage.time_explained
    if not modelled or share is None or share >= _LOW_COVERAGE:
        return []
    return [
        finding(
            slug="low-coverage",
            severity="warning",
            text=f"the theory explains {share * 100:.1f} % of kernel time",
            hint="see the unexplained kernels; cut with --window, or add --rules",
        )
    ]


def below_bound(rows: Sequence[ImpossibleRow]) -> list[Finding]:
    """Operators faster than the theory allows: an input or the measurement is wrong."""
    if not rows:
        return []
    hard = [row for row in rows if row.hard]
    told = ", ".join(row.role for row in (hard or rows)[:3])
    return [
        finding(
            slug="below-bound",
            severity="error" if hard else "warning",
            text=f"{len(rows)} operators are faster than their bound ({told}): "
            "an input or the measurement is wrong",
            hint=f"most likely: {(hard or list(rows))[0].likely_cause}; see the impossible results",
        )
    ]


def doubtful_inputs(rows: Sequence[ImpossibleRow], contradicted: Collection[str]) -> list[Finding]:
    """The inputs that most likely make operators faster than their bound, each once.

    Args:
        rows: The operators below their bound.
        contradicted: Slugs of inputs that the launches contradict already.
    """
    found: dict[str, list[ImpossibleRow]] = {}
    for row in rows:
        if row.likely_cause in _DOUBTS:
            found.setdefault(_DOUBTS[row.likely_cause], []).append(row)
    return [
        finding(
            slug=slug,
            severity="warning",
            text=f"{_listed([row.role for row in own])}: {own[0].evidence}",
            hint=_DOUBT_HINTS[slug],
        )
        for slug, own in sorted(found.items())
        if slug not in contradicted
    ]


def other_formats(
    rows: Sequence[OperatorRow], classes: Sequence[KernelClass]
) -> dict[str, tuple[str, str]]:
    """Return, by role, what the main kernel's name shows in another width than was assumed.

    Each is the input that is wrong, in the words of ``likely_cause``, and what to say of it.
    """
    by_name = {kernel.name: kernel for kernel in classes}
    found = {row.role: _formats(row, by_name[row.kernels[0]]) for row in rows}
    return {role: told for role, told in found.items() if told is not None}


def dtype_mismatch(formats: Mapping[str, tuple[str, str]]) -> list[Finding]:
    """Kernels whose names show operands or a cache of another width than was assumed for them.

    Args:
        formats: As ``other_formats`` returns.
    """
    differing: dict[str, list[str]] = {}
    for role, (_, told) in formats.items():
        differing.setdefault(told, []).append(role)
    return [
        finding(
            slug="dtype-mismatch",
            severity="warning",
            text=f"{_listed(roles)}: the kernel's name shows {told}",
            hint=_DOUBT_HINTS["dtype-mismatch"],
        )
        for told, roles in differing.items()
    ]


def _formats(row: OperatorRow, kernel: KernelClass) -> tuple[str, str] | None:
    """Return what an operator's main kernel shows in another width than assumed, None if nothing."""
    kinds = set(row.kind.split("+"))
    found = kernel.attributes.get("dtype")
    if kinds & MATMUL_KINDS and isinstance(found, str):
        if _widths_differ(found, row.dtype):
            return "weight-dtype", f"{found} operands, assumed are {row.dtype}"
        weights = _input(row, "weights")
        # Such a product reads no weights that have yet to be expanded.
        whole = kernel.klass in _PLAIN_PRODUCTS and found in _BITS
        if whole and weights and weight_format(weights).bits < _BITS[found]:
            return "weight-dtype", f"{found} operands, assumed are {weights}"
    cache, assumed = kernel.attributes.get("kv_dtype"), _input(row, "kv")
    if kinds & _CACHE_KINDS and isinstance(cache, str) and assumed:
        # Of formats with scales an element has some more bits than its own.
        whole = 2 ** int(log2(KV_BITS[assumed]))
        if _BITS.get(cache, whole) != whole:
            return "kv-dtype", f"a {cache} cache, assumed is {assumed}"
    return None


def _input(row: OperatorRow, name: str) -> str | None:
    """Return a format among the inputs of the first operator of a row that has it."""
    for key, value in row.inputs.items():
        if key.rpartition(".")[2] == name and isinstance(value, str):
            return value
    return None


def read_redundancy(rows: Sequence[OperatorRow]) -> list[Finding]:
    """Weights that a step reads more than once."""
    return [
        finding(
            slug="read-redundancy",
            severity="warning",
            text=f"{row.role} reads its weights {row.reads_per_step:.1f} times in a step",
            hint="one launch over all rows reads them once",
        )
        for row in rows
        if row.reads_per_step is not None and row.reads_per_step > 1.01
    ]


def profiler_inflation(assumptions: Assumptions, measured_ns: int | None) -> list[Finding]:
    """How much slower the step ran under the profiler than without it."""
    if assumptions.unprofiled_step_us is None or measured_ns is None:
        return []
    inflation = measured_ns / (assumptions.unprofiled_step_us * 1e3)
    slower, faster = inflation > _INFLATED, inflation < 1 / _INFLATED
    meant, hint = "", "none"
    if slower:
        meant = ": gaps and short kernels are upper bounds"
        hint = "capture again with a graph-level trace for the true span"
    elif faster:
        meant = ": no profiler makes a step faster, so the time given is that of other steps"
        hint = "give --unprofiled-step-us of the same batch, context and build"
    return [
        finding(
            slug="profiler-inflation",
            severity="warning" if slower or faster else "note",
            text=f"the step takes {inflation:.3f} times what it takes without the profiler{meant}",
            hint=hint,
        )
    ]


def _listed(roles: Sequence[str]) -> str:
    """Return the first few roles.

    >>> _listed(["attn.core", "lm_head", "mlp.act", "sample"])
    'attn.core, lm_head, mlp.act and 1 more'
    """
    more = len(roles) - _ROLES_TOLD
    return ", ".join(roles[:_ROLES_TOLD]) + (f" and {more} more" if more > 0 else "")


def _widths_differ(found: str, assumed: str) -> bool:
    """Return whether two formats are known to have elements of different widths."""
    widths = (_BITS.get(found), _BITS.get(assumed))
    return None not in widths and widths[0] != widths[1]
