"""Runs in several files: clocks, steps and lateness are planted, and what may not be joined is not."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fixtures.builder import ExportBuilder
from nsysroof.analysis import Options, analyze
from nsysroof.analysis.run_axis import common_steps
from nsysroof.analysis.run_files import compare_files
from nsysroof.errors import Inconclusive
from nsysroof.results import Ranks
from nsysroof.trace import open_trace
from tests.analysis.decode_steps import GEMM
from tests.analysis.rank_steps import (
    ALL_REDUCE,
    LAYERS,
    STEP,
    STEP_NS,
    TRANSFER_NS,
    Plan,
    Session,
    capture,
    captures,
)

FIXTURE = Path(__file__).parents[2] / "fixtures/llama-3.1-8b-h100-tp2.sqlite"
BY_RANGE = Options(step_range="^step_")
SLOW = Plan(slower={GEMM: 3_000})  # 12 µs more in a step
EARLY = Session(began_ns=-7_000_000_000)
LATER = Session(began_ns=-2_345_678_901)
ELSEWHERE = Session(began_ns=-2_345_678_901, host="two", calendar_ns=4_000_000)


def run_of(exports: Sequence[ExportBuilder], folder: Path, options: Options = BY_RANGE) -> Ranks:
    paths = [export.write(folder / f"{at}.sqlite") for at, export in enumerate(exports)]
    return compare_files(((path.name, open_trace(path)) for path in paths), options)


def slugs(run: Ranks) -> list[str]:
    return [found.slug for found in run.findings]


def test_two_files_of_one_machine_are_as_one_capture(tmp_path: Path) -> None:
    """Sessions that began 4.65 s apart: skew and waits are those of one session over both."""
    whole = analyze(open_trace(capture([Plan(), SLOW]).write(tmp_path / "whole.sqlite")), BY_RANGE)
    run = run_of(captures([Plan(), SLOW], [EARLY, LATER]), tmp_path)
    assert [(file.axis, file.clock) for file in run.files] == [(0, None), (0, "system")]
    assert run.files[1].offset_ns == 7_000_000_000 - 2_345_678_901
    assert (run.common_steps, run.phase) == (5, whole.steps.phase)
    assert [(row.rank, row.file, row.gpu, row.pids) for row in run.ranks] == [
        (0, 0, 0, [4000]), (1, 1, 0, [4000]),
    ]  # fmt: skip
    for row, other in zip(run.ranks, whole.ranks, strict=True):
        for column in ("wall_p50_ns", "work_ns_per_step", "collective_ns_per_step",
                       "wait_ns_per_step", "transfer_ns_per_step", "idle_ns_per_step",
                       "behind_ns", "slowest", "decided_by"):  # fmt: skip
            assert getattr(row, column) == getattr(other, column), column
    waiting, late = run.collectives
    assert (waiting.role, waiting.rank, waiting.file, waiting.gpu) == ("allreduce", 0, 0, 0)
    assert (late.rank, late.file, late.gpu) == (1, 1, 0)
    assert {row.method for row in run.collectives} == {"arrival"}
    assert {row.skew_ns for row in run.collectives} == {3_000}
    assert (waiting.wait_ns_per_step, late.wait_ns_per_step) == (12_000, 0)
    (found,) = [one for one in run.findings if one.slug == "slow-rank"]
    assert found.text.startswith("rank 1 (GPU 0 of 1.sqlite (file 1)) is the slowest of 2 ranks")
    assert "clocks-differ" not in slugs(run)


def test_times_of_two_machines_are_not_subtracted(tmp_path: Path) -> None:
    """Their calendar clocks differ by 4 ms; the slow rank is found without any clock."""
    run = run_of(captures([Plan(), SLOW], [EARLY, ELSEWHERE]), tmp_path)
    assert [(file.axis, file.clock, file.offset_ns) for file in run.files] == [
        (0, None, 0), (1, None, 0),
    ]  # fmt: skip
    assert run.common_steps is None
    assert {(row.method, row.skew_ns) for row in run.collectives} == {("percentile", None)}
    # Every all-reduce of rank 0 takes 12 µs, 3 of them waiting: the shortest tenth cannot tell.
    assert [row.transfer_ns for row in run.collectives] == [TRANSFER_NS + 3_000, TRANSFER_NS]
    assert [row.behind_ns for row in run.ranks] == [0, 12_000]
    assert [row.slowest for row in run.ranks] == [False, True]
    (found,) = [one for one in run.findings if one.slug == "clocks-differ"]
    assert found.severity == "note"
    assert found.text.startswith(
        "1.sqlite (file 1): no clock in common with 0.sqlite (file 0), nothing tells"
    )


def test_a_clock_is_shared_within_each_machine(tmp_path: Path) -> None:
    """Two machines of two files each, tensor-parallel within a machine."""
    sessions = [EARLY, LATER, ELSEWHERE, replace(ELSEWHERE, began_ns=-5_000_000_000)]
    exports = captures([Plan(), SLOW, Plan(), Plan()], sessions)
    run = run_of(exports, tmp_path, replace(BY_RANGE, tp=2))
    assert [file.axis for file in run.files] == [0, 0, 1, 1]
    assert run.files[3].offset_ns == 2_345_678_901 - 5_000_000_000
    assert {row.method for row in run.collectives} == {"arrival"}
    # All four meet in each collective here, but a group of two only knows its own.
    assert [row.wait_ns_per_step for row in run.collectives] == [12_000, 0, 0, 0]
    (found,) = [one for one in run.findings if one.slug == "clocks-differ"]
    assert found.text.startswith("2.sqlite (file 2), 3.sqlite (file 3): no clock")


def test_a_group_over_two_machines_has_no_arrivals(tmp_path: Path) -> None:
    sessions = [EARLY, LATER, ELSEWHERE, ELSEWHERE]
    exports = captures([Plan(), SLOW, Plan(), Plan()], sessions)
    for options in (replace(BY_RANGE, tp=4), replace(BY_RANGE, tp=2, ep=4), BY_RANGE):
        run = run_of(exports, tmp_path, options)
        assert {row.method for row in run.collectives} == {"percentile"}


def test_steps_are_the_same_where_they_ran_at_the_same_time(tmp_path: Path) -> None:
    """The second session saw steps 2 to 7 of 8, the first 0 to 5: four are in both."""
    plans = [Plan(), Plan(extra=[0, 0, 2_000, 2_000, 2_000, 2_000, 90_000, 90_000])]
    sessions = [replace(EARLY, saw=range(6)), replace(LATER, saw=range(2, 8))]
    run = run_of(captures(plans, sessions, steps=8), tmp_path)
    assert [file.steps for file in run.files] == [6, 6]
    assert run.common_steps == 4
    assert [row.steps for row in run.ranks] == [4, 4]
    assert [row.behind_ns for row in run.ranks] == [0, 2_000]
    assert {row.method for row in run.collectives} == {"arrival"}
    assert [row.instances for row in run.collectives] == [4 * LAYERS] * 2
    assert [row.wait_total_ns for row in run.collectives] == [4 * 2_000, 0]


def test_a_file_of_several_ranks_counts_them_on(tmp_path: Path) -> None:
    both = capture([Plan(), Plan()])
    one = captures([Plan()], [Session(host="other")])
    run = run_of([both, *one], tmp_path)
    assert [(row.rank, row.file, row.gpu) for row in run.ranks] == [(0, 0, 0), (1, 0, 1), (2, 1, 0)]


def test_another_phase_is_not_compared(tmp_path: Path) -> None:
    decode = "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128>>(Flash_fwd_params)"
    prefill = "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128>>(Flash_fwd_params)"
    first = captures([Plan()], [EARLY], kernels=((decode, 9_000), *STEP))
    second = captures([Plan()], [LATER], kernels=((prefill, 90_000), *STEP))
    run = run_of([*first, *second], tmp_path)
    assert run.phase == "decode"
    assert [(row.steps, row.decided_by) for row in run.ranks] == [(5, None), (0, None)]
    assert "mixed-phases" in slugs(run)


def test_what_is_wrong_with_a_file_names_it(tmp_path: Path) -> None:
    first, second = captures([Plan(), Plan()], [EARLY, LATER])
    second.launch("cudaLaunchKernel", 1, 2, correlation=999, pid=77)
    run = run_of([first, second], tmp_path, replace(BY_RANGE, tp=4))
    missing = [one.text for one in run.findings if one.slug == "rank-missing"]
    assert missing[0].startswith("1.sqlite (file 1): ")
    assert missing[1].startswith("kernels on 2 of 4 ranks")


def test_one_rank_is_nothing_to_compare(tmp_path: Path) -> None:
    with pytest.raises(Inconclusive) as raised:
        run_of(captures([Plan()], [EARLY]), tmp_path)
    assert raised.value.slug == "one-rank"


def test_steps_that_cannot_be_told_apart_are_left_out() -> None:
    wall = np.array([100, 100, 100])
    starts = np.array([0, 100, 200])
    assert common_steps([starts, np.array([50, 150, 1_000])], wall) is None  # half a step away
    twice = common_steps([np.array([0, 10, 100]), np.array([4, 100])], np.array([10, 90, 100]))
    # The step at 4 is within half of the first (4 < 5) and of the second (6 < 45): it is neither.
    assert twice is not None
    assert [places.tolist() for places in twice] == [[2], [1]]
    assert common_steps([starts, np.array([], dtype=np.int64)], wall) is None


def test_waits_of_a_step_are_those_of_the_planted_one(tmp_path: Path) -> None:
    """The wall of the slowest rank's steps is everybody's; nothing but waiting differs."""
    run = run_of(captures([Plan(), SLOW, Plan()], [EARLY, LATER, EARLY]), tmp_path)
    assert {row.wall_p50_ns for row in run.ranks} == {STEP_NS + 12_000}
    assert [row.wait_ns_per_step for row in run.ranks] == [12_000, 0, 12_000]
    assert ALL_REDUCE not in {row.role for row in run.collectives}


def test_collectives_tell_their_rates_in_every_file(tmp_path: Path) -> None:
    """The fixture of two ranks as a file for each: 8 hidden vectors of 4096 in BF16, in 9 µs."""
    files = []
    for gpu in (0, 1):
        path = tmp_path / f"{gpu}.sqlite"
        path.write_bytes(FIXTURE.read_bytes())
        with closing(sqlite3.connect(path)) as connection:
            for table in ("KERNEL", "MEMCPY"):
                ours = f"CUPTI_ACTIVITY_KIND_{table}"
                connection.execute(f"DELETE FROM {ours} WHERE deviceId <> ?", (gpu,))
            connection.commit()
        files.append((path.name, open_trace(path)))
    run = compare_files(files, Options(model="llama-3.1-8b", batch=8, context=(1024,), tp=2))
    told = [row for row in run.collectives if row.role == "attn.all_reduce"]
    assert [(row.rank, row.operation, row.ranks, row.bytes, row.transfer_ns) for row in told] == [
        (0, "all_reduce", 2, 8 * 4096 * 2, 9_000),
        (1, "all_reduce", 2, 8 * 4096 * 2, 9_000),
    ]
    assert [row.bus_bytes_per_s for row in told] == [pytest.approx(8 * 4096 * 2 / 9e-6)] * 2
