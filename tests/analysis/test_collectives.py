"""Collectives: waiting for the last rank apart from moving bytes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fixtures.builder import ExportBuilder
from nsysroof.analysis import Options, analyze
from nsysroof.analysis.collectives import collective_rows, roles_by_ranks
from nsysroof.analysis.operators import OperatorGroup
from nsysroof.analysis.pipeline import label_kernels
from nsysroof.results import CollectiveRow
from nsysroof.theory.cost import Operator
from nsysroof.theory.models.decoder import operators
from nsysroof.theory.models.spec import find_model
from nsysroof.theory.peaks import Peaks
from nsysroof.theory.roofline import bound
from nsysroof.theory.workload import Workload
from nsysroof.trace import open_trace
from tests.analysis.decode_steps import EMBED, H100, decode_pass
from tests.analysis.rank_steps import ALL_REDUCE

FIXTURES = Path(__file__).parents[2] / "fixtures"
US = 1_000
Kernel = tuple[int, int, str | None, int, int]  # gpu, step, role, start, end

SCHEMA = {
    "gpu": pl.UInt16,
    "step": pl.UInt32,
    "role": pl.String,
    "start_ns": pl.Int64,
    "end_ns": pl.Int64,
}


def rows(
    kernels: list[Kernel], *, group_size: int = 2, shared_clock: bool = True
) -> dict[tuple[str, int], CollectiveRow]:
    frame = pl.DataFrame(kernels, schema=SCHEMA, orient="row").with_columns(main=pl.lit(value=True))
    roles = {"attn.all_reduce", "moe.dispatch", "moe.combine"}
    found = collective_rows(frame, roles, group_size=group_size, shared_clock=shared_clock)
    return {(row.role, row.gpu): row for row in found}


def test_an_instance_worked_out_by_hand() -> None:
    """Rank 0 enters at 100, rank 1 at 130; both are done at 150."""
    found = rows([(0, 0, "attn.all_reduce", 100, 150), (1, 0, "attn.all_reduce", 130, 151)])
    assert found["attn.all_reduce", 0] == CollectiveRow(
        role="attn.all_reduce",
        gpu=0,
        instances=1,
        wait_ns=30,
        transfer_ns=20,
        skew_ns=30,
        wait_total_ns=30,
        transfer_total_ns=20,
        wait_ns_per_step=30.0,
        transfer_ns_per_step=20.0,
        method="arrival",
    )
    late = found["attn.all_reduce", 1]
    assert (late.wait_ns, late.transfer_ns, late.skew_ns) == (0, 21, 30)


def test_o43_a_late_rank_makes_the_other_wait() -> None:
    """159 all-reduces a step on two ranks; the second comes 150 to 165 µs late, then 40 µs move."""
    kernels: list[Kernel] = []
    waited = 0
    for step in range(3):
        for number in range(159):
            start = (step * 200 + number) * 1_000 * US
            skew = 150 * US + number % 16 * US
            waited += skew
            for gpu, entry in ((0, start), (1, start + skew)):
                kernels.append((gpu, step, "attn.all_reduce", entry, start + skew + 40 * US))
    found = rows(kernels)
    waiting, late = found["attn.all_reduce", 0], found["attn.all_reduce", 1]
    assert waiting.instances == late.instances == 3 * 159
    assert waiting.skew_ns is not None
    assert 150 * US <= waiting.skew_ns <= 165 * US
    assert waiting.wait_total_ns == waited
    assert waiting.wait_ns_per_step == waited / 3
    assert (late.wait_total_ns, late.transfer_ns, waiting.transfer_ns) == (0, 40 * US, 40 * US)


def test_o43_without_a_shared_clock_the_shortest_tell_what_a_transfer_takes() -> None:
    """75 dispatches a step: 12.5 µs in the median, 6 ms in all, so 0.94 ms move and 5 ms wait.

    The combines take 42 µs each, always: 3.15 ms of transfer.
    """
    kernels: list[Kernel] = []
    at = 0
    for number in range(75):
        ns = 12_500 if number % 5 else 350_000  # 60 short ones and 15 long ones: 6.0 ms
        kernels.append((0, 0, "moe.dispatch", at, at + ns))
        at += ns + 1_000
        kernels.append((0, 0, "moe.combine", at, at + 42_000))
        at += 43_000
    found = rows(kernels, shared_clock=False)
    dispatch, combine = found["moe.dispatch", 0], found["moe.combine", 0]
    assert (dispatch.method, dispatch.skew_ns) == ("percentile", None)
    assert dispatch.transfer_ns_per_step == 75 * 12_500  # 0.94 ms
    assert dispatch.wait_ns_per_step == 6_000_000 - 75 * 12_500  # 5.06 ms
    assert (combine.transfer_ns_per_step, combine.wait_ns_per_step) == (3_150_000, 0)


def test_ranks_that_were_not_there_together_are_not_believed() -> None:
    kernels: list[Kernel] = [
        (gpu, 0, "attn.all_reduce", start + gpu * 500, start + gpu * 500 + 100)
        for start in range(0, 10_000, 1_000)
        for gpu in (0, 1)
    ]
    assert {row.method for row in rows(kernels).values()} == {"percentile"}


def test_an_instance_that_a_rank_lost_is_left_out() -> None:
    kernels: list[Kernel] = []
    for step in range(20):
        for gpu in (0, 1):
            at = 1_000 * step + 30 * gpu
            kernels.append((gpu, step, "attn.all_reduce", at, 1_000 * step + 100))
    found = rows(kernels[:-1])  # the last one of rank 1 is missing
    assert found["attn.all_reduce", 0].instances == 19
    assert found["attn.all_reduce", 0].wait_total_ns == 19 * 30
    assert found["attn.all_reduce", 0].method == "arrival"


def test_groups_of_ranks_wait_for_their_own_members_only() -> None:
    """Two replicas of two ranks; the second replica runs its step much later."""
    kernels: list[Kernel] = []
    for gpu in range(4):
        base = 0 if gpu < 2 else 50_000
        kernels.append((gpu, 0, "attn.all_reduce", base + 10 * (gpu % 2), base + 100))
    found = rows(kernels, group_size=2)
    assert [found["attn.all_reduce", gpu].wait_ns for gpu in range(4)] == [10, 0, 10, 0]
    assert {row.method for row in found.values()} == {"arrival"}
    assert {row.method for row in rows(kernels, group_size=4).values()} == {"percentile"}


def test_helpers_other_roles_and_other_steps_do_not_count() -> None:
    frame = pl.DataFrame(
        [
            (0, 0, "attn.all_reduce", 0, 10, True),
            (0, 0, "attn.all_reduce", 10, 12, False),
            (0, None, "attn.all_reduce", 50, 90, True),
            (0, 0, "attn.core", 20, 40, True),
        ],
        schema=SCHEMA | {"main": pl.Boolean},
        orient="row",
    )
    (row,) = collective_rows(frame, {"attn.all_reduce"}, group_size=1, shared_clock=True)
    assert (row.instances, row.transfer_total_ns, row.method) == (1, 10, "percentile")
    assert collective_rows(frame, {"moe.dispatch"}, group_size=1, shared_clock=True) == []


@pytest.mark.parametrize(
    ("role", "meets"),
    [("moe.load_experts", False), ("attn.all_reduce", True), ("attn.qkv_proj", False)],
)
def test_only_operators_in_which_ranks_meet_are_collectives(role: str, meets: bool) -> None:
    """Experts that are loaded from the host cross a link too, and wait for no rank."""
    workload = Workload.create(batch=1, context=128, tp=2, expert_misses=1.0)
    steps = operators(find_model("qwen3-30b-a3b"), workload)
    member = next(op for op in steps if op.role == role)
    group = OperatorGroup(
        role=role,
        members=(member,),
        cost=member.cost,
        min_cost=None,
        bound=bound(member.cost, Peaks(entries={})),
        min_bound=None,
        reachable=None,
        penalty=0.0,
    )
    assert group.crosses_link is meets


entries = st.lists(st.integers(0, 50), min_size=2, max_size=4)


@given(st.lists(st.tuples(entries, st.integers(1, 30)), min_size=1, max_size=6))
def test_waiting_and_transfer_make_up_every_instance(
    instances: list[tuple[list[int], int]],
) -> None:
    ranks = min(len(starts) for starts, _ in instances)
    kernels: list[Kernel] = []
    for number, (starts, transfer) in enumerate(instances):
        base, own = 1_000 * number, starts[:ranks]
        for gpu, start in enumerate(own):
            end = base + max(own) + transfer
            kernels.append((gpu, number, "moe.combine", base + start, end))
    found = rows(kernels, group_size=ranks)
    for gpu in range(ranks):
        row = found["moe.combine", gpu]
        assert row.method == "arrival"
        assert row.transfer_total_ns == sum(transfer for _, transfer in instances)
        total = sum(end - start for rank, _, _, start, end in kernels if rank == gpu)
        assert row.wait_total_ns + row.transfer_total_ns == total


def test_the_planted_transfers_are_found() -> None:
    """Two ranks of one capture: each collective takes its planted time once both have entered."""
    truth: dict[str, Any] = json.loads((FIXTURES / "llama-3.1-8b-h100-tp2.truth.json").read_text())
    options = Options(
        model="llama-3.1-8b", batch=8, context=(1024,), tp=2, step_range="^decode_step_"
    )
    kernels = label_kernels(open_trace(FIXTURES / "llama-3.1-8b-h100-tp2.sqlite"), options)
    planted = truth["transfer_ns"]
    found = collective_rows(kernels, planted, group_size=2, shared_clock=True)
    assert {(row.role, row.gpu) for row in found} == {(r, gpu) for r in planted for gpu in (0, 1)}
    for row in found:
        assert row.method == "arrival"
        assert row.transfer_ns == planted[row.role]
        assert row.transfer_total_ns == row.instances * planted[row.role]
    # 32 layers a step, on as many steps as were planted.
    steps = truth["steps"]["count"]
    assert {row.instances for row in found if row.role == "attn.all_reduce"} == {32 * steps}


def test_an_embedding_that_is_summed_counts_its_sum_alone(tmp_path: Path) -> None:
    """Two ranks, three steps; the lookup takes 2 µs, its sum 9 µs once both are there."""
    export = ExportBuilder()
    for gpu in (0, 1):
        export.gpu(gpu, H100).process(5000 + gpu, cuda_devices=[0, 1])
    kernels = decode_pass("llama-3.1-8b")
    kernels.insert(1, (ALL_REDUCE, "embed", 9_000))
    at = 1_000_000
    for step in range(3):
        for gpu in (0, 1):
            call, pid = 10 * step + gpu + 1, 5000 + gpu
            export.launch("cudaGraphLaunch", at - 800, at - 700, correlation=call, pid=pid)
            start = at
            for node, (name, _, ns) in enumerate(kernels, start=1):
                half = ns if name in {ALL_REDUCE, EMBED} else ns // 2
                export.kernel(
                    name,
                    start,
                    start + half,
                    grid=(96, 1, 1),
                    graph_node=node,
                    device=gpu,
                    correlation=call,
                    pid=pid,
                )
                start += half + 500
        at = start + 50_000
    trace = open_trace(export.session(at + 1_000_000).write(tmp_path / "embed.sqlite"))
    options = Options(model="llama-3.1-8b", batch=8, context=(64,), tp=2)
    rows = {(row.role, row.gpu): row for row in analyze(trace, options).collectives}
    for gpu in (0, 1):
        row = rows["embed", gpu]
        assert (row.instances, row.transfer_ns, row.transfer_total_ns) == (3, 9_000, 27_000)
        assert (row.operation, row.bytes) == ("all_reduce", 8 * 4096 * 2)


def test_each_collective_has_the_ranks_of_its_own_operator() -> None:
    """DeepSeek on two ranks that split a layer and four that hold experts: as its operators say."""
    work = Workload.create(batch=8, context=1024, tp=2, ep=4, dp=2)
    links = [op for op in operators(find_model("deepseek-v3"), work) if op.cost.link]
    groups = [_group_of(op) for op in links]
    found = roles_by_ranks(groups, 2)
    assert found.keys() == {2, 4}
    assert {"moe.dispatch", "moe.combine"} <= found[4]
    assert "attn.all_reduce" in found[2]


def _group_of(operator: Operator) -> OperatorGroup:
    return OperatorGroup(
        role=operator.role,
        members=(operator,),
        cost=operator.cost,
        min_cost=None,
        bound=bound(operator.cost, Peaks(entries={}), floor_ns=1_000.0),
        min_bound=None,
        reachable=None,
        penalty=0.0,
    )
