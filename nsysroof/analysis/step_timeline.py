"""What ran in one step, activity by activity, for whoever draws it."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from nsysroof.analysis.steps import StepWindow
from nsysroof.results import StepIdle, StepSlice, StepTimeline
from nsysroof.timeline.activity import Activity

_KINDS = {Activity.COPY: "copy", Activity.FILL: "fill", Activity.REPLAY: "replay"}


def step_timeline(
    activities: pl.DataFrame,
    gaps: pl.DataFrame,
    roles: pl.Series,
    texts: Sequence[str],
    window: StepWindow,
) -> StepTimeline:
    """Return the activities that touch a step, in order of their start, and the idle time in it.

    Args:
        activities: Schema ``ACTIVITIES``.
        gaps: Schema ``GAPS``.
        roles: Role of each kernel (null: unexplained), by the number in ``activities["kernel"]``.
        texts: Text of each kernel name.
        window: The step.
    """
    touches = (
        (pl.col("gpu") == window.gpu)
        & (pl.col("start_ns") < window.end_ns)
        & (pl.col("end_ns") > window.start_ns)
    )
    inside = activities.filter(touches)
    role = roles.gather(inside["kernel"]).to_list()
    rows = inside.select("stream", "start_ns", "end_ns", "activity", "name", "copy_kind")
    slices = [
        StepSlice(
            stream=stream,
            start_ns=start,
            end_ns=end,
            activity=_activity(activity, of),
            what=of or (texts[name] if name is not None else _what(activity, kind)),
        )
        for (stream, start, end, activity, name, kind), of in zip(
            rows.iter_rows(), role, strict=True
        )
    ]
    return StepTimeline(
        gpu=window.gpu,
        step=window.step,
        start_ns=window.start_ns,
        end_ns=window.end_ns,
        slices=slices,
        idle=[
            StepIdle(
                start_ns=max(start, window.start_ns), end_ns=min(end, window.end_ns), cause=cause
            )
            for start, end, cause in gaps.filter(touches)
            .select("start_ns", "end_ns", "cause")
            .iter_rows()
        ],
    )


def _activity(activity: int, role: str | None) -> str:
    if activity != Activity.KERNEL:
        return _KINDS[Activity(activity)]
    return "unexplained" if role is None else "operator"


def _what(activity: int, copy_kind: str | None) -> str:
    return f"copy {copy_kind}" if copy_kind else _KINDS[Activity(activity)]
