"""A tiny synthetic trace, written row by row, for the tests of the timeline."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import polars as pl

from nsysroof.timeline.activity import collect_activities
from nsysroof.timeline.gaps import find_gaps
from nsysroof.trace.schema import (
    API_CALLS,
    APIS,
    COPIES,
    FILLS,
    KERNELS,
    OVERHEADS,
    RANGES,
    REPLAYS,
)

APIS_FRAME = pl.DataFrame(
    {
        "api": [0, 1, 2, 3, 4],
        "text": ["launch", "graph", "sync", "copy", "other"],
        "kind": ["kernel_launch", "graph_launch", "synchronize", "copy", "other"],
    },
    schema=APIS,
)
RUNS = {"gpu": pl.UInt16, "start_ns": pl.Int64, "end_ns": pl.Int64}


@dataclass
class Scene:
    """A tiny synthetic trace: rows as tuples, times in ns."""

    kernels: list[dict[str, Any]] = field(default_factory=list)
    copies: list[dict[str, Any]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    overheads: list[dict[str, Any]] = field(default_factory=list)
    runs: list[tuple[int, int, int]] = field(default_factory=list)
    ranges: list[dict[str, Any]] = field(default_factory=list)

    def kernel(
        self,
        start: int,
        end: int,
        *,
        correlation: int | None = None,
        launch: int | None = None,
        graph: bool = False,
        pid: int = 1,
        gpu: int = 0,
        stream: int = 7,
    ) -> Scene:
        row = self._place(start, end, correlation, pid, gpu, stream)
        self.kernels.append(
            row | {"name": 0, "graph_node": 1 if graph else None, "grid": 1, "block": 1}
        )
        if launch is not None:
            self.call(1 if graph else 0, launch, launch + 1, correlation=correlation, pid=pid)
        return self

    def copy(self, start: int, end: int, *, correlation: int | None = None) -> Scene:
        row = self._place(start, end, correlation, 1, 0, 7)
        more = {"graph_node": None, "bytes": 8, "kind": "h2d", "src": "pinned", "dst": "device"}
        self.copies.append(row | more)
        return self

    def call(
        self, api: int, start: int, end: int, *, correlation: int | None = None, pid: int = 1
    ) -> Scene:
        call = {"start_ns": start, "end_ns": end, "pid": pid, "tid": 1}
        self.calls.append(call | {"correlation": correlation, "api": api})
        return self

    def overhead(self, start: int, end: int, *, pid: int = 1) -> Scene:
        self.overheads.append({"start_ns": start, "end_ns": end, "pid": pid, "text": "flush"})
        return self

    @staticmethod
    def _place(
        start: int, end: int, correlation: int | None, pid: int, gpu: int, stream: int
    ) -> dict[str, Any]:
        place = {"start_ns": start, "end_ns": end, "gpu": gpu, "pid": pid, "context": 1}
        return place | {"stream": stream, "correlation": correlation}

    @property
    def trace(self) -> Any:
        ranges = pl.DataFrame(self.ranges, schema=RANGES)
        return SimpleNamespace(
            ranges_beginning=lambda *prefixes: ranges.filter(
                pl.any_horizontal(pl.col("text").str.starts_with(one) for one in prefixes)
            ),
            copies=pl.DataFrame(self.copies, schema=COPIES),
            fills=pl.DataFrame(schema=FILLS),
            replays=pl.DataFrame(schema=REPLAYS),
            api_calls=pl.DataFrame(self.calls, schema=API_CALLS),
            apis=APIS_FRAME,
            overheads=pl.DataFrame(self.overheads, schema=OVERHEADS),
            ranges=ranges,
        )

    def activities(self) -> pl.DataFrame:
        kernels = pl.DataFrame(self.kernels, schema=KERNELS).sort("gpu", "start_ns", "end_ns")
        gpus = [int(gpu) for gpu in {row["gpu"] for row in self.kernels} | {0}]
        return collect_activities(self.trace, kernels, gpus=gpus, window_ns=None)

    def found(self) -> tuple[pl.DataFrame, pl.DataFrame]:
        activities = self.activities()
        runs = pl.DataFrame(self.runs, schema=RUNS, orient="row")
        return activities, find_gaps(self.trace, activities, runs)

    def causes(self) -> list[tuple[int, int, str | None]]:
        return list(self.found()[1].select("start_ns", "end_ns", "cause").iter_rows())
