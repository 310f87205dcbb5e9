"""What the GPUs did: kernels, copies, fills and whole graph replays, with bad rows set aside.

A row is set aside, with its reason counted, when its times or its geometry cannot be true; it is
never repaired and never dropped silently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import polars as pl

from nsysroof.trace.contract import GRAPH_TRACE, KERNEL, MEMCPY, MEMSET
from nsysroof.trace.devices import DeviceMap, Place
from nsysroof.trace.fields import Field
from nsysroof.trace.launches import LaunchIndex
from nsysroof.trace.order import in_equal_chunks, sort_frame
from nsysroof.trace.reader import TableReader, read_strings
from nsysroof.trace.schema import COPIES, FILLS, KERNELS, NAMES, REPLAYS
from nsysroof.trace.texts import index_texts

CLOCK_ERROR_NS = 1_000_000
"""How much earlier than its own launch call a row may start: the clocks of GPU and host differ."""

_MIGRATIONS = [11, 12, 13]
"""Kinds of copies that move managed memory, which nobody has to pin."""

# Arrays live in device memory.
_COPY_KINDS = dict.fromkeys((1, 3, 11), "h2d") | dict.fromkeys((2, 4, 12), "d2h")
_COPY_KINDS |= dict.fromkeys((5, 6, 7, 8), "d2d") | dict.fromkeys((10, 13), "p2p")
_MEMORY_KINDS = dict(enumerate(("pageable", "pinned", "device", "array", "managed")))
_MEMORY_KINDS |= {5: "device", 6: "managed"}  # their static forms
_REASONS = (
    "good",
    "zero-timestamps",
    "reversed",
    "outside-session",
    "before-launch",
    "bad-geometry",
    "unknown-device",
)
"""Why a row is set aside; the first that holds counts."""

_ORDER = ["start_ns", "end_ns", "stream", "correlation"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conditions:
    """What rows are judged by: the window of possible starts, the launch calls, the GPUs."""

    window_ns: tuple[int, int] | None
    launches: LaunchIndex
    devices: DeviceMap


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Activity:
    """The good rows of one table, and what was counted while they were read.

    ``rows`` counts the table; ``launchless`` good rows have no host call; ``in_graph`` good rows
    carry a graph node or come from the launch of a graph; ``places`` are all in the table.
    """

    frame: pl.DataFrame
    rows: int
    set_aside: dict[str, int]
    launchless: int
    in_graph: int
    places: frozenset[Place]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Sifted:
    """One block of rows: the good ones by GPU, and counts."""

    by_gpu: dict[int, pl.DataFrame]
    rows: int
    set_aside: dict[str, int]
    launchless: int
    in_graph: int
    places: frozenset[Place]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sieve:
    """Judges blocks of rows, in the threads that read them."""

    conditions: Conditions
    geometry: bool = False

    def sift(self, rows: pl.DataFrame) -> _Sifted:
        total, launches = rows.height, self.conditions.launches
        rows, places = self.conditions.devices.add_gpu(rows)
        positions, launched = launches.find(rows["pid"], rows["correlation"])
        reasons = self._reasons(rows, positions, launched)
        set_aside: dict[str, int] = {}
        if reasons.max():
            found = reasons.value_counts().sort("reason").iter_rows()
            set_aside = {_REASONS[reason]: n for reason, n in found if reason}
            good = reasons == 0
            rows, positions = rows.filter(good), positions[good.to_numpy()]
            launched = launched[good.to_numpy()]
        used = positions[launched]
        launches.used[used] = True
        from_graph = np.zeros(rows.height, dtype=bool)
        from_graph[launched] = launches.is_graph[used]
        if "graph_node" in rows.columns:
            from_graph |= rows["graph_node"].is_not_null().to_numpy()
        return _Sifted(
            by_gpu=_split(rows),
            rows=total,
            set_aside=set_aside,
            launchless=int((~launched).sum()),
            in_graph=int(from_graph.sum()),
            places=places,
        )

    def _reasons(
        self, rows: pl.DataFrame, positions: np.ndarray, launched: np.ndarray
    ) -> pl.Series:
        """Return why each row is set aside, by its place in _REASONS; 0 where it is good."""
        start, end = pl.col("start_ns"), pl.col("end_ns")
        checks = [(start == 0) & (end == 0), end < start]
        window = self.conditions.window_ns
        checks.append(~start.is_between(*window) if window else pl.lit(value=False))
        early = np.zeros(rows.height, dtype=bool)
        if len(self.conditions.launches.keys):
            calls = self.conditions.launches.start_ns[positions]
            early = launched & (rows["start_ns"].to_numpy() < calls - CLOCK_ERROR_NS)
        checks.append(pl.lit(pl.Series(early)))
        shapeless = pl.col("grid").is_null() | pl.col("block").is_null()
        checks.append(shapeless if self.geometry else pl.lit(value=False))
        checks.append(pl.col("gpu").is_null())
        reason = pl.lit(0, dtype=pl.UInt8)
        for number, check in reversed(list(enumerate(checks, start=1))):
            reason = pl.when(check).then(pl.lit(number, dtype=pl.UInt8)).otherwise(reason)
        return rows.select(reason=reason)["reason"]


def read_kernels(
    reader: TableReader, fields: dict[str, Field], conditions: Conditions
) -> tuple[Activity, pl.DataFrame, int]:
    """Return the kernels, the NAMES frame and the number of kernels whose name has no text."""
    if not fields:
        return _none(KERNELS), pl.DataFrame(schema=NAMES), 0
    blocks = reader.map_blocks(KERNEL, fields, _Sieve(conditions=conditions, geometry=True).sift)
    ids = sorted(
        {
            number
            for block in blocks
            for part in block.by_gpu.values()
            for number in part["name"].unique().to_list()
        }
    )
    texts = read_strings(reader, ids)
    index = index_texts(ids, texts)
    names = pl.DataFrame({"name": range(len(index.texts)), "text": index.texts}, schema=NAMES)
    nameless = [number for number in ids if number not in texts]
    count = sum(
        int(part["name"].is_in(nameless).sum())
        for block in blocks
        for part in block.by_gpu.values()
        if nameless
    )

    def rename(part: pl.DataFrame) -> pl.DataFrame:
        return part.with_columns(name=index.number(part["name"])).select(*KERNELS)

    return _gather(blocks, KERNELS, [*_ORDER, "name"], rename), names, count


def read_copies(reader: TableReader, fields: dict[str, Field], conditions: Conditions) -> Activity:
    """Return the copies; one between two devices is ``p2p`` whatever its kind says."""
    between = (pl.col("src_device") != pl.col("dst_device")).fill_null(value=False)
    kind = pl.col("copy_kind").replace_strict(_COPY_KINDS, default="other", return_dtype=pl.String)

    def name_kinds(part: pl.DataFrame) -> pl.DataFrame:
        migrates = pl.col("copy_kind").is_in(_MIGRATIONS)
        memory = {
            side: pl.when(migrates & (pl.col(f"{side}_kind") == 0))
            .then(pl.lit("managed"))
            .otherwise(
                pl.col(f"{side}_kind").replace_strict(
                    _MEMORY_KINDS, default="unknown", return_dtype=pl.String
                )
            )
            for side in ("src", "dst")
        }
        named = pl.when(between & kind.eq("d2d")).then(pl.lit("p2p")).otherwise(kind)
        return part.with_columns(kind=named, **memory).select(*COPIES)

    return _read(reader, MEMCPY, fields, conditions, COPIES, name_kinds)


def read_fills(reader: TableReader, fields: dict[str, Field], conditions: Conditions) -> Activity:
    """Return the fills of memory."""
    return _read(reader, MEMSET, fields, conditions, FILLS, lambda part: part.select(*FILLS))


def read_replays(reader: TableReader, fields: dict[str, Field], conditions: Conditions) -> Activity:
    """Return the graph replays that were recorded as a whole."""
    return _read(
        reader, GRAPH_TRACE, fields, conditions, REPLAYS, lambda part: part.select(*REPLAYS)
    )


def _read(
    reader: TableReader,
    table: str,
    fields: dict[str, Field],
    conditions: Conditions,
    schema: pl.Schema,
    finish: Callable[[pl.DataFrame], pl.DataFrame],
) -> Activity:
    if not fields:
        return _none(schema)
    blocks = reader.map_blocks(table, fields, _Sieve(conditions=conditions).sift)
    rest = [name for name in schema if name not in {*_ORDER, "gpu"}]
    return _gather(blocks, schema, [*_ORDER, *rest], finish)


def _gather(
    blocks: list[_Sifted],
    schema: pl.Schema,
    order: list[str],
    finish: Callable[[pl.DataFrame], pl.DataFrame],
) -> Activity:
    """Return the blocks as one frame, GPU by GPU; the blocks are emptied on the way."""
    gpus = sorted({gpu for block in blocks for gpu in block.by_gpu})
    frames = [pl.DataFrame(schema=schema)]
    for gpu in gpus:
        parts = [finish(block.by_gpu.pop(gpu)) for block in blocks if gpu in block.by_gpu]
        frames.append(sort_frame(pl.concat(parts, rechunk=False), order))
        del parts
    set_aside: Counter[str] = Counter()
    for block in blocks:
        set_aside.update(block.set_aside)
    return Activity(
        frame=in_equal_chunks(pl.concat(frames, rechunk=False)),
        rows=sum(block.rows for block in blocks),
        set_aside=dict(sorted(set_aside.items())),
        launchless=sum(block.launchless for block in blocks),
        in_graph=sum(block.in_graph for block in blocks),
        places=frozenset().union(*(block.places for block in blocks)),
    )


def _split(rows: pl.DataFrame) -> dict[int, pl.DataFrame]:
    gpus = rows["gpu"].unique().to_list()
    if len(gpus) < 2:
        return dict.fromkeys(gpus, rows)
    return {gpu: rows.filter(pl.col("gpu") == gpu) for gpu in gpus}


def _none(schema: pl.Schema) -> Activity:
    return Activity(
        frame=pl.DataFrame(schema=schema),
        rows=0,
        set_aside={},
        launchless=0,
        in_graph=0,
        places=frozenset(),
    )
