"""Whether the inputs fit the launches: batch, tensor parallelism, model and GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import polars as pl

from nsysroof.analysis.operators import OperatorGroup
from nsysroof.errors import UsageError
from nsysroof.findings import finding
from nsysroof.match.engines import newest_architecture
from nsysroof.match.rules import KernelClass
from nsysroof.match.tiles import (
    ExpertLaunch,
    TiledLaunch,
    expert_launch,
    generation_grid,
    tiled_launch,
    token_grid,
)
from nsysroof.results import Finding
from nsysroof.theory.gpus import Gpu
from nsysroof.theory.kinds import ATTENTION_KINDS, MATMUL_KINDS, OperatorKind
from nsysroof.theory.models.decoder import operators as model_operators
from nsysroof.theory.models.layers import Moe
from nsysroof.theory.models.spec import ModelSpec
from nsysroof.theory.workload import Workload
from nsysroof.trace.schema import unpack_grid

_DRAFT = "draft."
_Tiled = TiledLaunch | ExpertLaunch
_DEGREES = (1, 2, 4, 8, 16, 32)
_ROW_PER_TOKEN = frozenset({"attn.norm", "mlp.norm", "attn.rope", "attn.kv_write", "mlp.act"})
_PADDED = 8  # rows that a graph captured for a larger batch adds, or up to as many as there are


@dataclass(frozen=True, slots=True, kw_only=True)
class Launched:
    """The usual main kernel of an operator group."""

    group: OperatorGroup
    kernel: KernelClass
    grid: list[int]


def usual_launches(
    kernels: pl.DataFrame, groups: Sequence[OperatorGroup], classes: Sequence[KernelClass]
) -> list[Launched]:
    """Return the most frequent main kernel and grid of each group, in model order."""
    usual = (
        kernels.lazy()
        .filter(pl.col("group").is_not_null() & pl.col("main"))
        .group_by("group", "name", "grid")
        .len()
        .collect(engine="streaming")
        .sort("group", "len", "name", "grid", descending=[False, True, False, False])
        .unique("group", keep="first", maintain_order=True)
    )
    return [
        Launched(group=groups[group], kernel=classes[name], grid=unpack_grid(grid))
        for group, name, grid, _ in usual.iter_rows()
    ]


def batch_of_grids(
    kernels: pl.DataFrame, steps: pl.DataFrame, classes: Sequence[KernelClass]
) -> int | None:
    """Return the sequences that decode attention mostly ran over, None where no grid tells.

    Args:
        kernels: Kernels with ``gpu``, ``step``, ``name`` and ``grid``.
        steps: The analysed steps.
        classes: Class of each name.
    """
    telling = [name for name, kernel in enumerate(classes) if generation_grid(kernel, [1, 1, 1])]
    launches = (
        kernels.select("gpu", "step", "name", "grid")
        .filter(pl.col("name").is_in(telling) & pl.col("step").is_not_null())
        .join(steps.select("gpu", "step"), on=["gpu", "step"], how="semi")
        .group_by("name", "grid")
        .len()
        .sort("len", "name", "grid", descending=[True, False, False])
    )
    if not launches.height:
        return None
    usual = launches.row(0, named=True)
    grid = generation_grid(classes[usual["name"]], unpack_grid(usual["grid"]))
    return None if grid is None else grid[1]


def rows_of_launches(launches: Sequence[Launched], *, sm_count: int | None) -> int | None:
    """Return the tokens of a step by the grids of kernels with a block each, None where none tell.

    A grid of one block per SM, or that matrix products have as well, tells nothing.
    """
    rows: set[int] = set()
    others = {sm_count}
    for launch in launches:
        if launch.group.members[0].kind in MATMUL_KINDS:
            others.add(prod(launch.grid))
        elif not _ROW_PER_TOKEN.isdisjoint(member.role for member in launch.group.members):
            found = token_grid(launch.kernel, launch.grid)
            rows |= set() if found is None else {found}
    return rows.pop() if len(rows) == 1 and rows.isdisjoint(others) else None


def shape_findings(
    launches: Sequence[Launched],
    model: ModelSpec,
    workload: Workload,
    gpu: Gpu | None,
    *,
    sm_count: int | None,
    sums: bool,
    rows: int | None,
) -> list[Finding]:
    """Return what the launches contradict, the likeliest wrong input named.

    Args:
        launches: The usual launch of each operator group.
        model: The model given.
        workload: The step given.
        gpu: The GPU meant, None where it is not known.
        sm_count: SMs of the GPU that ran the launches, where they are known.
        sums: Whether the step adds partial sums of several GPUs, as tensor parallelism does.
        rows: Tokens of the step by the grids of other kernels, where they tell.
    """
    told = _architecture(launches, gpu)
    tiled = [
        launch
        for launch in (_tiled(one, model, workload, sm_count) for one in launches)
        if launch is not None
    ]
    heads, batch = _attention(launches)
    tokens = workload.tokens
    if batch is None and rows is not None and not _may_be_padded(rows, tokens):
        told.append(_other_rows(rows, tokens))
        tiled = [replace(one, tokens=rows) if one.tokens == tokens else one for one in tiled]
        tokens = rows
    if batch is not None and batch != workload.batch:
        told.append(
            finding(
                slug="batch-mismatch",
                severity="error",
                text=f"decode attention ran over {batch} sequences, but the batch given is "
                f"{workload.batch}",
                hint=f"give --batch {batch}",
            )
        )
    expected = _kv_heads(launches)
    degree = _other_degree(tiled, model, workload, sums=sums)
    wrong = [launch for launch in tiled if not launch.fits()]
    if degree is not None and (wrong or heads not in (None, expected)):
        told.append(
            finding(
                slug="tp-mismatch",
                severity="error",
                text=f"the grids are those of TP {degree}, but --tp {workload.tp} was given",
                hint=f"give --tp {degree}",
            )
        )
    elif heads is not None and heads != expected:
        told.append(_other_model(model, f"attention ran over {heads} KV heads, not {expected}"))
    elif wrong and not (batch is not None and batch != workload.batch):
        told.append(_by_tokens(wrong, tiled, model, tokens, workload))
    return told


def _by_tokens(
    wrong: Sequence[_Tiled],
    tiled: Sequence[_Tiled],
    model: ModelSpec,
    tokens: int,
    workload: Workload,
) -> Finding:
    """Blame the batch where one number of tokens fits every grid, else the model.

    Of a prompt the LM head sees one token only: what has other rows must fit as it is.
    """
    whole = [launch for launch in tiled if launch.tokens == tokens]
    ranges = [launch.token_range() for launch in whole]
    known = [found for found in ranges if found is not None]
    low, high = (
        max(low for low, _ in known) if known else 1,
        min(high for _, high in known or [(0, 0)]),
    )
    apart = all(launch.fits() for launch in tiled if launch.tokens != tokens)
    if apart and len(known) == len(whole) and low <= high:
        return finding(
            slug="batch-mismatch",
            severity="error",
            text=f"the grids fit {low} to {high} tokens in a step, but the batch given makes "
            f"{workload.tokens}",
            hint="give the --batch that was served"
            + (", and its --new-tokens" if workload.tokens != workload.batch else ""),
        )
    first = wrong[0]
    return _other_model(
        model,
        f"the grid of {first.role} has {first.blocks} blocks, which do not cover "
        f"{first.features} x {first.tokens}",
    )


def _may_be_padded(rows: int, tokens: int) -> bool:
    """Return whether a step of some tokens may have run on so many rows.

    Engines round the batch up to the next one that they have captured a graph for.
    """
    return rows == tokens or tokens < rows < max(2 * tokens, tokens + _PADDED)


def _other_rows(rows: int, tokens: int) -> Finding:
    return finding(
        slug="batch-mismatch",
        severity="error",
        text=f"norms and cache writes ran over {rows} tokens in a step, but the inputs make it "
        f"{tokens}",
        hint="give --batch, and --new-tokens of a prompt, as they were served",
    )


def _attention(launches: Sequence[Launched]) -> tuple[int | None, int | None]:
    for launch in launches:
        grid = generation_grid(launch.kernel, launch.grid)
        if grid is not None:
            return grid
    return None, None


def _kv_heads(launches: Sequence[Launched]) -> int | None:
    for launch in launches:
        member = launch.group.members[0]
        if member.kind in ATTENTION_KINDS and "kv_heads" in member.inputs:
            return int(member.inputs["kv_heads"])
    return None


def _tiled(
    launch: Launched, model: ModelSpec, workload: Workload, sm_count: int | None
) -> _Tiled | None:
    member = launch.group.members[0]
    experts = member.kind == OperatorKind.MOE_GEMM and not member.role.startswith(_DRAFT)
    ffn = model.layers[member.layer].ffn if experts and member.layer is not None else None
    if isinstance(ffn, Moe) and workload.ep == 1:
        return expert_launch(
            launch.kernel,
            member.role,
            features=int(member.inputs["n"]),
            tokens=workload.tokens,
            experts=ffn.experts,
            top_k=ffn.top_k,
            grid=launch.grid,
        )
    if member.kind not in MATMUL_KINDS or not {"m", "n"} <= set(member.inputs):
        return None
    return tiled_launch(
        launch.kernel,
        member.role,
        features=int(member.inputs["n"]),
        tokens=int(member.inputs["m"]),
        blocks=prod(launch.grid),
        sm_count=sm_count,
    )


def _other_degree(
    tiled: Sequence[_Tiled], model: ModelSpec, workload: Workload, *, sums: bool
) -> int | None:
    """Return the one other TP that fits every grid, where the one given does not.

    Without partial sums to add, no number of tensor-parallel GPUs but one has run.
    """
    if not tiled or all(launch.fits() for launch in tiled):
        return None
    fitting = []
    for degree in _DEGREES if sums else _DEGREES[:1]:
        if degree == workload.tp:
            continue
        try:
            other = model_operators(model, replace(workload, tp=degree))
        except UsageError:
            continue
        columns = {op.role: int(op.inputs["n"]) for op in other if "n" in op.inputs}
        known = [launch for launch in tiled if launch.role in columns]
        if known and all(launch.fits(features=columns[launch.role]) for launch in known):
            fitting.append(degree)
    return fitting[0] if len(fitting) == 1 else None


def _architecture(launches: Sequence[Launched], gpu: Gpu | None) -> list[Finding]:
    newest = newest_architecture([launch.kernel for launch in launches])
    if gpu is None or newest is None:
        return []
    own = int(gpu.compute_capability.replace(".", ""))
    if newest <= own:
        return []
    return [
        finding(
            slug="gpu-mismatch",
            severity="warning",
            text=f"kernels for compute capability {newest / 10:.1f} ran, which {gpu.key} "
            f"({gpu.compute_capability}) cannot run",
            hint="give the GPU of the capture with --gpu",
        )
    ]


def _other_model(model: ModelSpec, why: str) -> Finding:
    return finding(
        slug="model-mismatch",
        severity="error",
        text=f"this is not {model.name}: {why}",
        hint="give the model that was served with --model NAME or config.json",
    )
