"""Cycles are found where a sequence repeats, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from nsysroof.timeline.pattern import find_cycles

PROLOGUE, EPILOGUE, LAYER = [100, 101], [102], [1, 2, 3, 4, 5, 2]


def cycles(symbols: list[int], layers: int | None = None, *, layered: bool = True) -> list[int]:
    idle = np.zeros(len(symbols), np.int64)
    found = find_cycles(np.array(symbols), idle, layers=layers, layered=layered)
    return [int(position) for position in found]


def step(layers: int = 12) -> list[int]:
    return [*PROLOGUE, *LAYER * layers, *EPILOGUE]


@pytest.mark.parametrize("layers", [6, 12, 61])
@pytest.mark.parametrize("known", [False, True])
def test_steps_are_found_and_not_their_layers(layers: int, *, known: bool) -> None:
    length = len(step(layers))
    found = cycles(step(layers) * 4, layers if known else None)
    assert found == [0, length, 2 * length, 3 * length]


def test_a_single_step_is_no_repetition() -> None:
    assert cycles(step(36)) == []


def test_two_steps_prove_nothing() -> None:
    assert cycles(step() * 2) == []


def test_layers_full_of_generic_kernels_are_no_steps() -> None:
    # One layer of an eager run: an element-wise kernel 38 times, others 13, 9 and 7 times.
    layer = [*[1] * 38, 2, *[3] * 13, 4, *[5] * 9, *[6] * 7, 7, 8]
    assert cycles(layer * 16) == []


def test_noise_is_not_a_pattern() -> None:
    rng = np.random.default_rng(7)
    assert cycles(rng.integers(0, 40, 400).tolist()) == []


def test_a_kernel_of_every_fourth_step_does_not_join_four_steps() -> None:
    symbols: list[int] = []
    starts = []
    for number in range(16):
        starts.append(len(symbols))
        symbols += step()
        if number % 4 == 3:
            symbols.append(200)
    assert cycles(symbols) == starts


def test_an_odd_step_between_does_not_hide_the_others() -> None:
    symbols: list[int] = []
    starts = []
    for number in range(9):
        starts.append(len(symbols))
        symbols += step() if number != 5 else [*PROLOGUE, *[7, 8] * 30, *EPILOGUE]
    assert cycles(symbols) == starts


@pytest.mark.parametrize("before", [3, 5, 6])
def test_an_odd_step_in_the_middle_hides_nothing_where_the_layers_are_known(before: int) -> None:
    # As many steps before the prompt as after it look like the layers of two steps.
    odd = [*PROLOGUE, *[7, 8, 9] * 12, *EPILOGUE]
    symbols = step() * before + odd + step() * before
    starts = [number * len(step()) for number in range(before + 1)]
    starts += [starts[-1] + len(odd) + number * len(step()) for number in range(before)]
    assert cycles(symbols, 32) == starts


def test_the_cycle_begins_after_the_longest_idle_time() -> None:
    symbols = step() * 4
    idle = np.zeros(len(symbols), np.int64)
    # The run was cut in the middle of a step: the pause lies before the second prologue kernel.
    idle[1 :: len(step())] = 500
    found = find_cycles(np.array(symbols), idle, layers=None, layered=True).tolist()
    assert found == [1 + number * len(step()) for number in range(4)]


def test_whole_step_graphs_are_cycles_of_their_own() -> None:
    assert cycles([5] * 6, layered=False) == [0, 1, 2, 3, 4, 5]


def test_piecewise_graphs_make_one_cycle_per_step() -> None:
    pieces = [10, *[11] * 7, 12]
    assert cycles(pieces * 4, layered=False) == [0, 9, 18, 27]
