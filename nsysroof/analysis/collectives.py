"""Collectives split into waiting for the last rank and moving bytes.

A collective kernel runs from the entry of its own rank until the data are there, so most of its
time may be another rank's lateness, which no faster link wins back.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import polars as pl

from nsysroof.analysis.operators import OperatorGroup
from nsysroof.results import CollectiveRow

_MATCHED = 0.9  # share of instances that must fit together for arrivals to be believed
_TRANSFER_QUANTILE = 0.1
_INSTANCE = ["role", "group", "step", "ordinal"]


def roles_by_ranks(groups: Sequence[OperatorGroup], otherwise: int) -> dict[int, set[str]]:
    """Return the roles that are collectives by how many ranks take part in each.

    Experts may be spread over more ranks than a layer is split over, so each operator's own number
    counts; ``otherwise`` where it tells none.
    """
    found: dict[int, set[str]] = {}
    for group in groups:
        if group.crosses_link:
            told = (int(op.inputs["ranks"]) for op in group.members if "ranks" in op.inputs)
            found.setdefault(next(told, otherwise), set()).add(group.role)
    return dict(sorted(found.items()))


def collective_rows(
    kernels: pl.DataFrame,
    roles: Collection[str],
    *,
    group_size: int,
    shared_clock: bool,
    gpus: Sequence[int] | None = None,
) -> list[CollectiveRow]:
    """Return one row per role and GPU, by role and then GPU.

    By arrival: the n-th instance of a role in a step is one collective on every rank of a group;
    each rank waits from its own start to the last rank's and transfers from then to its own end.
    Instances that do not fit (a rank is missing, or left before the last one came) are left out;
    where more than a tenth of them do not, or clocks differ, the shortest tenth of the instances
    stands for mere transfer instead, and what is longer counts as waiting.

    Args:
        kernels: ``gpu``, ``step`` (null outside the analysed steps), ``role``, ``main``,
            ``start_ns``, ``end_ns``. Kernels that only serve their operator do not count.
        roles: The roles that are collectives.
        group_size: Ranks that take part in each; consecutive GPUs form a group.
        shared_clock: Whether the times of all GPUs are on one axis.
        gpus: All GPUs, ascending; None: those that have kernels.
    """
    if not roles:
        return []
    wanted = pl.col("role").is_in(list(roles)) & pl.col("step").is_not_null() & pl.col("main")
    found = kernels.select("gpu", "step", "role", "main", "start_ns", "end_ns").filter(wanted)
    found = found.drop("main")
    if not found.height:
        return []
    ranks = kernels.select(pl.col("gpu").unique().sort())
    if gpus is not None:
        ranks = pl.DataFrame({"gpu": gpus}, schema={"gpu": kernels.schema["gpu"]})
    ranks = ranks.with_columns(group=pl.int_range(pl.len()) // group_size)
    found = (
        found.sort("gpu", "step", "start_ns", "end_ns")
        .with_columns(ordinal=pl.int_range(pl.len()).over("gpu", "step", "role"))
        .join(ranks, on="gpu", how="left", maintain_order="left")
        .with_columns(ns=pl.col("end_ns") - pl.col("start_ns"))
    )
    matched = _matched(found, ranks) if shared_clock else found.clear()
    rows = []
    for (role, gpu), part in found.partition_by("role", "gpu", as_dict=True).items():
        fitting = matched.filter((pl.col("role") == role) & (pl.col("gpu") == gpu))
        if fitting.height >= _MATCHED * part.height:
            rows.append(_by_arrival(fitting))
        else:
            rows.append(_by_percentile(part))
    return sorted(rows, key=lambda row: (row.role, row.gpu))


def _matched(found: pl.DataFrame, ranks: pl.DataFrame) -> pl.DataFrame:
    """Return the instances in which every rank of a group took part at the same time."""
    sizes = ranks.group_by("group").agg(pl.len().alias("size"))
    together = (
        found.group_by(_INSTANCE)
        .agg(
            pl.len().alias("present"),
            pl.col("start_ns").min().alias("first"),
            pl.col("start_ns").max().alias("last"),
            pl.col("end_ns").min().alias("left"),
        )
        .join(sizes, on="group")
        .filter(
            (pl.col("size") > 1)
            & (pl.col("present") == pl.col("size"))
            & (pl.col("left") >= pl.col("last"))
        )
    )
    return found.join(together, on=_INSTANCE)


def _by_arrival(part: pl.DataFrame) -> CollectiveRow:
    split = part.select(
        "role",
        "gpu",
        "step",
        wait=pl.col("last") - pl.col("start_ns"),
        transfer=pl.col("end_ns") - pl.col("last"),
        skew=pl.col("last") - pl.col("first"),
    )
    return _row(split, "arrival", skew_ns=_p50(split["skew"]))


def _by_percentile(part: pl.DataFrame) -> CollectiveRow:
    least = _nearest(part["ns"], _TRANSFER_QUANTILE)
    split = part.select(
        "role",
        "gpu",
        "step",
        wait=(pl.col("ns") - least).clip(lower_bound=0),
        transfer=pl.col("ns").clip(upper_bound=least),
    )
    return _row(split, "percentile", skew_ns=None)


def _row(split: pl.DataFrame, method: str, *, skew_ns: int | None) -> CollectiveRow:
    steps = split["step"].n_unique()
    waited, moved = int(split["wait"].sum()), int(split["transfer"].sum())
    return CollectiveRow(
        role=split["role"][0],
        gpu=split["gpu"][0],
        instances=split.height,
        wait_ns=_p50(split["wait"]),
        transfer_ns=_p50(split["transfer"]),
        skew_ns=skew_ns,
        wait_total_ns=waited,
        transfer_total_ns=moved,
        wait_ns_per_step=waited / steps,
        transfer_ns_per_step=moved / steps,
        method=method,
    )


def _p50(values: pl.Series) -> int:
    return _nearest(values, 0.5)


def _nearest(values: pl.Series, quantile: float) -> int:
    """Return a quantile that was measured, not a mean of two."""
    return int(values.quantile(quantile, interpolation="nearest") or 0)
