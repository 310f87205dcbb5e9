"""The frames that a trace hands out: column names and dtypes, whatever nsys version wrote it.

Times are ns from the start of the session. ``gpu`` is the physical GPU, mapped per process.
Grids and blocks travel packed into one integer each; ``unpack_grid`` and ``unpack_block`` give
the three numbers back for the few rows that are shown.
"""

from __future__ import annotations

import polars as pl

KERNELS = pl.Schema(
    {
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "gpu": pl.UInt16(),
        "pid": pl.UInt32(),
        "context": pl.UInt32(),
        "stream": pl.UInt32(),
        "correlation": pl.UInt32(),  # null where the export has none
        "name": pl.UInt32(),  # index into NAMES
        "graph_node": pl.UInt64(),  # null outside CUDA graphs
        "grid": pl.UInt64(),  # packed x, y, z
        "block": pl.UInt32(),  # packed x, y, z
    }
)
NAMES = pl.Schema({"name": pl.UInt32(), "text": pl.String()})
"""One row per distinct demangled kernel name, sorted by text; ``name`` counts from 0."""

COPIES = pl.Schema(
    {
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "gpu": pl.UInt16(),
        "pid": pl.UInt32(),
        "context": pl.UInt32(),
        "stream": pl.UInt32(),
        "correlation": pl.UInt32(),
        "graph_node": pl.UInt64(),
        "bytes": pl.Int64(),
        "kind": pl.String(),  # h2d | d2h | d2d | p2p | other
        "src": pl.String(),  # pageable | pinned | device | managed | array | unknown
        "dst": pl.String(),
    }
)
FILLS = pl.Schema({name: COPIES[name] for name in list(COPIES)[:9]})
REPLAYS = pl.Schema(
    {
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "gpu": pl.UInt16(),
        "pid": pl.UInt32(),
        "context": pl.UInt32(),
        "stream": pl.UInt32(),
        "correlation": pl.UInt32(),
        "graph": pl.UInt32(),
    }
)
"""Graph-level rows: one per replay whose kernels the capture does not show."""

API_CALLS = pl.Schema(
    {
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "pid": pl.UInt32(),
        "tid": pl.UInt32(),
        "correlation": pl.UInt32(),
        "api": pl.UInt32(),  # index into APIS
    }
)
APIS = pl.Schema({"api": pl.UInt32(), "text": pl.String(), "kind": pl.String()})
"""Host API names without version suffix.

``kind``: kernel_launch | graph_launch | synchronize (device, stream, event or context) |
blocking_copy (a memcpy call that is not Async) | copy | other.
"""

RANGES = pl.Schema(
    {
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),  # null for marks and ranges that never ended
        "pid": pl.UInt32(),
        "tid": pl.UInt32(),
        "end_tid": pl.UInt32(),  # null when it is the same thread
        "domain": pl.String(),  # empty for the default domain
        "kind": pl.String(),  # push_pop | start_end | mark
        "text": pl.String(),
    }
)
OVERHEADS = pl.Schema(
    {"start_ns": pl.Int64(), "end_ns": pl.Int64(), "pid": pl.UInt32(), "text": pl.String()}
)
"""PROFILER_OVERHEAD rows: time that the profiler itself took on the host."""

GRAPH_NODE_CREATIONS = pl.Schema(
    {
        "start_ns": pl.Int64(),
        "pid": pl.UInt32(),
        "tid": pl.UInt32(),
        "node": pl.UInt64(),
        "original": pl.UInt64(),  # the captured node of a graph's instance; null for that itself
    }
)
"""When and by which thread the nodes of CUDA graphs were made."""

OS_CALLS = pl.Schema(
    {
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "pid": pl.UInt32(),
        "tid": pl.UInt32(),
        "text": pl.String(),
    }
)
"""OS runtime calls of one thread never overlap: of nested ones the outermost is a row."""

SAMPLED_METRICS = ("sm_active", "sm_issue", "tensor_active", "dram_read", "dram_write", "gpc_clock")
"""What samples tell of a whole GPU: percent of what it can sustain at its clocks, and Hz."""

GPU_SAMPLES = pl.Schema(
    {
        "gpu": pl.UInt16(),
        "timestamp_ns": pl.Int64(),
        "metric": pl.Enum(SAMPLED_METRICS),
        "value": pl.UInt32(),  # percent, 0 to 100; of gpc_clock Hz
    }
)

_GRID_YZ_BITS = 16  # gridDim.y and gridDim.z are at most 65535, gridDim.x at most 2^31 - 1
_BLOCK_Y_BITS = 11  # blockDim.x and .y are at most 1024, blockDim.z at most 64
_BLOCK_Z_BITS = 7


def pack_grid(x: int, y: int, z: int) -> int:
    """Return grid dimensions as one integer.

    >>> unpack_grid(pack_grid(2, 66, 1))
    [2, 66, 1]
    """
    return x << 2 * _GRID_YZ_BITS | y << _GRID_YZ_BITS | z


def unpack_grid(grid: int) -> list[int]:
    """Return ``[x, y, z]`` of a packed grid."""
    mask = (1 << _GRID_YZ_BITS) - 1
    return [grid >> 2 * _GRID_YZ_BITS, grid >> _GRID_YZ_BITS & mask, grid & mask]


def pack_block(x: int, y: int, z: int) -> int:
    """Return block dimensions as one integer.

    >>> unpack_block(pack_block(128, 4, 1))
    [128, 4, 1]
    """
    return x << _BLOCK_Y_BITS + _BLOCK_Z_BITS | y << _BLOCK_Z_BITS | z


def unpack_block(block: int) -> list[int]:
    """Return ``[x, y, z]`` of a packed block."""
    return [
        block >> _BLOCK_Y_BITS + _BLOCK_Z_BITS,
        block >> _BLOCK_Z_BITS & (1 << _BLOCK_Y_BITS) - 1,
        block & (1 << _BLOCK_Z_BITS) - 1,
    ]
