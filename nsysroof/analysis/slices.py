"""The timeline of a capture with what the analysis found, for viewers of others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl

from nsysroof import __version__
from nsysroof.analysis.options import Options
from nsysroof.analysis.pipeline import analyze_kernels
from nsysroof.analysis.selection import select
from nsysroof.results import OperatorRow, Report
from nsysroof.slices import Idle, Rate, Slice, Slices, StepSpan, Track
from nsysroof.timeline.activity import Activity, collect_activities
from nsysroof.trace import Trace

_BANDWIDTH = "bw"
_KINDS = {Activity.COPY: "copy", Activity.FILL: "fill", Activity.REPLAY: "replay"}
_LENGTH = pl.col("end_ns") - pl.col("start_ns")
_INSTANCE = ("gpu", "step", "covers")


def trace_slices(trace: Trace, options: Options) -> Slices:
    """Return what ran when on every GPU, as far as the options select it.

    Raises:
        UsageError: As ``analyze``.
        InputError: As ``analyze``.
    """
    report, labelled = analyze_kernels(trace, options)
    kernels = _with_instances(labelled)
    picked = select(trace, options)
    activities = collect_activities(
        trace, picked.kernels, gpus=picked.gpus, window_ns=picked.window_ns
    )
    rows = activities.join(
        kernels.with_row_index("kernel").select(
            "kernel", "step", "role", "group", "main", "instance_ns"
        ),
        on="kernel",
        how="left",
        maintain_order="left",
    )
    rows, tracks = _on_tracks(rows)
    operators = _operators_by_group(kernels, report.operators)
    peak = next((p.value for p in report.assumptions.peaks if p.key == _BANDWIDTH), None)
    return Slices(
        tool_version=__version__,
        title=_title(report),
        peak_bytes_per_s=peak,
        tracks=tracks,
        slices=list(_slices(rows, operators, trace.names["text"].to_list())),
        idle=[
            Idle(gpu=gap.gpu, start_ns=gap.start_ns, end_ns=gap.end_ns, cause=gap.cause)
            for gap in report.gaps
        ],
        steps=_steps(kernels),
        rates=_rates(kernels, operators, peak),
    )


def _title(report: Report) -> str:
    return f"{report.assumptions.model or 'no model'} on {report.assumptions.gpu or 'unknown GPU'}"


def _with_instances(kernels: pl.DataFrame) -> pl.DataFrame:
    """Add the time of the operator instance that each kernel belongs to, helpers included."""
    whole = _LENGTH.sum().over(*_INSTANCE)
    known = pl.col("covers").is_not_null() & pl.col("step").is_not_null()
    return kernels.with_columns(instance_ns=pl.when(known).then(whole).otherwise(None))


def _operators_by_group(
    kernels: pl.DataFrame, rows: Sequence[OperatorRow]
) -> dict[int, OperatorRow]:
    """Return the row of each group that was measured; rows come in the order of the groups."""
    known = kernels.filter(pl.col("group").is_not_null() & pl.col("step").is_not_null())
    return dict(zip(sorted(known["group"].unique().to_list()), rows, strict=True))


@dataclass(slots=True)
class _Lanes:
    """The lanes of one stream, by when each becomes free."""

    tracks: list[int]
    free_at: list[int]


def _on_tracks(rows: pl.DataFrame) -> tuple[pl.DataFrame, list[Track]]:
    """Add the track of each row: a lane of its stream in which nothing runs any more."""
    streams: dict[tuple[int, int, int | None], _Lanes] = {}
    tracks: list[Track] = []
    chosen = []
    columns = rows.select("gpu", "pid", "stream", "start_ns", "end_ns")
    for gpu, pid, stream, start, end in columns.iter_rows():
        lanes = streams.setdefault((gpu, pid, stream), _Lanes([], []))
        lane = next((at for at, free in enumerate(lanes.free_at) if free <= start), None)
        if lane is None:
            lane = len(lanes.tracks)
            lanes.tracks.append(len(tracks))
            lanes.free_at.append(end)
            tracks.append(Track(gpu=gpu, pid=pid, stream=stream, lane=lane))
        lanes.free_at[lane] = end
        chosen.append(lanes.tracks[lane])
    return rows.with_columns(pl.Series("track", chosen, dtype=pl.UInt32)), tracks


def _slices(
    rows: pl.DataFrame, operators: dict[int, OperatorRow], texts: Sequence[str]
) -> Iterator[Slice]:
    columns = (
        "track", "start_ns", "end_ns", "activity", "name", "copy_kind",
        "step", "role", "group", "main", "instance_ns",
    )  # fmt: skip
    for (
        track, start, end, activity, name, kind, step, role, group, main, instance_ns,
    ) in rows.select(columns).iter_rows():  # fmt: skip
        kernel = None if name is None else texts[name]
        row = operators.get(group) if main and instance_ns is not None else None
        bound = row.bound_ns if row else None
        yield Slice(
            track=track,
            start_ns=start,
            end_ns=end,
            activity=_activity(activity, role),
            name=role or kernel or _what(activity, kind),
            kernel=kernel,
            step=step,
            instance_ns=instance_ns if row else None,
            bound_ns=bound,
            ratio=instance_ns / bound if bound else None,
        )


def _activity(activity: int, role: str | None) -> str:
    if activity != Activity.KERNEL:
        return _KINDS[Activity(activity)]
    return "unexplained" if role is None else "operator"


def _what(activity: int, copy_kind: str | None) -> str:
    return f"copy {copy_kind}" if copy_kind else _KINDS[Activity(activity)]


def _steps(kernels: pl.DataFrame) -> list[StepSpan]:
    spans = (
        kernels.filter(pl.col("step").is_not_null())
        .group_by("gpu", "step")
        .agg(pl.col("start_ns").min(), pl.col("end_ns").max())
        .sort("gpu", "step")
    )
    return [
        StepSpan(gpu=gpu, step=step, start_ns=start, end_ns=end)
        for gpu, step, start, end in spans.iter_rows()
    ]


def _rates(
    kernels: pl.DataFrame, operators: dict[int, OperatorRow], peak: float | None
) -> list[Rate]:
    """Return the memory traffic over time: the bytes of each instance, even over its kernels."""
    sizes = {group: float(row.bytes.memory) for group, row in operators.items()}
    known = kernels.filter(pl.col("instance_ns").is_not_null() & (pl.col("instance_ns") > 0))
    known = known.with_columns(
        rate=pl.col("group").replace_strict(sizes, return_dtype=pl.Float64)
        / pl.col("instance_ns")
        * 1e9
    ).filter(pl.col("rate") > 0)
    begins = known.select("gpu", "rate", at_ns="start_ns")
    ends = known.select("gpu", -pl.col("rate"), at_ns="end_ns")
    changes = (
        pl.concat([begins.with_columns(one=pl.lit(1)), ends.with_columns(one=pl.lit(-1))])
        .group_by("gpu", "at_ns")
        .agg(pl.col("rate").sum(), pl.col("one").sum())
        .sort("gpu", "at_ns")
        .with_columns(
            total=pl.col("rate").cum_sum().over("gpu"),
            count=pl.col("one").cum_sum().over("gpu"),
        )
    )
    return [
        _rate(gpu, at, total if count else 0.0, peak)
        for gpu, at, total, count in changes.select("gpu", "at_ns", "total", "count").iter_rows()
    ]


def _rate(gpu: int, at_ns: int, bytes_per_s: float, peak: float | None) -> Rate:
    share = bytes_per_s / peak if peak else None
    return Rate(gpu=gpu, at_ns=at_ns, bytes_per_s=bytes_per_s, share=share)
