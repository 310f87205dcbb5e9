"""From outputs of benchmarks to the roofs file that ``--roofs`` reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nsysroof.errors import InputError
from nsysroof.theory.gpus import Gpu, find_gpu
from nsysroof.theory.measured import gemms, nccl, nvbandwidth
from nsysroof.theory.measured.roof import Measurement, Roof, combined, unreadable


@dataclass(frozen=True, slots=True, kw_only=True)
class RoofsFile:
    """Measured roofs as a file holds them.

    Attributes:
        source: What measured them.
        gpu: Key of the GPU in the catalogue, or the name in the output, or None.
        roofs: One per key, in the order of the keys.
        notes: What a reader must know.
    """

    source: str
    gpu: str | None
    roofs: tuple[Roof, ...]
    notes: tuple[str, ...]

    def toml(self) -> str:
        """Return the file's text; the same roofs give the same bytes.

        >>> print(RoofsFile(source="nvbandwidth v0.8", gpu=None, notes=(),
        ...       roofs=(Roof(key="h2d", value=417.93e9, test="host_to_device_memcpy_ce"),)).toml())
        source = "nvbandwidth v0.8"
        <BLANKLINE>
        [roofs]
        h2d = 417.93e9  # host_to_device_memcpy_ce
        <BLANKLINE>
        """
        lines = [f"source = {_quoted(self.source)}"]
        if self.gpu is not None:
            lines.append(f"gpu = {_quoted(self.gpu)}")
        if self.notes:
            lines += ["notes = [", *(f"    {_quoted(note)}," for note in self.notes), "]"]
        lines += ["", "[roofs]"]
        lines += [f"{roof.key} = {_rate(roof.value)}  # {roof.test}" for roof in self.roofs]
        return "\n".join(lines) + "\n"


def import_roofs(paths: Sequence[Path], *, gpu: str | None = None) -> RoofsFile:
    """Return the roofs that outputs of benchmarks on one machine tell.

    The kind of each file is told from its text: nvbandwidth's JSON or text, nccl-tests' text or
    JSON, a CSV of matrix products. The highest roof of a key counts.

    Args:
        paths: The files.
        gpu: Key of the GPU; None: the one that the outputs name.

    Raises:
        InputError: A file cannot be read, or is none of these.
        UsageError: The GPU is not known.
    """
    texts = [(path, _text(path)) for path in paths]
    named = None if gpu is None else find_gpu(gpu)
    measured = [_read(text, path, named) for path, text in texts if not gemms.looks_like(text)]
    devices = list(dict.fromkeys(m.device for m in measured if m.device is not None))
    found = named or next((m.gpu for m in measured if m.gpu is not None), None)
    measured += [
        gemms.read(text, where=path.name, gpu=found)
        for path, text in texts
        if gemms.looks_like(text)
    ]
    roofs, notes = combined(measured, found)
    if len(devices) > 1:
        notes.insert(0, f"the files name several GPUs: {', '.join(devices)}")
    if found is None:
        notes.append("the GPU is not known, so nothing was compared with its data sheet: --gpu")
    files = ", ".join(path.name for path in paths)
    sources = "; ".join(dict.fromkeys(m.source for m in measured))
    return RoofsFile(
        source=f"{sources} ({files})",
        gpu=found.key if found else (devices[0] if len(devices) == 1 else None),
        roofs=tuple(roofs),
        notes=tuple(notes),
    )


def _read(text: str, path: Path, gpu: Gpu | None) -> Measurement:
    if nvbandwidth.looks_like(text):
        measured = nvbandwidth.read(text, where=path.name)
    elif nccl.looks_like(text):
        measured = nccl.read(text, where=path.name)
    else:
        raise unreadable(
            f"{path.name} is no output that roofs are read from",
            str(path),
            hint="give nvbandwidth -j, the text of nccl-tests, or a CSV with m,n,k,dtype,time_us",
        )
    if gpu is None or measured.gpu is None or measured.gpu.key == gpu.key:
        return measured
    note = f"{path.name} was measured on {measured.device}, not on {gpu.key}"
    return replace(measured, notes=(*measured.notes, note))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise InputError(
            f"cannot read {path.name}: {error.strerror}",
            hint="give the output of nvbandwidth or nccl-tests, or a CSV of products",
            slug="no-such-file",
            where=str(path),
        ) from error


def _rate(value: float) -> str:
    """Return a rate with its power of a thousand, as a data sheet would print it.

    >>> _rate(417.93e9), _rate(794.5e12), _rate(3.72e12)
    ('417.93e9', '794.5e12', '3.72e12')
    """
    power = 12 if value >= 1e12 else 9
    return f"{value / 10.0**power:.6g}e{power}"


def _quoted(text: str) -> str:
    """Return text as a basic string of TOML, which escapes as JSON does."""
    return json.dumps(text.replace("\x7f", ""), ensure_ascii=False)
