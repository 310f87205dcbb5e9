"""What sampled counters of a GPU tell, beside what the theory counts."""

from __future__ import annotations

from nsysroof.results.base import Plain


class MetricRow(Plain, frozen=True, kw_only=True):
    """The means of what was sampled on one GPU, over its analysed steps or over one role.

    ``scope`` is ``step``, ``role``, or ``window`` where no steps were found. ``samples`` are those
    that lie inside, and what is null was not sampled. Shares are of what the GPU can sustain at
    its clocks, 0..1. ``dram_bytes`` = (read + write) x ``peak_bytes_per_s`` x ``span_ns``, which
    is the mean wall time of a step, or by how much the median instance of a role moves the end of
    its stream; ``theory_bytes`` are of the same, and ``bytes_ratio`` = measured / theory.
    """

    gpu: int
    scope: str  # step | role | window
    role: str | None
    samples: int
    interval_ns: float | None
    sampled_share: float | None
    sm_active: float | None
    sm_issue: float | None
    tensor_active: float | None
    dram_read: float | None
    dram_write: float | None
    clock_hz: float | None
    rated_clock_hz: float | None
    span_ns: float | None
    dram_bytes: float | None
    theory_bytes: float | None
    bytes_ratio: float | None
    peak_bytes_per_s: float | None
    peak_source: str | None
