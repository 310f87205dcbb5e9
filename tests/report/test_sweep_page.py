"""Sweeps as tables: one line a point, machines side by side, and every point in raw formats."""

from __future__ import annotations

import json

import msgspec
import pytest

from nsysroof.results import Sweep, SweepRow
from tests.report.render import to_file


def _row(gpu: str, batch: int, ms: float | None, note: str | None = None) -> SweepRow:
    row = SweepRow(
        gpu=gpu,
        batch=batch,
        context=4096,
        new_tokens=1,
        weights="bf16",
        kv="bf16",
        tp=1,
        ep=1,
        dp=1,
        note=note,
    )
    if ms is None:
        return row
    return msgspec.structs.replace(
        row,
        serial_ns=ms * 1e6,
        hard_ns=ms * 1e6,
        memory_ns=ms * 1e6,
        compute_ns=ms * 1e5,
        link_ns=0.0,
        limiter="memory",
        tokens_per_s=batch / ms * 1e3,
        weight_bytes=6_080_000_000,
        kv_bytes=400_000_000 * batch,
        activation_bytes=13_000_000 * batch,
        link_bytes=0,
        resident_bytes=61_500_000_000,
        gpus_needed=1,
    )


def _sweep(*rows: SweepRow, axes: list[str], compared: tuple[str, ...] = ()) -> Sweep:
    return Sweep(
        tool_version="0", model="qwen", phase="decode", axes=axes, compared=list(compared), rows=list(rows)
    )  # fmt: skip


BATCHES = _sweep(_row("h100-sxm", 1, 2.0), _row("h100-sxm", 8, 8.0), axes=["batch"])


def test_one_line_a_point() -> None:
    page = to_file(BATCHES, "table").splitlines()
    assert page[0] == "qwen, decode: time"
    assert page[1].split() == [
        "batch", "step", "µs", "tokens/s", "memory", "µs", "compute", "µs", "limiter",
    ]  # fmt: skip
    assert page[2].split() == ["1", "2,000.0", "500", "2,000.0", "200.0", "memory"]
    assert page[3].split() == ["8", "8,000.0", "1,000", "8,000.0", "800.0", "memory"]
    held = next(line for line in page if line.split()[:1] == ["8"] and "GB" in line)
    assert held.split() == ["8", "6.08", "GB", "3.20", "GB", "104", "MB", "61.5", "GB", "1"]
    assert max(len(line) for line in page) <= 100


def test_a_point_without_numbers_is_kept_with_its_reason() -> None:
    refused = _row("h100-sxm", 3, None, note="cannot be")
    page = to_file(_sweep(_row("h100-sxm", 1, 2.0), refused, axes=["batch"]), "table")
    assert ["3", "–", "–", "–", "–", "–"] in [line.split() for line in page.splitlines()]
    assert "batch 3: cannot be" in page


def test_machines_stand_side_by_side() -> None:
    both = _sweep(_row("h100-sxm", 1, 2.0), _row("b200", 1, 1.0), axes=["gpu"], compared=("gpu",))
    lines = [line.split() for line in to_file(both, "table").splitlines()]
    assert lines[1] == ["h100-sxm", "b200"]
    assert lines[2] == ["step", "µs", "2,000.0", "1,000.0"]
    assert lines[3] == ["tokens/s", "500", "1,000"]


def test_machines_over_batches_have_a_table_for_each_quantity() -> None:
    rows = [
        _row(gpu, batch, ms * batch)
        for batch in (1, 8)
        for gpu, ms in (("h100-sxm", 2.0), ("b200", 1.0))
    ]
    page = to_file(_sweep(*rows, axes=["batch", "gpu"], compared=("gpu",)), "table")
    times = page[page.index("step µs") : page.index("tokens/s")].splitlines()
    assert times[1].split() == ["batch", "h100-sxm", "b200"]
    assert times[3].split() == ["8", "16,000.0", "8,000.0"]


@pytest.mark.parametrize(("fmt", "separator"), [("tsv", "\t"), ("csv", ",")])
def test_raw_formats_have_one_row_a_point(fmt: str, separator: str) -> None:
    header, *rows = (line.split(separator) for line in to_file(BATCHES, fmt).splitlines())
    assert header[:3] == ["gpu", "batch", "context"]
    assert [row[header.index("serial_ns")] for row in rows] == ["2000000.0", "8000000.0"]


def test_json_keeps_everything() -> None:
    found = json.loads(to_file(BATCHES, "json"))
    assert found["format"] == "nsysroof-sweep"
    assert found["axes"] == ["batch"]
    assert [row["tokens_per_s"] for row in found["rows"]] == [500.0, 1000.0]
    assert found["rows"][0]["note"] is None
    assert "| batch |" in to_file(BATCHES, "md")
