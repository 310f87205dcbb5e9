"""Which host call launched an activity: a look-up by process and correlation id.

Correlation ids count within a process. A look-up by the id alone finds calls of other processes
as well: one real capture of two processes yields 4,280 rows for its 4,010 kernels that way.
The look-up is read apart from the frame of host calls, since both together would double the
memory that a long capture needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from nsysroof.trace.contract import RUNTIME
from nsysroof.trace.fields import Field
from nsysroof.trace.host import api_kind, api_name, drop_twins
from nsysroof.trace.reader import TableReader, read_strings

_NO_KEY = np.uint64(2**64 - 1)
_NO_ID = 2**32 - 1
_FIELDS = ("start_ns", "pid", "correlation", "name", "event_class")
_KEYED = pl.Schema({"key": pl.UInt64(), "start_ns": pl.Int64(), "name": pl.UInt32()})
_LAUNCHES = ("kernel_launch", "graph_launch")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LaunchIndex:
    """Host calls by (process, correlation), in ascending order of the key, and their counts.

    ``is_graph`` marks the launches of CUDA graphs; ``used`` marks calls that some activity came
    from, and is filled while activities are read. ``calls`` counts all host calls,
    ``launches_by_pid`` those that launch a kernel or a graph, ``graph_launches`` the latter.
    """

    keys: npt.NDArray[np.uint64]
    start_ns: npt.NDArray[np.int64]
    is_graph: npt.NDArray[np.bool_]
    used: npt.NDArray[np.bool_]
    calls: int
    launches_by_pid: dict[int, int]
    graph_launches: int

    def find(
        self, pid: pl.Series, correlation: pl.Series
    ) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        """Return, for each activity, the position of its call and whether it has one."""
        keys = _keys(pid, correlation)
        if not len(self.keys):
            return np.zeros(len(keys), dtype=np.intp), np.zeros(len(keys), dtype=np.bool_)
        # The kernels of a replay come one after another with the id of its launch.
        changes = np.ones(len(keys), dtype=np.bool_)
        changes[1:] = keys[1:] != keys[:-1]
        first = np.flatnonzero(changes)
        lengths = np.diff(first, append=len(keys))
        heads = keys[first]
        at = np.minimum(np.searchsorted(self.keys, heads), len(self.keys) - 1)
        return np.repeat(at, lengths), np.repeat(self.keys[at] == heads, lengths)

    def unseen_graph_launches(self) -> int:
        """Return the number of graph launches from which no activity was recorded."""
        return int((self.is_graph & ~self.used).sum())


def read_launches(reader: TableReader, fields: Mapping[str, Field]) -> LaunchIndex:
    """Return the look-up for host calls; the earliest call counts where a key repeats."""
    wanted = {name: fields[name] for name in _FIELDS if name in fields}
    blocks = reader.map_blocks(RUNTIME, wanted, _reduce) if wanted else []
    counts: Counter[tuple[int | None, int]] = Counter()
    for _, found in blocks:
        counts.update(found)
    kinds = _kinds(reader, {name for _, name in counts})
    by_pid: Counter[int] = Counter()
    for (pid, name), count in counts.items():
        if pid is not None and kinds[name] in _LAUNCHES:
            by_pid[pid] += count
    calls = pl.concat([pl.DataFrame(schema=_KEYED), *(rows for rows, _ in blocks)], rechunk=False)
    del blocks
    keys, start, is_graph = _distinct(
        calls, [name for name, kind in kinds.items() if kind == "graph_launch"]
    )
    return LaunchIndex(
        keys=keys,
        start_ns=start,
        is_graph=is_graph,
        used=np.zeros(len(keys), dtype=np.bool_),
        calls=counts.total(),
        launches_by_pid=dict(sorted(by_pid.items())),
        graph_launches=sum(n for (_, name), n in counts.items() if kinds[name] == "graph_launch"),
    )


def _reduce(rows: pl.DataFrame) -> tuple[pl.DataFrame, dict[tuple[int | None, int], int]]:
    """Return key, start and name of the calls that have a key, and counts by pid and name."""
    rows = drop_twins(rows)
    counts = rows.group_by("pid", "name").len()
    key = pl.col("pid").cast(pl.UInt64) * 2**32 + pl.col("correlation").cast(pl.UInt64)
    keyed = rows.select("start_ns", "name", key=key).select(*_KEYED).drop_nulls("key")
    return keyed, {(pid, name): count for pid, name, count in counts.iter_rows()}


def _kinds(reader: TableReader, ids: Iterable[int]) -> dict[int, str]:
    texts = read_strings(reader, ids)
    return {number: api_kind(api_name(texts.get(number, ""))) for number in ids}


def _distinct(
    calls: pl.DataFrame, graph_names: list[int]
) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
    """Return keys in ascending order, and the start and kind of the earliest call of each."""
    keys, start = calls["key"].to_numpy(), calls["start_ns"].to_numpy()
    is_graph = calls["name"].is_in(graph_names).to_numpy()
    if not (keys[1:] > keys[:-1]).all():
        order = np.lexsort((start, keys))
        keys, start, is_graph = keys[order], start[order], is_graph[order]
        first = np.ones(len(keys), dtype=np.bool_)
        first[1:] = keys[1:] != keys[:-1]
        if not first.all():
            keys, start, is_graph = keys[first], start[first], is_graph[first]
    return keys, start, is_graph


def _keys(pid: pl.Series, correlation: pl.Series) -> npt.NDArray[np.uint64]:
    """Return both ids as one integer; computed in place, for tables of millions of rows."""
    keys = pid.fill_null(_NO_ID).to_numpy().astype(np.uint64)
    keys <<= np.uint64(32)
    keys |= correlation.fill_null(_NO_ID).to_numpy()
    keys[(pid.is_null() | correlation.is_null()).to_numpy()] = _NO_KEY
    return keys
