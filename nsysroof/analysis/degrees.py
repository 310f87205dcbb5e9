"""Whether the collectives of a step fit the tensor parallelism given."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from nsysroof.analysis.steps import calls_per_step
from nsysroof.findings import finding
from nsysroof.match.rules import KernelClass
from nsysroof.results import Finding
from nsysroof.theory.workload import Workload

_SUMS = ("allreduce", "allreduce_rmsnorm", "reduce_scatter", "collective_other")
_ONCE = 2  # fewer sums in a step may be bookkeeping, such as of a sampled token


def sums_per_step(kernels: pl.DataFrame, classes: Sequence[KernelClass]) -> int:
    """Return how often partial sums of several GPUs are added in the typical analysed step."""
    names = [name for name, kernel in enumerate(classes) if kernel.klass in _SUMS]
    return calls_per_step(kernels, names)


def degree_findings(
    kernels: pl.DataFrame, classes: Sequence[KernelClass], workload: Workload, sums: int
) -> list[Finding]:
    """Return where the collectives contradict ``--tp``; other parallelism has others.

    Args:
        kernels: Kernels with ``gpu``, ``step`` and ``name``.
        classes: Class of each name.
        workload: The step given.
        sums: As ``sums_per_step`` returns.
    """
    if workload.ep > 1 or workload.dp > 1:
        return []
    ran = kernels.filter(pl.col("step").is_not_null())["name"].unique().to_list()
    sizes = {
        size
        for size in (classes[name].attributes.get("world_size") for name in ran)
        if isinstance(size, int)
    }
    told = f"--tp {min(sizes)}" if len(sizes) == 1 else "--tp, --ep and --dp as they were served"
    if workload.tp == 1 and sums >= _ONCE:
        return [
            finding(
                slug="tp-mismatch",
                severity="error",
                text=f"all-reduce runs {sums} times in a step, but --tp 1 was given",
                hint=f"give {told}",
            )
        ]
    if workload.tp > 1 and len(sizes) == 1 and workload.tp not in sizes:
        return [
            finding(
                slug="tp-mismatch",
                severity="error",
                text=f"the all-reduce kernels are those of {min(sizes)} ranks, but "
                f"--tp {workload.tp} was given",
                hint=f"give {told}",
            )
        ]
    if workload.tp > 1 and not sums:
        return [
            finding(
                slug="tp-mismatch",
                severity="warning",
                text=f"no kernel known as a collective ran, but --tp {workload.tp} was given",
                hint="give --tp 1, or name the collective's kernel with --rules",
            )
        ]
    return []
