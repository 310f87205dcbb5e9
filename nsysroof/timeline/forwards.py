"""Whole forwards of a model that were launched kernel by kernel, among other work."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nsysroof.timeline.pattern import depth_of

Core = tuple[int, int]
"""First and last position of the kernels of the layers of one forward."""


def forward_cores(
    symbols: npt.NDArray[np.integer], idle_before: npt.NDArray[np.int64], *, least: float = 1
) -> list[Core]:
    """Return where the layers of each forward in a stretch of kernels lie, in order.

    Of a kernel that each forward launches once, all the layers of a forward lie between two
    launches; the kind with the most launches of that sort counts the forwards.

    Args:
        symbols: One integer per kernel, in order of start.
        idle_before: Idle ns before each: of kernels launched as often, the one after the longest
            idle time parts the forwards.
        least: Fewest layers that make a forward.

    >>> layers = [1, 2, 3] * 8
    >>> once, twice = np.array([7, *layers, 9]), np.array([7, *layers, 9, 8, 7, *layers, 9, 8])
    >>> forward_cores(once, np.zeros(26, np.int64)), forward_cores(twice, np.zeros(54, np.int64))
    ([(1, 24)], [(1, 24), (28, 51)])
    >>> forward_cores(np.array([1, 2, 2, 3]), np.zeros(4, np.int64))
    []
    """
    depth = depth_of(symbols)
    if depth < max(least, 1):
        return []
    at, counts = np.unique(symbols, return_inverse=True, return_counts=True)[1:]
    layered = np.flatnonzero(counts[at] == depth)
    best: list[npt.NDArray[np.intp]] = [layered]
    told = (1, -1.0)
    for kind in np.flatnonzero((counts > 1) & (counts < depth)):
        places = np.flatnonzero(at == kind)
        parts = [part for part in np.split(layered, np.searchsorted(layered, places)) if part.size]
        idle = (len(parts), float(np.median(idle_before[places])))
        # The head or the tail of a neighbour may lie at either end; what runs in the middle of
        # each forward makes one part more than it has launches.
        if idle <= told or not places.size - 1 <= len(parts) <= places.size:
            continue
        if all(depth_of(symbols[part[0] : part[-1] + 1]) >= max(least, 1) for part in parts):
            best, told = parts, idle
    return [(int(part[0]), int(part[-1])) for part in best]
