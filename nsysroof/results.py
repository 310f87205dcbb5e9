"""The results as plain data: what crosses from the analysis to every report, file and gate.

Each class is one object of the JSON described in the command line's contract; field names carry
their unit. ``None`` means "not known", and a finding says why; it is never written as 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import polars as pl

FORMAT_VERSION = "1.0"
"""Minor versions add fields, major versions break. 1.0: the first."""

SEVERITIES = ("error", "warning", "note")
"""What a finding can be, the worst first."""

IDLE_CAUSES = (
    "in_graph",
    "between_graphs",
    "host_late",
    "sync",
    "dependency",
    "profiler",
    "outside_steps",
    "unknown",
)


class _Plain(msgspec.Struct, frozen=True, kw_only=True):
    """Base of all result objects."""


class _Tables(_Plain, frozen=True, kw_only=True):
    """Base of the answers of whole commands, whose lists are tables."""

    def frame(self, name: str) -> pl.DataFrame:
        """Return one table as a polars frame: ``operators``, ``gaps``, ``kernels``.

        Columns are named as in every other format; ``docs/results.md`` describes them.

        Raises:
            UsageError: ``unknown-table`` where there is none of that name.
        """
        from nsysroof.tables import frame_of, table_named  # noqa: PLC0415  it imports this module

        return frame_of(table_named(self, name))

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from nsysroof.notebook import html_of  # noqa: PLC0415  it imports this module

        return html_of(self)


class Finding(_Plain, frozen=True, kw_only=True):
    """Something the reader must know before the numbers; ``severity`` error trips ``--strict``."""

    slug: str
    severity: str  # error | warning | note
    text: str
    hint: str


class CaptureDevice(_Plain, frozen=True, kw_only=True):
    """One GPU of the capture; ``name`` is null where the export does not tell."""

    gpu: int
    name: str | None
    kernels: int


class CaptureProcess(_Plain, frozen=True, kw_only=True):
    """One process that launched work or had kernels recorded."""

    pid: int
    launches: int
    kernels: int


class Capture(_Plain, frozen=True, kw_only=True):
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


class PeakUsed(_Plain, frozen=True, kw_only=True):
    """One peak that a bound was divided by: ``value`` per second, and where it comes from."""

    key: str
    value: float
    source: str


class Assumptions(_Plain, frozen=True, kw_only=True):
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
    draft: str | None = None
    drafts: int | None = None
    unprofiled_step_us: float | None = None
    window_s: list[float] | None = None
    window_anchor_ns: int | None = None
    devices: list[int] | None = None
    peaks: list[PeakUsed] = []
    notes: list[str] = []


class Coverage(_Plain, frozen=True, kw_only=True):
    """The share that the theory explains, 0..1, of kernel time and of kernel launches.

    The pair ``in_steps_*`` restricts both to the kernels of the analysed steps.
    """

    time_explained: float | None
    count_explained: float | None
    in_steps_time_explained: float | None = None
    in_steps_count_explained: float | None = None

    @property
    def time_unexplained(self) -> float | None:
        """The share of kernel time without a theory, null where coverage is not known."""
        return None if self.time_explained is None else 1 - self.time_explained


class KernelWindow(_Plain, frozen=True, kw_only=True):
    """The span from a GPU's first to its last kernel, with all activity clipped to it."""

    start_ns: int
    window_ns: int
    no_kernel_ns: int
    busy_ns: int
    idle_ns: int | None


class Timeline(_Plain, frozen=True, kw_only=True):
    """The account of one GPU: window = sum - overlap + idle, exact to the nanosecond.

    ``idle_ns`` and ``idle_by_cause`` are null where idle time cannot be known;
    ``sum_by_activity`` splits the sum: kernel, copy, fill, replay.
    """

    gpu: int
    window_start_ns: int
    window_ns: int
    sum_ns: int
    busy_ns: int
    overlap_ns: int
    idle_ns: int | None
    kernel_busy_ns: int
    copy_only_ns: int
    idle_by_cause: dict[str, int] | None
    sum_by_activity: dict[str, int] = {}
    kernel_window: KernelWindow | None = None

    def share(self, ns: int | None) -> float | None:
        """Return the share of the window that ``ns`` is, null for an empty window."""
        return None if ns is None or self.window_ns == 0 else ns / self.window_ns


class StreamRow(_Plain, frozen=True, kw_only=True):
    """The kernels of one stream of one context of one GPU; ``share`` of the GPU's window, 0..1.

    Streams of several GPUs may have one number; shares over all rows add up to how many streams
    ran at once on average.
    """

    gpu: int
    pid: int
    context: int
    stream: int
    kernels: int
    sum_ns: int
    busy_ns: int
    share: float | None


class Gap(_Plain, frozen=True, kw_only=True):
    """One stretch of idle time with one cause; ``cause`` is null where it cannot be judged."""

    gpu: int
    start_ns: int
    end_ns: int
    cause: str | None
    before: str
    after: str
    position: str  # in step | before replay | between steps | outside steps | no steps

    @property
    def idle_ns(self) -> int:
        """How long the GPU idled."""
        return self.end_ns - self.start_ns


class Phase(_Plain, frozen=True, kw_only=True):
    """The steps of one phase: prefill, decode, mixed or other."""

    phase: str
    count: int
    total_ns: int


class Spread(_Plain, frozen=True, kw_only=True):
    """A distribution in ns by nearest rank, so that each value was measured."""

    p10: int
    p50: int
    p90: int
    min: int
    max: int


class Steps(_Plain, frozen=True, kw_only=True):
    """The steps found; ``source`` is null and ``count`` 0 where none were."""

    count: int
    source: str | None  # nvtx | graph | pattern | user
    phase: str | None
    wall_ns: Spread | None


GRAPH_REPLAY = "(graph replay)"
"""Name that stands for the kernels of replays that a capture shows only as a whole."""


class StepKernel(_Plain, frozen=True, kw_only=True):
    """The kernels of one name and role in one step; ``role`` is null where there is no operator.

    ``instances`` is null for graph replays that hide their kernels.
    """

    name: str
    role: str | None
    instances: int | None
    ns: int


class Budget(_Plain, frozen=True, kw_only=True):
    """The step with the median wall time on the lowest GPU analysed, in integer ns.

    wall = bound + over_bound + fixed + unexplained + copy + idle - overlap, without tolerance.
    ``by_role`` splits bound + over_bound + fixed, ``idle_by_cause`` splits idle, and
    ``by_kernel`` all kernels, with their role where it has no bound too.
    """

    gpu: int
    step: int
    wall_ns: int
    bound_ns: int
    over_bound_ns: int
    fixed_ns: int
    unexplained_ns: int
    copy_ns: int
    idle_ns: int
    overlap_ns: int
    by_role: dict[str, int] = {}
    by_kernel: list[StepKernel] = []
    idle_by_cause: dict[str, int] = {}

    def share(self, ns: int) -> float | None:
        """Return the share of the wall time that ``ns`` is, null for an empty step."""
        return ns / self.wall_ns if self.wall_ns else None


class StepSlice(_Plain, frozen=True, kw_only=True):
    """One activity of a step; times may reach beyond the step's ends.

    ``what`` is the role of an operator, else the name of the kernel or the kind of copy.
    """

    stream: int | None
    start_ns: int
    end_ns: int
    activity: str  # operator | unexplained | copy | fill | replay
    what: str


class StepIdle(_Plain, frozen=True, kw_only=True):
    """One stretch of a step in which nothing ran; ``cause`` is null where it cannot be judged."""

    start_ns: int
    end_ns: int
    cause: str | None

    @property
    def idle_ns(self) -> int:
        """How long the GPU idled."""
        return self.end_ns - self.start_ns


class StepTimeline(_Plain, frozen=True, kw_only=True):
    """What ran in the step of the budget, in order of start, and the idle time between."""

    gpu: int
    step: int
    start_ns: int
    end_ns: int
    slices: list[StepSlice]
    idle: list[StepIdle]


class StepBounds(_Plain, frozen=True, kw_only=True):
    """The floors of one step beside what was measured, in ns.

    ``serial_ns`` is the sum over kernels of max(FLOP/peak, bytes/bandwidth) (method 1);
    ``hard_ns`` the largest of the summed resources (method 2); ``weights_once_ns`` the weights
    and the KV cache read once.
    """

    measured_ns: int | None
    serial_ns: float | None
    hard_ns: float | None
    weights_once_ns: float | None
    tokens: float | None
    tokens_per_s: float | None
    tokens_per_s_bound: float | None

    def over(self, bound_ns: float | None) -> float | None:
        """Return measured / bound, null where either is not known.

        >>> bounds = StepBounds(measured_ns=300, serial_ns=200.0, hard_ns=None,
        ...     weights_once_ns=None, tokens=None, tokens_per_s=None, tokens_per_s_bound=None)
        >>> bounds.over(bounds.serial_ns), bounds.over(bounds.hard_ns)
        (1.5, None)
        """
        return None if self.measured_ns is None or not bound_ns else self.measured_ns / bound_ns


class OperatorBytes(_Plain, frozen=True, kw_only=True):
    """Bytes of one operator instance by kind."""

    weight: int = 0
    scale: int = 0
    act_read: int = 0
    act_write: int = 0
    kv_read: int = 0
    kv_write: int = 0
    state: int = 0
    link: int = 0

    @property
    def memory(self) -> int:
        """Bytes that cross the GPU's memory: every kind but ``link``.

        >>> OperatorBytes(weight=4, kv_read=2, link=8).memory
        6
        """
        kinds = (self.weight, self.scale, self.act_read, self.act_write)
        return sum(kinds) + self.kv_read + self.kv_write + self.state


class OperatorRow(_Plain, frozen=True, kw_only=True):
    """One operator of the model, measured against its bound; times of one instance in ns.

    ``kernels`` are the names of its kernels, the main kernel first;
    ``ratio`` = measured / bound; ``reachable_ratio`` = measured / reachable, null without
    measured roofs; ``excess_ns_per_step`` is what would be won back per step at the bound.
    ``blocks`` are those of the main kernel, ``waves`` of them per SM; ``wave_bound_ns`` is the
    bound of a compute-limited one in whole waves, beside ``bound_ns`` and no part of it.
    """

    role: str
    kind: str
    instances_per_step: float
    reads_per_step: float | None
    kernels: list[str]
    measured_ns: int
    main_ns: int
    p10_ns: int
    p90_ns: int
    min_ns: int
    advance_ns: int
    bound_ns: float | None
    min_bound_ns: float | None
    reachable_ns: float | None
    floor_ns: float | None
    limiter: str | None  # memory | compute | link | latency
    ratio: float | None
    reachable_ratio: float | None
    excess_ns_per_step: float | None
    flop: int
    bytes: OperatorBytes
    intensity: float | None
    dtype: str
    evidence: str  # model | nvtx-shape | launch-geometry | copy-record | rule
    confidence: str  # high | medium | low
    formula: str
    inputs: dict[str, int | float | str]
    notes: list[str]
    blocks: int | None = None
    waves: float | None = None
    wave_bound_ns: float | None = None

    @property
    def ns_per_step(self) -> float:
        """Time of all instances in a step, each as long as the median one."""
        return self.measured_ns * self.instances_per_step

    @property
    def flop_per_s(self) -> float | None:
        """Achieved rate of the median instance, null where it took no time."""
        return self.flop / self.measured_ns * 1e9 if self.measured_ns else None


class KernelRow(_Plain, frozen=True, kw_only=True):
    """One distinct (name, grid, block, role); ``role`` is null where there is no operator."""

    name: str
    klass: str = msgspec.field(name="class")
    grid: list[int]
    block: list[int]
    instances: int
    total_ns: int
    p50_ns: int
    min_ns: int
    max_ns: int
    role: str | None
    ratio: float | None


class UnexplainedRow(_Plain, frozen=True, kw_only=True):
    """Kernels without an operator; ``share`` of all kernel time, 0..1.

    ``instances_per_step`` and ``ns_per_step`` are means over the analysed steps, null without
    steps. ``bytes_low`` and ``bytes_high`` are the fewest and the most bytes that one instance can
    have read and written, by ``evidence``: null where nothing tells or limits them. ``sizes`` are
    batch, m, n and k of a matrix product that an NVTX range tells. ``bound_ns`` is
    the time of the fewest at the bandwidth of the GPU; ``ratio`` = p50 / bound, so at most that,
    null where the most is not known or the bound lies below the latency floor. ``stub`` is a rule to fill in where the class is unknown.
    """

    name: str
    klass: str = msgspec.field(name="class")
    grid: list[int]
    instances: int
    total_ns: int
    share: float
    hint: str
    p50_ns: int | None = None
    instances_per_step: float | None = None
    ns_per_step: float | None = None
    bytes_low: int | None = None
    bytes_high: int | None = None
    evidence: str | None = None  # launch-geometry | nvtx-shape
    sizes: list[int] | None = None
    bound_ns: float | None = None
    ratio: float | None = None
    stub: str | None = None


class ImpossibleRow(_Plain, frozen=True, kw_only=True):
    """An operator measured below its bound; ``hard`` where it is below the minimum bound too."""

    role: str
    ratio: float
    hard: bool
    likely_cause: str
    evidence: str


class LinkPart(_Plain, frozen=True, kw_only=True):
    """The copies of one link by size and by the host memory that they read or wrote.

    ``memory`` is null where no host memory is part of the copy; ``ratio`` where small copies say
    nothing of the link.
    """

    size: str  # <64 kB | <1 MB | >=1 MB
    memory: str | None  # pinned | pageable | managed | unknown
    copies: int
    bytes: int
    busy_ns: int
    bytes_per_s: float | None
    ratio: float | None


class LinkRow(_Plain, frozen=True, kw_only=True):
    """All copies of one kind against the peak of the link they cross.

    ``overlapped_share`` is the share of the busy time in which a kernel of the GPU ran too, 0..1.
    What is ``_per_step`` is the mean over the analysed steps of the GPU, null without steps;
    ``step_share`` is the share of their wall time in which these copies ran.
    """

    kind: str  # h2d | d2h | d2d | p2p | nvlink | c2c
    gpu: int
    copies: int
    bytes: int
    busy_ns: int
    bytes_per_s: float | None
    peak_bytes_per_s: float | None
    ratio: float | None
    overlapped_share: float | None = None
    copies_per_step: float | None = None
    bytes_per_step: float | None = None
    busy_ns_per_step: float | None = None
    step_share: float | None = None
    parts: list[LinkPart] = []
    note: str = ""


class CollectiveRow(_Plain, frozen=True, kw_only=True):
    """The collectives of one role on one GPU: waiting for the last rank, then moving bytes.

    ``wait_ns``, ``transfer_ns`` and ``skew_ns`` (between the first and the last rank to enter)
    are the p50 of one instance, ``*_total_ns`` sums over all. ``method`` tells how they were
    split: ``arrival`` where every rank is on one clock; else ``percentile``, which takes the
    shortest tenth of the instances for mere transfer and knows no skew.
    """

    role: str
    gpu: int
    instances: int
    wait_ns: int
    transfer_ns: int
    skew_ns: int | None
    wait_total_ns: int
    transfer_total_ns: int
    wait_ns_per_step: float
    transfer_ns_per_step: float
    method: str  # arrival | percentile


class OverlapRow(_Plain, frozen=True, kw_only=True):
    """One role, its kernels beside kernels of other streams apart from those that ran alone.

    ``clean_ns`` and ``overlapped_ns`` are the p50 of one kernel, null where there is none;
    ``slowdown`` is overlapped over clean.
    """

    role: str
    clean: int
    overlapped: int
    clean_ns: int | None
    overlapped_ns: int | None
    slowdown: float | None


class Host(_Plain, frozen=True, kw_only=True):
    """What the host did: evidence for causes, never time to win back."""

    launch_calls: int
    launch_ns: int
    sync_ns: int


class Report(_Tables, frozen=True, kw_only=True):
    """The answer of ``analyze``: saved, rendered, compared and gated as it is.

    ``command`` is what made it, with files by their name alone; null from the library.
    """

    format: str = "nsysroof-report"
    format_version: str = FORMAT_VERSION
    tool_version: str
    command: str | None = None
    capture: Capture
    assumptions: Assumptions
    coverage: Coverage
    timeline: list[Timeline]
    streams: list[StreamRow] = []
    phases: list[Phase]
    steps: Steps
    budget: Budget | None
    step_timeline: StepTimeline | None = None
    step_bounds: StepBounds | None
    operators: list[OperatorRow]
    kernels: list[KernelRow]
    gaps: list[Gap]
    unexplained: list[UnexplainedRow]
    impossible: list[ImpossibleRow]
    links: list[LinkRow]
    collectives: list[CollectiveRow] = []
    overlaps: list[OverlapRow] = []
    host: Host

    def per_step(self, ns: int) -> float | None:
        """Return ``ns`` of a whole window per step of any phase, null where there are none."""
        steps = sum(phase.count for phase in self.phases)
        return ns / steps if steps else None


class EstimateRow(_Plain, frozen=True, kw_only=True):
    """One operator of a step in theory; ``count`` instances of it run per step.

    ``resident_ns`` is its bound without activations, which small steps keep in L2; an ``optional``
    one may be fused away, so floors of the whole step leave it out.
    """

    role: str
    kind: str
    count: int
    flop: int
    bytes: OperatorBytes
    bound_ns: float
    resident_ns: float | None = None
    min_bound_ns: float | None
    reachable_ns: float | None = None
    limiter: str
    intensity: float | None
    dtype: str
    formula: str
    inputs: dict[str, int | float | str]
    optional: bool = False


class EstimateLayer(_Plain, frozen=True, kw_only=True):
    """One repeating layer: weights and KV of its matmuls and attention, and their time.

    Activations come on top: ``activation_bytes`` of the same operators, which small steps keep
    in L2, and ``bound_with_activations_ns`` with them read from and written to memory.
    """

    layers: int
    bytes: int
    bound_ns: float
    activation_bytes: int
    bound_with_activations_ns: float
    small_kernels: int


class EstimateStep(_Plain, frozen=True, kw_only=True):
    """One step in theory, ns; tokens per second follow from ``serial_ns``.

    ``serial_ns``: matmuls, attention, LM head and collectives one after another, weights, KV and
    links without activations (method 1), ``serial_bytes`` of them; ``serial_reachable_ns`` the same
    at measured roofs;
    ``serial_with_activations_ns`` every operator with its activations.
    ``hard_ns``: max(sum FLOP/peak, sum bytes/bandwidth, sum link/link peak) over every operator,
    activations included; what engines may fuse away (residual adds, casts) is left out.
    ``memory_ns``, ``compute_ns``, ``link_ns``: the summed resources that it is the largest of.
    ``weights_once_ns``: every weight and KV byte read once (method 2 in one line).
    ``quoted_active_ns``: the active parameters as vendors quote them, embedding table included,
    read once; no KV.
    ``small_kernels_ns``: the other kernels of all layers at the latency floor.
    """

    serial_ns: float
    serial_bytes: int | None = None
    serial_with_activations_ns: float
    serial_reachable_ns: float | None = None
    hard_ns: float
    memory_ns: float | None = None
    compute_ns: float | None = None
    link_ns: float | None = None
    weights_once_ns: float
    quoted_active_ns: float | None = None
    small_kernels_ns: float | None
    tokens: float
    tokens_per_s: float
    tokens_per_s_with_small_kernels: float | None
    bytes: int
    flop: int


class EstimateMemory(_Plain, frozen=True, kw_only=True):
    """What must fit: weights, KV cache and recurrent states over all GPUs, and GPUs for them.

    ``gpus_needed`` divides by ``capacity_bytes``: what the device reports where that is known, else
    the decimal size on the box; null where neither is. ``nominal_bytes`` and ``gpus_needed_nominal``
    are by the size on the box. ``next_tp`` is the fewest tensor-parallel GPUs, at least that many,
    that divide the model's heads; ``fitting_tp`` the fewest whose own share fits, with what is
    replicated on each. ``share_bytes`` is what one GPU of this workload holds.
    """

    weight_bytes: int
    kv_bytes: int
    state_bytes: int = 0
    capacity_bytes: int | None
    gpus_needed: int | None
    nominal_bytes: int | None = None
    gpus_needed_nominal: int | None = None
    next_tp: int | None = None
    next_tp_nominal: int | None = None
    fitting_tp: int | None = None
    share_bytes: int | None = None
    share_fits: bool | None = None


class EstimateOffload(_Plain, frozen=True, kw_only=True):
    """Experts that are brought from the host when a step needs them.

    ``routed_bytes_per_step`` are those of all experts that a step touches, ``link_bytes_per_step``
    those of the misses; ``hit_rate`` is the share that stays off the link. The cap is what the
    slower of link and host memory allows, whatever else the step does.
    """

    expert_bytes: int
    misses_per_layer: float
    routed_bytes_per_step: float
    link_bytes_per_step: float
    link_bytes_per_token: float
    hit_rate: float | None
    link_bytes_per_s: float
    host_bytes_per_s: float | None
    limiter: str  # link | host memory
    transfer_ns: float
    cap_tokens_per_s: float | None
    notes: list[str]


class Estimate(_Tables, frozen=True, kw_only=True):
    """The answer of ``estimate``: the best a model can do on a GPU."""

    format: str = "nsysroof-estimate"
    format_version: str = FORMAT_VERSION
    tool_version: str
    assumptions: Assumptions
    operators: list[EstimateRow]
    layer: EstimateLayer
    step: EstimateStep
    memory: EstimateMemory
    offload: EstimateOffload | None = None
    ridge: dict[str, float]
    experts: dict[str, float] | None
    parameters: dict[str, int]
    notes: list[str]


class SweepRow(_Plain, frozen=True, kw_only=True):
    """One point of a sweep, per GPU; its numbers are null where ``note`` says why there are none.

    ``context`` is the longest. ``weight_bytes``, ``kv_bytes``, ``activation_bytes`` and
    ``link_bytes`` are what one GPU moves in one step, ``weights_ns`` the part of ``memory_ns`` that
    the weights take; ``resident_bytes`` what all GPUs hold.
    """

    gpu: str | None
    batch: int
    context: int
    new_tokens: int | None
    weights: str | None
    kv: str | None
    activations: str | None = None
    tp: int
    ep: int
    dp: int
    serial_ns: float | None = None
    serial_with_activations_ns: float | None = None
    hard_ns: float | None = None
    memory_ns: float | None = None
    weights_ns: float | None = None
    compute_ns: float | None = None
    link_ns: float | None = None
    limiter: str | None = None  # memory | compute | link
    tokens: float | None = None
    tokens_per_s: float | None = None
    weight_bytes: int | None = None
    kv_bytes: int | None = None
    activation_bytes: int | None = None
    link_bytes: int | None = None
    flop: int | None = None
    experts: float | None = None
    resident_bytes: int | None = None
    gpus_needed: int | None = None
    note: str | None = None


class Sweep(_Tables, frozen=True, kw_only=True):
    """One model over several workloads or machines; ``axes`` are the columns that change.

    ``compared`` are those of them that stand side by side.
    """

    format: str = "nsysroof-sweep"
    format_version: str = FORMAT_VERSION
    tool_version: str
    model: str
    phase: str
    axes: list[str]
    compared: list[str] = []
    rows: list[SweepRow]
    notes: list[str] = []
