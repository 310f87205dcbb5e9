"""Late hosts by what the launching threads did: in all, and in single gaps."""

from __future__ import annotations

import polars as pl

from nsysroof.results import HostLateRow
from nsysroof.timeline.host_waits import OS_CALL


def host_late_rows(waits: pl.DataFrame) -> list[HostLateRow]:
    """Return the time of late hosts by GPU and what the launching thread did, the longest first.

    Args:
        waits: Schema ``HOST_WAITS``.
    """
    sums = (
        waits.group_by("gpu", "doing", "text")
        .agg(pl.col("ns").sum(), pl.len().alias("gaps"))
        .with_columns(whole=pl.col("ns").sum().over("gpu"))
        .sort(
            ["gpu", "ns", "doing", "text"],
            descending=[False, True, False, False],
            nulls_last=True,
        )
        .select("gpu", "doing", "text", "ns", "gaps", "whole")
    )
    return [
        HostLateRow(gpu=gpu, doing=doing, call=text, ns=ns, gaps=gaps, share=ns / whole)
        for gpu, doing, text, ns, gaps, whole in sums.iter_rows()
    ]


def host_by_gap(waits: pl.DataFrame, gaps: pl.DataFrame) -> dict[tuple[int, int], dict[str, int]]:
    """Return ns by what the launching thread did for each (GPU, start) of the gaps that have it.

    Args:
        waits: Schema ``HOST_WAITS``.
        gaps: The ``gpu`` and ``start_ns`` of the gaps that are wanted.
    """
    label = (
        pl.when(pl.col("doing") == OS_CALL)
        .then("text")
        .otherwise(pl.format("({})", pl.col("doing").cast(pl.String).str.replace("_", " ")))
    )
    told = waits.join(gaps.select("gpu", "start_ns"), on=["gpu", "start_ns"], how="semi")
    told = told.with_columns(label=label).sort(
        ["gpu", "start_ns", "ns", "label"], descending=[False, False, True, False]
    )
    found: dict[tuple[int, int], dict[str, int]] = {}
    for gpu, start, what, ns in told.select("gpu", "start_ns", "label", "ns").iter_rows():
        found.setdefault((gpu, start), {})[what] = ns
    return found
