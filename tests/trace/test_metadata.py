"""Metadata: the few facts that are read, and everything else that must stay in the file."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest

from fixtures.builder import ExportBuilder
from nsysroof.trace import Trace
from nsysroof.trace.metadata import Metadata, read_metadata

Open = Callable[[ExportBuilder], Trace]
SECRET = "hunter2"


def metadata(trace: Trace) -> Metadata:
    return read_metadata(trace._reader)


def node_kernel() -> ExportBuilder:
    export = ExportBuilder().launch("cudaGraphLaunch", 1, 2, correlation=1)
    return export.kernel("k", 10, 20, correlation=1, graph_node=5)


def slugs(trace: Trace) -> dict[str, str]:
    return {finding.slug: finding.severity for finding in trace.capture().findings}


def test_secrets_of_every_metadata_table_stay_in_the_file(opened: Open) -> None:
    export = node_kernel().gpu(0, "NVIDIA H100", uuid=f"GPU-{SECRET}").session(1_000)
    for key in (
        "EXPORT_HOST", "EXPORT_USER", "EXPORT_PARAM_INPUT_PATH_ABS", "EXPORT_PRODUCT_VERSION",
        "EXPORT_SCHEMA_VERSION", "EXPORT_PARAM_TABLES_TO_EXPORT", "EXPORT_PARAM_TIME_SHIFT",
        "DERIVED_WINDOW_NS",
    ):  # fmt: skip
        export.meta_export(key, f"/home/{SECRET}")
    for key in (
        "PROCESS_0:ENVIRONMENT_VARIABLE", "PROCESS_0:COMMAND", "PROCESS_0:ARGUMENT_1",
        "PROCESS_0:WORKING_DIR", "DEVICE_DISPLAY_NAME", "CUDA_GRAPH_TRACE_OPTIONS:MODE",
    ):  # fmt: skip
        export.meta_capture(key, f"TOKEN={SECRET}")
    for key in ("DeviceEnvironment", "Hostname", "GpuInfo", "TargetInstallDir"):
        export.system_env(key, f"TOKEN={SECRET}")
    export.diagnostic(f"Loaded CUPTI library: /home/{SECRET}/libcupti.so")
    export.diagnostic(f"Number of incomplete CUPTI events dropped: 7 {SECRET}")
    export.process(4000, name=SECRET, cuda_devices=[0]).thread(SECRET, pid=4000, tid=1)
    export.string(f"stdout: {SECRET}")
    trace = opened(export)
    frames = (
        trace.kernels, trace.names, trace.copies, trace.fills, trace.replays, trace.api_calls,
        trace.apis, trace.ranges, trace.overheads,
    )  # fmt: skip
    outside = [frame.write_json() for frame in frames]
    outside += [msgspec.json.encode(trace.capture()).decode(), repr(trace.gpus), repr(trace)]
    assert not any(SECRET in text for text in outside)
    assert trace.capture().schema_version is None
    assert SECRET not in repr(metadata(trace))


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        ([], "unknown"),
        (["Hardware tracing used for CUDA tracing"], "hardware"),
        (
            ["CUDA hardware tracing is not supported on this system."],
            "software",
        ),
        (
            [
                "HARDWARE TRACING USED for CUDA tracing",
                "a legacy (software instrumented) trace was collected instead",
            ],
            "unknown",
        ),
    ],
)
def test_kind_of_trace(opened: Open, texts: list[str], kind: str) -> None:
    export = node_kernel()
    for text in texts:
        export.diagnostic(text)
    trace = opened(export)
    assert trace.capture().trace_kind == kind
    assert ("software-node-trace" in slugs(trace)) == (kind == "software")


def test_software_tracing_without_graphs_is_no_warning(opened: Open) -> None:
    export = ExportBuilder().kernel("k", 1, 2)
    export.diagnostic("a legacy (software instrumented) trace was collected instead")
    assert "software-node-trace" not in slugs(opened(export))


def test_collected_events_are_summed_over_processes(opened: Open) -> None:
    export = node_kernel().copy("h2d", 1, 30, 40).fill(1, 50, 60).graph_trace(70, 80)
    export.diagnostic("Number of CUDA events collected: \t 3.", pid=1)
    export.diagnostic("Number of CUDA events collected: \t 1.", pid=2)
    trace = opened(export)
    capture = trace.capture()
    assert (capture.events_collected, capture.events_found) == (4, 4)
    assert "incomplete-capture" not in slugs(trace)


@pytest.mark.parametrize(("collected", "severity"), [(3, "error"), (2, None), (1, None)])
def test_fewer_records_than_collected(opened: Open, collected: int, severity: str | None) -> None:
    export = node_kernel().diagnostic(f"Number of CUDA events collected: \t {collected}.")
    assert slugs(opened(export)).get("incomplete-capture") == severity


def test_one_lost_record_in_two_hundred_is_a_warning(opened: Open) -> None:
    export = ExportBuilder().diagnostic("Number of CUDA events collected: \t 200.")
    for number in range(199):
        export.kernel("k", 10 * number + 1, 10 * number + 5)
    assert slugs(opened(export))["incomplete-capture"] == "warning"


@pytest.mark.parametrize("key", ["EXPORT_PARAM_TABLES_TO_EXPORT", "EXPORT_PARAM_TIMES_TO_EXPORT"])
def test_filtered_exports_are_partial_not_incomplete(opened: Open, key: str) -> None:
    export = node_kernel().meta_export(key, "CUPTI")
    trace = opened(export.diagnostic("Number of CUDA events collected: \t 900."))
    assert "incomplete-capture" not in slugs(trace)
    assert slugs(trace)["partial-export"] == "warning"


@pytest.mark.parametrize(
    "text",
    [
        "Number of incomplete CUPTI events dropped: 12",
        "Couldn't allocate CUPTI bufer x times. Some CUPTI events may be missing.",
        "Reached the size limit on recording trace events for this process.",
    ],
)
def test_losses_that_the_profiler_reports(opened: Open, text: str) -> None:
    assert slugs(opened(node_kernel().diagnostic(text, "warning")))["incomplete-capture"]


@pytest.mark.parametrize(
    "text",
    [
        "Number of incomplete CUPTI events dropped: 0",
        "No CUDA events collected. Does the process use CUDA?",
    ],
)
def test_diagnostics_of_healthy_captures(opened: Open, text: str) -> None:
    assert "incomplete-capture" not in slugs(opened(node_kernel().diagnostic(text, "warning")))


def test_what_might_be_lost_is_a_note_unless_the_count_tells(opened: Open) -> None:
    caveat = "Not all CUDA events might have been collected."
    export = node_kernel().diagnostic(caveat, "warning")
    assert slugs(opened(export))["incomplete-capture"] == "note"
    rows = opened(export).capture()
    counted = export.diagnostic(f"Number of CUDA events collected: \t {rows.events_found}.")
    assert "incomplete-capture" not in slugs(opened(counted))


def test_graph_option_without_prefix_wins_over_the_stale_one(opened: Open) -> None:
    key = "CUDA_GRAPH_TRACE_OPTIONS:MODE"
    export = node_kernel().meta_capture(f"PROCESS_0:{key}", "Graph").meta_capture(key, "Node")
    assert metadata(opened(export)).graph_option == "node"
    prefixed = node_kernel().meta_capture(f"PROCESS_0:{key}", "Graph")
    assert metadata(opened(prefixed)).graph_option == "graph"
    assert metadata(opened(node_kernel())).graph_option is None


def test_session_and_shift(opened: Open) -> None:
    export = node_kernel().session(5_000).meta_export("EXPORT_PARAM_TIME_SHIFT", "-300")
    trace = opened(export)
    hour = 3_600_000_000_000
    assert trace.session_ns == 5_000
    assert metadata(trace).start_window_ns == (-300 - hour, 4_700 + hour)
    assert opened(node_kernel()).session_ns is None
