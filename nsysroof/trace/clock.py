"""Whether two exports share a clock, and how far apart their timestamps then lie.

Timestamps count from the start of each session. Two sessions can be put on one axis where both
read one machine's clock. Which machine it is, is told apart by its GPUs and its name, of which only
digests are kept: they are compared, and never shown.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from nsysroof.trace.metadata import Metadata, read_integers, read_texts, system_value
from nsysroof.trace.reader import TableReader

_SAME_BOOT_NS = (
    1_000_000_000  # the UTC time of a boot, as told by two sessions; booting takes longer
)


class ClockKind(StrEnum):
    """What two exports have in common."""

    SYSTEM = "system"  # one machine's clock since it booted
    UTC = "utc"  # one machine's calendar clock, where an export does not tell the other


class Apart(StrEnum):
    """Why two exports have no clock in common."""

    MACHINE = "nothing tells that they are of one machine"
    BOOT = "the machine was booted in between"
    UNTOLD = "one of them does not tell when its session began"


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """What an export tells of its clock.

    ``zero_system_ns`` and ``zero_utc_ns`` are what the machine's clocks showed at timestamp 0, None
    where the export does not tell. ``machine`` holds digests of its GPUs' ids, ``host`` of its name.
    """

    zero_system_ns: int | None
    zero_utc_ns: int | None
    machine: frozenset[str] = field(repr=False)
    host: str | None = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alignment:
    """How two exports go together: add ``offset_ns`` to the timestamps of the second.

    Without a common clock ``kind`` and ``offset_ns`` are None, and ``apart`` says why.
    """

    kind: ClockKind | None = None
    offset_ns: int | None = None
    apart: Apart | None = None


def read_clock(reader: TableReader, metadata: Metadata) -> Clock:
    """Return what an export tells of its clock."""
    host = system_value(reader, "Hostname")
    return Clock(
        zero_system_ns=_zero(reader, "systemClockNs", metadata.origin_ns),
        zero_utc_ns=_zero(reader, "utcEpochNs", metadata.origin_ns),
        machine=_digests(read_texts(reader, "TARGET_INFO_GPU", "uuid")),
        host=_digest(host) if host else None,
    )


def align(first: Clock, second: Clock) -> Alignment:
    """Return how the timestamps of a second export come to stand on the axis of a first.

    They are of one machine where both name one GPU, which has an id of its own, or one host name.
    They are of one boot where its UTC time, as both tell it, is the same.
    """
    named = first.host is not None and first.host == second.host
    if not (first.machine & second.machine or named):
        return Alignment(apart=Apart.MACHINE)
    if first.zero_utc_ns is None or second.zero_utc_ns is None:
        return Alignment(apart=Apart.UNTOLD)
    utc_ns = second.zero_utc_ns - first.zero_utc_ns
    if first.zero_system_ns is None or second.zero_system_ns is None:
        return Alignment(kind=ClockKind.UTC, offset_ns=utc_ns)
    offset_ns = second.zero_system_ns - first.zero_system_ns
    if abs(utc_ns - offset_ns) >= _SAME_BOOT_NS:
        return Alignment(apart=Apart.BOOT)
    return Alignment(kind=ClockKind.SYSTEM, offset_ns=offset_ns)


def _zero(reader: TableReader, column: str, origin_ns: int | None) -> int | None:
    """Return what a clock showed at timestamp 0, None unless the export tells one value."""
    told = set(read_integers(reader, "TARGET_INFO_SESSION_START_TIME", column)) - {0}
    return told.pop() - origin_ns if len(told) == 1 and origin_ns is not None else None


def _digests(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(_digest(text) for text in texts if text.strip("0-"))


def _digest(text: str) -> str:
    return hashlib.sha256(text.strip().lower().encode()).hexdigest()
