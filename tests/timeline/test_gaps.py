"""The causes of idle time against rules applied to every single nanosecond."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nsysroof.results import IDLE_CAUSES
from nsysroof.timeline.account import account
from nsysroof.timeline.gaps import sum_causes
from tests.timeline.scene import Scene


def test_a_late_launch_call_is_the_hosts_fault_from_the_end_of_the_work_before() -> None:
    scene = Scene().kernel(0, 100, correlation=1, launch=-5)
    scene.kernel(400, 500, correlation=2, launch=390)
    assert scene.causes() == [(100, 400, "host_late")]


def test_a_launch_at_the_very_end_of_the_work_before_is_late() -> None:
    scene = Scene().kernel(0, 100, correlation=1, launch=-5)
    scene.kernel(103, 200, correlation=2, launch=100)
    assert scene.causes() == [(100, 103, "host_late")]


def test_a_launch_in_time_that_waited_is_a_dependency() -> None:
    scene = Scene().kernel(0, 100, correlation=1, launch=-5)
    scene.kernel(103, 200, correlation=2, launch=99)
    assert scene.causes() == [(100, 103, "dependency")]


def test_a_synchronising_call_covers_only_its_own_part_of_a_late_launch() -> None:
    scene = Scene().kernel(0, 100, correlation=1, launch=-5)
    scene.kernel(400, 500, correlation=2, launch=390).call(2, 50, 300)
    assert scene.causes() == [(100, 300, "sync"), (300, 400, "host_late")]


def test_another_processs_synchronisation_explains_nothing() -> None:
    scene = Scene().kernel(0, 100, correlation=1, launch=-5)
    scene.kernel(400, 500, correlation=2, launch=390).call(2, 50, 300, pid=2)
    assert scene.causes() == [(100, 400, "host_late")]


def test_kernels_of_one_replay_wait_in_the_graph_and_of_two_between_graphs() -> None:
    scene = Scene()
    scene.kernel(0, 100, correlation=1, launch=-5, graph=True)
    scene.kernel(110, 200, correlation=1, graph=True)
    scene.kernel(260, 300, correlation=2, launch=-4, graph=True)
    assert scene.causes() == [(100, 110, "in_graph"), (200, 260, "between_graphs")]


def test_the_same_correlation_in_two_processes_is_no_replay() -> None:
    scene = Scene()
    scene.kernel(0, 100, correlation=1, launch=-5, graph=True, pid=1)
    scene.kernel(110, 200, correlation=1, launch=-4, graph=True, pid=2)
    assert scene.causes() == [(100, 110, "between_graphs")]


def test_a_replay_launched_late_is_late_and_not_between_graphs() -> None:
    scene = Scene()
    scene.kernel(0, 100, correlation=1, launch=-5, graph=True)
    scene.kernel(260, 300, correlation=2, launch=150, graph=True)
    assert scene.causes() == [(100, 260, "host_late")]


def test_profiler_overhead_comes_first_and_splits_a_gap() -> None:
    scene = Scene()
    scene.kernel(0, 100, correlation=1, launch=-5, graph=True)
    scene.kernel(200, 300, correlation=1, graph=True).overhead(120, 150)
    assert scene.causes() == [
        (100, 120, "in_graph"),
        (120, 150, "profiler"),
        (150, 200, "in_graph"),
    ]


def test_without_a_launch_row_the_cause_is_not_guessed() -> None:
    scene = Scene().kernel(0, 100, correlation=1, launch=-5).kernel(400, 500, correlation=9)
    scene.call(2, 50, 300)
    activities, gaps = scene.found()
    assert gaps["cause"].to_list() == [None]
    assert sum_causes(gaps, IDLE_CAUSES)["unknown"] == 300
    assert account(activities, gaps, idle_known=True)[0].idle_ns == 300


def test_outside_the_runs_of_steps_nothing_is_won_back() -> None:
    scene = Scene().kernel(0, 100, correlation=1, launch=-5)
    scene.kernel(400, 500, correlation=2, launch=390).kernel(600, 700, correlation=3, launch=599)
    scene.runs = [(0, 400, 700)]
    assert scene.causes() == [(100, 400, "outside_steps"), (500, 600, "host_late")]


def test_a_step_of_no_length_is_a_step() -> None:
    scene = Scene().kernel(0, 100, correlation=1, launch=-5)
    scene.kernel(400, 400, correlation=2, launch=390)
    scene.runs = [(0, 400, 400)]
    assert scene.causes() == [(100, 400, "outside_steps")]


def test_a_copy_is_activity_and_not_idle() -> None:
    scene = Scene().kernel(0, 100, correlation=1, launch=-5)
    scene.copy(100, 380).kernel(400, 500, correlation=2, launch=10)
    assert scene.causes() == [(380, 400, "dependency")]
    row = account(*scene.found(), idle_known=True)[0]
    assert (row.window_ns, row.busy_ns, row.copy_only_ns, row.idle_ns) == (500, 480, 280, 20)
    assert row.sum_by_activity == {"kernel": 200, "copy": 280}


def test_of_activities_that_end_together_the_first_stands_before_the_gap() -> None:
    scene = Scene()
    scene.kernel(0, 100, correlation=1, launch=-9, graph=True, stream=7)
    scene.kernel(10, 100, correlation=2, launch=-8, stream=8)
    scene.kernel(150, 200, correlation=1, graph=True, stream=7)
    assert scene.causes() == [(100, 150, "in_graph")]


@pytest.mark.parametrize("pids", [(1, 2), (2, 1)])
def test_of_the_same_work_of_two_processes_the_lower_id_stands(pids: tuple[int, int]) -> None:
    # An export has its rows in no order; the launch of process 1 is in time, that of 2 late.
    scene = Scene().kernel(0, 100, correlation=1, launch=-5)
    for pid in pids:
        scene.kernel(400, 500, correlation=7, launch=50 if pid == 1 else 390, pid=pid)
    assert scene.causes() == [(100, 400, "dependency")]


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    scene = Scene()
    for number in range(draw(st.integers(1, 7))):
        start = draw(st.integers(0, 60))
        graph = draw(st.booleans())
        scene.kernel(
            start,
            start + draw(st.integers(0, 12)),
            correlation=draw(st.integers(1, 3)) if graph else 10 + number,
            launch=draw(st.none() | st.integers(0, 60)),
            graph=graph,
            pid=draw(st.integers(1, 2)),
            stream=draw(st.integers(7, 8)),
        )
    for _ in range(draw(st.integers(0, 2))):
        start = draw(st.integers(0, 60))
        scene.copy(start, start + draw(st.integers(1, 9)), correlation=None)
    for _ in range(draw(st.integers(0, 2))):
        start = draw(st.integers(0, 60))
        length, pid = draw(st.integers(1, 20)), draw(st.integers(1, 2))
        scene.call(2, start, start + length, pid=pid)
    for _ in range(draw(st.integers(0, 1))):
        start = draw(st.integers(0, 60))
        scene.overhead(start, start + draw(st.integers(1, 9)), pid=draw(st.integers(1, 2)))
    if draw(st.booleans()):
        start = draw(st.integers(0, 40))
        scene.runs = [(0, start, start + draw(st.integers(5, 30)))]
    return scene


def cause_at(scene: Scene, rows: list[dict[str, Any]], now: int) -> str | None:
    """Apply the rules to one idle nanosecond, by looking at everything."""
    ended = [row for row in rows if row["end_ns"] <= now]
    latest = max(row["end_ns"] for row in ended)
    before = next(row for row in ended if row["end_ns"] == latest)
    after = next(row for row in rows if row["start_ns"] > now)
    pid = after["pid"]

    def on(calls: list[dict[str, Any]]) -> bool:
        return any(c["pid"] == pid and c["start_ns"] <= now < c["end_ns"] for c in calls)

    if on(scene.overheads):
        return "profiler"
    if scene.runs and not any(start <= now < end for _, start, end in scene.runs):
        return "outside_steps"
    key, key_before = (pid, after["correlation"]), (before["pid"], before["correlation"])
    both = after["replayed"] and before["replayed"]
    if both and key == key_before:
        return "in_graph"
    launches = [
        call["start_ns"]
        for call in scene.calls
        if call["api"] in (0, 1) and (call["pid"], call["correlation"]) == key
    ]
    if not launches or after["correlation"] is None:
        return None
    if min(launches) >= latest:
        return "sync" if on([call for call in scene.calls if call["api"] == 2]) else "host_late"
    return "between_graphs" if both else "dependency"


@given(scenes())
@settings(max_examples=400)
def test_every_idle_nanosecond_has_the_cause_that_the_rules_give(scene: Scene) -> None:
    activities, gaps = scene.found()
    rows = activities.to_dicts()
    busy = {t for row in rows for t in range(row["start_ns"], row["end_ns"])}
    window = range(rows[0]["start_ns"], max(row["end_ns"] for row in rows))
    idle = [t for t in window if t not in busy]
    expected = {t: cause_at(scene, rows, t) for t in idle}
    found = {
        t: cause
        for start, end, cause in gaps.select("start_ns", "end_ns", "cause").iter_rows()
        for t in range(start, end)
    }
    assert found == expected
    line = account(activities, gaps, idle_known=True)[0]
    assert line.window_ns == line.sum_ns - line.overlap_ns + len(idle)
    assert line.idle_by_cause is not None
    assert sum(line.idle_by_cause.values()) == line.idle_ns == len(idle)


def test_a_gap_keeps_one_row_where_its_cause_does_not_change() -> None:
    scene = Scene().kernel(0, 100, correlation=1, launch=-5)
    scene.kernel(400, 500, correlation=2, launch=390)
    scene.call(2, 150, 200).call(2, 200, 250)
    assert scene.causes() == [
        (100, 150, "host_late"),
        (150, 250, "sync"),
        (250, 400, "host_late"),
    ]


@pytest.mark.parametrize("gpus", [1, 2])
def test_each_gpu_waits_for_itself(gpus: int) -> None:
    scene = Scene()
    for gpu in range(gpus):
        scene.kernel(gpu, 100 + gpu, correlation=10 * gpu + 1, launch=-5, gpu=gpu)
        scene.kernel(150, 200, correlation=10 * gpu + 2, launch=50, gpu=gpu)
    assert scene.causes() == [(100 + gpu, 150, "dependency") for gpu in range(gpus)]
