"""What an engine's NVTX text tells of a step, and which texts tell nothing."""

from __future__ import annotations

import pytest

from nsysroof.timeline.annotations import parse_annotation, step_marks
from nsysroof.timeline.steps import find_steps
from tests.timeline.scene import Scene

DECODE = "execute_16_context_0(sq0sk0sqsq0sqsk0)_generation_16(sq16sk8193sqsq16sqsk8193)"

CHUNK = "sq1024sk2048sqsq1048576sqsk2097152"


def test_sums_over_the_requests_of_a_decode_step_are_shared_out_evenly() -> None:
    told = parse_annotation(DECODE)
    assert told is not None
    assert (told.phase, told.requests, told.queries) == ("decode", 16, (1,) * 16)
    # 8193 = 513 + 15 x 512.
    assert told.contexts == (513, *(512,) * 15)
    assert told.mean_context == 8193 / 16


@pytest.mark.parametrize(
    ("text", "phase", "contexts", "queries"),
    [
        # One prompt of 888 tokens without a cached prefix; 788544 = 888 squared is no KV length.
        ("execute_context_1(888_788544)_generation_0(0)", "prefill", None, (888,)),
        ("execute_context_0(0)_generation_3(3)", "decode", None, (1, 1, 1)),
        ("execute_context_1(1024)_generation_2(2)", "mixed", None, (1024, 1, 1)),
        # A chunk of 1024 behind 1024 cached tokens beside a decode of 700: prefill comes first.
        (
            f"execute_1025_context_1({CHUNK})_generation_1(sq1sk700sqsq1sqsk700)",
            "mixed",
            (2048, 700),
            (1024, 1),
        ),
        # Three drafts and the token before them, of each of two sequences.
        (
            "execute_8_context_0(sq0sk0sqsq0sqsk0)_generation_2(sq8sk600sqsq32sqsk2400)",
            "decode",
            (300, 300),
            (4, 4),
        ),
        # A length that cannot hold the new tokens counts something else.
        (
            "execute_9_context_1(sq9sk4sqsq81sqsk36)_generation_0(sq0sk0sqsq0sqsk0)",
            "prefill",
            None,
            (9,),
        ),
        ("step[DECODE bs=4]", "decode", None, None),
        ("step[EXTEND bs=2 toks=107]", "prefill", None, (54, 53)),
        ("step[MIXED bs=2]", "mixed", None, None),
    ],
)
def test_each_form_gives_its_phase_and_no_more_than_it_tells(
    text: str, phase: str, contexts: tuple[int, ...] | None, queries: tuple[int, ...] | None
) -> None:
    told = parse_annotation(text)
    assert told is not None
    assert (told.phase, told.contexts, told.queries) == (phase, contexts, queries)
    assert text in told.told_by


@pytest.mark.parametrize(
    "text",
    [
        "cub::DeviceRadixSort::SortPairs",
        "ncclAllReduce",
        "nccl:_all_gather_base",
        "thrust::transform",
        "decode_step_3",
        "step_7",
        "execute_model",
        "execute_new_1_cached_3",
        "gpu_model_runner: forward",
        "execute_context_0(0)_generation_0(0)",  # a rank without work
        "execute_context_0(0)_generation_4(3)",  # fewer tokens than requests
        "my execute_context_0(0)_generation_4(4)",
        "step[IDLE bs=0]",
        "step[DECODE bs=0]",
    ],
)
def test_other_texts_are_no_steps(text: str) -> None:
    assert parse_annotation(text) is None


def test_of_two_annotations_of_one_step_the_one_that_tells_more_counts() -> None:
    assert step_marks(["step[DECODE bs=16]", DECODE, "cub::x"]) == [DECODE]
    assert step_marks(["step[DECODE bs=16]", "cub::x"]) == ["step[DECODE bs=16]"]


def test_annotated_ranges_are_steps_without_a_word_of_the_user() -> None:
    scene = Scene()
    place = {"pid": 1, "tid": 1, "end_tid": None, "domain": "", "kind": "push_pop"}
    for number in range(3):
        start = 1000 * number
        scene.kernel(start + 100, start + 200, correlation=10 + number, launch=start + 20)
        text = f"execute_context_0(0)_generation_{number + 1}({number + 1})"
        scene.ranges += [
            {"start_ns": start + 10, "end_ns": start + 90, "text": text} | place,
            {"start_ns": start + 15, "end_ns": start + 80, "text": "cub::DeviceScan"} | place,
        ]
    found = find_steps(scene.trace, scene.activities(), step_range=None, layers=None)
    assert found.select("start_ns", "end_ns", "source", "mark").rows() == [
        (100, 1100, "nvtx", "execute_context_0(0)_generation_1(1)"),
        (1100, 2100, "nvtx", "execute_context_0(0)_generation_2(2)"),
        (2100, 2200, "nvtx", "execute_context_0(0)_generation_3(3)"),
    ]


def test_an_annotation_without_a_launch_inside_leaves_it_to_the_replays() -> None:
    scene = Scene()
    for number in range(3):
        at = 1000 * number
        scene.kernel(at + 100, at + 800, correlation=10 + number, launch=at + 50, graph=True)
    place = {"pid": 1, "tid": 5, "end_tid": None, "domain": "", "kind": "push_pop"}
    scene.ranges = [{"start_ns": 0, "end_ns": 5000, "text": "step[DECODE bs=1]"} | place]
    found = find_steps(scene.trace, scene.activities(), step_range=None, layers=None)
    assert found["source"].to_list() == ["graph"] * 3
    assert found["mark"].to_list() == [None] * 3
