"""What the analysis itself must warn of, beyond the verdict on the capture."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from nsysroof.results import (
    SEVERITIES,
    Assumptions,
    Coverage,
    Finding,
    ImpossibleRow,
    OperatorRow,
    Phase,
)

_LOW_COVERAGE = 0.8
_INFLATED = 1.05


def in_order(findings: Sequence[Finding]) -> list[Finding]:
    """Return findings with errors first, each slug and text once."""
    unique = {(finding.slug, finding.text): finding for finding in findings}
    return sorted(unique.values(), key=lambda f: (SEVERITIES.index(f.severity), f.slug, f.text))


def unknown_gpu(names: Sequence[str | None]) -> Finding:
    """The device has no known peaks, so there are no ratios."""
    told = ", ".join(sorted({name for name in names if name})) or "not named in the capture"
    return Finding(
        slug="unknown-gpu",
        severity="warning",
        text=f"the peaks of this GPU are not known ({told}): no bounds and no ratios",
        hint="give --gpu NAME or FILE.toml, or --peak bw=… and the dtype used (nsysroof gpus lists)",
    )


def gpu_mismatch(given: str, traced: str) -> Finding:
    """The user named another GPU than the trace does."""
    return Finding(
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
        else "no graph replay, no repeating kernel pattern"
    )
    return [
        Finding(
            slug="no-steps",
            severity="warning",
            text=f"steps not detected: {why}; times are over the whole window",
            hint="mark steps with NVTX and give --step-range, or capture more of them",
        )
    ]


def ranks_missing(tp: int, gpus: int) -> list[Finding]:
    """Fewer GPUs have kernels than tensor-parallel ranks were given."""
    if gpus >= tp:
        return []
    return [
        Finding(
            slug="rank-missing",
            severity="error",
            text=f"kernels on {gpus} of {tp} ranks: per-rank and collective results are partial",
            hint="trace every rank (start workers with spawn, one report per node)",
        )
    ]


def model_mismatch(model: str, layers: int, found: int) -> Finding:
    """The step repeats another number of layers than the model has."""
    return Finding(
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
        Finding(
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
        Finding(
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
        Finding(
            slug="below-bound",
            severity="error" if hard else "warning",
            text=f"{len(rows)} operators are faster than their bound ({told}): "
            "an input or the measurement is wrong",
            hint=f"most likely: {(hard or list(rows))[0].likely_cause}; see the impossible results",
        )
    ]


def read_redundancy(rows: Sequence[OperatorRow]) -> list[Finding]:
    """Weights that a step reads more than once."""
    return [
        Finding(
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
    bounds = inflation > _INFLATED
    return [
        Finding(
            slug="profiler-inflation",
            severity="warning" if bounds else "note",
            text=f"the step takes {inflation:.3f} times what it takes without the profiler"
            + (": gaps and short kernels are upper bounds" if bounds else ""),
            hint="capture again with a graph-level trace for the true span" if bounds else "none",
        )
    ]


def attention_calls(kernels: pl.DataFrame, attention_names: Sequence[int]) -> int:
    """Return how often attention runs in the typical analysed step."""
    per_step = (
        kernels.filter(pl.col("step").is_not_null() & pl.col("name").is_in(list(attention_names)))
        .group_by("gpu", "step")
        .len()["len"]
    )
    return int(per_step.median()) if per_step.len() else 0  # type: ignore[arg-type]  # a number
