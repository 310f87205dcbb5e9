from __future__ import annotations

from fixtures.launches import Launch, fused_moe, nvjet
from fixtures.simulate import Activity, Call, Rank
from fixtures.truth import Gap, account, find_gaps

KERNEL = Launch(name="k")


def rank(*activities: Activity, calls: list[Call], overheads: list[tuple[int, int]]) -> Rank:
    return Rank(gpu=0, pid=1, host=0, activities=list(activities), calls=calls, overheads=overheads)


def kernel(start: int, end: int, correlation: int, node: int | None = None) -> Activity:
    return Activity(
        start=start, end=end, stream=7, correlation=correlation, launch=KERNEL, node=node
    )


def call(correlation: int, start: int, end: int, api: str = "cudaLaunchKernel") -> Call:
    return Call(api=api, start=start, end=end, correlation=correlation, tid=1)


def causes(gaps: list[Gap]) -> list[tuple[int, int, str]]:
    return [(gap.start, gap.end, gap.cause) for gap in gaps]


def test_a_launch_after_the_end_is_late_and_one_before_it_waited() -> None:
    one = rank(
        kernel(100, 200, 1),
        kernel(300, 400, 2),
        kernel(450, 500, 3),
        calls=[call(1, 0, 10), call(2, 200, 210), call(3, 399, 410)],
        overheads=[],
    )
    assert causes(find_gaps(one, 100)) == [(200, 300, "host_late"), (400, 450, "dependency")]


def test_a_synchronisation_takes_its_part_of_a_late_launch() -> None:
    one = rank(
        kernel(100, 200, 1),
        kernel(300, 400, 2),
        calls=[call(1, 0, 10), call(2, 260, 270), call(9, 150, 250, "cudaStreamSynchronize")],
        overheads=[],
    )
    assert causes(find_gaps(one, 100)) == [(200, 250, "sync"), (250, 300, "host_late")]


def test_replays_and_their_kernels() -> None:
    one = rank(
        kernel(100, 200, 1, node=0),
        kernel(210, 300, 1, node=1),
        kernel(320, 400, 2, node=0),
        calls=[call(1, 0, 50, "cudaGraphLaunch"), call(2, 60, 90, "cudaGraphLaunch")],
        overheads=[],
    )
    assert causes(find_gaps(one, 100)) == [(200, 210, "in_graph"), (300, 320, "between_graphs")]


def test_the_profiler_comes_before_the_steps_and_the_steps_before_the_rest() -> None:
    one = rank(
        kernel(100, 200, 1),
        kernel(300, 400, 2),
        kernel(500, 600, 3),
        calls=[call(1, 0, 10), call(2, 250, 260), call(3, 450, 460)],
        overheads=[(220, 240), (390, 520)],
    )
    assert causes(find_gaps(one, 300)) == [
        (200, 220, "outside_steps"),
        (220, 240, "profiler"),
        (240, 300, "outside_steps"),
        (400, 500, "profiler"),
    ]


def test_the_activity_that_ended_last_precedes_a_gap() -> None:
    # The long kernel runs past the short one behind it, so launch 3 at 350 came in time.
    one = rank(
        kernel(100, 400, 1),
        kernel(150, 200, 2),
        kernel(450, 500, 3),
        calls=[call(1, 0, 10), call(2, 0, 10), call(3, 350, 360)],
        overheads=[],
    )
    assert causes(find_gaps(one, 100)) == [(400, 450, "dependency")]
    found = account(one, find_gaps(one, 100))
    # 300 + 50 + 50 = 400 of activity in a window of 400, 50 of it twice and 50 idle.
    assert (found["window_ns"], found["sum_ns"], found["overlap_ns"], found["idle_ns"]) == (
        400,
        400,
        50,
        50,
    )


def test_grids_that_real_captures_showed() -> None:
    # One prefill of gpt-oss at 888 tokens: 640 features in 64 x 64 tiles are 10 x 14 blocks.
    assert nvjet("64x64", n=640, m=888, stages="64x16", cluster=2).grid == (132, 1, 1)
    # Llama decode at batch 16: 6144 features in tiles of 64 are 96 blocks.
    assert nvjet("64x16", n=6_144, m=16, stages="64x16", cluster=4).grid == (96, 1, 1)
    # 128 experts in tiles of 64 are two blocks; 8 rows of 2048 columns are 8 x 32.
    assert nvjet("64x8", n=128, m=1, stages="64x16", cluster=2).grid == (2, 1, 1)
    assert fused_moe(n=2_048, rows=8).grid == (256, 1, 1)
