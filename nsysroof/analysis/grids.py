"""What the grid of an operator's main kernel says about its ratio: waves, idle SMs, small work."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from nsysroof.theory.roofline import Bound, Limiter, waved_ns
from nsysroof.units import format_ratio, format_share, format_us

_AT_THE_ROOF = 1.15  # measured over bound: at most this is as near as kernels come
_MOST_SMS = 0.9  # share of the SMs from which a grid is large enough
_WORTH_TELLING = 1.02  # waves that stretch the bound by less explain nothing
_FEW_WAVES = 2.0
_SMALL_FLOORS = 8.0  # a bound of fewer latency floors feels how a kernel starts and ends
_SMALL_TRANSFER = (
    "a small transfer in less than two waves of blocks: how kernels start and end is part of its "
    "ratio, so judge it by what a step would win"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GridFacts:
    """The grid of a main kernel.

    Attributes:
        blocks: Its blocks.
        waves: Blocks per SM, None where the SMs are not known.
        wave_bound_ns: The bound of a compute-limited kernel whose SM with the most blocks works
            through them at its peak: whole waves. None for other limits and persistent kernels.
        notes: What of it explains the ratio.
    """

    blocks: int
    waves: float | None
    wave_bound_ns: float | None
    notes: tuple[str, ...]


def judge_grid(
    bound: Bound,
    *,
    blocks: int,
    sm_count: int | None,
    measured_ns: int,
    equal_blocks: bool,
    host_link: bool = False,
) -> GridFacts:
    """Return what a grid explains of the time of an operator.

    Args:
        bound: The bound of one instance, with its latency floor.
        blocks: Blocks of the main kernel.
        sm_count: SMs of the GPU, where they are known.
        measured_ns: Time of one instance.
        equal_blocks: Whether an instance is one product whose blocks do equal work; those of
            attention differ, and of several kernels one grid says nothing of the whole.
        host_link: Whether the kernel itself reads host memory.
    """
    spec = bound.spec_ns
    if sm_count is None or spec is None or bound.limiter is Limiter.LATENCY:
        waves = blocks / sm_count if sm_count else None
        return GridFacts(blocks=blocks, waves=waves, wave_bound_ns=None, notes=())
    waves = blocks / sm_count
    compute = bound.limiter is Limiter.COMPUTE and equal_blocks
    waved = waved_ns(spec, blocks, sm_count) if compute else None
    notes = []
    if measured_ns >= _AT_THE_ROOF * spec:
        if host_link and waves < _MOST_SMS:
            needed = ceil(blocks * measured_ns / spec)
            if needed <= sm_count:  # else it is not the number of blocks that holds it back
                notes.append(_link_unfilled(blocks, needed, spec / measured_ns))
        elif waves < _MOST_SMS:
            notes.append(_too_few(blocks, sm_count))
        elif waved is not None and waved >= _WORTH_TELLING * spec:
            notes.append(_whole_waves(blocks, sm_count, waved, measured_ns))
        elif bound.limiter is Limiter.MEMORY and waves < _FEW_WAVES and _small(bound):
            notes.append(_SMALL_TRANSFER)
    return GridFacts(blocks=blocks, waves=waves, wave_bound_ns=waved, notes=tuple(notes))


def _small(bound: Bound) -> bool:
    floor, spec = bound.floor_ns, bound.spec_ns
    return floor is not None and spec is not None and spec < _SMALL_FLOORS * floor


def _too_few(blocks: int, sm_count: int) -> str:
    share = f"{blocks / sm_count * 100:.1f} %"
    return f"its grid has {blocks} blocks for {sm_count} SMs ({share}): too few to reach the roof"


def _link_unfilled(blocks: int, needed: int, filled: float) -> str:
    # By Little's law the rate goes with the bytes in flight, and those go with the blocks.
    return (
        f"its {blocks} blocks fill {format_share(filled)} of the link to the host: too few bytes "
        f"are in flight, {needed} such blocks would fill it"
    )


def _whole_waves(blocks: int, sm_count: int, waved_ns: float, measured_ns: int) -> str:
    return (
        f"its {blocks} blocks on {sm_count} SMs are {blocks / sm_count:.2f} waves and take the time "
        f"of {ceil(blocks / sm_count)}: at best {format_us(waved_ns)} µs, "
        f"ratio {format_ratio(measured_ns / waved_ns)} to that"
    )
