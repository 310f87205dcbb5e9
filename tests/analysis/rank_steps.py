"""Synthetic steps of several ranks that meet in collectives: who is late is planted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fixtures.builder import ExportBuilder
from tests.analysis.decode_steps import GEMM, H100, NORM

ALL_REDUCE = (
    "void vllm::cross_device_reduce_1stage<__nv_bfloat16, (int)2>(vllm::RankData *, "
    "vllm::RankSignals, vllm::Signal *, T1 *, int, int)"
)
GAP_NS = 1_000
TRANSFER_NS = 9_000
LAYERS = 4
STEP = (*((NORM, 2_000), (GEMM, 20_000), (ALL_REDUCE, TRANSFER_NS)) * LAYERS,)
"""One step: name and ns of each kernel; those of a collective count from the last entry."""

STEP_NS = LAYERS * (2_000 + 20_000 + TRANSFER_NS + 3 * GAP_NS)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What one rank does otherwise.

    ``slower`` adds ns to each kernel of a name, ``slower_at`` to those at these places in the step;
    ``late_ns`` is idle time before each kernel of
    ``late`` because its launch call comes only then, in place of the usual gap; ``extra`` adds ns to
    the first kernel of each step.
    """

    slower: Mapping[str, int] = field(default_factory=dict)
    slower_at: Mapping[int, int] = field(default_factory=dict)
    late: tuple[str, ...] = ()
    late_ns: int = 0
    extra: Sequence[int] = ()


@dataclass(frozen=True, kw_only=True)
class Session:
    """One nsys session of a run in several files.

    ``began_ns`` is when it began on the clock of its machine, from which its timestamps count;
    ``calendar_ns`` is by how much UTC of that machine is wrong; ``saw`` are the steps it was on for.
    """

    began_ns: int = 0
    host: str = "one"
    calendar_ns: int = 0
    saw: range = range(1_000)


MACHINE_NS = 20_000_000_000
UTC_NS = 1_767_225_600_000_000_000


def capture(plans: Sequence[Plan], **run: Any) -> ExportBuilder:
    """Return a capture of one process and GPU per plan; ``run`` as for ``simulate``."""
    export = ExportBuilder()
    ranks = []
    for gpu in range(len(plans)):
        export.gpu(gpu, H100).process(4000 + gpu, cuda_devices=list(range(len(plans))))
        ranks.append(_Rank(export=export, device=gpu, pid=4000 + gpu))
    return export.session(simulate(plans, ranks, **run) + 1_000_000)


def captures(plans: Sequence[Plan], sessions: Sequence[Session], **run: Any) -> list[ExportBuilder]:
    """Return a capture of its own for each plan: process 4000 on GPU 0 of each."""
    ranks = [
        _Rank(
            export=ExportBuilder().gpu(0, H100).process(4000, cuda_devices=[0]),
            device=0,
            pid=4000,
            session=session,
        )
        for session in sessions
    ]
    end = simulate(plans, ranks, **run)
    return [
        rank.export.system_env("Hostname", session.host).session(
            end - session.began_ns + 1_000_000,
            system_clock_ns=MACHINE_NS + session.began_ns,
            utc_epoch_ns=UTC_NS + session.began_ns + session.calendar_ns,
        )
        for rank, session in zip(ranks, sessions, strict=True)
    ]


@dataclass(frozen=True, kw_only=True)
class _Rank:
    """Where a rank is written to."""

    export: ExportBuilder
    device: int
    pid: int
    session: Session = field(default_factory=Session)


def simulate(
    plans: Sequence[Plan],
    ranks: Sequence[_Rank],
    *,
    kernels: Sequence[tuple[str, int]] = STEP,
    collectives: Sequence[str] = (ALL_REDUCE,),
    steps: int = 5,
    gap_ns: int = GAP_NS,
    at: int = 1_000_000,
) -> int:
    """Write the steps of all ranks, each step in an NVTX range, and return when they end."""
    ready = [at] * len(plans)
    number = 0
    for step in range(steps):
        opened = [entry - 900 for entry in ready]
        last_call = [entry - 800 for entry in ready]
        for place, (name, ns) in enumerate(kernels):
            number += 1
            late = [bool(plan.late_ns) and name in plan.late for plan in plans]
            calls = [ready[gpu] if late[gpu] else opened[gpu] + 100 for gpu in range(len(plans))]
            entries = [
                ready[gpu] + (plan.late_ns if late[gpu] else gap_ns)
                for gpu, plan in enumerate(plans)
            ]
            together = max(entries) + ns
            for gpu, plan in enumerate(plans):
                end = entries[gpu] + ns + plan.slower.get(name, 0) + plan.slower_at.get(place, 0)
                end += plan.extra[step] if plan.extra and not place else 0
                ready[gpu] = together if name in collectives else end
                last_call[gpu] = max(last_call[gpu], calls[gpu] + 10)
                _write(ranks[gpu], name, number, step, calls[gpu], entries[gpu], ready[gpu])
        for gpu, rank in enumerate(ranks):
            if step in rank.session.saw:
                began = rank.session.began_ns
                first, last = opened[gpu] - began, last_call[gpu] + 10 - began
                rank.export.nvtx(f"step_{step}", first, last, pid=rank.pid)
    return max(ready)


def _write(rank: _Rank, name: str, number: int, step: int, call: int, start: int, end: int) -> None:
    """Write one kernel and its launch call in the times of the rank's session, if it was on."""
    if step not in rank.session.saw:
        return
    began = rank.session.began_ns
    rank.export.launch(
        "cudaLaunchKernel", call - began, call - began + 10, correlation=number, pid=rank.pid
    )
    rank.export.kernel(
        name,
        start - began,
        end - began,
        correlation=number,
        device=rank.device,
        pid=rank.pid,
    )
