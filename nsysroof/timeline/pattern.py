"""Where a sequence repeats: the cycles of a run, told from the layers inside each cycle."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

ALIKE = 0.02
"""Two stretches hold the same if their lengths differ by no more than this share."""
MIN_LAYERS = 6
"""A step repeats its layers so often at least; what repeats nothing inside is itself a layer."""
MIN_LAYER_KINDS = 3
"""Kinds of kernel in a layer that occur equally often in a step, at least."""

_REGULAR = 0.75  # share of alike stretches that makes a symbol a landmark
_MIN_REPEATS = 2  # equal stretches needed; fewer prove nothing


def find_cycles(
    symbols: npt.NDArray[np.integer],
    idle_before: npt.NDArray[np.int64],
    *,
    layers: int | None,
    layered: bool,
) -> npt.NDArray[np.intp]:
    """Return the positions where the cycles of a sequence begin, empty where none repeats.

    A landmark is a symbol whose occurrences lie equally far apart. Symbols of a layer are no
    landmarks: their stretches are equal but for one in every so many, which crosses the boundary
    of the step. Of the landmarks the most frequent set the cycle (a rarer one would join several
    steps), and of those the one after the longest typical idle time begins it.

    Args:
        symbols: One integer per kernel or replay, in order of start.
        idle_before: Idle ns before each.
        layers: Layers of the model, if known; a symbol with that many occurrences between two
            boundaries belongs to a layer.
        layered: Whether a cycle must repeat something inside, as the layers of a step do.

    >>> step = [9, *[1, 2, 3] * 6, 8]
    >>> idle = np.zeros(100, np.int64)
    >>> find_cycles(np.array(step * 5), idle, layers=None, layered=True).tolist()
    [0, 20, 40, 60, 80]
    >>> find_cycles(np.array([1, 2, 3] * 8), idle[:24], layers=None, layered=True).tolist()
    []
    """
    none = np.empty(0, dtype=np.intp)
    if symbols.size <= _MIN_REPEATS:
        return none
    kinds, at = np.unique(symbols, return_inverse=True)
    order = np.argsort(at, kind="stable")
    bounds = np.searchsorted(at[order], np.arange(kinds.size + 1))
    landmarks = []
    for kind in range(kinds.size):
        places = order[bounds[kind] : bounds[kind + 1]]
        if places.size <= _MIN_REPEATS or not _is_landmark(np.diff(places), layers):
            continue
        if not layered or depth_of(at[places[0] : places[1]]):
            landmarks.append(places)
    if not landmarks:
        return none
    most = max(places.size for places in landmarks)
    peers = [places for places in landmarks if places.size >= most - 1]
    return max(peers, key=lambda places: (float(np.median(idle_before[places])), -int(places[0])))


def depth_of(symbols: npt.NDArray[np.integer]) -> int:
    """Return how often the layers of a stretch repeat, 0 where it holds none.

    Several kernels of a layer occur equally often. Generic kernels recur within one layer too,
    but each as often as it happens to. Of several such numbers it is the least: others are its
    multiples, of kernels that a layer launches more than once.

    >>> depth_of(np.array([9, *[1, 2, 3, 4, 4] * 8])), depth_of(np.array([1, 2, 3, 3, 3]))
    (8, 0)
    """
    if symbols.size < MIN_LAYERS * MIN_LAYER_KINDS:
        return 0
    counts = np.unique(symbols, return_counts=True)[1]
    sharing = np.bincount(counts[counts >= MIN_LAYERS])
    depths = np.flatnonzero(sharing >= MIN_LAYER_KINDS)
    return int(depths[0]) if depths.size else 0


def _is_landmark(lengths: npt.NDArray[np.intp], layers: int | None) -> bool:
    typical = float(np.median(lengths))
    odd = np.flatnonzero(np.abs(lengths - typical) > ALIKE * typical)
    if lengths.size - odd.size < max(_MIN_REPEATS, _REGULAR * lengths.size):
        return False
    if layers is not None and lengths.size + 1 == layers:
        return False  # the layers of a single step
    if not odd.size:
        return True
    runs = np.diff(odd) - 1
    head, tail = int(odd[0]), int(lengths.size - 1 - odd[-1])
    inner = int(runs[0]) if runs.size else max(head, tail)
    recurring = bool((runs == inner).all()) and head <= inner and tail <= inner
    if runs.size == 0:
        # Two steps, if the layer occurs so often; else one odd step in the middle of the others.
        recurring = head == tail and (layers is None or layers % (inner + 1) == 0)
    elif layers is not None:
        return inner + 1 != layers
    return not recurring
