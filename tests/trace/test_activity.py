"""Kernels, copies, fills and replays: order, kinds, and rows that cannot be true."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fixtures.builder import ExportBuilder
from nsysroof.trace import Trace

Open = Callable[[ExportBuilder], Trace]
HOUR = 3_600_000_000_000


def findings(trace: Trace, slug: str) -> list[tuple[str, str]]:
    return [(f.severity, f.text) for f in trace.capture().findings if f.slug == slug]


def test_kernels_are_sorted_by_gpu_then_time_then_the_other_keys(opened: Open) -> None:
    export = ExportBuilder().process(4000, cuda_devices=[0, 1])
    export.kernel("b", 10, 20, stream=7, device=1, correlation=1)
    export.kernel("z", 50, 60, stream=7, correlation=2)
    export.kernel("y", 50, 60, stream=7, correlation=2)
    export.kernel("x", 50, 60, stream=7, correlation=1)
    export.kernel("w", 50, 60, stream=6, correlation=9)
    export.kernel("v", 50, 55, stream=8, correlation=9)
    trace = opened(export.kernel("a", 5, 90, device=0))
    named = trace.kernels.join(trace.names, on="name", maintain_order="left")
    named = named.select("gpu", "start_ns", "text")
    assert named.rows() == [
        (0, 5, "a"), (0, 50, "v"), (0, 50, "w"), (0, 50, "x"), (0, 50, "y"), (0, 50, "z"),
        (1, 10, "b"),
    ]  # fmt: skip
    assert {one.gpu: one.kernels for one in trace.capture().devices if one.kernels} == {0: 6, 1: 1}


def test_o8_kernels_misdated_at_the_start(opened: Open) -> None:
    """Of 50 kernels the first 3 are 1e14 ns early: 47 used, 3 set aside (6.0 %)."""
    export = ExportBuilder().session(HOUR)
    for number in range(50):
        at = 1_000_000 * (number + 1)
        export.launch("cudaLaunchKernel", at, at + 5_000, correlation=number + 1)
        shift = -(10**14) if number < 3 else 0
        export.kernel("k", at + 9_000 + shift, at + 19_000 + shift, correlation=number + 1)
    trace = opened(export)
    capture = trace.capture()
    assert (capture.kernels, capture.kernels_used, capture.set_aside) == (50, 47, 3)
    assert capture.set_aside_reasons == {"outside-session": 3}
    assert trace.kernels["start_ns"][0] == 4_009_000
    [(severity, text)] = findings(trace, "bad-timestamps")
    assert severity == "error"
    assert "3 of 50 kernel records (6.0 %" in text


def test_o8_without_a_session_length_the_launch_call_tells(opened: Open) -> None:
    export = ExportBuilder().launch("cudaLaunchKernel", 5_000_000, 5_001_000, correlation=1)
    export.kernel("k", 5_000_000 - 10**14, 5_002_000 - 10**14, correlation=1)
    trace = opened(export.kernel("k", 7_000_000, 7_001_000))
    assert trace.set_aside == {"before-launch": 1}


def test_one_bad_record_in_two_hundred_is_a_warning(opened: Open) -> None:
    export = ExportBuilder()
    for number in range(200):
        export.kernel("k", 1_000 * (number + 1), 1_000 * (number + 1) + 10)
    trace = opened(export.kernel("k", 0, 0))
    assert trace.set_aside == {"zero-timestamps": 1}
    assert [severity for severity, _ in findings(trace, "bad-timestamps")] == ["warning"]


@pytest.mark.parametrize(
    ("start", "end", "reason"),
    [
        (0, 0, "zero-timestamps"),
        (500, 400, "reversed"),
        (500, 0, "reversed"),
        (1_000 + HOUR + 1, 2_000 + HOUR, "outside-session"),
        (-HOUR - 1, 5, "outside-session"),
        (500, 500, None),
        (-HOUR, 5, None),
        (1_000 + HOUR, 2_000 + HOUR, None),
        (0, 5, None),
    ],
)
def test_times_that_cannot_be_true(opened: Open, start: int, end: int, reason: str | None) -> None:
    trace = opened(ExportBuilder().session(1_000).kernel("k", start, end))
    assert trace.set_aside == ({reason: 1} if reason else {})
    assert trace.kernels.height == (0 if reason else 1)


@pytest.mark.parametrize(("early_ns", "kept"), [(1_000_000, True), (1_000_001, False)])
def test_one_millisecond_before_the_launch_is_a_clock_error(
    opened: Open, early_ns: int, *, kept: bool
) -> None:
    export = ExportBuilder().launch("cudaLaunchKernel", 3_000_000, 3_000_100, correlation=1)
    trace = opened(export.kernel("k", 3_000_000 - early_ns, 3_100_000, correlation=1))
    assert trace.set_aside == ({} if kept else {"before-launch": 1})


def test_all_kernels_of_a_replay_are_judged_by_its_launch(opened: Open) -> None:
    export = ExportBuilder().launch("cudaGraphLaunch", 5_000_000, 5_000_900, correlation=4)
    export.kernel("early", 3_000_000, 3_000_500, correlation=4, graph_node=1)
    export.kernel("good", 5_001_000, 5_001_500, correlation=4, graph_node=2)
    trace = opened(export)
    assert trace.names["text"].to_list() == ["good"]
    assert trace.set_aside == {"before-launch": 1}


def test_o11_same_correlation_in_two_processes(opened: Open) -> None:
    """Two processes with id 7: each kernel has its own launch, and only its own."""
    export = ExportBuilder()
    export.launch("cudaLaunchKernel", 1_000, 1_100, correlation=7, pid=11)
    export.launch("cudaLaunchKernel", 9_000_000, 9_000_100, correlation=7, pid=22)
    export.kernel("k", 2_000, 3_000, correlation=7, pid=11)
    export.kernel("k", 9_001_000, 9_002_000, correlation=7, pid=22)
    trace = opened(export)
    assert trace.set_aside == {}
    assert findings(trace, "missing-launch-rows") == []
    calls = trace.api_calls.drop("start_ns", "end_ns")
    assert trace.kernels.join(calls, on=["pid", "correlation"]).height == 2


def test_o11_launch_of_another_process_is_none(opened: Open) -> None:
    export = ExportBuilder().launch("cudaLaunchKernel", 1_000, 1_100, correlation=7, pid=11)
    export.kernel("k", 2_000, 3_000, correlation=7, pid=11)
    trace = opened(export.kernel("k", 2_000, 3_000, correlation=7, pid=22))
    [(severity, text)] = findings(trace, "missing-launch-rows")
    assert severity == "note"
    assert text.startswith("1 of 2 kernels")


def test_copies_fills_and_replays_are_judged_too(opened: Open) -> None:
    export = ExportBuilder().session(1_000).kernel("k", 1, 2)
    export.copy("h2d", 8, 0, 0).copy("d2h", 8, 30, 20).copy("d2d", 8, 40, 50)
    export.fill(8, 0, 0).fill(8, 60, 70).graph_trace(0, 0).graph_trace(80, 90)
    trace = opened(export)
    assert trace.copies["start_ns"].to_list() == [40]
    assert trace.fills["start_ns"].to_list() == [60]
    assert trace.replays["start_ns"].to_list() == [80]
    assert trace.set_aside == {}
    assert trace.capture().set_aside == 0
    [(severity, text)] = findings(trace, "bad-timestamps")
    assert severity == "error"
    assert "2 of 3 copy records" in text
    assert "1 of 2 fill records" in text
    assert "1 of 2 graph replay records" in text


def test_kinds_of_copies(opened: Open) -> None:
    export = ExportBuilder()
    kinds = ("h2d", "d2h", "d2d", "p2p", "h2h")
    for at, kind in enumerate(kinds, start=1):
        export.copy(kind, 100 * at, 10 * at, 10 * at + 5)
    export.row(
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        start=60, end=65, deviceId=0, contextId=1, streamId=7, correlationId=None,
        globalPid=4000 << 24, bytes=600, copyKind=8, srcKind=2, dstKind=2,
        srcDeviceId=0, dstDeviceId=1,
    )  # fmt: skip
    export.row(
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        start=70, end=75, deviceId=0, contextId=1, streamId=7, globalPid=4000 << 24,
        bytes=700, copyKind=11, srcKind=6, dstKind=9,
    )  # fmt: skip
    # A migration whose ends are not told: 0 would read as pageable host memory.
    export.row(
        "CUPTI_ACTIVITY_KIND_MEMCPY",
        start=80, end=85, deviceId=0, contextId=1, streamId=7, globalPid=4000 << 24,
        bytes=800, copyKind=12, srcKind=0, dstKind=0,
    )  # fmt: skip
    copies = opened(export).copies
    assert copies.select("kind", "src", "dst", "bytes").rows() == [
        ("h2d", "pinned", "device", 100),
        ("d2h", "device", "pinned", 200),
        ("d2d", "device", "device", 300),
        ("p2p", "device", "device", 400),
        ("other", "pageable", "pageable", 500),
        ("p2p", "device", "device", 600),
        ("h2d", "managed", "unknown", 700),
        ("d2h", "managed", "managed", 800),
    ]


def test_zero_is_no_graph_node(opened: Open) -> None:
    """Old exports wrote 0 where there was no value."""
    trace = opened(ExportBuilder().kernel("k", 1, 2, graph_node=0).kernel("k", 3, 4, graph_node=5))
    assert trace.kernels["graph_node"].to_list() == [None, 5]
    assert trace.capture().graph_kernels == 1


def test_shifted_exports_keep_their_session(opened: Open) -> None:
    """--ts-normalize makes timestamps UTC; the session then begins at its UTC start."""
    utc = 1_767_225_600_000_000_000
    export = ExportBuilder().session(1_000, utc_epoch_ns=utc)
    export.meta_export("EXPORT_PARAM_TIME_NORMALIZE", "true")
    trace = opened(export.kernel("k", utc + 10, utc + 20).kernel("k", 10, 20))
    assert trace.kernels["start_ns"].to_list() == [utc + 10]
    assert trace.set_aside == {"outside-session": 1}
