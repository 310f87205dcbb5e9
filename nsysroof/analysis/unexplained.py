"""Kernels without an operator of the model: what they cost, and what their launch tells of bytes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import polars as pl

from nsysroof.analysis.products import ToldProducts
from nsysroof.match.classes import UNKNOWN
from nsysroof.match.functors import Span
from nsysroof.match.launch import Access, accesses_of
from nsysroof.match.op_sizes import Product
from nsysroof.match.rules import KernelClass, RuleSet
from nsysroof.match.stub import rule_stubs
from nsysroof.results import UnexplainedRow
from nsysroof.theory.cost import Cost
from nsysroof.theory.dtypes import FLOAT_BYTES
from nsysroof.theory.kinds import MATMUL_KINDS
from nsysroof.theory.peaks import Peaks
from nsysroof.theory.roofline import Limiter, bound
from nsysroof.trace import Trace
from nsysroof.trace.schema import unpack_block, unpack_grid

_LENGTH = pl.col("end_ns") - pl.col("start_ns")
_UNKNOWN_HINT = "no rule knows this name; nsysroof rules explain shows how to add one"
_FOREIGN_HINT = "no operator of the model does this"
_OVERHEAD_HINT = "overhead: memory is moved or converted, which no operator of the model asks for"
_NO_MODEL_HINT = "give --model and the workload to explain it"
_OVERHEAD = frozenset({"concat", "copy_cast", "fill", "layout_transform", "memcpy", "memset"})
_GEOMETRY, _SHAPE = "launch-geometry", "nvtx-shape"
_MOST_BYTES = 2**50  # more than any launch moves: the name or the grid is no real one


def unexplained_rows(
    kernels: pl.DataFrame,
    texts: Sequence[str],
    classes: Sequence[KernelClass],
    *,
    modelled: bool,
    steps: int,
    peaks: Peaks,
    floor_ns: float,
    told: ToldProducts | None = None,
) -> list[UnexplainedRow]:
    """Return the kernels without an operator by (name, grid), the longest in total first.

    Args:
        kernels: ``name``, ``grid``, ``block``, times, ``step`` (null: not analysed) and ``role``.
        texts: Text of each name.
        classes: Class of each name.
        modelled: Whether there is a model that could explain them.
        steps: Steps analysed, summed over GPUs.
        peaks: What bytes are divided by; without a bandwidth there is no bound.
        floor_ns: Latency floor of a small kernel.
        told: The matrix products that NVTX ranges tell for the kernels.
    """
    whole = int(kernels.lazy().select(_LENGTH.sum()).collect(engine="streaming").item())
    rows = _totals(kernels)
    names = rows["name"].unique().to_list()
    accesses = dict(zip(names, accesses_of([texts[name] for name in names]), strict=True))
    unknown = [name for name in names if classes[name].klass == UNKNOWN]
    stubs = dict(zip(unknown, rule_stubs([texts[name] for name in unknown]), strict=True))
    describe = partial(
        _row,
        whole=whole,
        texts=texts,
        classes=classes,
        modelled=modelled,
        steps=steps,
        peaks=peaks,
        floor_ns=floor_ns,
    )
    products = {} if told is None else _lone_products(told, kernels)
    found = []
    for row in rows.iter_rows(named=True):
        name, grid = row["name"], row["grid"]
        product = products.get((name, grid))
        work = None if product is None else _multiplied(product, classes[name])
        if work is None:
            work = _moved(accesses[name], grid, row["block"])
        found.append(describe(row, work, stub=stubs.get(name)))
    return found


def unknown_names(trace: Trace, rules: RuleSet) -> list[str]:
    """Return the kernel names of a trace that have no known class, the longest in total first."""
    totals = (
        trace.kernels.group_by("name")
        .agg(_LENGTH.sum().alias("total"))
        .sort(["total", "name"], descending=[True, False])
    )
    texts = trace.names["text"].gather(totals["name"])
    classes = rules.classify_many(texts)["class"]
    return texts.filter(classes == UNKNOWN).to_list()


def _totals(kernels: pl.DataFrame) -> pl.DataFrame:
    """Return one row per (name, grid) without a role, the longest in total first."""
    keys = ["name", "grid"]
    # Kernels of one key and duration are one row: few, however many kernels there are.
    counts = (
        kernels.lazy()
        .filter(pl.col("role").is_null())
        .group_by(*keys, "block", _LENGTH.alias("ns"))
        .agg(pl.len().alias("instances"), pl.col("step").count().alias("in_steps"))
        .collect(engine="streaming")
        .with_columns(pl.col("instances", "in_steps").cast(pl.Int64))
        .sort([*keys, "ns", "block"])
        .with_columns(pl.col("instances").cum_sum().over(keys).alias("up_to"))
    )
    middle = pl.col("instances").sum() // 2
    return (
        counts.group_by(keys)
        .agg(
            pl.col("instances").sum(),
            (pl.col("ns") * pl.col("instances")).sum().alias("total"),
            pl.col("ns").filter(pl.col("up_to") > middle).first().alias("p50"),
            pl.col("in_steps").sum(),
            (pl.col("ns") * pl.col("in_steps")).sum().alias("in_steps_ns"),
            pl.col("block").unique(),
        )
        .sort(["total", *keys], descending=[True, False, False])
    )


def _lone_products(told: ToldProducts, kernels: pl.DataFrame) -> dict[tuple[int, int], Product]:
    """Return the product of each (name, grid) that computes one alone.

    Of several products no one could be told from the others.
    """
    rows = (
        kernels.select("name", "grid", product=told.index)
        .filter(pl.col("product").is_not_null())
        .group_by("name", "grid")
        .agg(pl.col("product").min(), pl.col("product").n_unique().alias("several"))
        .filter(pl.col("several") == 1)
    )
    return {(name, grid): told.products[product] for name, grid, product, _ in rows.iter_rows()}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    """What one instance does at the least, and on whose word."""

    cost: Cost
    bytes: Span
    evidence: str
    sizes: list[int] | None = None


def _row(
    row: Mapping[str, int],
    work: _Work | None,
    *,
    stub: str | None,
    whole: int,
    texts: Sequence[str],
    classes: Sequence[KernelClass],
    modelled: bool,
    steps: int,
    peaks: Peaks,
    floor_ns: float,
) -> UnexplainedRow:
    kernel = classes[row["name"]]
    least = bound(work.cost, peaks, floor_ns=floor_ns) if work else None
    least_ns = least.spec_ns if least else None
    # One-sided bytes, or fewer than the latency floor hides, judge no kernel.
    hidden = least is None or least.limiter is Limiter.LATENCY
    judged = work is not None and work.bytes.high is not None and not hidden
    return UnexplainedRow(
        name=texts[row["name"]],
        klass=kernel.klass,
        grid=unpack_grid(row["grid"]),
        instances=row["instances"],
        total_ns=row["total"],
        share=row["total"] / whole if whole else 0.0,
        hint=_hint(kernel, modelled=modelled),
        p50_ns=row["p50"],
        instances_per_step=row["in_steps"] / steps if steps else None,
        ns_per_step=row["in_steps_ns"] / steps if steps else None,
        bytes_low=work.bytes.low if work else None,
        bytes_high=work.bytes.high if work else None,
        evidence=work.evidence if work else None,
        sizes=work.sizes if work else None,
        bound_ns=least_ns,
        ratio=row["p50"] / least_ns if least_ns and judged else None,
        stub=stub,
    )


def _multiplied(product: Product, kernel: KernelClass) -> _Work | None:
    """Return the work of a matrix product, None where the kernel is none of a known format."""
    dtype = kernel.attributes.get("dtype")
    if not isinstance(dtype, str) or dtype not in FLOAT_BYTES:
        return None
    if not any(MATMUL_KINDS & kinds for kinds in kernel.implements):
        return None
    batch, m, n, k = product.batch, product.m, product.n, product.k
    moved = batch * (m * k + k * n + m * n) * FLOAT_BYTES[dtype]
    return _Work(
        cost=Cost(flop={dtype: 2 * batch * m * n * k}, act_read=moved),
        bytes=Span(low=moved, high=moved),
        evidence=_SHAPE,
        sizes=[batch, m, n, k],
    )


def _moved(access: Access | None, grid: int, blocks: Iterable[int]) -> _Work | None:
    """Return the bytes of one instance, whichever of its blocks of threads it had."""
    if access is None:
        return None
    spans = [access.traffic(unpack_grid(grid), unpack_block(block)) for block in blocks]
    if any(span.low > _MOST_BYTES for span in spans):
        return None
    highs = [span.high for span in spans if span.high is not None and span.high <= _MOST_BYTES]
    moved = Span(
        low=min(span.low for span in spans),
        high=max(highs) if len(highs) == len(spans) else None,
    )
    return _Work(cost=Cost(act_read=moved.low), bytes=moved, evidence=_GEOMETRY)


def _hint(kernel: KernelClass, *, modelled: bool) -> str:
    if kernel.rule is None:
        return _UNKNOWN_HINT
    if not modelled:
        return _NO_MODEL_HINT
    return _OVERHEAD_HINT if kernel.klass in _OVERHEAD else _FOREIGN_HINT
