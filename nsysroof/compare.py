"""Two reports held against each other: where the wall time went, split without a remainder.

The median step is compared where both reports have one. Its budget is in integer ns, so the
difference is too: wall = work - overlap + idle, work = roles + unexplained + copies. Kernels are
matched by role first and by name within a role, so that an operator that another kernel computes
is a slower or faster operator and not two strangers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nsysroof import __version__
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
from nsysroof.results import GRAPH_REPLAY, IDLE_CAUSES, Budget, Report

_Key = tuple[str | None, str]  # role, kernel name
_Amount = tuple[int | None, int]  # instances, ns


@dataclass(frozen=True, slots=True, kw_only=True)
class _Side:
    """The account of one report: ns by what it was; ``kernels`` by (role, name): instances, ns."""

    wall_ns: int
    overlap_ns: int
    idle_ns: int
    copy_ns: int
    idle_by_cause: Mapping[str, int]
    kernels: Mapping[_Key, _Amount]

    @property
    def roles(self) -> dict[str, int]:
        totals: dict[str, int] = defaultdict(int)
        for (role, _), (_, ns) in self.kernels.items():
            if role is not None:
                totals[role] += ns
        return dict(totals)

    @property
    def unexplained_ns(self) -> int:
        return sum(ns for (role, _), (_, ns) in self.kernels.items() if role is None)

    @property
    def work_ns(self) -> int:
        return sum(self.roles.values()) + self.unexplained_ns + self.copy_ns


def compare(a: Report, b: Report, *, names: tuple[str, str], noise_ns: int = 0) -> Diff:
    """Return what changed from report ``a`` to report ``b``.

    Args:
        a: The report to start from.
        b: The report to arrive at.
        names: What to call them, such as their file names.
        noise_ns: A row that changed by no more is called the same; sums are never rounded by it.

    Raises:
        Inconclusive: ``nothing-to-compare`` where neither a step nor the idle time of the window
            is known in both.
    """
    steps = _compare_sides(_of_step(a.budget), _of_step(b.budget), noise_ns)
    window = _compare_sides(_of_window(a), _of_window(b), noise_ns)
    shown = steps or window
    if shown is None:
        raise Inconclusive(
            "the reports have neither a step nor a known idle time in common",
            hint="`nsysroof info` on each tells what the capture hides; profile node by node",
            slug="nothing-to-compare",
        )
    return Diff(
        tool_version=__version__,
        a=names[0],
        b=names[1],
        scope="step" if steps else "window",
        noise_ns=noise_ns,
        window=window,
        differences=Difference.between(a, b),
        **{field: getattr(shown, field) for field in Account.__struct_fields__},
    )


def _of_step(budget: Budget | None) -> _Side | None:
    if budget is None:
        return None
    return _Side(
        wall_ns=budget.wall_ns,
        overlap_ns=budget.overlap_ns,
        idle_ns=budget.idle_ns,
        copy_ns=budget.copy_ns,
        idle_by_cause=budget.idle_by_cause,
        kernels=_summed((row.role, row.name, row.instances, row.ns) for row in budget.by_kernel),
    )


def _of_window(report: Report) -> _Side | None:
    """Return the account of the whole window, summed over GPUs."""
    lines = report.timeline
    causes = [line.idle_by_cause for line in lines if line.idle_by_cause is not None]
    if not lines or len(causes) < len(lines):
        return None
    kernels = [(row.role, row.name, row.instances, row.total_ns) for row in report.kernels]
    kernel_ns = sum(row.total_ns for row in report.kernels)
    hidden_ns = sum(line.sum_by_activity.get("replay", 0) for line in lines)
    replays = [(None, GRAPH_REPLAY, None, hidden_ns)] if hidden_ns else []
    return _Side(
        wall_ns=sum(line.window_ns for line in lines),
        overlap_ns=sum(line.overlap_ns for line in lines),
        idle_ns=sum(line.idle_ns or 0 for line in lines),
        copy_ns=sum(line.sum_ns for line in lines) - kernel_ns - hidden_ns,
        idle_by_cause={cause: sum(ns.get(cause, 0) for ns in causes) for cause in IDLE_CAUSES},
        kernels=_summed([*kernels, *replays]),
    )


def _summed(rows: Iterable[tuple[str | None, str, int | None, int]]) -> dict[_Key, _Amount]:
    """Return instances and ns by role and name; grids of one name are one row."""
    totals: dict[_Key, _Amount] = {}
    for role, name, instances, ns in rows:
        known, before = totals.get((role, name), (0, 0))
        count = None if known is None or instances is None else known + instances
        totals[role, name] = (count, before + ns)
    return totals


def _compare_sides(a: _Side | None, b: _Side | None, noise_ns: int) -> Account | None:
    if a is None or b is None:
        return None
    work, overlap = _change(a.work_ns, b.work_ns), _change(a.overlap_ns, b.overlap_ns)
    wall, idle = _change(a.wall_ns, b.wall_ns), _change(a.idle_ns, b.idle_ns)
    return Account(
        wall_ns=wall,
        delta=DeltaParts(work_ns=work.delta, overlap_ns=overlap.delta, idle_ns=idle.delta),
        roles=_role_changes(a.roles, b.roles, noise_ns),
        idle_by_cause={
            cause: _change(a.idle_by_cause.get(cause, 0), b.idle_by_cause.get(cause, 0))
            for cause in IDLE_CAUSES
        },
        work_ns=work,
        overlap_ns=overlap,
        idle_ns=idle,
        unexplained_ns=_change(a.unexplained_ns, b.unexplained_ns),
        copy_ns=_change(a.copy_ns, b.copy_ns),
        kernels=_kernel_changes(a.kernels, b.kernels, noise_ns),
    )


def _role_changes(a: Mapping[str, int], b: Mapping[str, int], noise_ns: int) -> list[RoleChange]:
    """Return the roles of both, the largest change first."""
    rows = [
        RoleChange(
            role=role,
            a_ns=a.get(role),
            b_ns=b.get(role),
            delta_ns=b.get(role, 0) - a.get(role, 0),
            status=_status(a.get(role), b.get(role), noise_ns),
        )
        for role in a.keys() | b.keys()
    ]
    return sorted(rows, key=lambda row: (-abs(row.delta_ns), row.role))


def _kernel_changes(
    a: Mapping[_Key, _Amount], b: Mapping[_Key, _Amount], noise_ns: int
) -> list[KernelChange]:
    """Return the kernels of both, the largest change first."""
    rows = []
    for role, name in a.keys() | b.keys():
        a_instances, a_ns = a.get((role, name), (None, None))
        b_instances, b_ns = b.get((role, name), (None, None))
        rows.append(
            KernelChange(
                name=name,
                role=role,
                a_instances=a_instances,
                b_instances=b_instances,
                a_ns=a_ns,
                b_ns=b_ns,
                delta_ns=(b_ns or 0) - (a_ns or 0),
                status=_status(a_ns, b_ns, noise_ns),
            )
        )
    return sorted(rows, key=lambda row: (-abs(row.delta_ns), row.role or "", row.name))


def _status(a_ns: int | None, b_ns: int | None, noise_ns: int) -> str:
    """Return what became of a row.

    >>> _status(100, 130, 0), _status(100, 130, 30), _status(None, 5, 30), _status(5, None, 0)
    ('slower', 'same', 'appeared', 'disappeared')
    """
    if a_ns is None or b_ns is None:
        return "appeared" if a_ns is None else "disappeared"
    if abs(b_ns - a_ns) <= noise_ns:
        return "same"
    return "slower" if b_ns > a_ns else "faster"


def _change(a: int, b: int) -> Change:
    return Change(a=a, b=b, delta=b - a)
