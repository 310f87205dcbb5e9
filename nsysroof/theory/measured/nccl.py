"""Output of NVIDIA's nccl-tests, text or JSON (``-J``): collectives over message sizes.

A row holds a size, then time in µs, algorithm and bus bandwidth in decimal GB/s and the number of
wrong values, first out of place, then in place. Bus bandwidth is the rate of a link in one
direction as long as no switch adds up; where one does, an all-reduce sends each byte once, and what
compares with the bound is its size over its time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any

from nsysroof.theory.measured.roof import Measurement, Roof, in_gb, unreadable
from nsysroof.theory.operators.collective import (
    BUS_FACTORS,
    AlphaBeta,
    bus_factor,
    fit_alpha_beta,
)

OPERATIONS = {"alltoall": "all_to_all", **{name: name for name in BUS_FACTORS}}
_GB, _NS_PER_US = 1e9, 1e3
_SMALL = 32_768
"""Messages up to this size tell the latency."""

_FACTOR_TOLERANCE = 0.03
_HINT = "give the text that an nccl-tests binary such as all_reduce_perf prints, or its -J file"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """One message size, out of place or in place."""

    size: int
    time_ns: float
    algorithm_rate: float
    bus_rate: float
    in_place: bool
    wrong: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class _Output:
    operation: str | None
    ranks: int | None
    device: str | None
    version: str
    timings: tuple[Timing, ...]


def looks_like(text: str) -> bool:
    """Return whether a file is an output of nccl-tests.

    >>> looks_like("#       size         count      type   redop    root     time   algbw   busbw")
    True
    """
    return bool(
        re.search(r"^#\s+size\s+count\s+type\b.*\balgbw\b", text, flags=re.MULTILINE)
        or ('"out_of_place"' in text and '"results"' in text)
    )


def read(text: str, *, where: str) -> Measurement:
    """Return the roof of the link that one output tells, with its latency as a remark.

    Raises:
        InputError: It is no such output, or no message in it arrived right.
    """
    output = _from_json(text, where) if text.lstrip().startswith("{") else _from_text(text)
    right = [timing for timing in output.timings if not timing.wrong and timing.time_ns > 0]
    notes = []
    if len(right) < len(output.timings):
        notes.append(
            f"{len(output.timings) - len(right)} timings are left out: wrong results or no time"
        )
    if not right:
        raise unreadable(f"no message of {where} has a time and right results", where, hint=_HINT)
    operation = output.operation or _operation_of(right, output.ranks)
    measured = Measurement(
        source=f"nccl-tests {output.version}".strip(), device=output.device, roofs=()
    )
    gpu = measured.gpu
    best = max(right, key=lambda timing: (timing.bus_rate, timing.size))
    in_switch = bool(gpu and gpu.in_switch_reduction) and operation == "all_reduce"
    notes += _remarks(right, best, operation, output.ranks)
    if in_switch:
        notes.append(
            f"the switch adds up, so the bound of an all-reduce counts its size once: nvlink is "
            f"size over time, {in_gb(best.algorithm_rate)}, and not the bus bandwidth "
            f"{in_gb(best.bus_rate)}, which counts the bytes of a ring"
        )
    if operation is None:
        notes.append("which collective this is, the output does not tell: name its binary")
    rate = best.algorithm_rate if in_switch else best.bus_rate
    name = f"{operation or 'a collective'}, {best.size} bytes"
    return Measurement(
        source=measured.source,
        device=output.device,
        roofs=(Roof(key="nvlink", value=rate, test=name),),
        notes=tuple(notes),
    )


def alpha_beta(timings: list[Timing]) -> AlphaBeta | None:
    """Return latency and rate fitted to the out-of-place times, or to all where there are none."""
    apart = [timing for timing in timings if not timing.in_place] or timings
    return fit_alpha_beta([(timing.size, timing.time_ns) for timing in apart])


def _remarks(
    right: list[Timing], best: Timing, operation: str | None, ranks: int | None
) -> list[str]:
    where = f"{operation or 'collective'} over {ranks or 'an unknown number of'} GPUs"
    notes = []
    small = [timing.time_ns for timing in right if timing.size <= _SMALL]
    if small:
        notes.append(
            f"{where}: {min(small) / _NS_PER_US:.1f} µs for small messages, which is what a "
            "decode step pays"
        )
    other = [t.bus_rate for t in right if t.in_place != best.in_place and t.size == best.size]
    if other:
        places = ("in place", "out of place") if best.in_place else ("out of place", "in place")
        notes.append(
            f"{where}: {in_gb(best.bus_rate)} bus bandwidth {places[0]} at {best.size} bytes, "
            f"{in_gb(other[0])} {places[1]}"
        )
    fit = alpha_beta(right)
    if fit is not None and fit.alpha_ns > 0:
        notes.append(
            f"{where}: time = {fit.alpha_ns / _NS_PER_US:.1f} µs + size / {in_gb(fit.bytes_per_s)}"
        )
    return notes


def _operation_of(right: list[Timing], ranks: int | None) -> str | None:
    """Return the one collective whose bus factor the rows have, where the ranks are known."""
    if ranks is None or ranks < 3:
        return None
    largest = max(right, key=lambda timing: timing.size)
    if largest.algorithm_rate <= 0:
        return None
    factor = largest.bus_rate / largest.algorithm_rate
    expected = bus_factor("all_reduce", ranks)
    return "all_reduce" if abs(factor / expected - 1) <= _FACTOR_TOLERANCE else None


def _from_text(text: str) -> _Output:
    binary = re.search(r"\b(\w+)_perf\b", text)
    version = re.search(r"# nccl-tests version (\S+)", text)
    ranks = re.findall(r"^#\s+Rank\s+\d+\s.*?\[[\w:.]+\]\s+(.+?)\s*$", text, flags=re.MULTILINE)
    return _Output(
        operation=OPERATIONS.get(binary[1]) if binary else None,
        ranks=len(ranks) or None,
        device=ranks[0] if len(set(ranks)) == 1 else None,
        version=version[1] if version else "",
        timings=tuple(_rows(text.splitlines())),
    )


def _rows(lines: list[str]) -> Iterator[Timing]:
    """Read rows by the header above them, since versions have more or fewer columns."""
    times: list[int] = []
    for line in lines:
        words = line.lstrip("# ").split()
        if line.startswith("#"):
            if words[:2] == ["size", "count"]:
                times = [at for at, word in enumerate(words) if word == "time"]
            continue
        if not times or not words or not words[0].isdigit():
            continue
        for place, at in enumerate(times[:2]):
            timing = _timing(words, at, in_place=bool(place))
            if timing is not None:
                yield timing


def _timing(words: list[str], at: int, *, in_place: bool) -> Timing | None:
    try:
        time, algorithm, bus = (float(word) for word in words[at : at + 3])
        wrong = words[at + 3]
    except (ValueError, IndexError):
        return None
    return _checked(int(words[0]), time, algorithm, bus, wrong, in_place=in_place)


def _checked(
    size: int, time_us: float, algorithm: float, bus: float, wrong: str, *, in_place: bool
) -> Timing | None:
    if not all(isfinite(value) for value in (time_us, algorithm, bus)) or size <= 0:
        return None
    return Timing(
        size=size,
        time_ns=time_us * _NS_PER_US,
        algorithm_rate=algorithm * _GB,
        bus_rate=bus * _GB,
        in_place=in_place,
        wrong=wrong not in ("N/A", "0", "0e+00", "None"),
    )


def _from_json(text: str, where: str) -> _Output:
    try:
        top = json.loads(text)
        timings = tuple(_json_rows(top["results"]))
    except (json.JSONDecodeError, KeyError, TypeError, ValueError) as error:
        raise unreadable(f"cannot read nccl-tests' JSON: {error!r}", where, hint=_HINT) from error
    binary = re.search(r"(\w+)_perf\b", json.dumps(top.get("args", "")))
    devices = [str(device.get("device_info", "")) for device in top.get("devices", [])]
    return _Output(
        operation=OPERATIONS.get(binary[1]) if binary else None,
        ranks=len(devices) or None,
        device=devices[0] or None if len(set(devices)) == 1 else None,
        version=str(top.get("version", "")),
        timings=timings,
    )


def _json_rows(results: list[Mapping[str, Any]]) -> Iterator[Timing]:
    for result in results:
        for place in ("out_of_place", "in_place"):
            part = result.get(place)
            if not isinstance(part, Mapping):
                continue
            time = part.get("time", part.get("cpu_time"))
            values = [float(value) for value in (time, part["alg_bw"], part["bus_bw"])]
            timing = _checked(
                int(result["size"]),
                values[0],
                values[1],
                values[2],
                str(part.get("nwrong", "N/A")),
                in_place=place == "in_place",
            )
            if timing is not None:
                yield timing
