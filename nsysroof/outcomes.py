"""What comes of holding reports against one another, against limits or against a change.

Like the results themselves these are the objects of the command line's contract: field names
carry their unit, ``None`` means "not known" and is never written as 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Self

import msgspec

from nsysroof.results import FORMAT_VERSION, Report

STATUSES = ("same", "faster", "slower", "appeared", "disappeared")
"""What a row of a comparison can be, judged from A to B."""

VERDICTS = ("pass", "fail", "inconclusive")

_ASSUMED = (
    "model", "gpu", "phase", "batch", "context", "new_tokens", "query_lengths", "weights", "kv",
    "activations", "tp", "ep", "dp", "experts", "tokens_per_step", "shared_prefix", "draft", "drafts",
    "window_s", "devices",
)  # fmt: skip


class _Plain(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all outcomes."""


class Change(_Plain, frozen=True, kw_only=True):
    """One quantity in both reports, ns; ``delta`` = b - a."""

    a: int
    b: int
    delta: int


class DeltaParts(_Plain, frozen=True, kw_only=True):
    """The change of the wall time: wall delta = work - overlap + idle, to the nanosecond."""

    work_ns: int
    overlap_ns: int
    idle_ns: int


class RoleChange(_Plain, frozen=True, kw_only=True):
    """The time of one role; null in the report that does not have it, which counts as 0."""

    role: str
    a_ns: int | None
    b_ns: int | None
    delta_ns: int
    status: str  # same | faster | slower | appeared | disappeared


class KernelChange(_Plain, frozen=True, kw_only=True):
    """The time of one kernel name within a role; ``role`` is null where there is no operator."""

    name: str
    role: str | None
    a_instances: int | None
    b_instances: int | None
    a_ns: int | None
    b_ns: int | None
    delta_ns: int
    status: str


class Account(_Plain, frozen=True, kw_only=True):
    """The same stretch of two runs, split in integer ns.

    wall = work - overlap + idle, and work = roles + unexplained + copies, in a, in b and in their
    deltas. ``kernels`` split roles + unexplained once more, by name within the role.
    """

    wall_ns: Change
    delta: DeltaParts
    roles: list[RoleChange]
    idle_by_cause: dict[str, Change]
    work_ns: Change
    overlap_ns: Change
    idle_ns: Change
    unexplained_ns: Change
    copy_ns: Change
    kernels: list[KernelChange]

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        rows: Sequence[RoleChange | KernelChange] = [*self.roles, *self.kernels]
        sums = (self.wall_ns, self.overlap_ns, self.idle_ns, self.copy_ns, self.unexplained_ns)
        changes = (*sums, *self.idle_by_cause.values())
        return all(row.status == "same" for row in rows) and not any(
            change.delta for change in changes
        )


class Difference(_Plain, frozen=True, kw_only=True):
    """One condition that is not the same in both reports, so that times may differ by it alone."""

    field: str
    a: str | None
    b: str | None

    @classmethod
    def between(cls, a: Report, b: Report) -> list[Self]:
        """Return the conditions that differ between two reports, in a fixed order."""
        return [
            cls(field=name, a=one, b=other)
            for (name, one), other in zip(
                _conditions(a).items(), _conditions(b).values(), strict=True
            )
            if one != other
        ]


class Diff(Account, frozen=True, kw_only=True):
    """The answer of ``diff``.

    The fields of ``Account`` at the top are of the median step on the lowest GPU where both
    reports have one (``scope`` step), else of the whole window. ``window`` is the whole window
    of all GPUs, null where the idle time of a capture is not known. A row whose ``delta_ns`` is
    at most ``noise_ns`` is the same.
    """

    format: str = "nsysroof-diff"
    format_version: str = FORMAT_VERSION
    tool_version: str
    a: str
    b: str
    scope: str  # step | window
    noise_ns: int
    window: Account | None
    differences: list[Difference]


class Rule(_Plain, frozen=True, kw_only=True):
    """One limit of ``check``; ``value`` is null where it cannot be known, and ``reason`` says why.

    ``limit`` and ``value`` are in ``unit``: ratio, share (0..1), ns or count. ``baseline`` is what
    a regression is judged from.
    """

    rule: str
    limit: float | int | None
    value: float | int | None
    verdict: str  # pass | fail | inconclusive
    unit: str
    baseline: float | int | None = None
    reason: str = ""


class Check(_Plain, frozen=True, kw_only=True):
    """The answer of ``check``: a rule that fails decides, then one that cannot be judged."""

    format: str = "nsysroof-check"
    format_version: str = FORMAT_VERSION
    tool_version: str
    report: str
    verdict: str  # pass | fail | inconclusive
    rules: list[Rule]

    def rules_with(self, verdict: str) -> list[Rule]:
        """Return the rules that ended with a verdict."""
        return [rule for rule in self.rules if rule.verdict == verdict]


class Treatment(StrEnum):
    """How the time of an operator was carried over."""

    EFFICIENCY = "efficiency"  # the new bound at the measured ratio
    TIME = "time"  # the measured time: the theory does not limit it
    ADDED = "added"  # not measured: its bound, at best
    GONE = "gone"  # nothing does it any more


class WhatIfRow(_Plain, frozen=True, kw_only=True):
    """One role of the step, ns per step; ``low_ns`` and ``high_ns`` are the range of the expected.

    ``same_kernel`` is false where format or limiter change, so that another kernel would run.
    """

    role: str
    measured_ns: int | None
    expected_ns: float
    low_ns: float
    high_ns: float
    bound_ns: float | None
    ratio: float | None
    limiter: str | None
    treatment: str  # efficiency | time | added | gone
    same_kernel: bool


class WhatIf(_Plain, frozen=True, kw_only=True):
    """The answer of ``whatif``: the measured step beside the one that was asked for.

    expected = the rows + unexplained + copies + idle - overlap, the last four as measured.
    """

    format: str = "nsysroof-whatif"
    format_version: str = FORMAT_VERSION
    tool_version: str
    changes: dict[str, str]
    measured_ns: int
    expected_ns: float
    low_ns: float
    high_ns: float
    serial_ns: float
    kept_ns: int
    tokens: float
    tokens_per_s_measured: float | None
    tokens_per_s: float
    rows: list[WhatIfRow]
    notes: list[str]


def _conditions(report: Report) -> dict[str, str | None]:
    """Return under what a report was made, by name, in a fixed order."""
    capture = report.capture
    conditions = {name: getattr(report.assumptions, name) for name in _ASSUMED} | {
        "steps": report.steps.source,
        "graph_mode": capture.graph_mode,
        "trace_kind": capture.trace_kind,
        "nsys_version": capture.nsys_version,
    }
    return {name: None if value is None else str(value) for name, value in conditions.items()}
