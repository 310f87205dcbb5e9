"""How the time of a GPU and of a step adds up: busy, overlapped, idle and why."""

from __future__ import annotations

from nsysroof.results.base import Plain

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


class KernelWindow(Plain, frozen=True, kw_only=True):
    """The span from a GPU's first to its last kernel, with all activity clipped to it."""

    start_ns: int
    window_ns: int
    no_kernel_ns: int
    busy_ns: int
    idle_ns: int | None


class Timeline(Plain, frozen=True, kw_only=True):
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


class StreamRow(Plain, frozen=True, kw_only=True):
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


class Gap(Plain, frozen=True, kw_only=True):
    """One stretch of idle time with one cause; ``cause`` is null where it cannot be judged.

    ``host_ns`` splits a gap of cause host_late by what the launching thread did: names of OS
    runtime calls, ``(launching)`` and ``(no call)``; null for other causes, and where calls were
    not recorded.
    """

    gpu: int
    start_ns: int
    end_ns: int
    cause: str | None
    before: str
    after: str
    position: str  # in step | before replay | between steps | outside steps | no steps
    host_ns: dict[str, int] | None = None

    @property
    def idle_ns(self) -> int:
        """How long the GPU idled."""
        return self.end_ns - self.start_ns


class HostLateRow(Plain, frozen=True, kw_only=True):
    """What the launching threads did while one GPU waited for a late host.

    ``doing``: ``os_call``, with the name of the call; ``launching``, from the beginning of the
    launch call on; ``no_call``, without an OS runtime call that was recorded, which is no proof
    that the thread computed. ``share`` is of the GPU's idle time of cause host_late, 0..1, and
    the rows of a GPU add up to it; ``gaps`` are those in which it occurs.
    """

    gpu: int
    doing: str  # os_call | launching | no_call
    call: str | None
    ns: int
    gaps: int
    share: float


class Phase(Plain, frozen=True, kw_only=True):
    """The steps of one phase: prefill, decode, mixed or other."""

    phase: str
    count: int
    total_ns: int


class Spread(Plain, frozen=True, kw_only=True):
    """A distribution in ns by nearest rank, so that each value was measured."""

    p10: int
    p50: int
    p90: int
    min: int
    max: int


class Steps(Plain, frozen=True, kw_only=True):
    """The steps found; ``source`` is null and ``count`` 0 where none were."""

    count: int
    source: str | None  # nvtx | graph | pattern | user
    phase: str | None
    wall_ns: Spread | None


GRAPH_REPLAY = "(graph replay)"
"""Name that stands for the kernels of replays that a capture shows only as a whole."""
DEVICE_COPY = "(copy within the device)"
"""Name that stands for the copies whose time counts with an operator."""


class StepKernel(Plain, frozen=True, kw_only=True):
    """The kernels of one name and role in one step; ``role`` is null where there is no operator.

    ``instances`` is null for graph replays that hide their kernels.
    """

    name: str
    role: str | None
    instances: int | None
    ns: int


class StepAccount(Plain, frozen=True, kw_only=True):
    """The account of one step of one GPU, in integer ns.

    wall = bound + over_bound + fixed + unexplained + copy + idle - overlap, without tolerance;
    ``idle_by_cause`` splits idle.
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
    idle_by_cause: dict[str, int] = {}

    def share(self, ns: int) -> float | None:
        """Return the share of the wall time that ``ns`` is, null for an empty step."""
        return ns / self.wall_ns if self.wall_ns else None


class Budget(StepAccount, frozen=True, kw_only=True):
    """The step with the median wall time on the lowest GPU analysed.

    ``by_role`` splits bound + over_bound + fixed, and ``by_kernel`` all kernels, with their role
    where it has no bound too, and the copies that count with an operator: into and out of the
    buffer of a collective.
    """

    by_role: dict[str, int] = {}
    by_kernel: list[StepKernel] = []


class StepRow(StepAccount, frozen=True, kw_only=True):
    """One step of many; its bounds are those of the median step's work."""

    start_ns: int


class StepSlice(Plain, frozen=True, kw_only=True):
    """One activity of a step; times may reach beyond the step's ends.

    ``what`` is the role of an operator, else the name of the kernel or the kind of copy.
    """

    stream: int | None
    start_ns: int
    end_ns: int
    activity: str  # operator | unexplained | copy | fill | replay
    what: str


class StepIdle(Plain, frozen=True, kw_only=True):
    """One stretch of a step in which nothing ran; ``cause`` is null where it cannot be judged."""

    start_ns: int
    end_ns: int
    cause: str | None

    @property
    def idle_ns(self) -> int:
        """How long the GPU idled."""
        return self.end_ns - self.start_ns


class StepTimeline(Plain, frozen=True, kw_only=True):
    """What ran in the step of the budget, in order of start, and the idle time between."""

    gpu: int
    step: int
    start_ns: int
    end_ns: int
    slices: list[StepSlice]
    idle: list[StepIdle]


class StepBounds(Plain, frozen=True, kw_only=True):
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
