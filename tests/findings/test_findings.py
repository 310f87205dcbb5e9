"""Every finding of the catalogue is raised by a capture that deserves it, and not by others."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import msgspec
import pytest

from fixtures.builder import ExportBuilder
from nsysroof.analysis import Options, analyze
from nsysroof.analysis import findings as find
from nsysroof.analysis.metric_findings import low_dram_reads
from nsysroof.findings import CATALOGUE, finding
from nsysroof.results import Finding, ImpossibleRow
from nsysroof.trace import open_trace
from nsysroof.trace.clock import Alignment, Apart, ClockKind
from tests.analysis.rank_steps import Plan, capture
from tests.findings.page import PAGE, page
from tests.report import sample
from tests.report.sampled_sample import with_metrics

FIXTURES = Path(__file__).parents[2] / "fixtures"
TWO_STEPS = Path(__file__).parent / "two_steps.csv"
QWEN = Options(model="qwen3-30b-a3b", batch=1, context=(4096,))


def clean() -> ExportBuilder:
    """Three kernels, each with its launch call, on a GPU that is described."""
    export = ExportBuilder().gpu(0, "NVIDIA H100 80GB HBM3").process(4000, cuda_devices=[0])
    for number in range(1, 4):
        at = 10_000 * number
        export.launch("cudaLaunchKernel", at, at + 100, correlation=number)
        export.kernel("k", at + 1_000, at + 2_000, correlation=number)
    return export.session(1_000_000)


def two_engines(since_ns: int) -> ExportBuilder:
    """Another process runs two kernels on the same GPU; those of the first end at 32,000 ns."""
    export = clean().process(5000, cuda_devices=[0])
    for at in (since_ns, since_ns + 2_000):
        export.launch("cudaLaunchKernel", at - 100, at - 50, correlation=at, pid=5000)
        export.kernel("k", at, at + 1_000, correlation=at, pid=5000)
    return export


def loosely_marked(covered_ns: int) -> ExportBuilder:
    """Kernels of 1000 ns in two ranges and of as much time as wanted before them."""
    export = marked(DECODE, DECODE)
    export.launch("cudaLaunchKernel", 100, 200, correlation=90)
    return export.kernel("warm", 1_000, 1_000 + covered_ns, correlation=90)


def counted(metric: str, value: int, *, since: int = 0) -> ExportBuilder:
    """The clean capture, whose work ends at 32,000 ns, with ten samples of one metric."""
    export = clean().metric_names(0, [metric])
    for number in range(10):
        export.metric_sample(0, since + 4_000 * number, [value])
    return export


def graph(mode: str = "node", *, replayed: bool = True) -> ExportBuilder:
    export = clean().launch("cudaGraphLaunch", 50_000, 50_100, correlation=9)
    if replayed and mode == "node":
        export.kernel("n", 51_000, 52_000, correlation=9, graph_node=7)
    elif replayed:
        export.graph_trace(51_000, 52_000, correlation=9)
    return export


def marked(*names: str) -> ExportBuilder:
    """One NVTX range a step, each with a kernel of this name, launched inside it."""
    export = ExportBuilder().gpu(0, "NVIDIA H100 80GB HBM3").process(4000, cuda_devices=[0])
    for number, name in enumerate(names, start=1):
        at = 10_000 * number
        export.nvtx(f"step_{number}", at - 500, at + 500)
        export.launch("cudaLaunchKernel", at, at + 100, correlation=number)
        export.kernel(name, at + 1_000, at + 2_000, correlation=number)
    return export.session(1_000_000)


def annotated() -> ExportBuilder:
    """Two decode steps of 16 sequences and 8193 KV tokens in all, as an engine annotates them."""
    text = "execute_16_context_0(sq0sk0sqsq0sqsk0)_generation_16(sq16sk8193sqsq16sqsk8193)"
    export = marked(DECODE, DECODE)
    for number in (1, 2):
        export.nvtx(text, 10_000 * number - 600, 10_000 * number + 600)
    return export


DECODE = "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128>>(Flash_fwd_params)"
PREFILL = "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128>>(Flash_fwd_params)"


@dataclass(frozen=True, kw_only=True)
class Case:
    """A capture and its options: a builder, or the name of a fixture; ``sql`` changes the file."""

    export: Callable[[], ExportBuilder] | str
    options: Options
    sql: str = ""


def fixture(**options: object) -> Case:
    return Case(
        export="qwen3-30b-a3b-gh200",
        options=replace(QWEN, **options),  # type: ignore[arg-type]  # fields of Options
    )


def ranks(*, tp: int) -> Case:
    options = Options(model="llama-3.1-8b", batch=8, context=(1024,), tp=tp)
    return Case(export="llama-3.1-8b-h100-tp2", options=options)


def built(export: Callable[[], ExportBuilder], **options: object) -> Case:
    return Case(export=export, options=Options(**options))  # type: ignore[arg-type]


SOFTWARE = "a legacy (software instrumented) trace was collected instead"
CAVEAT = "Not all CUDA events might have been collected."
SIX_EVENTS = "Number of CUDA events collected: \t 6."
NO_NODE = "GetGraphNodeId(exec, &id) returned 1: CUPTI_ERROR_INVALID_PARAMETER"
NEWER_DRIVER = "Installed CUDA driver version (13.2) is not supported by this build"
NEWER_DRIVER += " of Nsight Systems. CUDA trace will be collected using libraries for it"

# For each slug: a capture that raises it with this severity, and the nearest one that does not.
CASES: list[tuple[str, str, Case, Case]] = [
    (
        "no-kernels",
        "error",
        built(lambda: clean().drop_table("CUPTI_ACTIVITY_KIND_KERNEL")),
        built(clean),
    ),
    (
        "rank-missing",
        "error",
        built(lambda: clean().launch("cudaLaunchKernel", 1, 2, correlation=1, pid=77)),
        built(lambda: clean().api("cudaMalloc", 1, 2, pid=77)),
    ),
    ("rank-missing", "error", built(clean, tp=8), built(clean, tp=1)),
    ("graph-level-trace", "error", built(lambda: graph("graph")), built(graph)),
    (
        "graph-launches-unseen",
        "error",
        built(lambda: graph(replayed=False)),
        built(lambda: graph("graph")),
    ),
    (
        "graph-launches-unseen",
        "warning",
        built(lambda: graph().launch("cudaGraphLaunch", 60_000, 60_100, correlation=10)),
        built(graph),
    ),
    (
        "graph-launches-unseen",
        "warning",
        built(lambda: graph().launch("cudaGraphLaunch", 60_000, 60_100, correlation=10)),
        built(lambda: graph().drop_column("CUPTI_ACTIVITY_KIND_KERNEL", "correlationId")),
    ),
    (
        "software-node-trace",
        "warning",
        built(lambda: graph().diagnostic(SOFTWARE)),
        built(lambda: clean().diagnostic(SOFTWARE)),
    ),
    (
        "bad-timestamps",
        "error",
        built(lambda: clean().kernel("k", 0, 0)),
        built(lambda: clean().kernel("k", 0, 1)),
    ),
    (
        "incomplete-capture",
        "error",
        built(lambda: clean().diagnostic("Number of CUDA events collected: \t 90.")),
        built(lambda: clean().diagnostic("Number of CUDA events collected: \t 6.")),
    ),
    (
        "incomplete-capture",
        "warning",
        built(lambda: clean().diagnostic("Number of incomplete CUPTI events dropped: 7")),
        built(clean),
    ),
    (
        "incomplete-capture",
        "note",
        built(lambda: clean().diagnostic(CAVEAT)),
        built(lambda: clean().diagnostic(CAVEAT).diagnostic(SIX_EVENTS)),
    ),
    (
        "graph-ids-unknown",
        "warning",
        built(lambda: clean().diagnostic(NO_NODE)),
        built(lambda: clean().diagnostic("GetGraphNodeId was called")),
    ),
    (
        "shared-gpu",
        "warning",
        built(lambda: two_engines(15_500)),
        built(lambda: two_engines(40_000)),
    ),
    (
        "shared-gpu",
        "warning",
        built(lambda: two_engines(15_500)),
        built(lambda: two_engines(15_500).drop_table("TARGET_INFO_CUDA_DEVICE")),
    ),
    (
        "partial-export",
        "warning",
        built(lambda: clean().meta_export("EXPORT_PARAM_TABLES_TO_EXPORT", "CUPTI*")),
        built(clean),
    ),
    ("driver-newer", "note", built(lambda: clean().diagnostic(NEWER_DRIVER)), built(clean)),
    (
        "missing-launch-rows",
        "note",
        built(lambda: clean().kernel("k", 70_000, 71_000, correlation=99)),
        built(clean),
    ),
    ("no-gpu-info", "warning", built(lambda: clean().drop_table("TARGET_INFO_GPU")), built(clean)),
    (
        "device-mapping-assumed",
        "note",
        built(lambda: clean().kernel("k", 1_000, 2_000, pid=77)),
        built(lambda: clean().process(77, cuda_devices=[0]).kernel("k", 1_000, 2_000, pid=77)),
    ),
    ("schema-unknown", "note", built(lambda: versioned(None)), built(lambda: versioned("3.25.0"))),
    (
        "schema-newer",
        "warning",
        built(lambda: versioned("3.99.0")),
        built(lambda: versioned("3.25.0")),
    ),
    (
        "missing-columns",
        "warning",
        built(lambda: clean().drop_column("CUPTI_ACTIVITY_KIND_KERNEL", "correlationId")),
        built(clean),
    ),
    (
        "missing-names",
        "warning",
        replace(built(clean), sql="DELETE FROM StringIds WHERE value = 'k'"),
        built(clean),
    ),
    (
        "unknown-gpu",
        "warning",
        built(lambda: clean().drop_table("TARGET_INFO_GPU")),
        built(lambda: clean().drop_table("TARGET_INFO_GPU"), gpu="h100-sxm"),
    ),
    ("gpu-mismatch", "warning", fixture(gpu="h100-sxm"), fixture(gpu="gh200-96")),
    ("no-steps", "warning", built(clean), fixture()),
    (
        "no-steps",
        "warning",
        built(lambda: marked(DECODE, DECODE), step_range="^prefill"),
        built(lambda: marked(DECODE, DECODE), step_range="^step"),
    ),
    (
        "schedule-mismatch",
        "error",
        built(lambda: marked(DECODE, DECODE, DECODE), step_range="^step", schedule=TWO_STEPS),
        built(lambda: marked(DECODE, DECODE), step_range="^step", schedule=TWO_STEPS),
    ),
    (
        "nvtx-low-coverage",
        "warning",
        built(lambda: loosely_marked(2_001), step_range="^step"),
        built(lambda: loosely_marked(2_000), step_range="^step"),
    ),
    (
        "mixed-phases",
        "note",
        built(lambda: marked(PREFILL, DECODE, DECODE), step_range="^step"),
        built(lambda: marked(DECODE, DECODE), step_range="^step"),
    ),
    (
        "warm-up-in-window",
        "note",
        built(lambda: loosely_marked(2_000), step_range="^step"),
        built(lambda: marked(DECODE, DECODE), step_range="^step"),
    ),
    ("model-mismatch", "error", fixture(model="llama-3.1-8b"), fixture()),
    ("low-coverage", "warning", fixture(model="gpt2"), fixture()),
    ("below-bound", "error", fixture(context=(65536,)), fixture()),
    ("below-bound", "warning", fixture(experts=128.0), fixture(experts=8.0)),
    ("context-mismatch", "warning", fixture(context=(65536,)), fixture(context=(4096,))),
    (
        "context-mismatch",
        "error",
        built(annotated, model="llama-3.1-8b", batch=16, context=(1024,)),
        built(annotated, model="llama-3.1-8b", batch=16, context=(512,)),
    ),
    ("dtype-mismatch", "warning", fixture(weights="fp8"), fixture(weights="bf16")),
    ("batch-mismatch", "error", fixture(batch=64), fixture(batch=1)),
    ("tp-mismatch", "error", ranks(tp=1), ranks(tp=2)),
    ("peak-too-low", "warning", fixture(peaks=("bw=1e12",)), fixture(peaks=("bw=4e12",))),
    (
        "slow-rank",
        "warning",
        built(lambda: capture([Plan(), Plan(extra=[8_000] * 5)]), step_range="^step"),
        built(lambda: capture([Plan(extra=[8_000] * 5)] * 2), step_range="^step"),
    ),
    (
        "slow-rank",
        "note",
        built(lambda: capture([Plan(), Plan(extra=[2_000] * 5)]), step_range="^step"),
        built(lambda: capture([Plan(), Plan(extra=[1_000] * 5)]), step_range="^step"),
    ),
    (
        "profiler-inflation",
        "warning",
        fixture(unprofiled_step_us=4_000.0),
        fixture(unprofiled_step_us=5_100.0),
    ),
    (
        "profiler-inflation",
        "warning",
        fixture(unprofiled_step_us=6_000.0),  # 0.86 of what it takes without the profiler
        fixture(unprofiled_step_us=5_200.0),
    ),
    (
        "gpu-metrics-unusable",
        "warning",
        built(lambda: counted("SMs Active [Avg]", 50)),
        built(lambda: counted("SMs Active [Throughput %]", 50)),
    ),
    (
        "gpu-metrics-unusable",
        "warning",
        built(lambda: counted("SMs Active [Throughput %]", 101)),
        built(lambda: counted("SMs Active [Throughput %]", 100)),
    ),
    (
        "gpu-metrics-unusable",
        "warning",
        built(lambda: counted("SMs Active [Throughput %]", 50, since=40_000)),
        built(lambda: counted("SMs Active [Throughput %]", 50, since=20_000)),
    ),
    ("profiler-inflation", "note", fixture(unprofiled_step_us=5_100.0), fixture()),
]
BY_HAND = {
    ("batch-mismatch", "warning"),
    ("tp-mismatch", "warning"),
    ("read-redundancy", "warning"),
    ("dram-reads-low", "warning"),
    ("clocks-differ", "note"),
}
"""Raised by the functions alone, further below; of several files."""


def versioned(version: str | None) -> ExportBuilder:
    export = clean().drop_table("META_DATA_EXPORT")
    return export if version is None else clean().meta_export("EXPORT_SCHEMA_VERSION", version)


@cache
def of_fixture(name: str, options: Options) -> tuple[Finding, ...]:
    return tuple(analyze(open_trace(FIXTURES / f"{name}.sqlite"), options).capture.findings)


def findings(case: Case, folder: Path) -> dict[str, str]:
    """Return the severity of each finding, by slug."""
    if isinstance(case.export, str):
        found = of_fixture(case.export, case.options)
    else:
        path = case.export().write(folder / "capture.sqlite")
        if case.sql:
            with sqlite3.connect(path) as connection:
                connection.execute(case.sql)
            connection.close()
        found = tuple(analyze(open_trace(path), case.options).capture.findings)
    return {one.slug: one.severity for one in found}


@pytest.mark.parametrize(
    ("slug", "severity", "deserving", "other"),
    CASES,
    ids=[f"{at}-{c[0]}-{c[1]}" for at, c in enumerate(CASES)],
)
def test_it_is_raised_where_it_is_deserved_and_not_elsewhere(
    slug: str, severity: str, deserving: Case, other: Case, tmp_path: Path
) -> None:
    assert findings(deserving, tmp_path).get(slug) == severity
    assert findings(other, tmp_path).get(slug) != severity


def test_each_finding_of_the_catalogue_has_a_case() -> None:
    slugs = [kind.slug for kind in CATALOGUE]
    assert len(slugs) == len(set(slugs))
    raised = {(slug, severity) for slug, severity, _, _ in CASES} | BY_HAND
    assert {slug for slug, _ in raised} == set(slugs)
    every = {(kind.slug, severity) for kind in CATALOGUE for severity in kind.severities}
    assert every - raised == {
        ("bad-timestamps", "warning")  # one bad record in more than a hundred
    }


def test_one_bad_record_in_a_thousand_is_a_warning(tmp_path: Path) -> None:
    def export() -> ExportBuilder:
        many = clean().kernel("k", 0, 0)
        for number in range(999):
            many.kernel("k", 100_000 + 100 * number, 100_050 + 100 * number)
        return many

    assert findings(built(export), tmp_path)["bad-timestamps"] == "warning"


def test_a_faultless_capture_with_every_input_has_no_finding(tmp_path: Path) -> None:
    case = built(lambda: marked(DECODE, DECODE), step_range="^step")
    assert findings(case, tmp_path) == {}


def test_weights_that_are_read_again_are_told() -> None:
    for reads, told in ((16.0, True), (1.0, False), (None, False)):
        found = find.read_redundancy([sample.operator("lm_head", reads_per_step=reads)])
        assert [one.slug for one in found] == (["read-redundancy"] if told else [])


def test_files_without_a_clock_in_common_are_told_once_for_each_machine() -> None:
    shared = Alignment(kind=ClockKind.SYSTEM, offset_ns=5)
    other, booted = Alignment(apart=Apart.MACHINE), Alignment(apart=Apart.BOOT)
    axes = [(0, Alignment()), (0, shared), (1, other), (1, shared), (2, booted)]
    one, two = find.clocks_differ(["a", "b", "c", "d", "e"], axes)
    assert (one.slug, one.severity) == ("clocks-differ", "note")
    assert one.text.startswith("c, d: no clock in common with a, nothing tells that they are of")
    assert two.text.startswith("e: no clock in common with a, the machine was booted in between")
    assert find.clocks_differ(["a", "b"], axes[:2]) == []


@pytest.mark.parametrize(
    ("cause", "slug"),
    [
        ("batch", "batch-mismatch"),
        ("tp", "tp-mismatch"),
        ("shared-prefix", "context-mismatch"),
        ("kv-dtype", "dtype-mismatch"),
        ("peak", "peak-too-low"),
        ("experts", None),
        ("shape", None),
    ],
)
def test_an_impossible_result_doubts_the_input_that_explains_it(
    cause: str, slug: str | None
) -> None:
    row = ImpossibleRow(
        role="attn.core", ratio=0.5, hard=True, likely_cause=cause, evidence="at 0.50"
    )
    rows = [msgspec.structs.replace(row, role=f"r{number}") for number in range(5)]
    found = find.doubtful_inputs(rows, contradicted=())
    assert [one.slug for one in found] == ([] if slug is None else [slug])
    assert all(one.text == "r0, r1, r2 and 2 more: at 0.50" for one in found)
    assert slug is None or not find.doubtful_inputs(rows, contradicted=(slug,))


def test_reads_below_half_of_the_weights_are_told() -> None:
    # Weights of 32 instances of 50,331,648 bytes and as many again: 3.22 GB. At 3.35 TB/s half of
    # them take 480.8 µs, 7.88 % of 6.1 ms; rounding may hide 1 %, and 6.88 % is the limit.
    operators = [sample.operator("attn.qkv_proj"), sample.operator("mlp.down_proj")]
    step = with_metrics().metrics[0]

    def told(**changed: object) -> set[str]:
        row = msgspec.structs.replace(step, **changed)
        return {found.slug for found in low_dram_reads([row], operators)}

    assert told(dram_read=0.0687) == {"dram-reads-low"}
    assert told(dram_read=0.0689) == set()
    assert told(dram_read=0.0687, sampled_share=0.89) == set()
    assert told(dram_read=0.0687, peak_bytes_per_s=None) == set()
    assert told(dram_read=None) == set()
    assert told(dram_read=0.0687, scope="role", role="attn.qkv_proj") == set()


def test_only_findings_of_the_catalogue_can_be_made() -> None:
    with pytest.raises(KeyError):
        finding(slug="invented", severity="note", text="", hint="")
    with pytest.raises(AssertionError):
        finding(slug="no-steps", severity="error", text="", hint="")


def test_the_page_is_the_catalogue() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_no_other_module_makes_findings() -> None:
    package = FIXTURES.parent / "nsysroof"
    making = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        if " Finding(" in path.read_text(encoding="utf-8")
    }
    assert making == {"findings.py", "results/capture.py"}  # the catalogue, and the class itself
