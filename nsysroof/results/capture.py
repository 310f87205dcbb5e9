"""What a capture can answer, what must be known first, and every input of the theory."""

from __future__ import annotations

from nsysroof.results.base import Plain

SEVERITIES = ("error", "warning", "note")
"""What a finding can be, the worst first."""


class Finding(Plain, frozen=True, kw_only=True):
    """Something the reader must know before the numbers; ``severity`` error trips ``--strict``."""

    slug: str
    severity: str  # error | warning | note
    text: str
    hint: str


class CaptureDevice(Plain, frozen=True, kw_only=True):
    """One GPU of the capture; ``name`` is null where the export does not tell."""

    gpu: int
    name: str | None
    kernels: int


class CaptureProcess(Plain, frozen=True, kw_only=True):
    """One process that launched work or had kernels recorded."""

    pid: int
    launches: int
    kernels: int


class Capture(Plain, frozen=True, kw_only=True):
    """What a capture can answer: the verdict at the head of every report."""

    nsys_version: str | None
    schema_version: str | None
    graph_mode: str  # node | graph | none | missing | unknown
    trace_kind: str  # software | hardware | unknown
    kernels: int
    kernels_used: int
    set_aside: int
    set_aside_reasons: dict[str, int]
    launches: int
    graph_launches: int
    graph_replays: int
    graph_kernels: int
    copies: int
    fills: int
    processes: int
    process_list: list[CaptureProcess]
    devices: list[CaptureDevice]
    events_collected: int | None
    events_found: int
    findings: list[Finding]


class PeakUsed(Plain, frozen=True, kw_only=True):
    """One peak that a bound was divided by: ``value`` per second, and where it comes from."""

    key: str
    value: float
    source: str


class Assumptions(Plain, frozen=True, kw_only=True):
    """Every input that the theory took, as given or as found."""

    model: str | None = None
    gpu: str | None = None
    gpu_source: str | None = None
    batch: int | None = None
    context: list[int] | None = None
    new_tokens: int | None = None
    query_lengths: list[int] | None = None
    phase: str | None = None
    weights: str | None = None
    kv: str | None = None
    activations: str | None = None
    tp: int | None = None
    ep: int | None = None
    dp: int | None = None
    experts: float | None = None
    floor_us: float | None = None
    floor_source: str | None = None
    tokens_per_step: float | None = None
    shared_prefix: int | None = None
    draft: str | None = None
    drafts: int | None = None
    unprofiled_step_us: float | None = None
    window_s: list[float] | None = None
    window_anchor_ns: int | None = None
    devices: list[int] | None = None
    peaks: list[PeakUsed] = []
    notes: list[str] = []
