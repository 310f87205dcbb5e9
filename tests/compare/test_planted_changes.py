"""Changes planted into a copy of a shipped capture are named to the nanosecond."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from nsysroof.analysis import Options, analyze
from nsysroof.compare import compare
from nsysroof.outcomes import Account, Diff
from nsysroof.results import Report
from nsysroof.trace import open_trace
from tests.compare.planting import CAPTURE, inside_kernel, with_time_put_in

SLOWER_NS = 1_237
WAIT_NS = 10_111


def report(path: Path) -> Report:
    options = Options(model="qwen3-30b-a3b", batch=1, context=(4096,))
    return analyze(open_trace(path), options)


@cache
def original() -> Report:
    return report(CAPTURE)


def diff(b: Report) -> Diff:
    return compare(original(), b, names=("a", "b"))


def changes(account: Account) -> tuple[dict[str, int], dict[str, int]]:
    """Return the roles that are not the same, and the causes of idle that changed."""
    roles = {row.role: row.delta_ns for row in account.roles if row.status != "same"}
    causes = {cause: ns.delta for cause, ns in account.idle_by_cause.items() if ns.delta}
    return roles, causes


def test_the_capture_against_itself_is_empty() -> None:
    found = diff(report(CAPTURE))
    assert found.is_empty
    assert found.window is not None
    assert found.window.is_empty
    assert found.differences == []


def test_a_slowdown_and_a_wait_in_every_step_are_named_to_the_ns(tmp_path: Path) -> None:
    """One instance of moe.down takes 1,237 ns more, and before one moe.gate_up 10,111 ns idle."""
    slower = [(at, SLOWER_NS) for at in inside_kernel("moe.down", 30)]
    # One ns before a kernel of a replay begins, nothing runs.
    wait = [(at - 2, WAIT_NS) for at in inside_kernel("moe.gate_up", 10)]
    found = diff(report(with_time_put_in(tmp_path / "b.sqlite", slower + wait)))
    assert found.scope == "step"
    assert changes(found) == ({"moe.down": SLOWER_NS}, {"in_graph": WAIT_NS})
    assert found.wall_ns.delta == SLOWER_NS + WAIT_NS
    assert (found.delta.work_ns, found.delta.overlap_ns, found.delta.idle_ns) == (
        SLOWER_NS,
        0,
        WAIT_NS,
    )
    (kernel,) = [row for row in found.kernels if row.status != "same"]
    assert (kernel.role, kernel.name, kernel.delta_ns) == (
        "moe.down",
        "fused_moe_kernel",
        SLOWER_NS,
    )
    assert found.window is not None
    assert changes(found.window) == ({"moe.down": 20 * SLOWER_NS}, {"in_graph": 20 * WAIT_NS})


def test_what_happens_in_one_step_shows_in_the_window(tmp_path: Path) -> None:
    """The first step is none of the median ones, so its budget does not show it."""
    places = [
        (inside_kernel("moe.down", 30)[0], SLOWER_NS),
        (inside_kernel("moe.gate_up", 10)[0] - 2, WAIT_NS),
    ]
    found = diff(report(with_time_put_in(tmp_path / "b.sqlite", places)))
    assert found.window is not None
    assert changes(found.window) == ({"moe.down": SLOWER_NS}, {"in_graph": WAIT_NS})
    assert found.window.wall_ns.delta == SLOWER_NS + WAIT_NS
