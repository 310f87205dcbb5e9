"""Copies against their links: rates by size and host memory, hidden or not, and per step."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import polars as pl
import pytest

from fixtures.builder import ExportBuilder
from nsysroof.analysis import Options, analyze
from nsysroof.analysis.links import link_rows
from nsysroof.results import LinkPart, LinkRow
from nsysroof.timeline.activity import ACTIVITIES, Activity
from nsysroof.timeline.steps import STEPS
from nsysroof.trace import open_trace
from nsysroof.trace.schema import COPIES

US = 1_000
MS = 1_000_000
Copy = tuple[int, int, int, str, str]  # start, end, bytes, kind, host memory


def rows(
    copies: list[Copy],
    *,
    peaks: dict[str, float] | None = None,
    kernels: list[tuple[int, int]] | None = None,
    steps: list[tuple[int, int]] | None = None,
) -> dict[str, LinkRow]:
    frame = pl.DataFrame(
        [
            {
                "start_ns": start,
                "end_ns": end,
                "gpu": 0,
                "bytes": size,
                "kind": kind,
                "src": memory if kind == "h2d" else "device",
                "dst": memory if kind == "d2h" else "device",
            }
            for start, end, size, kind, memory in copies
        ],
        schema={
            name: COPIES[name]
            for name in ("start_ns", "end_ns", "gpu", "bytes", "kind", "src", "dst")
        },
    )
    activities = pl.DataFrame(
        [
            {"start_ns": start, "end_ns": end, "gpu": 0, "activity": int(Activity.KERNEL)}
            for start, end in kernels or []
        ],
        schema={name: ACTIVITIES[name] for name in ("start_ns", "end_ns", "gpu", "activity")},
    )
    windows = pl.DataFrame(
        [
            {"gpu": 0, "step": number, "start_ns": start, "end_ns": end}
            for number, (start, end) in enumerate(steps or [])
        ],
        schema={name: STEPS[name] for name in ("gpu", "step", "start_ns", "end_ns")},
    )
    found = link_rows(frame, peaks or {}, activities=activities, steps=windows)
    return {row.kind: row for row in found}


def test_pinned_and_pageable_memory_are_told_apart() -> None:
    """544 MiB from pinned memory at 28.8 GB/s, from pageable memory at 27.4 GB/s."""
    size = 544 * 2**20  # 570,425,344 B: 19,806 and 20,818 µs
    found = rows(
        [
            (0, 19_806_436, size, "h2d", "pinned"),
            (30 * MS, 30 * MS + 20_818_443, size, "h2d", "pageable"),
        ],
        peaks={"h2d": 32e9},
    )["h2d"]
    pageable, pinned = found.parts
    assert [(part.memory, part.size, part.copies) for part in found.parts] == [
        ("pageable", ">=1 MB", 1),
        ("pinned", ">=1 MB", 1),
    ]
    assert pinned.bytes_per_s == pytest.approx(28.8e9, rel=1e-4)
    assert pageable.bytes_per_s == pytest.approx(27.4e9, rel=1e-4)
    assert pinned.ratio == pytest.approx(32 / 28.8, rel=1e-4)
    assert "50.0 % of the bytes in pageable host memory" in found.note


def test_sizes_have_classes_and_the_smallest_says_nothing_of_the_link() -> None:
    copies = [
        (0, 2_000, 63_999, "d2h", "pinned"),
        (10_000, 14_000, 64_000, "d2h", "pinned"),
        (20_000, 60_000, 999_999, "d2h", "pinned"),
        (100_000, 140_000, 1_000_000, "d2h", "pinned"),
        (140_000, 300_000, 4_000_000, "d2h", "pinned"),
    ]
    parts = rows(copies, peaks={"d2h": 50e9})["d2h"].parts
    assert [(part.size, part.copies, part.busy_ns) for part in parts] == [
        ("<64 kB", 1, 2_000),
        ("<1 MB", 2, 44_000),
        (">=1 MB", 2, 200_000),
    ]
    assert parts[0].ratio is None
    assert parts[2].ratio == 2.0  # 5 MB at 50 GB/s are 100 µs
    assert sum(part.bytes for part in parts) == 63_999 + 64_000 + 999_999 + 5_000_000


def test_a_copy_within_the_device_reads_and_writes() -> None:
    found = rows([(0, 1_000, 2_000_000, "d2d", "")], peaks={"bw": 8e12})["d2d"]
    (part,) = found.parts
    assert part == LinkPart(
        size=">=1 MB",
        memory=None,
        copies=1,
        bytes=2_000_000,
        busy_ns=1_000,
        bytes_per_s=2e12,
        ratio=2.0,  # 4 MB of traffic at 8 TB/s are 500 ns
    )
    assert found.ratio == 2.0
    assert "4,000.0 GB/s of memory traffic" in found.note


def test_what_runs_beside_kernels_is_hidden() -> None:
    # Copies on [0, 100) and [150, 200); kernels on [60, 170): 40 + 20 of 150 ns.
    copies = [(0, 100, 10**6, "h2d", "pinned"), (150, 200, 10**6, "h2d", "pinned")]
    assert rows(copies, kernels=[(60, 120), (110, 170)])["h2d"].overlapped_share == 60 / 150
    assert rows(copies)["h2d"].overlapped_share == 0.0


def test_steps_count_the_copies_that_begin_in_them() -> None:
    copies = [
        (0, 50, 10**6, "h2d", "pinned"),  # before the first step
        (110, 130, 2 * 10**6, "h2d", "pinned"),
        (250, 280, 3 * 10**6, "h2d", "pinned"),
        (270, 290, 10**6, "h2d", "pinned"),
    ]
    found = rows(copies, steps=[(100, 200), (200, 300)])["h2d"]
    assert (found.copies, found.copies_per_step) == (4, 1.5)
    assert found.bytes_per_step == 3 * 10**6
    assert found.busy_ns_per_step == (20 + 40) / 2
    assert found.step_share == 60 / 200
    alone = rows(copies)["h2d"]
    assert (alone.copies_per_step, alone.bytes_per_step, alone.step_share) == (None, None, None)


def test_o44_an_offloaded_decode_is_bound_by_its_link(tmp_path: Path) -> None:
    """A token of 27.58 ms: 586 MB in 730 copies take 11.49 ms of it, on PCIe 5 at 63 GB/s."""
    steps, copies, step_ns, copying_ns, size = 8, 730, 27_580_000, 11_490_000, 586_000_000
    each, piece = copying_ns // copies, size // copies
    export = ExportBuilder().session(10**9)
    numbers = count(1)

    def kernel(name: str, start: int, ns: int) -> int:
        correlation = next(numbers)
        export.launch("cudaLaunchKernel", start - 900, start - 500, correlation=correlation)
        export.kernel(name, start, start + ns, correlation=correlation)
        return start + ns

    for step in range(steps):
        at = MS + step * step_ns
        at = kernel("embed_kernel", at, 20_000)
        for layer in range(copies // 10):
            for _ in range(10):
                export.copy("h2d", piece, at, at + each, correlation=None)
                at += each
            for name in ("norm_kernel", "attention_kernel", "experts_kernel"):
                at = kernel(name, at + 1_000, 60_000 + 100 * layer)
        kernel("head_kernel", at + 1_000, MS + (step + 1) * step_ns - at - 6_000)
    path = export.write(tmp_path / "capture.sqlite")
    found = analyze(open_trace(path), Options(peaks=("h2d=63e9",)))
    assert found.steps.count == steps
    (link,) = found.links
    assert link.copies_per_step == copies
    assert link.bytes_per_step == pytest.approx(size, rel=1e-5)
    assert link.busy_ns_per_step == pytest.approx(copying_ns, rel=1e-3)
    assert link.step_share == pytest.approx(0.417, abs=5e-4)
    assert link.bytes_per_s == pytest.approx(51e9, rel=1e-3)
    assert link.ratio == pytest.approx(1.24, abs=0.005)
    assert link.overlapped_share == 0.0
    assert link.note.endswith("fewer bytes help, fewer copies do not")
    assert [(part.size, part.copies) for part in link.parts] == [("<1 MB", copies * steps)]
