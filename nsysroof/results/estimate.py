"""What theory allows without a trace: one estimate, or a sweep of them."""

from __future__ import annotations

from nsysroof.results.base import FORMAT_VERSION, Plain, Tables
from nsysroof.results.capture import Assumptions
from nsysroof.results.rows import OperatorBytes


class EstimateRow(Plain, frozen=True, kw_only=True):
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


class EstimateLayer(Plain, frozen=True, kw_only=True):
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


class EstimateStep(Plain, frozen=True, kw_only=True):
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


class EstimateMemory(Plain, frozen=True, kw_only=True):
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


class EstimateOffload(Plain, frozen=True, kw_only=True):
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


class Estimate(Tables, frozen=True, kw_only=True):
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


class SweepRow(Plain, frozen=True, kw_only=True):
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


class Sweep(Tables, frozen=True, kw_only=True):
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
