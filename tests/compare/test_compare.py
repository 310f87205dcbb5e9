"""The difference of two reports, on budgets written by hand."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysroof.compare import compare
from nsysroof.errors import Inconclusive
from nsysroof.outcomes import (
    Account,
    Change,
    DeltaParts,
    Diff,
    Difference,
    KernelChange,
    RoleChange,
)
from nsysroof.results import IDLE_CAUSES, Budget, Report, StepKernel
from tests.report import sample

NAMES = ("before", "after")
Kernels = dict[tuple[str | None, str], int]


def report(
    kernels: Kernels, *, copy: int = 0, overlap: int = 0, idle: dict[str, int] | None = None
) -> Report:
    """Return a report whose step holds these kernels; its wall follows from the identity."""
    idle = idle or {}
    explained = sum(ns for (role, _), ns in kernels.items() if role is not None)
    foreign = sum(ns for (role, _), ns in kernels.items() if role is None)
    budget = Budget(
        gpu=0,
        step=1,
        wall_ns=explained + foreign + copy - overlap + sum(idle.values()),
        bound_ns=explained,
        over_bound_ns=0,
        fixed_ns=0,
        unexplained_ns=foreign,
        copy_ns=copy,
        idle_ns=sum(idle.values()),
        overlap_ns=overlap,
        by_kernel=[
            StepKernel(name=name, role=role, instances=1, ns=ns)
            for (role, name), ns in kernels.items()
        ],
        idle_by_cause=idle,
    )
    return msgspec.structs.replace(sample.full(), budget=budget)


def diff(a: Report, b: Report, noise_ns: int = 0) -> Diff:
    return compare(a, b, names=NAMES, noise_ns=noise_ns)


BEFORE: Kernels = {("attn.core", "flash"): 500, ("mlp.down_proj", "gemv"): 300, (None, "cast"): 40}


def test_a_report_against_itself_differs_in_nothing() -> None:
    for whole in (report(BEFORE, copy=7, overlap=3, idle={"sync": 9}), sample.full()):
        found = diff(whole, whole)
        assert found.is_empty
        assert found.wall_ns.delta == 0
        assert found.delta == DeltaParts(work_ns=0, overlap_ns=0, idle_ns=0)
        assert {row.status for row in found.roles} <= {"same"}
        assert {row.status for row in found.kernels} <= {"same"}
        assert (found.differences, found.noise_ns) == ([], 0)


def test_a_step_worked_out_by_hand() -> None:
    a = report(BEFORE, copy=10, overlap=5, idle={"in_graph": 20, "host_late": 80})
    after: Kernels = {
        ("attn.core", "flash"): 700,  # 200 slower
        ("mlp.down_proj", "gemm"): 180,  # another kernel, 120 faster as a role
        ("mlp.act", "silu"): 15,  # new
        (None, "cast"): 40,
        (None, "check"): 11,  # new and foreign
    }
    b = report(after, copy=4, overlap=25, idle={"in_graph": 20, "sync": 110})
    found = diff(a, b)
    # a: 840 + 10 - 5 + 100 = 945; b: 946 + 4 - 25 + 130 = 1055
    assert found.wall_ns == Change(a=945, b=1055, delta=110)
    assert found.delta == DeltaParts(work_ns=100, overlap_ns=20, idle_ns=30)
    assert found.roles == [
        RoleChange(role="attn.core", a_ns=500, b_ns=700, delta_ns=200, status="slower"),
        RoleChange(role="mlp.down_proj", a_ns=300, b_ns=180, delta_ns=-120, status="faster"),
        RoleChange(role="mlp.act", a_ns=None, b_ns=15, delta_ns=15, status="appeared"),
    ]
    assert found.unexplained_ns == Change(a=40, b=51, delta=11)
    assert found.copy_ns == Change(a=10, b=4, delta=-6)
    changed = {cause: ns.delta for cause, ns in found.idle_by_cause.items() if ns.delta}
    assert changed == {"host_late": -80, "sync": 110}
    assert list(found.idle_by_cause) == list(IDLE_CAUSES)
    assert found.scope == "step"
    assert not found.is_empty


def test_kernels_are_matched_by_role_before_name() -> None:
    """A batch of eight runs its projections with a matrix product where one ran gemv (O34)."""
    a = report({("mlp.down_proj", "gemv"): 13_610_000, ("attn.q_proj", "gemv"): 1_000_000})
    b = report(
        {
            ("mlp.down_proj", "gemm"): 17_100_000,
            ("mlp.down_proj", "gemv"): 90_000,
            ("attn.q_proj", "gemv"): 1_000_000,
        }
    )
    rows = {(row.role, row.name): row for row in diff(a, b).kernels}
    assert rows["mlp.down_proj", "gemv"] == KernelChange(
        name="gemv",
        role="mlp.down_proj",
        a_instances=1,
        b_instances=1,
        a_ns=13_610_000,
        b_ns=90_000,
        delta_ns=-13_520_000,
        status="faster",
    )
    assert rows["mlp.down_proj", "gemm"].status == "appeared"
    assert rows["attn.q_proj", "gemv"].status == "same"
    (role,) = [row for row in diff(a, b).roles if row.role == "mlp.down_proj"]
    assert (role.status, role.delta_ns) == ("slower", 17_190_000 - 13_610_000)


@pytest.mark.parametrize(
    ("noise", "status"), [(0, "slower"), (199, "slower"), (200, "same"), (10_000, "same")]
)
def test_a_change_within_the_noise_is_the_same_and_still_counted(noise: int, status: str) -> None:
    a, b = report({("attn.core", "k"): 500}), report({("attn.core", "k"): 700})
    found = diff(a, b, noise)
    assert (found.roles[0].status, found.roles[0].delta_ns) == (status, 200)
    assert (found.noise_ns, found.delta.work_ns, found.wall_ns.delta) == (noise, 200, 200)


def test_noise_does_not_hide_what_came_or_went() -> None:
    found = diff(report({("embed", "k"): 5}), report({("final_norm", "k"): 5}), 1_000)
    assert {row.role: row.status for row in found.roles} == {
        "embed": "disappeared",
        "final_norm": "appeared",
    }


def test_conditions_that_differ_are_told() -> None:
    a = sample.full()
    assumed = msgspec.structs.replace(a.assumptions, batch=16, kv=None)
    b = msgspec.structs.replace(a, assumptions=assumed)
    assert diff(a, b).differences == [
        Difference(field="batch", a="8", b="16"),
        Difference(field="kv", a="bf16", b=None),
    ]


def without_budget(whole: Report) -> Report:
    return msgspec.structs.replace(whole, budget=None)


def test_without_a_step_in_both_the_window_is_compared() -> None:
    whole = sample.full()
    for a, b in [(without_budget(whole), whole), (whole, without_budget(whole))]:
        found = diff(a, b)
        assert found.scope == "window"
        assert found.wall_ns.a == sum(line.window_ns for line in whole.timeline)
        assert found.window is not None
        assert found.roles == found.window.roles


def test_reports_that_know_neither_a_step_nor_idle_time_are_no_answer() -> None:
    whole = sample.full()
    hidden = [
        msgspec.structs.replace(line, idle_ns=None, idle_by_cause=None) for line in whole.timeline
    ]
    blind = msgspec.structs.replace(whole, budget=None, timeline=hidden)
    for a, b in [(blind, whole), (whole, blind), (sample.empty(), sample.empty())]:
        with pytest.raises(Inconclusive) as raised:
            diff(a, b)
        assert raised.value.slug == "nothing-to-compare"


def adds_up(found: Account) -> bool:
    delta = found.delta
    split = sum(row.delta_ns for row in found.roles)
    split += found.unexplained_ns.delta + found.copy_ns.delta
    foreign = [row for row in found.kernels if row.role is None]
    return (
        found.wall_ns.delta == delta.work_ns - delta.overlap_ns + delta.idle_ns
        and delta.work_ns == split
        and delta.idle_ns == sum(change.delta for change in found.idle_by_cause.values())
        and sum(row.delta_ns for row in found.kernels) == split - found.copy_ns.delta
        and sum(row.delta_ns for row in foreign) == found.unexplained_ns.delta
    )


ROLES = st.sampled_from([None, "attn.core", "mlp.act", "moe.down"])
KERNELS = st.dictionaries(st.tuples(ROLES, st.sampled_from("abc")), st.integers(0, 50), max_size=8)
CAUSES = st.dictionaries(st.sampled_from(IDLE_CAUSES), st.integers(0, 50))
REPORTS = st.builds(report, KERNELS, copy=st.integers(0, 9), overlap=st.integers(0, 9), idle=CAUSES)


@given(REPORTS, REPORTS)
def test_any_difference_adds_up_and_reverses(a: Report, b: Report) -> None:
    there, back = diff(a, b), diff(b, a)
    assert adds_up(there)
    assert there.wall_ns.delta == -back.wall_ns.delta
    assert {row.role: row.delta_ns for row in there.roles} == {
        row.role: -row.delta_ns for row in back.roles
    }
