"""Synthetic steps of several ranks that meet in collectives: who is late is planted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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


def capture(
    plans: Sequence[Plan],
    *,
    kernels: Sequence[tuple[str, int]] = STEP,
    collectives: Sequence[str] = (ALL_REDUCE,),
    steps: int = 5,
    gap_ns: int = GAP_NS,
    at: int = 1_000_000,
) -> ExportBuilder:
    """Return a capture of one process and GPU per plan; each step lies in an NVTX range."""
    export = ExportBuilder()
    for gpu in range(len(plans)):
        export.gpu(gpu, H100).process(4000 + gpu, cuda_devices=list(range(len(plans))))
    ready = [at] * len(plans)
    number = 0
    for step in range(steps):
        last_call = [entry - 800 for entry in ready]
        opened = [entry - 900 for entry in ready]
        for place, (name, ns) in enumerate(kernels):
            number += 1
            entries = []
            for gpu, plan in enumerate(plans):
                is_late = bool(plan.late_ns) and name in plan.late
                call = ready[gpu] if is_late else opened[gpu] + 100
                entries.append(ready[gpu] + (plan.late_ns if is_late else gap_ns))
                pid = 4000 + gpu
                export.launch("cudaLaunchKernel", call, call + 10, correlation=number, pid=pid)
                last_call[gpu] = max(last_call[gpu], call + 10)
            together = max(entries) + ns
            for gpu, plan in enumerate(plans):
                end = entries[gpu] + ns + plan.slower.get(name, 0) + plan.slower_at.get(place, 0)
                if not place and plan.extra:
                    end += plan.extra[step]
                ready[gpu] = together if name in collectives else end
                export.kernel(
                    name,
                    entries[gpu],
                    ready[gpu],
                    correlation=number,
                    device=gpu,
                    pid=4000 + gpu,
                )
        for gpu in range(len(plans)):
            export.nvtx(f"step_{step}", opened[gpu], last_call[gpu] + 10, pid=4000 + gpu)
    return export.session(max(ready) + 1_000_000)
