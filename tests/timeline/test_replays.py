"""Steps of captures whose graphs differ from step to step, with prompts and warm-up beside them."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl
import pytest

from nsysroof.timeline.steps import find_steps
from tests.timeline.scene import Scene

LAYERS = 8
BEFORE, AFTER = 90, 91  # names of the kernels before the layers and after them


@dataclass
class Run:
    """Forwards one after another: kernels of 90 ns every 100 ns, and 5 µs between forwards."""

    scene: Scene = field(default_factory=Scene)
    now: int = 0
    calls: int = 0

    def forward(
        self, names: list[int], *, replayed: bool, layers: int = LAYERS, sampled: bool = False
    ) -> int:
        """Run one forward and return its start; of a replay the first kernel is eager."""
        self.now += 5_000
        start = self.now
        kernels = [BEFORE, *names * layers, *([AFTER] if sampled else [])]
        self.calls += 1
        for number, name in enumerate(kernels):
            replay = replayed and 0 < number <= len(names) * layers
            correlation = self.calls if replay else 10_000 * self.calls + number
            launch = self.now - 50 if number <= 1 or not replay else None
            self.scene.kernel(
                self.now, self.now + 90, correlation=correlation, launch=launch, graph=replay
            )
            self.scene.kernels[-1]["name"] = name
            self.now += 100
        return start

    def readback(self) -> None:
        self.scene.copy(self.now + 10, self.now + 20)
        self.scene.copies[-1]["kind"] = "d2h"
        self.now += 100

    def found(self) -> pl.DataFrame:
        return find_steps(self.scene.trace, self.scene.activities(), step_range=None, layers=LAYERS)

    def starts(self) -> list[int]:
        return self.found()["start_ns"].to_list()


SMALL, LARGE, PROMPT = [1, 2, 3, 4], [1, 5, 6, 7, 7], [1, 11, 12, 13]


@pytest.mark.parametrize(
    "sequence", ["s" * 6 + "l" * 6, "ssllssslsl", "slls"], ids=["halves", "in turn", "few"]
)
def test_graphs_for_other_batches_are_steps_too(sequence: str) -> None:
    run = Run()
    planted = [run.forward(SMALL if one == "s" else LARGE, replayed=True) for one in sequence]
    assert run.starts() == planted


def test_graphs_that_all_differ_are_steps_too() -> None:
    run = Run()
    planted = [run.forward([1, 20 + step, 40 + step], replayed=True) for step in range(7)]
    assert run.starts() == planted


def test_a_draft_graph_of_fewer_layers_begins_no_step() -> None:
    run = Run()
    planted = []
    for step in range(9):
        draft = run.forward([31, 32, 33], layers=6, replayed=True)
        planted.append(draft)
        run.forward(SMALL if step % 4 else LARGE, replayed=True)
    assert run.starts() == planted


@pytest.mark.parametrize("readback", [False, True])
def test_a_prompt_between_replays_is_a_step_of_its_own(*, readback: bool) -> None:
    run = Run()
    planted = []
    for one in "ddpdddppddd":
        prompt = one == "p"
        names = PROMPT if prompt else SMALL
        planted.append(run.forward(names, replayed=not prompt, sampled=True))
        if readback:
            run.readback()
    found = run.found()
    assert found["start_ns"].to_list() == planted
    assert found["replayed"].to_list() == [one == "d" for one in "ddpdddppddd"]


def test_the_first_prompt_is_a_step_and_warm_up_before_a_hole_is_none() -> None:
    run = Run()
    run.forward(LARGE, replayed=False, sampled=True)
    run.forward(PROMPT, replayed=False, sampled=True)
    run.now += 200_000_000
    planted = [run.forward(PROMPT, replayed=False, sampled=True)]
    planted += [run.forward(SMALL, replayed=True, sampled=True) for _ in range(5)]
    assert run.starts() == planted


def test_other_kernels_before_the_first_replay_belong_to_it_as_far_as_to_the_others() -> None:
    run = Run()
    for _ in range(30):  # filling the cache: no forward
        run.scene.kernel(run.now, run.now + 90, correlation=5_000 + run.now, launch=run.now - 50)
        run.scene.kernels[-1]["name"] = 70
        run.now += 100
    planted = [run.forward(SMALL, replayed=True) for _ in range(4)]
    assert run.starts() == planted


def test_a_forward_beside_every_replay_is_a_part_of_the_step() -> None:
    run = Run()
    planted = []
    for _ in range(6):
        planted.append(run.forward(SMALL, replayed=True))
        run.now -= 4_990  # the draft follows at once
        run.forward([31, 32, 33], replayed=False)
    assert run.starts() == planted
