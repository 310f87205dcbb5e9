"""Peaks with their sources: what bounds are divided by, and how a user states them."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import msgspec

from nsysroof.errors import InputError, UsageError

CUDA_KEYS = ("fp64", "fp32")
"""Arithmetic that runs on the CUDA cores, beside the tensor cores."""

TENSOR_KEYS = ("tf32", "fp16", "bf16", "fp8", "int8", "fp4", "int4")
"""Arithmetic that shares the tensor cores, so that its times add up."""

LINK_KEYS = ("h2d", "d2h", "p2p", "nvlink", "c2c", "nic")
"""Links, bytes per second in one direction."""

HOST_KEY = "host"
"""Memory bandwidth of the host, which its links cannot exceed."""

HOST_LINKS = ("h2d", "d2h", "c2c")
CLOCK_KEY = "sm-clock"
"""Not a peak: the share of the rated clock at which the SMs run, ACTUAL/RATED."""

PEAK_KEYS = ("bw", *CUDA_KEYS, *TENSOR_KEYS, *LINK_KEYS, HOST_KEY)
"""Every key that a peak or a measured roof may have."""

USER_PEAK = "user: --peak"
"""The source of a peak given by hand."""

SMALLEST_PEAK = 1e8
"""Below this a value is in other units: no GPU moves 100 MB/s or computes 100 MFLOP/s."""


MOST_CLOCK = 2.0
"""No SM runs at more than twice its rated clock: a larger share is in other units."""


class Peak(NamedTuple):
    """A rate per second (bytes, FLOP or operations) and where it comes from."""

    value: float
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Peaks(Mapping[str, Peak]):
    """The peaks of one GPU by key; a key that is not known is absent.

    Attributes:
        entries: The peaks.
        gpu: Key of the GPU in the catalogue, or None.
        nominal_bytes: Memory of one GPU as sold, decimal, or None where it is not known.
        reported_bytes: What such a device reports, or None where it is not known.
        in_switch_reduction: Whether the switch between its GPUs adds up an all-reduce.
        notes: What a reader must know about these peaks.

    >>> peaks = Peaks(entries={"bw": Peak(4.0e12, "catalogue")})
    >>> peaks["bw"].value, peaks.value("fp4")
    (4000000000000.0, None)
    """

    entries: Mapping[str, Peak]
    gpu: str | None = None
    nominal_bytes: int | None = None
    reported_bytes: int | None = None
    in_switch_reduction: bool = False
    notes: tuple[str, ...] = ()

    @property
    def capacity_bytes(self) -> int | None:
        """Memory of one GPU: what the device reports, else as sold; None where neither is known."""
        return self.nominal_bytes if self.reported_bytes is None else self.reported_bytes

    def value(self, key: str) -> float | None:
        """Return the rate of a key, or None where it is not known."""
        peak = self.entries.get(key)
        return None if peak is None else peak.value

    def overlaid(self, roofs: Peaks) -> Peaks:
        """Return these peaks with measured roofs in their place where there are some."""
        return replace(self, entries=capped_by_host({**self.entries, **roofs.entries}))

    def __getitem__(self, key: str) -> Peak:
        """Return the peak of a key."""
        return self.entries[key]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the known keys."""
        return iter(self.entries)

    def __len__(self) -> int:
        """Return how many keys are known."""
        return len(self.entries)


def capped_by_host(entries: Mapping[str, Peak]) -> dict[str, Peak]:
    """Return peaks whose host links are no faster than the host's memory, where that is known.

    >>> capped_by_host({"h2d": Peak(450e9, "C2C"), "host": Peak(384e9, "LPDDR5X")})["h2d"]
    Peak(value=384000000000.0, source='host memory, slower than the link: LPDDR5X')
    """
    capped = dict(entries)
    host = capped.get(HOST_KEY)
    if host is None:
        return capped
    for key in HOST_LINKS:
        if key in capped and capped[key].value > host.value:
            capped[key] = Peak(host.value, f"host memory, slower than the link: {host.source}")
    return capped


def at_clock(entries: Mapping[str, Peak], share: float) -> dict[str, Peak]:
    """Return peaks with their arithmetic at a share of the rated SM clock; memory stays.

    A power cap slows the SMs, not the memory: a kernel bound by bytes keeps its bound.

    >>> capped = at_clock({"bw": Peak(936e9, "a"), "bf16": Peak(71e12, "b")}, 1508 / 1695)
    >>> round(capped["bf16"].value / 1e12, 2), capped["bw"].value
    (63.17, 936000000000.0)
    """
    arithmetic = (*CUDA_KEYS, *TENSOR_KEYS)
    return {
        key: Peak(peak.value * share, f"{peak.source}, at {share:.1%} of its SM clock")
        if key in arithmetic
        else peak
        for key, peak in entries.items()
    }


class _RoofsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of measured roofs: ``source`` says how and where they were measured.

    It may stand above the table of roofs or in it.
    """

    roofs: dict[str, float | str]
    source: str | None = None
    gpu: str | None = None
    notes: list[str] = []


def parse_peaks(options: Sequence[str]) -> dict[str, float]:
    """Return the peaks that ``KEY=VALUE`` options spell, in base units per second.

    ``sm-clock=ACTUAL/RATED`` is taken as the share it is; ``resolve_peaks`` applies it.

    Raises:
        UsageError: Not ``KEY=VALUE``, an unknown key, no number, or a number far too small.

    >>> parse_peaks(["bw=3.9e12", "bf16=850e12"])
    {'bw': 3900000000000.0, 'bf16': 850000000000000.0}
    """
    peaks: dict[str, float] = {}
    for option in options:
        key, separator, text = option.partition("=")
        if key == CLOCK_KEY:
            peaks[key] = _clock_share(text)
            continue
        try:
            value = float(text)
        except ValueError:
            separator, value = "", 0.0
        if not separator:
            raise UsageError(
                f"cannot read {option!r} as a peak",
                hint="write KEY=VALUE in units per second, such as bw=3.9e12 or bf16=850e12",
                slug="bad-peak",
                where="--peak",
            )
        peaks[key] = checked_peak(key, value, where="--peak")
    return peaks


def _clock_share(text: str) -> float:
    actual, _, rated = text.partition("/")
    try:
        share = float(actual) / (float(rated) if rated else 1.0)
    except (ValueError, ZeroDivisionError):
        share = 0.0
    if not 0 < share <= MOST_CLOCK:
        raise UsageError(
            f"cannot read {text!r} as a share of the SM clock",
            hint="write sm-clock=ACTUAL/RATED in MHz, such as sm-clock=1508/1695",
            slug="bad-peak",
            where="--peak",
        )
    return share


def checked_peak(key: str, value: float, *, where: str) -> float:
    """Return ``value`` where it can be a peak.

    Raises:
        UsageError: An unknown key, or a value that must be in other units.
    """
    if key not in PEAK_KEYS:
        raise UsageError(
            f"unknown peak {key!r}",
            hint=f"use one of: {' '.join(PEAK_KEYS)}; or {CLOCK_KEY}=ACTUAL/RATED",
            slug="bad-peak",
            where=where,
        )
    if not SMALLEST_PEAK <= value < float("inf"):
        raise UsageError(
            f"{key}={value:g} is not a rate per second",
            hint="peaks are bytes or FLOP per second: 152.8 GB/s is 152.8e9",
            slug="bad-peak",
            where=where,
        )
    return value


def read_roofs(path: str | Path) -> Peaks:
    """Return the measured roofs of a TOML file with ``source`` and a table ``[roofs]``.

    Raises:
        InputError: The file cannot be read as such.
    """
    try:
        raw = tomllib.loads(Path(path).read_text(encoding="utf-8"))
        file = msgspec.convert(raw, _RoofsFile)
        source = _source_of(file)
        roofs = {
            key: checked_peak(key, _number(key, value), where=str(path))
            for key, value in sorted(file.roofs.items())
            if key != "source"
        }
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InputError(
            f"cannot read measured roofs: {error}",
            hint='write source = "how measured" and a table [roofs] with bw, bf16, h2d …',
            slug="bad-roofs",
            where=str(path),
        ) from error
    return Peaks(
        entries={key: Peak(value, f"measured: {source}") for key, value in roofs.items()},
        gpu=file.gpu,
        notes=tuple(file.notes),
    )


def _source_of(file: _RoofsFile) -> str:
    source = file.source or file.roofs.get("source")
    if not isinstance(source, str):
        raise msgspec.ValidationError("it has no source")
    return source


def _number(key: str, value: float | str) -> float:
    if isinstance(value, str):
        raise msgspec.ValidationError(f"{key} is text, a rate per second is needed")
    return value
