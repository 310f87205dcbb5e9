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

PEAK_KEYS = ("bw", *CUDA_KEYS, *TENSOR_KEYS, *LINK_KEYS)
"""Every key that a peak or a measured roof may have."""

SMALLEST_PEAK = 1e8
"""Below this a value is in other units: no GPU moves 100 MB/s or computes 100 MFLOP/s."""


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
        capacity_bytes: Memory of one GPU, or None where it is not known.
        in_switch_reduction: Whether the switch between its GPUs adds up an all-reduce.
        notes: What a reader must know about these peaks.

    >>> peaks = Peaks(entries={"bw": Peak(4.0e12, "catalogue")})
    >>> peaks["bw"].value, peaks.value("fp4")
    (4000000000000.0, None)
    """

    entries: Mapping[str, Peak]
    gpu: str | None = None
    capacity_bytes: int | None = None
    in_switch_reduction: bool = False
    notes: tuple[str, ...] = ()

    def value(self, key: str) -> float | None:
        """Return the rate of a key, or None where it is not known."""
        peak = self.entries.get(key)
        return None if peak is None else peak.value

    def overlaid(self, roofs: Peaks) -> Peaks:
        """Return these peaks with measured roofs in their place where there are some."""
        return replace(self, entries={**self.entries, **roofs.entries})

    def __getitem__(self, key: str) -> Peak:
        """Return the peak of a key."""
        return self.entries[key]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the known keys."""
        return iter(self.entries)

    def __len__(self) -> int:
        """Return how many keys are known."""
        return len(self.entries)


class _RoofsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of measured roofs: ``source`` says how and where they were measured."""

    source: str
    roofs: dict[str, float]
    gpu: str | None = None


def parse_peaks(options: Sequence[str]) -> dict[str, float]:
    """Return the peaks that ``KEY=VALUE`` options spell, in base units per second.

    Raises:
        UsageError: Not ``KEY=VALUE``, an unknown key, no number, or a number far too small.

    >>> parse_peaks(["bw=3.9e12", "bf16=850e12"])
    {'bw': 3900000000000.0, 'bf16': 850000000000000.0}
    """
    peaks: dict[str, float] = {}
    for option in options:
        key, separator, text = option.partition("=")
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


def checked_peak(key: str, value: float, *, where: str) -> float:
    """Return ``value`` where it can be a peak.

    Raises:
        UsageError: An unknown key, or a value that must be in other units.
    """
    if key not in PEAK_KEYS:
        raise UsageError(
            f"unknown peak {key!r}",
            hint=f"use one of: {' '.join(PEAK_KEYS)}",
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
        roofs = {k: checked_peak(k, v, where=str(path)) for k, v in sorted(file.roofs.items())}
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InputError(
            f"cannot read measured roofs: {error}",
            hint='write source = "how measured" and a table [roofs] with bw, bf16, h2d …',
            slug="bad-roofs",
            where=str(path),
        ) from error
    return Peaks(
        entries={key: Peak(value, f"measured: {file.source}") for key, value in roofs.items()},
        gpu=file.gpu,
    )
