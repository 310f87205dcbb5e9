"""Steps run from their first kernel to the first kernel of the next."""

from __future__ import annotations

import polars as pl

from nsysroof.timeline.steps import assign_steps, find_runs, find_steps
from tests.timeline.scene import Scene


def steps_of(scene: Scene, step_range: str | None = None) -> list[tuple[int, int, str, bool]]:
    found = find_steps(scene.trace, scene.activities(), step_range=step_range, layers=None)
    return list(found.select("start_ns", "end_ns", "source", "replayed").iter_rows())


def replays(scene: Scene, count: int, *, every: int = 1_000) -> Scene:
    for number in range(count):
        start = number * every
        for node in range(3):
            at = start + 100 + 100 * node
            launch = start + 50 if node == 0 else None
            scene.kernel(at, at + 80, correlation=10 + number, launch=launch, graph=True)
    return scene


def test_one_replay_is_a_step_and_the_last_ends_with_its_last_kernel() -> None:
    assert steps_of(replays(Scene(), 3)) == [
        (100, 1100, "graph", True),
        (1100, 2100, "graph", True),
        (2100, 2380, "graph", True),
    ]


def test_a_single_replay_is_one_step() -> None:
    assert steps_of(replays(Scene(), 1)) == [(100, 380, "graph", True)]


def test_sampling_belongs_to_the_step_before_the_readback_and_metadata_to_the_next() -> None:
    scene = replays(Scene(), 3)
    for number in range(3):
        start = 1000 * number
        scene.kernel(start + 40, start + 45, correlation=100 + number, launch=start + 30)
        scene.kernel(start + 400, start + 410, correlation=200 + number, launch=start + 20)
        scene.copy(start + 420, start + 425)
        scene.copies[-1]["kind"] = "d2h"
    # The metadata kernel at 40 is the first of each step; sampling at 400 is before the copy.
    assert [row[:2] for row in steps_of(scene)] == [(40, 1040), (1040, 2040), (2040, 2425)]


def test_a_hole_ends_a_run_of_steps() -> None:
    scene = Scene()
    hole = 400_000_000
    for number in range(6):
        at = number * 1_000_000 + (hole if number >= 3 else 0)
        scene.kernel(at, at + 900_000, correlation=10 + number, launch=at - 10, graph=True)
    found = steps_of(scene)
    assert [row[1] - row[0] for row in found] == [1_000_000, 1_000_000, 900_000] * 2
    steps = find_steps(scene.trace, scene.activities(), step_range=None, layers=None)
    assert list(find_runs(steps).iter_rows()) == [
        (0, 0, 2_900_000),
        (0, 403_000_000, 405_900_000),
    ]


def test_work_between_a_hole_and_the_next_step_belongs_to_no_step() -> None:
    # Steps of 1 ms, a server that waits 400 ms, the copy for the next step, three more steps, and
    # a copy long after the last.
    scene = Scene()
    for number in range(6):
        at = number * 1_000_000 + (400_000_000 if number >= 3 else 0)
        scene.kernel(at, at + 900_000, correlation=10 + number, launch=at - 10, graph=True)
    scene.copy(402_990_000, 402_995_000).copy(905_000_000, 905_001_000)
    assert [row[:2] for row in steps_of(scene)] == [
        (0, 1_000_000),
        (1_000_000, 2_000_000),
        (2_000_000, 2_900_000),
        (403_000_000, 404_000_000),
        (404_000_000, 405_000_000),
        (405_000_000, 405_900_000),
    ]


def test_a_hole_is_longer_than_ten_median_steps_and_100_ms() -> None:
    def ends(every: int, idle: int) -> list[int]:
        scene = Scene()
        for number in range(5):
            at = number * every + (idle - (every - 5) if number == 4 else 0)
            scene.kernel(at, at + 5, correlation=10 + number, launch=at - 10, graph=True)
        return [row[1] for row in steps_of(scene)][3:]

    # The idle time lies before the fifth step; the other three are `every` from start to start.
    assert ends(1_000, 100_000_000) == [100_003_005, 100_003_010]
    assert ends(1_000, 100_000_001) == [3_005, 100_003_011]
    assert ends(20_000_000, 200_000_000) == [260_000_005, 260_000_010]
    assert ends(20_000_000, 200_000_001) == [60_000_005, 260_000_011]


def test_nvtx_ranges_take_the_kernels_launched_inside_them_on_their_thread() -> None:
    scene = Scene()
    for number in range(3):
        start = 1000 * number
        scene.kernel(start + 100, start + 200, correlation=10 + number, launch=start + 20)
        scene.kernel(start + 300, start + 400, correlation=20 + number, launch=start + 25)
    place = {"pid": 1, "tid": 1, "end_tid": None, "domain": "", "kind": "push_pop"}
    scene.ranges = [
        {"start_ns": 1000 * n + 10, "end_ns": 1000 * n + 90, "text": f"decode {n}"} | place
        for n in range(3)
    ] + [
        {"start_ns": 1012, "end_ns": 1080, "text": "decode inner"} | place,
        {"start_ns": 0, "end_ns": 5000, "text": "cub::sort"} | place,
        {"start_ns": 1000, "end_ns": 1090, "text": "decode elsewhere"} | place | {"tid": 9},
    ]
    assert [row[:3] for row in steps_of(scene, r"^decode")] == [
        (100, 1100, "nvtx"),
        (1100, 2100, "nvtx"),
        (2100, 2400, "nvtx"),
    ]
    assert steps_of(scene, r"^prefill") == []


def test_without_marker_replay_or_pattern_there_are_no_steps() -> None:
    scene = Scene()
    for number in range(5):
        scene.kernel(100 * number, 100 * number + 50, correlation=number, launch=100 * number - 9)
    assert steps_of(scene) == []


def test_rows_are_assigned_to_the_step_they_start_in() -> None:
    scene = replays(Scene(), 2)
    steps = find_steps(scene.trace, scene.activities(), step_range=None, layers=None)
    rows = pl.DataFrame(
        {"gpu": [0, 0, 0, 0, 1], "start_ns": [99, 100, 1099, 1100, 100]},
        schema={"gpu": pl.UInt16, "start_ns": pl.Int64},
    )
    assert assign_steps(rows, steps).to_list() == [None, 0, 0, 1, None]
    assert assign_steps(rows.clear(), steps).to_list() == []
