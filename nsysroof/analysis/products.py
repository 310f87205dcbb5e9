"""The matrix products that NVTX ranges tell for the kernels launched inside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from nsysroof.analysis.operators import OperatorGroup
from nsysroof.findings import finding
from nsysroof.match.op_sizes import PREFIX, Product, parse_product
from nsysroof.results import Finding
from nsysroof.theory.kinds import MATMUL_KINDS
from nsysroof.timeline.ranges import calls_inside
from nsysroof.trace import Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class ToldProducts:
    """``index`` numbers, for each kernel, the product of ``products``; null where none is told."""

    products: list[Product]
    index: pl.Series


def told_products(trace: Trace, kernels: pl.DataFrame) -> ToldProducts | None:
    """Return the products of the ranges in which kernels were launched, None where none tells one.

    The range that opened last before a launch counts if it is still open. Replayed kernels were
    launched as a graph, inside whatever range: for them the range counts in which the node of
    their graph was captured, where the export tells that.

    Args:
        trace: Where ranges, launch calls and graph nodes are read from.
        kernels: ``pid`` and ``correlation`` of each kernel, ``graph_node`` and ``replayed``.
    """
    ranges = trace.ranges_beginning(PREFIX).filter(pl.col("end_ns").is_not_null())
    by_text = {text: parse_product(text) for text in ranges["text"].unique()}
    products = list(dict.fromkeys(found for found in by_text.values() if found is not None))
    if not products:
        return None
    numbers = {text: products.index(found) for text, found in by_text.items() if found is not None}
    telling = (
        ranges.filter(pl.col("text").is_in(list(numbers)))
        .select(
            "pid",
            "tid",
            range_start="start_ns",
            range_end="end_ns",
            product=pl.col("text").replace_strict(numbers, return_dtype=pl.UInt32),
        )
        .sort("range_start")
    )
    calls = calls_inside(trace, telling, kinds=("kernel_launch",))
    launched = kernels.select("pid", "correlation", "replayed").join(
        calls, on=["pid", "correlation"], how="left", maintain_order="left"
    )
    eager = launched.select(pl.when(~pl.col("replayed")).then("product").alias("product"))
    captured = kernels.select("pid", node="graph_node").join(
        _captured_products(trace.node_creations, telling),
        on=["pid", "node"],
        how="left",
        maintain_order="left",
    )
    return ToldProducts(
        products=products, index=captured["product"].zip_with(kernels["replayed"], eager["product"])
    )


def _captured_products(created: pl.DataFrame, telling: pl.DataFrame) -> pl.DataFrame:
    """Return ``product`` of graph nodes by ``pid`` and ``node``.

    The kernels of a replay carry the nodes of the graph's instance, each of which was cloned from
    the node that was captured inside a range.

    Args:
        created: Schema ``GRAPH_NODE_CREATIONS``.
        telling: ``product`` of ranges with ``pid``, ``tid``, ``range_start`` and ``range_end``,
            sorted by start.
    """
    originals = (
        created.filter(pl.col("original").is_null())
        .sort("start_ns", "node")
        .join_asof(
            telling,
            left_on="start_ns",
            right_on="range_start",
            by=["pid", "tid"],
            check_sortedness=False,
        )
        .filter(pl.col("start_ns") < pl.col("range_end"))
        .select("pid", "node", "product")
        .unique(["pid", "node"], keep="last", maintain_order=True)
    )
    clones = created.filter(pl.col("original").is_not_null()).unique(
        ["pid", "node"], keep="last", maintain_order=True
    )
    cloned = clones.select("pid", "node", "original").join(
        originals, left_on=["pid", "original"], right_on=["pid", "node"], maintain_order="left"
    )
    return pl.concat([originals, cloned.select("pid", "node", "product")])


def usual_products(
    told: ToldProducts | None, kernels: pl.DataFrame, groups: Sequence[OperatorGroup]
) -> dict[int, Product]:
    """Return the most frequent product of each group that is one matrix product.

    Args:
        told: What the ranges tell, one entry per kernel.
        kernels: ``group`` and ``main`` of the same kernels.
        groups: The operator groups.
    """
    if told is None:
        return {}
    usual = (
        kernels.select("group", "main", product=told.index)
        .filter(pl.col("group").is_not_null() & pl.col("main") & pl.col("product").is_not_null())
        .group_by("group", "product")
        .len()
        .sort("group", "len", "product", descending=[False, True, False])
        .unique("group", keep="first", maintain_order=True)
    )
    return {
        group: told.products[product]
        for group, product, _ in usual.iter_rows()
        if _sizes(groups[group]) is not None
    }


def agrees(group: OperatorGroup, product: Product) -> bool:
    """Return whether the ranges tell the product that the model's operator is."""
    return _sizes(group) == (product.m, product.n, product.k)


def product_findings(
    groups: Sequence[OperatorGroup], usual: Mapping[int, Product], model: str
) -> list[Finding]:
    """Return what the ranges contradict: the batch where only rows differ, else the model."""
    wrong = [(groups[at], found) for at, found in usual.items() if not agrees(groups[at], found)]
    if 2 * len(wrong) <= len(usual):  # a product or two may be another operator's
        return []
    group, product = wrong[0]
    m, n, k = _sizes(group) or (0, 0, 0)
    text = (
        f"NVTX ranges tell {group.role} as {product.m} x {product.n} x {product.k}, "
        f"but the inputs make it {m} x {n} x {k}"
    )
    if all((_sizes(one) or ())[1:] == (found.n, found.k) for one, found in wrong):
        return [
            finding(
                slug="batch-mismatch",
                severity="error",
                text=text,
                hint="give the --batch that was served",
            )
        ]
    return [
        finding(
            slug="model-mismatch",
            severity="error",
            text=f"this is not {model}: {text}",
            hint="give the model that was served with --model NAME or config.json, and its --tp",
        )
    ]


def _sizes(group: OperatorGroup) -> tuple[int, int, int] | None:
    member = group.members[0]
    if len(group.members) > 1 or member.kind not in MATMUL_KINDS:
        return None
    if not {"m", "n", "k"} <= set(member.inputs):
        return None
    return int(member.inputs["m"]), int(member.inputs["n"]), int(member.inputs["k"])
