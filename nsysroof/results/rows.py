"""The rows of a report: operators, kernels, what is unexplained or impossible, links."""

from __future__ import annotations

import msgspec

from nsysroof.results.base import Plain


class Coverage(Plain, frozen=True, kw_only=True):
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


class OperatorBytes(Plain, frozen=True, kw_only=True):
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


class OperatorRow(Plain, frozen=True, kw_only=True):
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


class KernelRow(Plain, frozen=True, kw_only=True):
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


class UnexplainedRow(Plain, frozen=True, kw_only=True):
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


class ImpossibleRow(Plain, frozen=True, kw_only=True):
    """An operator measured below its bound; ``hard`` where it is below the minimum bound too."""

    role: str
    ratio: float
    hard: bool
    likely_cause: str
    evidence: str


class LinkPart(Plain, frozen=True, kw_only=True):
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


class LinkRow(Plain, frozen=True, kw_only=True):
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


class CollectiveRow(Plain, frozen=True, kw_only=True):
    """The collectives of one role on one GPU: waiting for the last rank, then moving bytes.

    ``wait_ns``, ``transfer_ns`` and ``skew_ns`` (between the first and the last rank to enter)
    are the p50 of one instance, ``*_total_ns`` sums over all. ``method`` tells how they were
    split: ``arrival`` where every rank is on one clock; else ``percentile``, which takes the
    shortest tenth of the instances for mere transfer and knows no skew. The rates are those of
    the p50 transfer: ``algorithm_bytes_per_s`` of the message ``bytes``, ``bus_bytes_per_s`` as
    nccl-tests define it; ``ratio`` is transfer over bound.
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
    operation: str | None = None  # all_reduce, all_gather, …
    ranks: int | None = None
    bytes: int | None = None
    algorithm_bytes_per_s: float | None = None
    bus_bytes_per_s: float | None = None
    peak_bytes_per_s: float | None = None
    ratio: float | None = None


class OverlapRow(Plain, frozen=True, kw_only=True):
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


class Host(Plain, frozen=True, kw_only=True):
    """What the host did: evidence for causes, never time to win back."""

    launch_calls: int
    launch_ns: int
    sync_ns: int
