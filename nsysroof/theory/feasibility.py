"""What must fit and on how many GPUs: weights, KV cache and states against real capacities.

The size on the box is decimal and rounded; the device reports what it has. Tensor parallelism also
has to divide the model's heads, and replicates what it cannot divide.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from nsysroof.errors import UsageError
from nsysroof.results import EstimateMemory
from nsysroof.theory.models.layers import Attention, LatentAttention, Mlp, Moe
from nsysroof.theory.models.linear import replicated_heads, shared_heads
from nsysroof.theory.models.spec import ModelSpec
from nsysroof.theory.models.states import DeltaNet, Lightning, Mamba2
from nsysroof.theory.models.weights import (
    cache_bytes,
    share_of_weights,
    state_bytes,
    weight_bytes,
)
from nsysroof.theory.peaks import Peaks
from nsysroof.theory.workload import Workload

MOST_GPUS = 1024
"""Beyond this no tensor-parallel group is looked for."""


def gpus_for(size: int, capacity: int) -> int:
    """Return the fewest GPUs whose memories hold ``size`` bytes, if every byte were usable.

    >>> gpus_for(2 * 10**12, 96 * 10**9), gpus_for(2 * 10**12, 97_871 * 2**20)
    (21, 20)
    """
    return ceil(size / capacity)


def must_fit(model: ModelSpec, workload: Workload, peaks: Peaks) -> EstimateMemory:
    """Return what a workload must hold, how many GPUs that takes, and one GPU's share.

    Args:
        model: The decoder.
        workload: The step; its sequences are those of one data-parallel rank.
        peaks: Of the GPU, with its capacities.

    >>> from nsysroof.theory.gpus import find_gpu
    >>> from nsysroof.theory.models.spec import find_model
    >>> memory = must_fit(find_model("llama-3.1-405b"), Workload.create(context=128),
    ...                   find_gpu("h100-sxm").dense_peaks())
    >>> memory.gpus_needed, memory.gpus_needed_nominal, memory.next_tp, memory.fitting_tp
    (10, 11, 16, 16)
    """
    weights = weight_bytes(model, workload)
    cached = cache_bytes(model, workload) * workload.dp
    states = state_bytes(model, workload) * workload.dp
    capacity, nominal = peaks.capacity_bytes, peaks.nominal_bytes
    whole = weights + cached + states
    needed = None if capacity is None else gpus_for(whole, capacity)
    needed_nominal = None if nominal is None else gpus_for(whole, nominal)
    share = share_bytes(model, workload)
    return EstimateMemory(
        weight_bytes=weights,
        kv_bytes=cached,
        state_bytes=states,
        capacity_bytes=capacity,
        gpus_needed=needed,
        nominal_bytes=nominal,
        gpus_needed_nominal=needed_nominal,
        next_tp=next_tp(model, needed),
        next_tp_nominal=next_tp(model, needed_nominal),
        fitting_tp=None if capacity is None else fitting_tp(model, workload, capacity),
        share_bytes=share,
        share_fits=None if capacity is None else share <= capacity,
    )


def share_bytes(model: ModelSpec, workload: Workload) -> int:
    """Return the bytes that one GPU holds: its share, and what parallelism replicates on it.

    Raises:
        UsageError: The parallelism does not divide the model.
    """
    kept = cache_bytes(model, workload, per_gpu=True) + state_bytes(model, workload, per_gpu=True)
    return share_of_weights(model, workload) + kept


def next_tp(model: ModelSpec, least: int | None) -> int | None:
    """Return the fewest tensor-parallel GPUs, at least ``least``, that divide the model's heads.

    Args:
        model: The decoder.
        least: GPUs needed; None where that is not known.

    Returns:
        None where no number of GPUs up to 1,024 does.

    >>> from nsysroof.theory.models.spec import find_model
    >>> next_tp(find_model("glm-4.5"), 21), next_tp(find_model("kimi-k2"), 21)
    (24, 32)
    """
    if least is None:
        return None
    counts = range(least, MOST_GPUS + 1)
    return next((tp for tp in counts if divides_heads(model, tp)), None)


def divides_heads(model: ModelSpec, tp: int) -> bool:
    """Return whether every head of the model lies on one of ``tp`` GPUs, KV heads replicated.

    >>> from nsysroof.theory.models.spec import find_model
    >>> [divides_heads(find_model("qwen3-30b-a3b"), tp) for tp in (2, 3, 8, 64)]
    [True, False, True, False]
    """
    try:
        for mixer in {layer.mixer for layer in model.layers}:
            match mixer:
                case Attention():
                    shared_heads(mixer.heads, tp)
                    replicated_heads(mixer.kv_heads, tp)
                case LatentAttention():
                    shared_heads(mixer.heads, tp)
                case Mamba2() | DeltaNet() | Lightning():
                    mixer.linears(model.hidden, tp)
    except UsageError:
        return False
    return True


def divides_widths(model: ModelSpec, tp: int) -> bool:
    """Return whether ``tp`` divides the width of every feed-forward block and expert.

    >>> from nsysroof.theory.models.spec import find_model
    >>> divides_widths(find_model("glm-4.5"), 24), divides_widths(find_model("gpt-oss-120b"), 128)
    (True, False)
    """
    blocks = {layer.ffn for layer in model.layers}
    widths = [block.intermediate for block in blocks if isinstance(block, Mlp | Moe)]
    widths += [block.shared for block in blocks if isinstance(block, Moe)]
    return all(width % tp == 0 for width in widths)


def fitting_tp(model: ModelSpec, workload: Workload, capacity: int) -> int | None:
    """Return the fewest tensor-parallel GPUs each of which can hold its share of the workload.

    Args:
        model: The decoder.
        workload: Its sequences and formats; its own ``tp`` is left aside.
        capacity: Bytes of one GPU.

    Returns:
        None with expert parallelism, or where no number of GPUs that divides heads and widths does.
    """
    if workload.ep > 1:
        return None
    counts = (tp for tp in range(1, MOST_GPUS + 1) if divides_heads(model, tp))
    for tp in counts:
        if divides_widths(model, tp):
            share = share_bytes(model, replace(workload, tp=tp))
            if share <= capacity:
                return tp
    return None
