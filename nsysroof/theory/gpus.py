"""The catalogue of GPUs: one TOML each, found by key, by file or by the name a device reports."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

import msgspec

from nsysroof.errors import InputError, UsageError
from nsysroof.theory.formula import formula_peaks
from nsysroof.theory.nearest import did_you_mean
from nsysroof.theory.peaks import (
    CLOCK_KEY,
    PEAK_KEYS,
    USER_PEAK,
    Peak,
    Peaks,
    at_clock,
    capped_by_host,
    checked_peak,
)

__all__ = [
    "Gpu",
    "Peak",
    "Peaks",
    "detect_gpu",
    "find_gpu",
    "formula_gpu",
    "gpu_keys",
    "resolve_peaks",
]

SPARSE_FACTOR = 2.0
SPARSE_TOLERANCE = 0.03
MEMORY_TOLERANCE = 0.03


class GpuPeak(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One dense peak, per second, with its source."""

    key: str
    value: float
    unit: Literal["memory", "cuda", "tensor", "link"]
    accumulate: str | None = None
    dense: bool = True
    source: str
    confidence: Literal["high", "medium", "low"]


class Gpu(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One GPU as its TOML file describes it; ``memory_bytes`` lists the sizes it is sold in.

    ``device_names`` are regular expressions for the whole device name without the vendor's
    prefix; those of ``device_names_by_memory`` count only where the SM count and the memory of
    the device agree. ``memory_share`` is below 1 for a slice of a card.
    """

    key: str
    name: str
    architecture: str
    compute_capability: str
    sm_count: int
    clock_hz: float
    tensor_clock_hz: float | None = None
    memory_bytes: list[int]
    reported_mib: list[int] = []
    l2_bytes: int | None
    in_switch_reduction: bool = False
    device_names: list[str] = []
    device_names_by_memory: list[str] = []
    peaks: list[GpuPeak]
    notes: list[str] = []
    memory_share: float = 1.0

    @property
    def capacity_bytes(self) -> int | None:
        """Memory of one GPU as sold, or None where it is sold in several sizes."""
        return self.memory_bytes[0] if len(self.memory_bytes) == 1 else None

    @property
    def reported_bytes(self) -> int | None:
        """The least that a device of this kind reports, or None where that is not known."""
        if self.capacity_bytes is None or not self.reported_mib:
            return None
        return min(self.reported_mib) * 2**20

    def peak(self, key: str, *, accumulate: str | None = None) -> GpuPeak | None:
        """Return the peak of a key, or None.

        Without ``accumulate`` it is the one that libraries reach: FP32 accumulation for floating
        point (GeForce parts are faster in FP16), the tensor cores where there are both.

        >>> gpu = find_gpu("rtx4090")
        >>> gpu.peak("fp16").value, gpu.peak("fp16", accumulate="fp16").value
        (165200000000000.0, 330300000000000.0)
        """
        found = [
            p
            for p in self.peaks
            if p.key == key
            and (p.accumulate == accumulate if accumulate else p.accumulate != "fp16")
        ]
        return max(found, key=lambda p: p.value) if found else None

    def dense_peaks(self) -> Peaks:
        """Return the peaks by key."""
        chosen = {key: self.peak(key) for key in PEAK_KEYS}
        return Peaks(
            entries={
                key: Peak(p.value, f"catalogue {self.key}: {p.source} ({p.confidence})")
                for key, p in chosen.items()
                if p is not None
            },
            gpu=self.key,
            nominal_bytes=self.capacity_bytes,
            reported_bytes=self.reported_bytes,
            in_switch_reduction=self.in_switch_reduction,
            notes=tuple(self.notes),
        )


@cache
def gpu_keys() -> tuple[str, ...]:
    """Return the keys of the catalogue, sorted.

    >>> len(gpu_keys()), "gh200-96" in gpu_keys()
    (41, True)
    """
    folder = files("nsysroof").joinpath("data/gpus")
    return tuple(sorted(f.name[:-5] for f in folder.iterdir() if f.name.endswith(".toml")))


def find_gpu(name_or_path: str) -> Gpu:
    """Return the GPU of a catalogue key or of a TOML file.

    Raises:
        UsageError: No such key; the message suggests the nearest ones.
        InputError: The file cannot be read as a GPU.

    >>> find_gpu("gh200-96").sm_count
    132
    """
    key = name_or_path.lower()
    if key in gpu_keys():
        return _catalogued(key)
    path = Path(name_or_path)
    if path.suffix == ".toml":
        return _read(path.name, _read_text(path), where=str(path))
    near = did_you_mean(key, gpu_keys(), otherwise="`nsysroof gpus` lists them")
    raise UsageError(
        f"unknown GPU {name_or_path!r}",
        hint=f"{near}; or give a TOML file",
        slug="unknown-gpu-name",
        where="--gpu",
    )


@cache
def _catalogued(key: str) -> Gpu:
    name = f"{key}.toml"
    return _read(name, _text(name), where=name)


@cache
def _device_names(key: str) -> list[str]:
    """Return the patterns of names of one GPU; what follows the head of its file is not parsed."""
    head = tomllib.loads(_text(f"{key}.toml").partition("\n[[")[0])
    return [*head.get("device_names", []), *head.get("device_names_by_memory", [])]


def _text(name: str) -> str:
    return files("nsysroof").joinpath("data/gpus", name).read_text(encoding="utf-8")


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot read the GPU file: {error}",
            hint="give the path of a TOML file, or a key of `nsysroof gpus`",
            slug="bad-gpu-file",
            where=str(path),
        ) from error


def _read(name: str, text: str, *, where: str) -> Gpu:
    try:
        gpu = msgspec.convert(tomllib.loads(text), Gpu)
        for peak in gpu.peaks:
            checked_peak(peak.key, peak.value, where=where)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise InputError(
            f"{name} is not a GPU: {error}",
            hint="`nsysroof gpus NAME` prints a complete one to start from",
            slug="bad-gpu-file",
            where=where,
        ) from error
    return gpu


def detect_gpu(
    device_name: str,
    *,
    sm_count: int | None = None,
    memory_bytes: int | None = None,
) -> Gpu | None:
    """Return the catalogued GPU that a device says it is, or None where no entry fits.

    A MIG slice and a part with other SM counts are scaled, with a note. The clock of the device
    is not used: tensor peaks are rated at lower clocks than the highest one.

    Args:
        device_name: As the driver reports it.
        sm_count: SMs of the device, where the trace tells.
        memory_bytes: Memory of the device, where the trace tells.

    >>> detect_gpu("NVIDIA GH200 480GB").key, detect_gpu("NVIDIA GeForce RTX 4090 D")
    ('gh200-96', None)
    """
    base, _, profile = device_name.strip().partition(" MIG ")
    stripped = re.sub(r"^(NVIDIA |Tesla )+", "", base.strip())
    gpus = [_catalogued(key) for key in gpu_keys() if _fullmatch(_device_names(key), stripped)]
    sure = [
        gpu
        for gpu in gpus
        if not profile
        and _fullmatch(gpu.device_names_by_memory, stripped)
        and sm_count == gpu.sm_count
        and memory_bytes is not None
        and _memory_fits(gpu, memory_bytes)
    ]
    named = [gpu for gpu in gpus if _fullmatch(gpu.device_names, stripped)]
    found = sure or named
    if len(found) != 1:
        return None
    if profile:
        return _mig_slice(found[0], profile.strip(), sm_count)
    return _adjusted(found[0], sm_count=sm_count, memory_bytes=memory_bytes)


def _fullmatch(patterns: list[str], name: str) -> bool:
    return any(re.fullmatch(pattern, name) for pattern in patterns)


def _memory_fits(gpu: Gpu, memory_bytes: int) -> bool:
    sizes = [mib * 2**20 for mib in gpu.reported_mib] or _nominal_sizes(gpu)
    return any(abs(memory_bytes - size) <= MEMORY_TOLERANCE * size for size in sizes)


def _nominal_sizes(gpu: Gpu) -> list[int]:
    # A size on the box may be decimal or binary; the device reports a little less than the latter.
    return [s for size in gpu.memory_bytes for s in (size, int(size / 1e9) * 2**30)]


def _adjusted(gpu: Gpu, *, sm_count: int | None, memory_bytes: int | None) -> Gpu:
    notes = list(gpu.notes)
    peaks, sms, sizes, reported = gpu.peaks, gpu.sm_count, gpu.memory_bytes, gpu.reported_mib
    if sm_count is not None and sm_count != gpu.sm_count:
        peaks = _scaled(peaks, compute=sm_count / gpu.sm_count, memory=1.0, why=f"{sm_count} SMs")
        sms = sm_count
        notes.append(f"the device has {sm_count} SMs, not {gpu.sm_count}: compute peaks are scaled")
    if memory_bytes is not None:
        if not _memory_fits(gpu, memory_bytes):
            notes.append(
                f"the device has {memory_bytes:,} bytes of memory, another size than {gpu.key}: "
                "its bandwidth may differ"
            )
        sizes, reported = [memory_bytes], []
    return msgspec.structs.replace(
        gpu, peaks=peaks, sm_count=sms, memory_bytes=sizes, reported_mib=reported, notes=notes
    )


def _mig_slice(gpu: Gpu, profile: str, sm_count: int | None) -> Gpu | None:
    """Scale a card to a slice ``3g.20gb``: its share of memory, and of SMs where they are told."""
    match = re.match(r"(\d+)(?:c\.\d+)?g\.(\d+)gb", profile)
    capacity = gpu.capacity_bytes
    if match is None or capacity is None:
        return None
    size = int(match[2]) * 10**9
    # Memory comes in eighths of the card; the size in the profile's name is rounded down.
    memory = min(8, max(1, round(8 * size / capacity))) / 8
    sliced = sm_count is not None and sm_count < gpu.sm_count
    sms = sm_count if sliced and sm_count is not None else gpu.sm_count
    note = f"MIG slice {profile}: memory bandwidth scaled to {memory * 8:.0f}/8 of the card"
    note += (
        f", compute to {sms}/{gpu.sm_count} SMs"
        if sliced
        else "; the SMs of the slice are not in the trace, so compute peaks are the whole card's"
    )
    return msgspec.structs.replace(
        gpu,
        sm_count=sms,
        memory_bytes=[size],
        reported_mib=[],
        l2_bytes=None if gpu.l2_bytes is None else int(gpu.l2_bytes * memory),
        peaks=_scaled(gpu.peaks, compute=sms / gpu.sm_count, memory=memory, why=f"MIG {profile}"),
        memory_share=memory,
        notes=[*gpu.notes, note],
    )


def _scaled(peaks: list[GpuPeak], *, compute: float, memory: float, why: str) -> list[GpuPeak]:
    factor = {"cuda": compute, "tensor": compute, "memory": memory, "link": 1.0}
    return [
        msgspec.structs.replace(
            peak,
            value=peak.value * factor[peak.unit],
            source=f"{peak.source}, scaled to {why}" if factor[peak.unit] != 1 else peak.source,
        )
        for peak in peaks
    ]


def formula_gpu(
    device_name: str,
    *,
    compute_capability: str,
    sm_count: int,
    clock_hz: float,
    memory_bytes: int | None = None,
    l2_bytes: int | None = None,
) -> Gpu | None:
    """Return a GPU from SMs x clock x operations per clock, or None for an unknown capability.

    Its memory bandwidth is not in the formula: it comes from the device or from the user.
    """
    peaks = formula_peaks(
        device_name,
        compute_capability=compute_capability,
        sm_count=sm_count,
        clock_hz=clock_hz,
    )
    if not peaks:
        return None
    return Gpu(
        key=device_name,
        name=device_name,
        architecture=f"compute capability {compute_capability}",
        compute_capability=compute_capability,
        sm_count=sm_count,
        clock_hz=clock_hz,
        memory_bytes=[] if memory_bytes is None else [memory_bytes],
        l2_bytes=l2_bytes,
        peaks=[
            GpuPeak(
                key=key,
                value=value,
                unit="cuda" if key in ("fp32", "fp64") else "tensor",
                source=f"formula: {sm_count} SMs x {clock_hz / 1e6:.0f} MHz x rate of "
                f"{compute_capability}",
                confidence="low",
            )
            for key, value in peaks.items()
        ],
        notes=[f"{device_name} is not in the catalogue: its peaks come from a formula"],
    )


def _reported_bandwidth(gpu: Gpu | None, bandwidth: float) -> Peak:
    """Return the bandwidth that a device reports; a slice may report that of its whole card."""
    plain = Peak(bandwidth, "reported by the device")
    own = None if gpu is None else gpu.peak("bw")
    if gpu is None or own is None or gpu.memory_share == 1:
        return plain
    card = own.value / gpu.memory_share
    if bandwidth < (own.value + card) / 2:
        return plain
    source = f"reported by the device, {gpu.memory_share * 8:.0f}/8 of it for the slice"
    return Peak(bandwidth * gpu.memory_share, source)


def resolve_peaks(
    gpu: Gpu | None,
    *,
    user: Mapping[str, float] | None = None,
    device_bandwidth: float | None = None,
) -> Peaks:
    """Return the peaks by trust: user, then the device's own report, then the catalogue.

    Args:
        gpu: The GPU meant, or None where only stated peaks count.
        user: Peaks of ``--peak``; ``sm-clock`` scales the arithmetic that it does not state.
        device_bandwidth: Memory bandwidth that the trace's device reports, bytes per second; give
            it only where that device is the GPU meant.

    >>> peaks = resolve_peaks(find_gpu("b200"), device_bandwidth=7.672e12)
    >>> peaks["bw"]
    Peak(value=7672000000000.0, source='reported by the device')
    """
    base = Peaks(entries={}) if gpu is None else gpu.dense_peaks()
    entries = dict(base.entries)
    notes = list(base.notes)
    if device_bandwidth is not None:
        entries["bw"] = _reported_bandwidth(gpu, device_bandwidth)
    stated = dict(user or {})
    share = stated.pop(CLOCK_KEY, None)
    if share is not None:
        entries = at_clock(entries, share)
    for key, value in stated.items():
        dense = base.value(key)
        if dense is not None and abs(value / (SPARSE_FACTOR * dense) - 1) <= SPARSE_TOLERANCE:
            notes.append(
                f"--peak {key}={value:g} is twice the dense {dense:g}: "
                "it looks like the figure with 2:4 sparsity"
            )
        entries[key] = Peak(value, USER_PEAK)
    entries = capped_by_host(entries)
    return Peaks(
        entries={key: entries[key] for key in PEAK_KEYS if key in entries},
        gpu=base.gpu,
        nominal_bytes=base.nominal_bytes,
        reported_bytes=base.reported_bytes,
        in_switch_reduction=base.in_switch_reduction,
        notes=tuple(notes),
    )
