"""A small timeline made by hand: two streams, an instance of two kernels, a gap, two steps."""

from __future__ import annotations

from nsysroof.slices import Idle, Rate, Slice, Slices, StepSpan, Track
from tests.report import sample

SLICES = Slices(
    tool_version="0.1.0",
    title="llama-3.1-8b on h100-sxm",
    peak_bytes_per_s=4e12,
    tracks=[
        Track(gpu=0, pid=11, stream=7, lane=0),
        Track(gpu=0, pid=11, stream=7, lane=1),
        Track(gpu=1, pid=12, stream=None, lane=0),
    ],
    slices=[
        Slice(
            track=0,
            start_ns=1_000_000_001,
            end_ns=1_000_003_001,
            activity="operator",
            name="attn.core",
            kernel=sample.FLASH,
            step=0,
            instance_ns=4_000,
            bound_ns=2_000.0,
            ratio=2.0,
        ),
        Slice(
            track=1,
            start_ns=1_000_002_000,
            end_ns=1_000_003_000,
            activity="operator",
            name="attn.core",
            kernel=sample.NVJET,
            step=0,
        ),
        Slice(
            track=2, start_ns=1_000_000_500, end_ns=1_000_000_700, activity="copy", name="copy h2d"
        ),
    ],
    idle=[Idle(gpu=0, start_ns=1_000_003_001, end_ns=1_000_005_000, cause=None)],
    steps=[StepSpan(gpu=0, step=0, start_ns=1_000_000_001, end_ns=1_000_003_001)],
    rates=[
        Rate(gpu=0, at_ns=1_000_000_001, bytes_per_s=3e12, share=0.75),
        Rate(gpu=0, at_ns=1_000_003_001, bytes_per_s=0.0, share=0.0),
    ],
)
