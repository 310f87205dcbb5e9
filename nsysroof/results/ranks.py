"""The ranks of a run side by side: where each one's steps go, and which one the others wait for."""

from __future__ import annotations

from nsysroof.results.base import FORMAT_VERSION, Plain, Tables
from nsysroof.results.capture import Finding
from nsysroof.results.rows import CollectiveRow


class RankRow(Plain, frozen=True, kw_only=True):
    """One GPU of several: its steps outside and inside collectives.

    Per step, in the mean: wall = work + collective + idle, where ``collective`` is the time in
    which nothing but collectives ran, and ``work`` that with anything else; wall - collective is
    the rank's own time. ``wait_ns_per_step`` and ``transfer_ns_per_step`` split the collectives as
    ``CollectiveRow`` does, those beside other work included. ``behind_ns`` is how much more own
    time a step takes than on the quickest rank, the median over steps; ``slowest`` marks at most one
    rank. ``decided_by`` tells what was compared: ``own_time``, or ``step_wall`` where no rank shows a
    collective; null where ranks cannot be compared. Everything is null without steps.
    """

    gpu: int
    name: str | None
    pids: list[int]
    steps: int
    wall_p50_ns: int | None = None
    tokens_per_s: float | None = None
    work_ns_per_step: float | None = None
    collective_ns_per_step: float | None = None
    wait_ns_per_step: float | None = None
    transfer_ns_per_step: float | None = None
    idle_ns_per_step: float | None = None
    idle_cause: str | None = None
    idle_cause_ns_per_step: float | None = None
    behind_ns: int | None = None
    slowest: bool = False
    decided_by: str | None = None  # own_time | step_wall


class RankFile(Plain, frozen=True, kw_only=True):
    """One of several files of a run, by its name alone.

    Files with the same ``axis`` share a clock: their timestamps with ``offset_ns`` added are those of
    the first file of the axis. ``clock`` says which: ``system``, the machine's own since it booted,
    or ``utc``; null for the first of an axis.
    """

    file: int
    name: str
    nsys_version: str | None
    gpus: list[int]
    steps: int
    axis: int
    clock: str | None  # system | utc
    offset_ns: int


class FileRankRow(RankRow, frozen=True, kw_only=True):
    """One rank of a run in several files: ``gpu`` and ``pids`` are those within its file."""

    rank: int
    file: int


class FileCollectiveRow(CollectiveRow, frozen=True, kw_only=True):
    """The collectives of one role on one rank of a run in several files."""

    rank: int
    file: int


class Ranks(Tables, frozen=True, kw_only=True):
    """The answer of ``ranks``: the ranks of a run that lies in several files.

    Ranks are counted through the files in the order given. ``common_steps`` is how many analysed
    steps all ranks ran at the same time, and are compared one by one; null where they have no clock
    in common, so that all of their steps count. ``findings`` name the file that they are of.
    """

    format: str = "nsysroof-run"
    format_version: str = FORMAT_VERSION
    tool_version: str
    command: str | None = None
    phase: str | None
    common_steps: int | None
    files: list[RankFile]
    ranks: list[FileRankRow]
    collectives: list[FileCollectiveRow]
    findings: list[Finding]
