"""Tables that need no theory: kernels, gaps, streams and the host's calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import polars as pl

from nsysroof.analysis.host_late import host_by_gap
from nsysroof.match.rules import KernelClass
from nsysroof.results import (
    Coverage,
    Gap,
    Host,
    KernelRow,
    StreamRow,
    Timeline,
)
from nsysroof.timeline.activity import Activity, launches_of
from nsysroof.trace import Trace
from nsysroof.trace.schema import unpack_block, unpack_grid

_LENGTH = pl.col("end_ns") - pl.col("start_ns")
_LAUNCHES = ("kernel_launch", "graph_launch")
_SYNCS = ("synchronize", "blocking_copy")
_LARGEST_GAPS = 20
_ACTIVITY_NAMES = {Activity.COPY: "copy", Activity.FILL: "fill", Activity.REPLAY: "graph replay"}


def kernel_rows(
    kernels: pl.DataFrame,
    texts: Sequence[str],
    classes: Sequence[KernelClass],
    bounds_ns: Mapping[str, float | None],
) -> list[KernelRow]:
    """Return one row per (name, grid, block, role), the longest in total first.

    Args:
        kernels: ``name``, ``grid``, ``block``, times, ``role`` (null: unexplained) and ``main``.
        texts: Text of each name.
        classes: Class of each name.
        bounds_ns: Bound by role, None where not known; a kernel that only serves its operator
            has no ratio of its own.
    """
    keys = ["name", "grid", "block", "role"]
    # Kernels of one key and duration are one row: few, however many kernels there are.
    counts = (
        kernels.lazy()
        .group_by(*keys, _LENGTH.alias("ns"))
        .agg(pl.len().alias("instances"), pl.col("main").all())
        .collect(engine="streaming")
        .sort([*keys, "ns"], nulls_last=True)
        .with_columns(pl.col("instances").cum_sum().over(keys).alias("up_to"))
    )
    middle = pl.col("instances").sum() // 2
    rows = (
        counts.group_by(keys)
        .agg(
            pl.col("main").all(),
            pl.col("instances").sum(),
            (pl.col("ns") * pl.col("instances")).sum().alias("total"),
            pl.col("ns").filter(pl.col("up_to") > middle).first().alias("p50"),
            pl.col("ns").min().alias("min"),
            pl.col("ns").max().alias("max"),
        )
        .sort(
            ["total", *keys],
            descending=[True, False, False, False, False],
            nulls_last=True,
        )
        .select("name", "grid", "block", "role", "main", "instances", "total", "p50", "min", "max")
    )
    found = []
    for name, grid, block, role, main, instances, total, p50, low, high in rows.iter_rows():
        bound = bounds_ns.get(role) if role is not None and main else None
        found.append(
            KernelRow(
                name=texts[name],
                klass=classes[name].klass,
                grid=unpack_grid(grid),
                block=unpack_block(block),
                instances=instances,
                total_ns=total,
                p50_ns=p50,
                min_ns=low,
                max_ns=high,
                role=role,
                ratio=p50 / bound if bound else None,
            )
        )
    return found


def coverage(kernels: pl.DataFrame) -> Coverage:
    """Return the shares with an operator; null where there is no kernel time to share."""
    time, count = _shares(kernels.lazy())
    step_time, step_count = _shares(kernels.lazy().filter(pl.col("step").is_not_null()))
    return Coverage(
        time_explained=time,
        count_explained=count,
        in_steps_time_explained=step_time,
        in_steps_count_explained=step_count,
    )


def gap_rows(
    gaps: pl.DataFrame,
    activities: pl.DataFrame,
    texts: Sequence[str],
    steps: pl.DataFrame,
    waits: pl.DataFrame | None,
    *,
    complete: bool,
) -> list[Gap]:
    """Return idle stretches with what ran before and after.

    Args:
        gaps: Schema ``GAPS``.
        activities: Schema ``ACTIVITIES``, to which ``gaps`` refers by row.
        texts: Text of each kernel name.
        steps: Schema ``STEPS``: a gap that ends where a step begins lies between steps.
        waits: Schema ``HOST_WAITS``, None where OS runtime calls were not recorded.
        complete: All of them in order of time; otherwise the largest, the longest first.
    """
    length = pl.col("end_ns") - pl.col("start_ns")
    wanted = gaps
    if not complete:
        order = ["ns", "gpu", "start_ns"]
        lengths = gaps.select(length.alias("ns"))["ns"]
        least = lengths.top_k(_LARGEST_GAPS).min()
        long = gaps.filter(lengths >= least) if gaps.height else gaps
        wanted = long.with_columns(length.alias("ns"))
        wanted = wanted.sort(order, descending=[True, False, False]).head(_LARGEST_GAPS)
    firsts = steps.select("gpu", start_of="start_ns", first=pl.lit(value=True))
    following = activities[wanted["after"]].select("replayed", next_ns="start_ns")
    wanted = wanted.hstack(following).join(
        firsts,
        left_on=["gpu", "next_ns"],
        right_on=["gpu", "start_of"],
        how="left",
        maintain_order="left",
    )
    positions = _positions(wanted, steps)
    before = _describe(activities[wanted["before"]], texts)
    after = _describe(activities[wanted["after"]], texts)
    columns = wanted.select("gpu", "start_ns", "end_ns", "cause").iter_rows()
    host = {} if waits is None else host_by_gap(waits, wanted)
    return [
        Gap(
            gpu=gpu,
            start_ns=start,
            end_ns=end,
            cause=cause,
            before=earlier,
            after=later,
            position=position,
            host_ns=host.get((gpu, start)),
        )
        for (gpu, start, end, cause), earlier, later, position in zip(
            columns, before, after, positions, strict=True
        )
    ]


def _positions(gaps: pl.DataFrame, steps: pl.DataFrame) -> list[str]:
    if not steps.height:
        return ["no steps"] * gaps.height
    told = (
        pl.when(pl.col("cause") == "outside_steps")
        .then(pl.lit("outside steps"))
        .when(pl.col("first").fill_null(value=False))
        .then(pl.lit("between steps"))
        .when(pl.col("replayed") & (pl.col("cause") != "in_graph").fill_null(value=True))
        .then(pl.lit("before replay"))
        .otherwise(pl.lit("in step"))
    )
    return gaps.select(told.alias("position"))["position"].to_list()


def _describe(rows: pl.DataFrame, texts: Sequence[str]) -> list[str]:
    return [
        texts[name]
        if name is not None
        else f"{_ACTIVITY_NAMES[Activity(activity)]}{f' {kind}' if kind else ''}"
        for activity, name, kind in rows.select("activity", "name", "copy_kind").iter_rows()
    ]


def stream_rows(kernels: pl.DataFrame, timeline: Sequence[Timeline]) -> list[StreamRow]:
    """Return the load of every stream; a stream is known by GPU, process, context and number.

    Args:
        kernels: Kernels with ``advance_ns``, which adds up to the busy time of a stream.
        timeline: The accounts of the GPUs, whose windows the shares refer to.
    """
    lines = {line.gpu: line for line in timeline}
    keys = ["gpu", "pid", "context", "stream"]
    rows = (
        kernels.lazy()
        .group_by(keys)
        .agg(pl.len(), _LENGTH.sum().alias("sum"), pl.col("advance_ns").sum())
        .collect(engine="streaming")
        .sort(keys)
    )
    return [
        StreamRow(
            gpu=gpu,
            pid=pid,
            context=context,
            stream=stream,
            kernels=count,
            sum_ns=total,
            busy_ns=busy,
            share=lines[gpu].share(busy),
        )
        for gpu, pid, context, stream, count, total, busy in rows.iter_rows()
    ]


def host_calls(trace: Trace) -> Host:
    """Return the time in launch and in synchronising calls, summed over threads."""
    launches, syncs = launches_of(trace, kinds=_LAUNCHES), launches_of(trace, kinds=_SYNCS)
    return Host(
        launch_calls=launches.height,
        launch_ns=int(launches.select(_LENGTH.sum()).item()),
        sync_ns=int(syncs.select(_LENGTH.sum()).item()),
    )


def _shares(kernels: pl.LazyFrame) -> tuple[float | None, float | None]:
    explained = pl.col("role").is_not_null()
    own, whole, count, rows = (
        kernels.select(
            (_LENGTH * explained).sum().alias("own"),
            _LENGTH.sum().alias("whole"),
            explained.sum().alias("count"),
            pl.len().alias("rows"),
        )
        .collect(engine="streaming")
        .row(0)
    )
    return own / whole if whole else None, count / rows if rows else None
