"""What a benchmark's output says about the roofs of a machine, whatever benchmark it is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nsysroof.errors import InputError
from nsysroof.theory.gpus import Gpu, detect_gpu
from nsysroof.theory.peaks import PEAK_KEYS

ABOVE = 1.002
"""Measured over data sheet from which on it is remarked; below it rounding explains it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """One measured rate per second, and the test that it comes from."""

    key: str
    value: float
    test: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The roofs in one benchmark's output.

    Attributes:
        source: Benchmark, version and file.
        device: GPU name as the output has it, or None.
        roofs: In the order of the output; a key may come up more than once.
        notes: What was left out and why, and rates that are no roof of a key.
    """

    source: str
    device: str | None
    roofs: tuple[Roof, ...]
    notes: tuple[str, ...] = field(default=())

    @property
    def gpu(self) -> Gpu | None:
        """The catalogued GPU of that name, or None."""
        return None if self.device is None else detect_gpu(self.device)


def combined(measurements: Sequence[Measurement], gpu: Gpu | None) -> tuple[list[Roof], list[str]]:
    """Return the highest roof of each key in the order of the keys, and every remark.

    A roof above the data sheet is kept and remarked: a wrong unit, a sparse or a total figure, a
    clock above the rated one, or data that never left a cache.

    Args:
        measurements: What was read.
        gpu: The GPU that was measured, or None where it is not known.

    >>> low, high = (Measurement(source="a", device=None, roofs=(Roof(key="h2d", value=v, test="t"),))
    ...              for v in (54e9, 55e9))
    >>> combined([low, high], None)[0]
    [Roof(key='h2d', value=55000000000.0, test='t')]
    """
    notes = [note for measurement in measurements for note in measurement.notes]
    best: dict[str, Roof] = {}
    for measurement in measurements:
        for roof in measurement.roofs:
            if roof.key not in best or roof.value > best[roof.key].value:
                best[roof.key] = roof
    roofs = [best[key] for key in PEAK_KEYS if key in best]
    sheet = None if gpu is None else gpu.dense_peaks()
    for roof in roofs:
        peak = None if sheet is None else sheet.value(roof.key)
        if peak is not None and roof.value > peak * ABOVE:
            notes.append(
                f"{roof.key} was measured at {roof.value:.4g} per second, {roof.value / peak:.2f} "
                f"times the data sheet's {peak:.4g}: check units, dtype and what was moved"
            )
    return roofs, list(dict.fromkeys(notes))


def unreadable(what: str, where: str, *, hint: str) -> InputError:
    """Return the error for an output that cannot be read, or that holds no roof."""
    return InputError(what, hint=hint, slug="bad-measurement", where=where)


def in_gb(value: float) -> str:
    """Return a rate in GB/s for a remark.

    >>> in_gb(417.93e9)
    '417.9 GB/s'
    """
    return f"{value / 1e9:.1f} GB/s"
