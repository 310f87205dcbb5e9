"""Output of NVIDIA's nvbandwidth, JSON (``-j``) or text: copies between host and GPUs.

A matrix has one cell per pair; cells are text and may be ``N/A``. The tool's own minimum is 0 as
soon as one cell is, so minima are taken anew. Rates are decimal GB/s.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nsysroof.theory.measured.roof import Measurement, Roof, in_gb, unreadable

KEYS = {
    "host_to_device_memcpy_ce": "h2d",
    "device_to_host_memcpy_ce": "d2h",
    "device_to_device_memcpy_read_ce": "p2p",
    "device_to_device_memcpy_write_ce": "p2p",
}
"""Tests whose cells are a link's rate in one direction, by copy engine."""

GATHERS = re.compile(r"(host_to_device|device_to_host|device_to_device)_memcpy(_read|_write)?_sm")
LOCAL = "device_local_copy"
SPREAD = 1.03
"""Highest over lowest cell from which on both are told."""

PASSED = "Passed"
_GB = 1e9
_DEVICE = re.compile(r"(?:Device )?\d+: (?P<name>.+?)(?: \(|:|$)")
_HINT = "give the output of `nvbandwidth -j`, or its text"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Test:
    name: str
    status: str
    cells: tuple[float, ...]


def looks_like(text: str) -> bool:
    """Return whether a file is an output of nvbandwidth.

    >>> looks_like('{"nvbandwidth": {}}'), looks_like("nvbandwidth Version: v0.8")
    (True, True)
    """
    return '"nvbandwidth"' in text[:2000] or "nvbandwidth Version" in text[:2000]


def read(text: str, *, where: str) -> Measurement:
    """Return the roofs of one output.

    Raises:
        InputError: It is no such output, or no test in it gives a roof.
    """
    version, devices, tests, told = _parsed(text, where)
    names = list(dict.fromkeys(devices))
    notes = list(told)
    if len(names) > 1:
        notes.append(f"the GPUs differ: {', '.join(names)}")
    roofs: list[Roof] = []
    for test in tests:
        key = KEYS.get(test.name)
        if not test.cells:
            notes += [f"{test.name} gave no rate: {test.status}"] * (key is not None)
        elif key is not None:
            roofs.append(Roof(key=key, value=max(test.cells), test=test.name))
            notes += _spread(test)
        else:
            notes += _aside(test)
    if not roofs:
        raise unreadable(f"no test of {where} gives a roof", where, hint=_HINT)
    device = names[0] if len(names) == 1 else None
    measured = Measurement(
        source=f"nvbandwidth {version}", device=device, roofs=tuple(roofs), notes=tuple(notes)
    )
    return _over_nvlink(measured)


def _over_nvlink(measured: Measurement) -> Measurement:
    """Add the peer rate as that of NVLink where the GPU has one and PCIe could not carry it."""
    gpu = measured.gpu
    peers = [roof for roof in measured.roofs if roof.key == "p2p"]
    if gpu is None or gpu.peak("nvlink") is None or not peers:
        return measured
    best = max(peers, key=lambda roof: roof.value)
    pcie = gpu.peak("h2d")
    if gpu.peak("c2c") is None and pcie is not None and best.value <= pcie.value:
        return measured
    link = Roof(key="nvlink", value=best.value, test=best.test)
    return Measurement(
        source=measured.source,
        device=measured.device,
        roofs=(*measured.roofs, link),
        notes=measured.notes,
    )


def _spread(test: _Test) -> list[str]:
    low, high = min(test.cells), max(test.cells)
    if high <= SPREAD * low:
        return []
    pairs = len(test.cells)
    return [
        f"{test.name}: {in_gb(low)} to {in_gb(high)} over {pairs} pairs; the highest is the roof"
    ]


def _aside(test: _Test) -> list[str]:
    best = in_gb(max(test.cells))
    if test.name == LOCAL:
        why = "it counts each byte of a copy once, and copies do not fill the memory"
        seen = "1,117 GB/s on an H20-3e whose memory does 4,800"
        return [f"{LOCAL} ({best}) is not the roof of the memory: {why} ({seen})"]
    if GATHERS.fullmatch(test.name):
        return [f"{test.name}: a kernel reached {best}; a roof for gather kernels (--peak)"]
    if "bidirectional" in test.name:
        return [f"{test.name} ({best}) ran both directions at once: no roof of one direction"]
    return []


def _parsed(text: str, where: str) -> tuple[str, list[str], list[_Test], list[str]]:
    if text.lstrip().startswith("{"):
        return _from_json(text, where)
    return _from_text(text)


def _from_json(text: str, where: str) -> tuple[str, list[str], list[_Test], list[str]]:
    try:
        top = json.loads(text)["nvbandwidth"]
        cases = [_test(case) for case in top.get("testcases", [])]
    except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise unreadable(f"cannot read nvbandwidth's JSON: {error!r}", where, hint=_HINT) from error
    listed: list[Any] = top.get("GPU Device list") or top.get("GPU Device info") or []
    devices = [found["name"] for line in listed if (found := _DEVICE.match(str(line)))]
    told = [f"nvbandwidth says: {top[key]}" for key in ("error", "warning") if top.get(key)]
    for case in top.get("testcases", []):
        told += [f"{case['name']}: {case[key]}" for key in ("error", "warning") if case.get(key)]
    return str(top.get("version", "of unknown version")), devices, cases, told


def _test(case: Mapping[str, Any]) -> _Test:
    status = str(case.get("status", PASSED))
    rows = case.get("bandwidth_matrix") or []
    cells = [rate for row in rows for cell in row if (rate := _rate(cell)) is not None]
    return _Test(
        name=str(case["name"]), status=status, cells=tuple(cells) if status == PASSED else ()
    )


def _rate(cell: object) -> float | None:
    """Return a cell's rate in bytes per second, or None for ``N/A`` and what is no rate."""
    try:
        rate = float(str(cell))
    except ValueError:
        return None
    return rate * _GB if 0 < rate < float("inf") else None


def _from_text(text: str) -> tuple[str, list[str], list[_Test], list[str]]:
    version = re.search(r"nvbandwidth Version: (\S+)", text)
    devices = re.findall(r"^Device \d+: (.+?)(?: \(.*)?$", text, flags=re.MULTILINE)
    tests = list(_text_tests(text.splitlines()))
    return version[1] if version else "of unknown version", devices, tests, []


def _text_tests(lines: list[str]) -> Iterator[_Test]:
    name: str | None = None
    cells: list[float] = []
    for line in [*lines, "Running end."]:
        started = re.match(r"Running (\w+)\.", line)
        if started:
            if name is not None:
                yield _Test(name=name, status=PASSED if cells else "no rate", cells=tuple(cells))
            name, cells = started[1], []
        elif waived := re.match(r"Waiv(?:ed|ing):?\s*(\w+)?", line):
            if waived[1]:
                yield _Test(name=waived[1], status="Waived", cells=())
        elif re.match(r"\s*\d+\s+(?:N/A|\d+\.\d+)", line):
            cells += [rate for cell in line.split()[1:] if (rate := _rate(cell)) is not None]
