"""The GPUs of a capture: what the export says of each, and which one a process meant.

The device number of an activity is the CUDA ordinal within its process, not a physical GPU.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from nsysroof.trace import fields
from nsysroof.trace.contract import fit_fields
from nsysroof.trace.fields import Field
from nsysroof.trace.order import holds_one_value
from nsysroof.trace.reader import Only, TableReader, read_table

_GPU_TABLE = "TARGET_INFO_GPU"
_DEVICE_TABLE = "TARGET_INFO_CUDA_DEVICE"
_SYSTEM_TABLE = "TARGET_INFO_SYSTEM_ENV"
_I64 = pl.Int64()
_GPU_FIELDS = {
    "gpu": fields.number("id", _I64),
    "name": fields.text("name"),
    "sm_count": fields.number("smCount", _I64),
    "memory_bytes": fields.number("totalMemory", _I64),
    "bytes_per_s": fields.number("memoryBandwidth", _I64),
    "l2_bytes": fields.number("l2CacheSize", _I64),
    "clock_hz": fields.number("clockRate", _I64),
    "major": fields.number("computeMajor", _I64),
    "minor": fields.number("computeMinor", _I64),
    "uuid": fields.text("uuid"),
    "ordinal": fields.number("cuDevice", _I64),
}
_DEVICE_FIELDS = {
    "gpu": fields.number("gpuId", _I64),
    "device": fields.number("cudaId", _I64),
    "pid": fields.number("pid", _I64),
    "uuid": fields.text("uuid"),
    "sm_count": fields.number("numMultiprocessors", _I64),
}
_JSON_KEYS = {
    "gpu": "Id",
    "name": "Name",
    "sm_count": "SmCount",
    "memory_bytes": "TotalMemory",
    "bytes_per_s": "MemoryBandwidth",
    "l2_bytes": "L2CacheSize",
    "clock_hz": "ClockRate",
    "major": "ComputeMajor",
    "minor": "ComputeMinor",
    "uuid": "Uuid",
    "ordinal": "CuDevice",
}
_LARGEST_GPU = 2**16 - 1  # of a UInt16 column; CUPTI writes INT_MAX where it knows no device


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuFacts:
    """One physical GPU as the export describes it; None is "not told", never a default.

    ``bytes_per_s`` is the device's own theoretical memory bandwidth and ``clock_hz`` its highest
    clock. ``sm_count`` is what the profiled processes could use, which a MIG slice makes smaller
    than the part's; ``mig`` says that the device is such a slice.
    """

    gpu: int
    name: str | None = None
    sm_count: int | None = None
    memory_bytes: int | None = None
    bytes_per_s: int | None = None
    l2_bytes: int | None = None
    clock_hz: int | None = None
    compute_capability: tuple[int, int] | None = None
    mig: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a process worked: ``gpu`` of its CUDA ``device``, ``known`` or only assumed."""

    pid: int | None
    device: int
    gpu: int | None
    known: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceMap:
    """From (process, CUDA ordinal) to a physical GPU.

    ``by_process`` comes from the export's device table. Where that has no entry, ``by_device``
    maps the ordinal as a process without CUDA_VISIBLE_DEVICES would see it, else it is taken as
    it is.
    """

    by_process: Mapping[tuple[int, int], int]
    by_device: Mapping[int, int]

    def add_gpu(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, frozenset[Place]]:
        """Return ``rows`` with ``gpu``, null for no device, in place of ``device``; and places."""
        pairs = rows.select("pid", "device")
        if all(map(holds_one_value, pairs)):
            pairs = pairs.head(1)
        pairs = pairs.unique().sort("pid", "device", nulls_last=True)
        places = frozenset(
            Place(pid=pid, device=device, gpu=gpu, known=known)
            for pid, device in pairs.iter_rows()
            for gpu, known in [self._find(pid, device)]
        )
        if len(places) == 1:
            gpu: pl.Expr | pl.Series = pl.lit(next(iter(places)).gpu, dtype=pl.UInt16)
        else:
            gpu = _pack(rows["pid"], rows["device"]).replace_strict(
                _pack(
                    pl.Series([place.pid for place in places], dtype=pl.UInt32),
                    pl.Series([place.device for place in places], dtype=pl.UInt32),
                ),
                pl.Series([place.gpu for place in places], dtype=pl.UInt16),
                return_dtype=pl.UInt16,
            )
        return rows.with_columns(gpu=gpu).drop("device"), places

    def _find(self, pid: int | None, device: int) -> tuple[int | None, bool]:
        if pid is not None and (pid, device) in self.by_process:
            return self.by_process[pid, device], True
        gpu = self.by_device.get(device, device)
        return (gpu if 0 <= gpu <= _LARGEST_GPU else None), False


def _pack(pid: pl.Series, device: pl.Series) -> pl.Series:
    return pid.cast(pl.UInt64).fill_null(2**32 - 1) * 2**32 + device.cast(pl.UInt64)


def read_gpus(reader: TableReader) -> tuple[tuple[GpuFacts, ...], DeviceMap]:
    """Return the GPUs that the export describes, by number, and where processes ran."""
    rows = _numbered(_read(reader, _GPU_TABLE, _GPU_FIELDS)) or _numbered(_from_json(reader))
    devices = _numbered(_read(reader, _DEVICE_TABLE, _DEVICE_FIELDS))
    facts = tuple(_facts(row, devices) for row in sorted(rows, key=lambda row: int(row["gpu"])))
    by_process = {
        (row["pid"] & 0xFFFFFF, row["device"]): row["gpu"]
        for row in devices
        if row["pid"] is not None and row["device"] is not None
    }
    by_device = {row["ordinal"]: row["gpu"] for row in rows if row["ordinal"] is not None}
    return facts, DeviceMap(by_process=by_process, by_device=by_device)


def _numbered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows that say which GPU they are of."""
    return [row for row in rows if row["gpu"] is not None and 0 <= row["gpu"] <= _LARGEST_GPU]


def _facts(row: dict[str, Any], devices: list[dict[str, Any]]) -> GpuFacts:
    own = [device for device in devices if device["gpu"] == row["gpu"]]
    uuids = [str(entry["uuid"] or "") for entry in (row, *own)]
    usable = [device["sm_count"] for device in own if device["sm_count"]]
    name = row["name"] or None
    capability = (row["major"], row["minor"])
    return GpuFacts(
        gpu=row["gpu"],
        name=name,
        sm_count=min([*usable, row["sm_count"]] if row["sm_count"] else usable, default=None),
        memory_bytes=row["memory_bytes"] or None,
        bytes_per_s=row["bytes_per_s"] or None,
        l2_bytes=row["l2_bytes"] or None,
        clock_hz=row["clock_hz"] or None,
        compute_capability=None if None in capability or capability == (0, 0) else capability,
        mig=any(uuid.startswith("MIG") for uuid in uuids)
        or "MIG" in (name or "").split()
        or bool(row.get("mig")),
    )


def _from_json(reader: TableReader) -> list[dict[str, Any]]:
    """Return the GPUs of the system description, which newer exports hold as JSON."""
    wanted = Only(column="name", values=("GpuInfo",))
    values = _read(reader, _SYSTEM_TABLE, {"value": fields.text("value")}, only=wanted)
    for entry in values:
        try:
            listed = json.loads(entry["value"])["Gpus"]
            return [
                {name: _plain(gpu.get(key)) for name, key in _JSON_KEYS.items()}
                | {"name": gpu.get("Name"), "uuid": gpu.get("Uuid"), "mig": gpu.get("MigEnabled")}
                for gpu in listed
            ]
        except (ValueError, TypeError, KeyError, AttributeError):
            continue  # older exports hold another, binary description under the same name
    return []


def _plain(value: object) -> int | None:
    return int(value) if isinstance(value, int | str) and str(value).isdigit() else None


def _read(
    reader: TableReader, table: str, wanted: Mapping[str, Field], *, only: Only | None = None
) -> list[dict[str, Any]]:
    present = fit_fields(reader.layout, table, wanted, table)
    return read_table(reader, table, present, only=only).to_dicts() if present else []
