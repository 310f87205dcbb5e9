"""Copies and fills, and how fast a kernel can pull data over a link."""

from __future__ import annotations

from nsysroof.theory.cost import Cost

LINK_OF_COPY = {"h2d": "h2d", "d2h": "d2h", "p2p": "p2p", "nvlink": "nvlink", "c2c": "c2c"}
"""Peak key by copy kind; a copy inside the GPU crosses no link."""


def copy(size: int, *, kind: str) -> Cost:
    """Return the cost of copying ``size`` bytes: over its link, or read and written in memory.

    >>> copy(100, kind="h2d").link, copy(100, kind="d2d").memory_bytes
    (100, 200)
    """
    if kind == "d2d":
        return Cost(act_read=size, act_write=size)
    if kind not in LINK_OF_COPY:
        raise ValueError(f"unknown kind of copy: {kind}")
    return Cost(link=size)


def fill(size: int) -> Cost:
    """Return the cost of setting ``size`` bytes: one write.

    >>> fill(4096).memory_bytes
    4096
    """
    return Cost(act_write=size)


def bytes_in_flight(*, blocks: int, threads: int, bytes_per_thread: int, unroll: int = 1) -> int:
    """Return the bytes that a gather kernel keeps outstanding at once.

    >>> bytes_in_flight(blocks=16, threads=1024, bytes_per_thread=16)
    262144
    """
    return blocks * threads * bytes_per_thread * unroll


def gather_rate(in_flight: int, round_trip_ns: float, link_bytes_per_s: float) -> float:
    """Return the rate of a kernel that reads mapped host memory, bytes per second.

    Little's law: what is in flight over the round trip, and never more than the link.

    >>> round(gather_rate(262_144, 1297.7, 418e9) / 1e9)
    202
    >>> round(gather_rate(1_048_576, 1297.7, 418e9) / 1e9)
    418
    """
    return min(in_flight / (round_trip_ns * 1e-9), link_bytes_per_s)


def blocks_to_fill(
    link_bytes_per_s: float, round_trip_ns: float, *, threads: int, bytes_per_thread: int
) -> int:
    """Return the fewest blocks whose bytes in flight fill a link.

    >>> blocks_to_fill(210e9, 1365.3, threads=1024, bytes_per_thread=64)
    5
    """
    needed = link_bytes_per_s * round_trip_ns * 1e-9
    return -int(-needed // (threads * bytes_per_thread))
