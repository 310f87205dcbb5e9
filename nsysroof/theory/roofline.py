"""From cost to time: the only code that divides by a peak.

Hard bound of one operator: the largest of its arithmetic, its memory traffic and its link traffic,
each over its peak. Dtypes of the tensor cores share them, so their times add; so do those of the
CUDA cores; the units run beside each other. The latency floor of a small kernel is kept apart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import ceil

from nsysroof.theory.cost import Cost, Operator
from nsysroof.theory.operators.collective import Exchange
from nsysroof.theory.peaks import CUDA_KEYS, TENSOR_KEYS, Peaks

NS_PER_S = 1e9


class Limiter(StrEnum):
    """What a bound is made of."""

    MEMORY = "memory"
    COMPUTE = "compute"
    LINK = "link"
    LATENCY = "latency"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The least time of one operator, ns, and what makes it.

    Attributes:
        spec_ns: The hard bound, or None where a peak it needs is not known.
        limiter: memory, compute or link; latency where the floor is above them; None without a
            bound.
        intensity: FLOP per byte of memory, or None without memory traffic.
        ridge: FLOP per byte at which the peaks balance, of the dtype that takes longest.
        floor_ns: The latency floor that was given.
        memory_ns: Bytes over bandwidth.
        compute_ns: FLOP over their peaks.
        link_ns: Link bytes over the link.
        missing: Keys of peaks that it needs and that are not known.
    """

    spec_ns: float | None
    limiter: Limiter | None
    intensity: float | None
    ridge: float | None
    floor_ns: float | None
    memory_ns: float | None
    compute_ns: float | None
    link_ns: float | None
    missing: tuple[str, ...]

    @property
    def least_ns(self) -> float | None:
        """The larger of the hard bound and the latency floor."""
        if self.spec_ns is None:
            return None
        return max(self.spec_ns, self.floor_ns or 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBound:
    """The floors of a whole step, ns; None where a peak is not known.

    ``serial_ns``: each operator's bound, one after another (method 1). ``hard_ns``: the largest of
    the summed resources ``memory_ns``, ``compute_ns`` and ``link_ns``, valid even where operators
    overlap (method 2). ``weights_once_ns``: the weights, the KV cache and the state moved once,
    nothing else.
    """

    serial_ns: float | None
    hard_ns: float | None
    memory_ns: float | None
    compute_ns: float | None
    link_ns: float | None
    weights_once_ns: float | None


def bound(
    cost: Cost, peaks: Peaks, *, floor_ns: float | None = None, link: str = "nvlink"
) -> Bound:
    """Return the roofline bound of one cost.

    Args:
        cost: What the operator computes and moves.
        peaks: What to divide by.
        floor_ns: Latency floor of a small kernel.
        link: Peak key of the link that ``cost.link`` crosses; ``nvlink`` falls back to ``p2p``.

    >>> from nsysroof.theory.peaks import Peak
    >>> peaks = Peaks(entries={"bw": Peak(4e12, "doc"), "bf16": Peak(989e12, "doc")})
    >>> b = bound(Cost(flop={"bf16": 20_971_520}, weight=20_971_520), peaks)
    >>> b.spec_ns, b.limiter.value, b.intensity
    (5242.88, 'memory', 1.0)
    """
    missing: list[str] = []
    dtype_ns = {
        dtype: _time_ns(flop, dtype, peaks, missing) for dtype, flop in cost.flop.items() if flop
    }
    memory_ns = _time_ns(cost.memory_bytes, "bw", peaks, missing)
    link_ns = _time_ns(cost.link, crossed_link(link, peaks), peaks, missing)
    compute_ns = max(_unit_ns(dtype_ns, TENSOR_KEYS), _unit_ns(dtype_ns, CUDA_KEYS))
    times = {Limiter.MEMORY: memory_ns, Limiter.COMPUTE: compute_ns, Limiter.LINK: link_ns}
    spec_ns = None if missing else max(times.values())
    limiter = None if missing else max(times, key=lambda unit: times[unit])
    if spec_ns is not None and floor_ns is not None and floor_ns > spec_ns:
        limiter = Limiter.LATENCY
    busiest = max(dtype_ns, key=lambda dtype: dtype_ns[dtype], default=None)
    return Bound(
        spec_ns=spec_ns,
        limiter=limiter,
        intensity=cost.total_flop / cost.memory_bytes if cost.memory_bytes else None,
        ridge=None if busiest is None else ridge_point(busiest, peaks),
        floor_ns=floor_ns,
        memory_ns=None if "bw" in missing else memory_ns,
        compute_ns=None if any(dtype in missing for dtype in dtype_ns) else compute_ns,
        link_ns=None if crossed_link(link, peaks) in missing else link_ns,
        missing=tuple(missing),
    )


def operator_bound(operator: Operator, peaks: Peaks, *, floor_ns: float | None = None) -> Bound:
    """Return the bound of an operator, over the link that its inputs name."""
    return bound(operator.cost, peaks, floor_ns=floor_ns, link=link_of(operator))


def link_of(operator: Operator) -> str:
    """Return the peak key of the link that an operator crosses."""
    return str(operator.inputs.get("link", "nvlink"))


def step_bounds(
    costs: Iterable[Cost], peaks: Peaks, *, links: Iterable[str] | None = None
) -> StepBound:
    """Return the three floors of a step from the costs of its operators.

    Args:
        costs: One for each operator instance.
        peaks: What to divide by.
        links: The link that each cost crosses; None: ``nvlink`` for all.

    >>> from nsysroof.theory.peaks import Peak
    >>> peaks = Peaks(entries={"bw": Peak(1e12, "doc"), "bf16": Peak(1e14, "doc")})
    >>> memory, compute = Cost(weight=1000), Cost(flop={"bf16": 200_000})
    >>> found = step_bounds([memory, compute], peaks)
    >>> found.serial_ns, found.hard_ns, found.memory_ns, found.weights_once_ns
    (3.0, 2.0, 1.0, 1.0)
    """
    each = list(costs)
    crossed = ["nvlink"] * len(each) if links is None else list(links)
    bounds = [bound(c, peaks, link=k).spec_ns for c, k in zip(each, crossed, strict=True)]
    known = [b for b in bounds if b is not None]
    serial_ns = sum(known) if len(known) == len(bounds) else None
    by_link: dict[str, int] = {}
    for cost, link in zip(each, crossed, strict=True):
        by_link[link] = by_link.get(link, 0) + cost.link
    local = bound(_without_link(sum(each, Cost())), peaks)
    # Links of several kinds carry their bytes beside each other.
    carried = [bound(Cost(link=n), peaks, link=k).spec_ns for k, n in by_link.items() if n]
    parts = [local.memory_ns, local.compute_ns, *carried]
    known_parts = [part for part in parts if part is not None]
    known_links = [ns for ns in carried if ns is not None]
    return StepBound(
        serial_ns=serial_ns,
        hard_ns=max(known_parts) if len(known_parts) == len(parts) else None,
        memory_ns=local.memory_ns,
        compute_ns=local.compute_ns,
        link_ns=max(known_links, default=0.0) if len(known_links) == len(carried) else None,
        weights_once_ns=bound(Cost(weight=sum(c.resident_bytes for c in each)), peaks).spec_ns,
    )


def exchange_ns(exchange: Exchange, peaks: Peaks, *, alpha_ns: float = 0.0) -> float | None:
    """Return the time of a collective: rounds·alpha + bytes over the link; None without a peak.

    >>> from nsysroof.theory.gpus import find_gpu
    >>> from nsysroof.theory.operators.collective import Algorithm, exchange
    >>> ring = exchange("all_reduce", Algorithm.RING, 16384, 8)
    >>> round(exchange_ns(ring, find_gpu("h100-sxm").dense_peaks(), alpha_ns=1000), 1)
    14063.7
    """
    moved = bound(Cost(link=exchange.link_bytes), peaks).spec_ns
    return None if moved is None else exchange.rounds * alpha_ns + moved


def ridge_point(dtype: str, peaks: Peaks) -> float | None:
    """Return the intensity, FLOP per byte, above which a dtype is compute-bound.

    >>> from nsysroof.theory.gpus import find_gpu
    >>> round(ridge_point("bf16", find_gpu("gh200-96").dense_peaks()), 2)
    247.35
    """
    peak, bandwidth = peaks.value(dtype), peaks.value("bw")
    return None if peak is None or bandwidth is None else peak / bandwidth


def ridges(peaks: Peaks) -> dict[str, float]:
    """Return the ridge point of every dtype whose peak is known."""
    points = {dtype: ridge_point(dtype, peaks) for dtype in (*CUDA_KEYS, *TENSOR_KEYS)}
    return {dtype: point for dtype, point in points.items() if point is not None}


def wave_efficiency(blocks: int, sm_count: int, *, blocks_per_sm: int = 1) -> float:
    """Return the share of block slots that the waves of a grid fill.

    It explains a loss and is no part of the bound; it says nothing of a persistent kernel.

    >>> round(wave_efficiency(352, 132), 3)
    0.889
    """
    slots = sm_count * blocks_per_sm
    return blocks / (ceil(blocks / slots) * slots)


def tiles(m: int, n: int, *, tile_m: int, tile_n: int) -> int:
    """Return the tiles that cover an ``m x n`` result: the blocks of a kernel that has one each.

    >>> tiles(4096, 4096, tile_m=128, tile_n=128), tiles(64, 5120, tile_m=128, tile_n=128)
    (1024, 40)
    """
    return ceil(m / tile_m) * ceil(n / tile_n)


def tile_efficiency(m: int, n: int, *, tile_m: int, tile_n: int) -> float:
    """Return the share of the tiles' area that the result fills; it explains a loss.

    >>> tile_efficiency(64, 5120, tile_m=128, tile_n=128)
    0.5
    """
    return m * n / (tiles(m, n, tile_m=tile_m, tile_n=tile_n) * tile_m * tile_n)


def waved_ns(compute_ns: float, blocks: int, sm_count: int) -> float | None:
    """Return a compute-bound time as its waves of blocks stretch it, beside the bound.

    None for a grid of exactly one block per SM: such a kernel is likely persistent, and its blocks
    take tiles as they finish.

    >>> round(waved_ns(125.4e3, 352, 132) / 1e3, 1), waved_ns(125.4e3, 132, 132)
    (141.1, None)
    """
    return None if blocks == sm_count else compute_ns / wave_efficiency(blocks, sm_count)


def _time_ns(amount: int, key: str, peaks: Peaks, missing: list[str]) -> float:
    """Return ``amount`` over a peak; a peak that is not known is put on the list instead."""
    if not amount:
        return 0.0
    rate = peaks.value(key)
    if rate is None:
        missing.append(key)
        return 0.0
    return amount / rate * NS_PER_S


def _unit_ns(dtype_ns: Mapping[str, float], keys: Iterable[str]) -> float:
    return sum(dtype_ns.get(key, 0.0) for key in keys)


def crossed_link(link: str, peaks: Peaks) -> str:
    """Return the key of the peak for a link: peer copies stand in where NVLink is not known."""
    return "p2p" if link == "nvlink" and "nvlink" not in peaks else link


def _without_link(cost: Cost) -> Cost:
    kinds = cost.bytes
    return Cost(
        flop=cost.flop,
        weight=kinds.weight,
        scale=kinds.scale,
        act_read=kinds.act_read,
        act_write=kinds.act_write,
        kv_read=kinds.kv_read,
        kv_write=kinds.kv_write,
        state=kinds.state,
    )
