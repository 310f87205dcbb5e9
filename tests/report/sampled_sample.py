"""Rows of sampled counters made by hand, for the tests of the formats."""

from __future__ import annotations

import msgspec

from nsysroof.results import MetricRow, Report
from tests.report import sample


def with_metrics() -> Report:
    """Return the full sample with a step of 6.1 ms that moved 8.19 GB at half of 3.35 TB/s."""
    step = MetricRow(
        gpu=0,
        scope="step",
        role=None,
        samples=2_318,
        interval_ns=100_000.0,
        sampled_share=0.998,
        sm_active=0.823,
        sm_issue=None,
        tensor_active=0.117,
        dram_read=0.39,
        dram_write=0.01,
        clock_hz=1_755_000_000.0,
        rated_clock_hz=1_980_000_000.0,
        span_ns=6_100_000.0,
        dram_bytes=8_174_000_000.0,
        theory_bytes=16_348_000_000.0,
        bytes_ratio=0.5,
        peak_bytes_per_s=3_350_000_000_000.0,
        peak_source="reported by the device",
    )
    lm_head = msgspec.structs.replace(
        step,
        scope="role",
        role="lm_head",
        samples=38,
        sampled_share=None,
        dram_read=0.85,
        span_ns=330_000.0,
        dram_bytes=950_730_000.0,
        theory_bytes=1_050_673_152.0,
        bytes_ratio=0.9048770150,
    )
    short = msgspec.structs.replace(
        lm_head,
        role="attn.core",
        samples=0,
        sm_active=None,
        tensor_active=None,
        dram_read=None,
        dram_write=None,
        clock_hz=None,
        dram_bytes=None,
        bytes_ratio=None,
    )
    return msgspec.structs.replace(sample.full(), metrics=[step, lm_head, short])
