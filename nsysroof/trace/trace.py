"""An opened export: its frames, read when first asked for, its GPUs and the verdict on it."""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Collection, Iterable
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

from nsysroof.results import Capture
from nsysroof.trace import activity, host, os_runtime, samples
from nsysroof.trace.activity import Activity, Conditions
from nsysroof.trace.capture import Evidence, judge
from nsysroof.trace.clock import Clock, read_clock
from nsysroof.trace.contract import (
    GRAPH_NODE_FIELDS,
    GRAPH_NODES,
    GRAPH_TRACE,
    KERNEL,
    MEMCPY,
    MEMSET,
    NVTX,
    OLD_GRAPH_NODES,
    OVERHEAD,
    RUNTIME,
    TABLES,
    check_layout,
    fit_fields,
    missing_columns,
)
from nsysroof.trace.devices import DeviceMap, GpuFacts, read_gpus
from nsysroof.trace.fields import Field
from nsysroof.trace.launches import LaunchIndex, read_launches
from nsysroof.trace.metadata import Metadata, read_metadata
from nsysroof.trace.progress import Tell, WatchedReader
from nsysroof.trace.reader import TableReader
from nsysroof.trace.samples import GpuSamples
from nsysroof.trace.source import Source, SourceKind, find_source
from nsysroof.trace.sqlite import SqliteReader

_NO_DEVICE = 2**31 - 1  # what CUPTI writes for a replay that begins on the host


def open_trace(path: str | Path, *, tell: Tell | None = None) -> Trace:
    """Open an export for reading; rows are read when a frame is first asked for.

    Takes a SQLite export, a folder of parquet tables, or a report where nsys can export it. The
    file is never changed and nothing is created beside it.

    Args:
        path: The export.
        tell: Called while a table is read, with its name, the rows read and the rows it has.

    Raises:
        InputError: There is nothing that can be read; the hint says what to do.
    """
    source = find_source(Path(path))
    try:
        reader = _open_reader(source)
        check_layout(reader.layout, str(path))
        trace = Trace(Path(path), reader if tell is None else WatchedReader(reader, tell))
    except BaseException:
        if source.scratch is not None:
            shutil.rmtree(source.scratch, ignore_errors=True)
        raise
    if source.scratch is not None:
        weakref.finalize(trace, shutil.rmtree, source.scratch, ignore_errors=True)
    return trace


def _open_reader(source: Source) -> TableReader:
    if source.kind is SourceKind.SQLITE:
        return SqliteReader(source)
    # Imported here, since it brings libraries of 20 MB that SQLite exports do not need.
    from nsysroof.trace.parquet import ParquetReader  # noqa: PLC0415

    return ParquetReader(source)


class Trace:
    """The frames of an export with the columns of ``nsysroof.trace.schema``; treat it as frozen.

    Frames hold good rows only; ``set_aside`` counts the others by reason.
    """

    def __init__(self, path: Path, reader: TableReader) -> None:
        """Use ``open_trace``."""
        self.path = path
        self._reader = reader

    @property
    def kernels(self) -> pl.DataFrame:
        """KERNELS, sorted by (gpu, start_ns, end_ns, stream, correlation, name)."""
        return self._kernels[0].frame

    @property
    def names(self) -> pl.DataFrame:
        """NAMES: one row for each distinct kernel name, sorted by text."""
        return self._kernels[1]

    @property
    def copies(self) -> pl.DataFrame:
        """COPIES, sorted like the kernels."""
        return self._copies.frame

    @property
    def fills(self) -> pl.DataFrame:
        """FILLS, sorted like the kernels."""
        return self._fills.frame

    @property
    def replays(self) -> pl.DataFrame:
        """REPLAYS, sorted like the kernels."""
        return self._replays.frame

    @property
    def api_calls(self) -> pl.DataFrame:
        """API_CALLS, sorted by their columns in order."""
        return self._calls[0]

    @property
    def apis(self) -> pl.DataFrame:
        """APIS, sorted by text."""
        return self._calls[1]

    @cached_property
    def ranges(self) -> pl.DataFrame:
        """RANGES, sorted by their columns in order."""
        window = self._metadata.start_window_ns
        return host.read_ranges(self._reader, self._fields(NVTX), window[1] if window else None)

    def ranges_beginning(self, *prefixes: str) -> pl.DataFrame:
        """Return the ranges whose text begins so; the rest of the table is not kept."""
        window = self._metadata.start_window_ns
        latest_ns = window[1] if window else None
        return host.read_ranges_beginning(self._reader, self._fields(NVTX), latest_ns, prefixes)

    @cached_property
    def overheads(self) -> pl.DataFrame:
        """OVERHEADS, sorted by their columns in order."""
        return host.read_overheads(self._reader, self._fields(OVERHEAD))

    @property
    def has_os_calls(self) -> bool:
        """Whether the export has a whole table of OS runtime calls; it may be empty."""
        return os_runtime.has_os_calls(self._reader)

    def count_os_calls(self) -> int:
        """Return the number of OS runtime calls of all threads; a pass over a table."""
        return os_runtime.count_os_calls(self._reader)

    def os_calls(
        self, threads: Collection[tuple[int, int]], starts: np.ndarray, ends: np.ndarray
    ) -> pl.DataFrame:
        """Return OS_CALLS of (process, thread) that overlap disjoint, ascending stretches."""
        return os_runtime.read_os_calls(self._reader, threads, starts, ends)

    @property
    def has_gpu_samples(self) -> bool:
        """Whether the export has a table of sampled GPU metrics; it may be empty."""
        return samples.has_samples(self._reader)

    def count_gpu_samples(self) -> int:
        """Return the number of samples, of metrics that are not read too; a pass over a table."""
        return samples.count_samples(self._reader)

    @cached_property
    def sampled_metrics(self) -> frozenset[tuple[int, str]]:
        """Each GPU with each metric of ``SAMPLED_METRICS`` that the export has a known name of."""
        return frozenset(self._metric_numbers.values())

    def gpu_samples(self, gpus: Iterable[int], window_ns: tuple[int, int]) -> GpuSamples:
        """Return the samples of some GPUs with a timestamp in the window, both ends included."""
        return samples.read_samples(self._reader, self._metric_numbers, gpus, window_ns)

    @cached_property
    def node_creations(self) -> pl.DataFrame:
        """GRAPH_NODE_CREATIONS, sorted by their columns in order."""
        table = GRAPH_NODES if self._fields(GRAPH_NODES) else OLD_GRAPH_NODES
        fields = fit_fields(self._reader.layout, table, GRAPH_NODE_FIELDS, str(self.path))
        return host.read_node_creations(self._reader, table, fields)

    @cached_property
    def gpus(self) -> tuple[GpuFacts, ...]:
        """The GPUs that the export describes and those that did work, by number."""
        described = {facts.gpu: facts for facts in self._devices[0]}
        activities = (self._kernels[0], self._copies, self._fills, self._replays)
        used = {place.gpu for done in activities for place in done.places if place.gpu is not None}
        unknown = {gpu: GpuFacts(gpu=gpu) for gpu in used - described.keys()}
        return tuple(facts for _, facts in sorted((described | unknown).items()))

    @property
    def session_ns(self) -> int | None:
        """The length of the capture, None where the export does not say."""
        return self._metadata.session_ns

    @property
    def set_aside(self) -> dict[str, int]:
        """The kernel rows that are not in ``kernels``, by reason."""
        return self._kernels[0].set_aside

    def capture(self) -> Capture:
        """Return the verdict: what this capture can answer."""
        return self._capture

    @cached_property
    def _capture(self) -> Capture:
        kernels, _, nameless = self._kernels
        evidence = Evidence(
            metadata=self._metadata,
            gpus=self.gpus,
            kernels=kernels,
            copies=self._copies,
            fills=self._fills,
            replays=self._replays,
            calls=self._launches.calls,
            call_rows=self._reader.count(RUNTIME),
            launches_by_pid=self._launches.launches_by_pid,
            graph_launches=self._launches.graph_launches,
            unseen_graph_launches=self._launches.unseen_graph_launches(),
            nameless_kernels=nameless,
            missing_columns=missing_columns(self._reader.layout),
        )
        return judge(evidence)

    @cached_property
    def clock(self) -> Clock:
        """What the export tells of its clock, for ``clock.align``."""
        return read_clock(self._reader, self._metadata)

    @cached_property
    def _metadata(self) -> Metadata:
        return read_metadata(self._reader)

    @cached_property
    def _metric_numbers(self) -> samples.Numbers:
        return samples.read_metric_numbers(self._reader)

    @cached_property
    def _devices(self) -> tuple[tuple[GpuFacts, ...], DeviceMap]:
        return read_gpus(self._reader)

    @cached_property
    def _calls(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        return host.read_calls(self._reader, self._fields(RUNTIME))

    @cached_property
    def _launches(self) -> LaunchIndex:
        return read_launches(self._reader, self._fields(RUNTIME))

    @cached_property
    def _conditions(self) -> Conditions:
        return Conditions(
            window_ns=self._metadata.start_window_ns,
            launches=self._launches,
            devices=self._devices[1],
        )

    @cached_property
    def _kernels(self) -> tuple[Activity, pl.DataFrame, int]:
        return activity.read_kernels(self._reader, self._fields(KERNEL), self._conditions)

    @cached_property
    def _copies(self) -> Activity:
        return activity.read_copies(self._reader, self._fields(MEMCPY), self._conditions)

    @cached_property
    def _fills(self) -> Activity:
        return activity.read_fills(self._reader, self._fields(MEMSET), self._conditions)

    @cached_property
    def _replays(self) -> Activity:
        conditions = replace(self._conditions, devices=self._devices_with_host_starts())
        return activity.read_replays(self._reader, self._fields(GRAPH_TRACE), conditions)

    def _devices_with_host_starts(self) -> DeviceMap:
        """Return the device map where replays that begin on the host have a GPU, if one is sure.

        Such a row names no device; a process that used a single GPU can only have meant that.
        """
        gpus: dict[int, set[int]] = {}
        for done in (self._kernels[0], self._copies, self._fills):
            for place in done.places:
                if place.pid is not None and place.gpu is not None:
                    gpus.setdefault(place.pid, set()).add(place.gpu)
        single = {(pid, _NO_DEVICE): next(iter(on)) for pid, on in gpus.items() if len(on) == 1}
        known = self._devices[1]
        return replace(known, by_process={**single, **known.by_process})

    def _fields(self, table: str) -> dict[str, Field]:
        return fit_fields(self._reader.layout, table, TABLES[table], str(self.path))
