"""Samples of the GPUs' counters: metrics of a whole device, by name and never by number.

An export numbers metrics anew for every GPU and every metric set, so a name is looked up for each.
Only names that are known, in units that are known, are read; ``[Avg]`` forms have other scales.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import polars as pl

from nsysroof.trace import fields
from nsysroof.trace.contract import find_table, fit_fields
from nsysroof.trace.order import sort_frame
from nsysroof.trace.reader import Only, TableReader, read_table
from nsysroof.trace.schema import GPU_SAMPLES, SAMPLED_METRICS

_SAMPLES = "GPU_METRICS"
_NAMES = "TARGET_INFO_GPU_METRICS"
_I64 = pl.Int64()
_SAMPLE_FIELDS = {
    "timestamp_ns": fields.number("timestamp", _I64),
    "type": fields.number("typeId", _I64),
    "number": fields.number("metricId", _I64),
    "value": fields.number("value", _I64),
}
_NAME_FIELDS = {
    "type": fields.number("typeId", _I64),
    "number": fields.number("metricId", _I64),
    "text": fields.text("metricName"),
}
_GPU_MASK = 0xFF  # the low bits of a type are the GPU
_SPELLINGS = {
    "sm_active": ("sms active", "sm active"),
    "sm_issue": ("sm issue",),
    "tensor_active": ("tensor active", "tensor active / fp16 active"),
    "dram_read": ("dram read bandwidth", "vram read bandwidth"),
    "dram_write": ("dram write bandwidth", "vram write bandwidth"),
    "gpc_clock": ("gpc clock frequency",),
}
"""Names as releases and GPUs spell them, the likeliest first, without their unit."""

_CLOCK = "gpc_clock"
_UNITS = dict.fromkeys(SAMPLED_METRICS, "throughput %") | {_CLOCK: "mhz"}  # a clock's are Hz
_SPELLED = re.compile(r"(?P<name>[^\[]*?)\s*\[(?P<unit>[^\]]*)\]\s*\Z")
_MOST_PERCENT, _MOST_HZ = 100, 2**32 - 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GpuSamples:
    """What was sampled in a stretch of time.

    ``frame`` has the schema ``GPU_SAMPLES``, sorted by GPU, metric and time. ``implausible`` are
    the (GPU, metric) of which a value cannot be, such as 300 percent; none of theirs is kept.
    """

    frame: pl.DataFrame
    implausible: frozenset[tuple[int, str]]


Numbers = Mapping[tuple[int, int], tuple[int, str]]
"""From (type, number) of an export to (GPU, metric)."""


def metric_of(name: str) -> str | None:
    """Return which metric a name of an export is, or None for one that is not read.

    >>> metric_of("DRAM Read Bandwidth [Throughput %]"), metric_of("GPC Clock Frequency [MHz]")
    ('dram_read', 'gpc_clock')
    >>> metric_of("SMs Active [Avg]"), metric_of("PCIe Read Throughput [Throughput %]")
    (None, None)
    """
    found = _spelling_of(name)
    return found[1] if found else None


def _spelling_of(name: str) -> tuple[int, str] | None:
    """Return how likely a spelling is, 0 the likeliest, and its metric."""
    spelled = _SPELLED.match(name.lower())
    if spelled is None:
        return None
    for metric, spellings in _SPELLINGS.items():
        if spelled["name"] in spellings and spelled["unit"] == _UNITS[metric]:
            return spellings.index(spelled["name"]), metric
    return None


def has_samples(reader: TableReader) -> bool:
    """Return whether the export has a table of samples; it may be empty."""
    return find_table(reader.layout, _SAMPLES) is not None


def count_samples(reader: TableReader) -> int:
    """Return the number of samples of any metric; it takes a pass over the table."""
    return reader.count(_SAMPLES)


def read_metric_numbers(reader: TableReader) -> Numbers:
    """Return the metrics that can be read; of several forms of one metric, the likeliest.

    Where a GPU was sampled under several types, the lowest that has the metric counts.
    """
    present = fit_fields(reader.layout, _NAMES, _NAME_FIELDS, _NAMES)
    if not present:
        return {}
    found: dict[tuple[int, str], tuple[int, int, int]] = {}
    for row in read_table(reader, _NAMES, present).drop_nulls().iter_rows(named=True):
        spelling = _spelling_of(row["text"])
        if spelling is not None:
            rank, metric = spelling
            choice = (rank, row["type"], row["number"])
            key = (row["type"] & _GPU_MASK, metric)
            found[key] = min(found.get(key, choice), choice)
    return {(kind, number): key for key, (_, kind, number) in sorted(found.items())}


def read_samples(
    reader: TableReader, numbers: Numbers, gpus: Iterable[int], window_ns: tuple[int, int]
) -> GpuSamples:
    """Return the samples of some GPUs with a timestamp in the window, both ends included.

    Rows of other metrics are not kept while the table is read.
    """
    chosen = set(gpus)
    wanted = {key: of for key, of in numbers.items() if of[0] in chosen}
    present = fit_fields(reader.layout, _SAMPLES, _SAMPLE_FIELDS, _SAMPLES)
    if not present or not wanted or not all(field.columns for field in present.values()):
        return GpuSamples(frame=pl.DataFrame(schema=GPU_SAMPLES), implausible=frozenset())
    sieve = _Sieve.of(wanted)
    only = Only(
        column="metricId",
        values=tuple(sorted({number for _, number in wanted})),
        least=(("timestamp", window_ns[0]),),
        most=(("timestamp", window_ns[1]),),
    )
    blocks = reader.map_blocks(_SAMPLES, present, sieve.sift, only=only)
    frame = pl.concat(
        [pl.DataFrame(schema=GPU_SAMPLES), *(good for good, _ in blocks)], rechunk=False
    )
    implausible = frozenset[tuple[int, str]]().union(*(bad for _, bad in blocks))
    parts = [pl.DataFrame(schema=GPU_SAMPLES)]
    for gpu, metric in sorted(set(wanted.values()) - implausible):
        own = frame.filter((pl.col("gpu") == gpu) & (pl.col("metric") == metric))
        parts.append(sort_frame(own, ["timestamp_ns", "value"]))
    return GpuSamples(frame=pl.concat(parts, rechunk=False), implausible=implausible)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Sieve:
    """Names the metrics of blocks of rows, in the threads that read them."""

    names: pl.DataFrame

    @classmethod
    def of(cls, wanted: Numbers) -> _Sieve:
        rows = [(*key, *of) for key, of in wanted.items()]
        schema = {"type": _I64, "number": _I64, **{k: GPU_SAMPLES[k] for k in ("gpu", "metric")}}
        return cls(names=pl.DataFrame(rows, schema=schema, orient="row"))

    def sift(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, frozenset[tuple[int, str]]]:
        named = rows.join(self.names, on=["type", "number"]).drop_nulls()
        most = pl.when(pl.col("metric") == _CLOCK).then(_MOST_HZ).otherwise(_MOST_PERCENT)
        possible = pl.col("value").is_between(0, most)
        bad = named.filter(~possible).select("gpu", "metric").unique()
        return (
            named.filter(possible).select(list(GPU_SAMPLES)).cast(GPU_SAMPLES),
            frozenset(bad.iter_rows()),
        )
