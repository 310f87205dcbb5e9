from __future__ import annotations

import polars as pl

from nsysroof.analysis.step_timeline import step_timeline
from nsysroof.analysis.steps import StepWindow
from nsysroof.results import StepIdle, StepSlice
from nsysroof.timeline.activity import ACTIVITIES, Activity
from nsysroof.timeline.gaps import GAPS

TEXTS = ["gemm", "foreign<int>"]
STEP = StepWindow(gpu=0, step=4, start_ns=100, end_ns=200)


def activity(start: int, end: int, kind: Activity, **given: object) -> dict[str, object]:
    row: dict[str, object] = dict.fromkeys(ACTIVITIES)
    return row | {
        "start_ns": start,
        "end_ns": end,
        "gpu": 0,
        "stream": 7,
        "activity": int(kind),
        **given,
    }


ROWS = [
    activity(10, 50, Activity.KERNEL, name=0, kernel=0),  # an earlier step
    activity(100, 120, Activity.KERNEL, name=0, kernel=1),
    activity(120, 130, Activity.COPY, copy_kind="h2d", stream=9),
    activity(140, 150, Activity.KERNEL, name=1, kernel=2),
    activity(160, 170, Activity.FILL),
    activity(170, 180, Activity.REPLAY),
    activity(190, 210, Activity.KERNEL, name=0, kernel=3),  # ends in the next step
    activity(110, 190, Activity.KERNEL, name=0, kernel=4, gpu=1),  # another GPU
]
ROLES = pl.Series("role", ["mlp", "mlp", None, "mlp", "mlp"], dtype=pl.String)
IDLE: list[dict[str, object]] = [
    {"gpu": 0, "start_ns": 50, "end_ns": 100, "cause": "host_late"},
    {"gpu": 0, "start_ns": 130, "end_ns": 140, "cause": "in_graph"},
    {"gpu": 0, "start_ns": 150, "end_ns": 160, "cause": None},
    {"gpu": 0, "start_ns": 180, "end_ns": 190, "cause": "sync"},
    {"gpu": 1, "start_ns": 130, "end_ns": 140, "cause": "sync"},
]


def test_a_step_is_told_activity_by_activity() -> None:
    activities = pl.DataFrame(ROWS, schema=ACTIVITIES)
    gaps = pl.DataFrame([{"before": 0, "after": 0, **row} for row in IDLE], schema=GAPS)
    found = step_timeline(activities, gaps, ROLES, TEXTS, STEP)
    assert (found.gpu, found.step, found.start_ns, found.end_ns) == (0, 4, 100, 200)
    assert found.slices == [
        StepSlice(stream=7, start_ns=100, end_ns=120, activity="operator", what="mlp"),
        StepSlice(stream=9, start_ns=120, end_ns=130, activity="copy", what="copy h2d"),
        StepSlice(stream=7, start_ns=140, end_ns=150, activity="unexplained", what="foreign<int>"),
        StepSlice(stream=7, start_ns=160, end_ns=170, activity="fill", what="fill"),
        StepSlice(stream=7, start_ns=170, end_ns=180, activity="replay", what="replay"),
        StepSlice(stream=7, start_ns=190, end_ns=210, activity="operator", what="mlp"),
    ]
    assert found.idle == [
        StepIdle(start_ns=130, end_ns=140, cause="in_graph"),
        StepIdle(start_ns=150, end_ns=160, cause=None),
        StepIdle(start_ns=180, end_ns=190, cause="sync"),
    ]


def test_a_gap_that_crosses_the_end_of_a_step_counts_with_its_part() -> None:
    gaps = pl.DataFrame(
        [
            {"gpu": 0, "start_ns": start, "end_ns": end, "cause": "sync", "before": 0, "after": 0}
            for start, end in ((90, 105), (195, 260))
        ],
        schema=GAPS,
    )
    found = step_timeline(pl.DataFrame(schema=ACTIVITIES), gaps, ROLES, TEXTS, STEP)
    assert [(idle.start_ns, idle.end_ns) for idle in found.idle] == [(100, 105), (195, 200)]
    assert found.slices == []
