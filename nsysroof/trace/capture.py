"""The verdict: what a capture can answer, and what the reader must know before any number."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import polars as pl

from nsysroof.findings import finding
from nsysroof.results import Capture, CaptureDevice, CaptureProcess, Finding
from nsysroof.trace.activity import Activity
from nsysroof.trace.contract import KERNEL, NEWEST_SCHEMA, is_newer_schema
from nsysroof.trace.devices import GpuFacts
from nsysroof.trace.metadata import Metadata

_SEVERITIES = ("error", "warning", "note")
_SERIOUS_SHARE = 0.01  # more bad or lost records than this make the totals unreliable
_SHARING = 0.01  # share of a GPU's kernel time from which a process shares the GPU
_NODE_HINT = "profile again with --cuda-graph-trace=node"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Evidence:
    """What was counted while the tables were read.

    ``launches_by_pid`` counts kernel and graph launch calls; ``unseen_graph_launches`` those of
    graphs from which no activity was recorded; ``calls`` are all API rows of the frame and
    ``call_rows`` all rows of the table.
    """

    metadata: Metadata
    gpus: tuple[GpuFacts, ...]
    kernels: Activity
    copies: Activity
    fills: Activity
    replays: Activity
    calls: int
    call_rows: int
    launches_by_pid: dict[int, int]
    graph_launches: int
    unseen_graph_launches: int
    nameless_kernels: int
    missing_columns: list[tuple[str, str]]

    @property
    def launches(self) -> int:
        """Host launch calls, graph launches among them."""
        return sum(self.launches_by_pid.values())

    @property
    def launches_found(self) -> bool:
        """Whether the export tells by which call its kernels were launched."""
        lacking = {column for table, column in self.missing_columns if table == KERNEL}
        return not lacking & {"correlationId", "globalPid"}

    @property
    def activities(self) -> tuple[Activity, ...]:
        """Everything that ran on a GPU."""
        return (self.kernels, self.copies, self.fills, self.replays)

    @property
    def events_found(self) -> int:
        """The rows that the profiler's own count of CUDA events covers."""
        return self.call_rows + sum(
            activity.rows for activity in (self.kernels, self.copies, self.fills)
        )

    @property
    def graph_mode(self) -> str:
        """Whether the kernels of CUDA graphs are in the capture.

        Columns for graph ids exist in captures without graphs too; only their values count.
        """
        if self.replays.frame.height:
            return "graph"
        if any(activity.in_graph for activity in (self.kernels, self.copies, self.fills)):
            return "node"
        if self.graph_launches:
            return "missing" if self.launches_found else "unknown"
        return "unknown" if self.kernels.rows and not self.calls else "none"


def judge(evidence: Evidence) -> Capture:
    """Return the verdict on a capture, its findings sorted by severity."""
    kernels = evidence.kernels
    by_pid = _count(kernels.frame, "pid")
    by_gpu = _count(kernels.frame, "gpu")
    names = {facts.gpu: facts.name for facts in evidence.gpus}
    pids = sorted(by_pid.keys() | {pid for pid, n in evidence.launches_by_pid.items() if n})
    findings = sorted(
        _findings(evidence, by_pid), key=lambda found: _SEVERITIES.index(found.severity)
    )
    return Capture(
        nsys_version=evidence.metadata.nsys_version,
        schema_version=evidence.metadata.schema_version,
        graph_mode=evidence.graph_mode,
        trace_kind=evidence.metadata.trace_kind,
        kernels=kernels.rows,
        kernels_used=kernels.frame.height,
        set_aside=kernels.rows - kernels.frame.height,
        set_aside_reasons=kernels.set_aside,
        launches=evidence.launches,
        graph_launches=evidence.graph_launches,
        graph_replays=evidence.replays.frame.height,
        graph_kernels=kernels.in_graph,
        copies=evidence.copies.frame.height,
        fills=evidence.fills.frame.height,
        processes=len(pids),
        process_list=[
            CaptureProcess(
                pid=pid,
                launches=evidence.launches_by_pid.get(pid, 0),
                kernels=by_pid.get(pid, 0),
            )
            for pid in pids
        ],
        devices=[
            CaptureDevice(gpu=gpu, name=names.get(gpu), kernels=by_gpu.get(gpu, 0))
            for gpu in sorted(names.keys() | by_gpu.keys())
        ],
        events_collected=evidence.metadata.events_collected,
        events_found=evidence.events_found,
        findings=findings,
    )


def _count(frame: pl.DataFrame, column: str) -> dict[int, int]:
    counts = frame[column].drop_nulls().value_counts()
    return dict(sorted(counts.iter_rows()))


def _findings(evidence: Evidence, by_pid: dict[int, int]) -> Iterator[Finding]:
    yield from _about_kernels(evidence, by_pid)
    yield from _about_graphs(evidence)
    yield from _about_records(evidence)
    yield from _about_launch_rows(evidence)
    yield from _about_devices(evidence)
    if len(by_pid) > 1:
        yield from _about_sharing(evidence)
    yield from _about_schema(evidence)


def _about_kernels(evidence: Evidence, by_pid: dict[int, int]) -> Iterator[Finding]:
    if not evidence.kernels.rows and not evidence.replays.rows:
        launched = evidence.launches
        yield finding(
            slug="no-kernels",
            severity="error",
            text=f"no GPU kernel records; {launched:,} launch API calls were traced",
            hint=(
                "likely causes: raw GPU timestamps (set CuptiUseRawGpuTimestamps=false), WSL2,"
                " missing permissions for GPU tracing, another profiler in the process"
                if launched
                else "profile with -t cuda,nvtx and a program that uses the GPU"
            ),
        )
    silent = [pid for pid, n in sorted(evidence.launches_by_pid.items()) if n and pid not in by_pid]
    replayed = set(evidence.replays.frame["pid"].unique().to_list())
    silent = [pid for pid in silent if pid not in replayed]
    if silent and (by_pid or replayed):
        listed = ", ".join(map(str, silent))
        yield finding(
            slug="rank-missing",
            severity="error",
            text=(
                f"{len(silent)} of {len(silent) + len(by_pid.keys() | replayed)} processes"
                f" launched kernels but have no kernel records: {listed};"
                " results over ranks are partial"
            ),
            hint=("start workers by spawn, let them exit before nsys stops, and trace all of them"),
        )


def _about_graphs(evidence: Evidence) -> Iterator[Finding]:
    mode, metadata = evidence.graph_mode, evidence.metadata
    replays = evidence.replays.frame
    if opaque := replays.height - _replays_with_kernels(evidence):
        yield finding(
            slug="graph-level-trace",
            severity="error",
            text=(
                f"{opaque:,} CUDA graph replays were traced as a whole: the kernels inside graphs"
                " are not in the capture"
            ),
            hint=_NODE_HINT,
        )
    if mode == "missing":
        yield finding(
            slug="graph-launches-unseen",
            severity="error",
            text=(
                f"{evidence.graph_launches:,} CUDA graph launches were traced, but neither their"
                " kernels nor their replays: idle time is not measurable"
            ),
            hint=_NODE_HINT,
        )
    elif evidence.unseen_graph_launches and evidence.launches_found:
        yield finding(
            slug="graph-launches-unseen",
            severity="warning",
            text=(
                f"{evidence.unseen_graph_launches:,} of {evidence.graph_launches:,} CUDA graph"
                " launches have no GPU records: time without a kernel near them may not be idle"
            ),
            hint="usual at the edges of a capture; otherwise records were lost",
        )
    if metadata.graphs_unattributed:
        yield finding(
            slug="graph-ids-unknown",
            severity="warning",
            text=(
                f"the profiler could not tell the graph or node of its records"
                f" {metadata.graphs_unattributed:,} times: kernels inside graphs may be missing or"
                " count as launched alone"
            ),
            hint="usual for programs that instantiate graphs again and again; profile with"
            " --cuda-graph-trace=graph for the span of the replays",
        )
    if mode == "node" and metadata.trace_kind == "software":
        yield finding(
            slug="software-node-trace",
            severity="warning",
            text=(
                "graph nodes were traced in software, which delays each node: gaps and the times"
                " of short kernels are upper bounds"
            ),
            hint="give --unprofiled-step-us to see the inflation, or use hardware tracing",
        )


def _replays_with_kernels(evidence: Evidence) -> int:
    """Return how many whole-replay rows have their kernels in the capture as well."""
    keys = ["pid", "correlation"]
    replays, kernels = evidence.replays.frame, evidence.kernels.frame
    return 0 if replays.is_empty() else replays.join(kernels, on=keys, how="semi").height


def _about_records(evidence: Evidence) -> Iterator[Finding]:
    metadata = evidence.metadata
    tables = ("kernel", "copy", "fill", "graph replay")
    bad = [
        (name, activity, sum(activity.set_aside.values()))
        for name, activity in zip(tables, evidence.activities, strict=True)
        if activity.set_aside
    ]
    if bad:
        serious = any(count > _SERIOUS_SHARE * activity.rows for _, activity, count in bad)
        yield finding(
            slug="bad-timestamps",
            severity="error" if serious else "warning",
            text="set aside: " + "; ".join(_describe_bad(*entry) for entry in bad),
            hint="totals leave these records out; profile again if they matter",
        )
    if metadata.filtered or metadata.windowed:
        yield finding(
            slug="partial-export",
            severity="warning",
            text="the export holds only some tables or some times of the capture",
            hint="export again without --tables and --times to see all of it",
        )
    collected, found = metadata.events_collected, evidence.events_found
    whole = not (metadata.filtered or metadata.windowed)
    if whole and collected is not None and found < collected:
        lost = collected - found
        yield finding(
            slug="incomplete-capture",
            severity="error" if lost > _SERIOUS_SHARE * collected else "warning",
            text=f"{collected:,} CUDA events were collected, {found:,} are in the export",
            hint="export again; if it stays, stop the program before nsys so that it can flush",
        )
    if metadata.losses:
        yield finding(
            slug="incomplete-capture",
            severity="warning",
            text="the profiler says that records were lost: " + "; ".join(metadata.losses),
            hint="profile a shorter window",
        )
    elif metadata.maybe_incomplete and (collected is None or not whole):
        yield finding(
            slug="incomplete-capture",
            severity="note",
            text="the profiler says that not all CUDA events might have been collected, and its"
            " count of them does not tell",
            hint="usual where cudaProfilerStart and Stop bound the capture; compare the kernels of"
            " each step, which `nsysroof steps` lists",
        )
    if metadata.driver_newer:
        yield finding(
            slug="driver-newer",
            severity="note",
            text="the CUDA driver is newer than this nsys: records may be missing or stop early",
            hint="profile with an nsys as new as the driver",
        )


def _describe_bad(name: str, activity: Activity, count: int) -> str:
    reasons = ", ".join(f"{reason} {n:,}" for reason, n in activity.set_aside.items())
    share = 100 * count / activity.rows
    return f"{count:,} of {activity.rows:,} {name} records ({share:.1f} %: {reasons})"


def _about_launch_rows(evidence: Evidence) -> Iterator[Finding]:
    without, used = evidence.kernels.launchless, evidence.kernels.frame.height
    if without:
        yield finding(
            slug="missing-launch-rows",
            severity="note",
            text=(
                f"{without:,} of {used:,} kernels have no launch call in the capture:"
                " whether the host was late for them cannot be judged"
            ),
            hint="usual where a capture or an export was cut; trace the CUDA API to avoid it",
        )


def _about_devices(evidence: Evidence) -> Iterator[Finding]:
    described = {facts.gpu for facts in evidence.gpus if facts.name}
    places = frozenset().union(*(activity.places for activity in evidence.activities))
    used = {place.gpu for place in places if place.gpu is not None}
    if unknown := sorted(used - described):
        yield finding(
            slug="no-gpu-info",
            severity="warning",
            text=f"the export does not say which GPU this is: {', '.join(map(str, unknown))}",
            hint="name it with --gpu",
        )
    pids = {place.pid for place in places}
    guessed = {place.pid for place in places if not place.known}
    if len(pids) > 1 and guessed:
        yield finding(
            slug="device-mapping-assumed",
            severity="note",
            text=(
                f"for {len(guessed)} of {len(pids)} processes the export does not say which GPU"
                " their CUDA device is; numbered as if all GPUs were visible to each"
            ),
            hint="with CUDA_VISIBLE_DEVICES set per process, GPUs may be mixed up",
        )


def _about_sharing(evidence: Evidence) -> Iterator[Finding]:
    """Tell where processes ran kernels on one GPU at a time: each has what the others leave it.

    Of processes whose GPU is only assumed each may have had its own.
    """
    known = {(place.pid, place.gpu) for place in evidence.kernels.places if place.known}
    length = pl.col("end_ns") - pl.col("start_ns")
    spent = (
        evidence.kernels.frame.lazy()
        .drop_nulls("pid")
        .group_by("gpu", "pid")
        .agg(length.sum().alias("ns"), pl.col("start_ns").min(), pl.col("end_ns").max())
        .collect(engine="streaming")
        .with_columns(share=pl.col("ns") / pl.col("ns").sum().over("gpu"))
        .filter(pl.col("share") >= _SHARING)
        .sort("gpu", "pid")
    )
    for (gpu,), rows in spent.partition_by("gpu", as_dict=True, maintain_order=True).items():
        told = rows.select("start_ns", "end_ns", "pid", "share").iter_rows()
        spans = [span for span in told if (span[2], gpu) in known]
        sharing = [
            (pid, share)
            for start, end, pid, share in spans
            if any(pid != other and start < last and first < end for first, last, other, _ in spans)
        ]
        if sharing:
            shares = ", ".join(f"process {pid} {100 * share:.0f} %" for pid, share in sharing)
            yield finding(
                slug="shared-gpu",
                severity="warning",
                text=f"{len(sharing)} processes ran kernels on GPU {gpu} at a time ({shares} of the"
                " kernel time): each is slowed by what the others run beside it",
                hint="profile them apart for ratios to theory, or cut one out with --window",
            )


def _about_schema(evidence: Evidence) -> Iterator[Finding]:
    version = evidence.metadata.schema_version
    if version is None:
        yield finding(
            slug="schema-unknown",
            severity="note",
            text="the export carries no schema version, as before 2022: read by column names",
            hint="export again from the report with a current nsys if something is missing",
        )
    if is_newer_schema(version):
        newest = ".".join(map(str, NEWEST_SCHEMA))
        yield finding(
            slug="schema-newer",
            severity="warning",
            text=f"export schema {version} is newer than {newest}, the newest known",
            hint="columns were found by name; check for a newer nsysroof",
        )
    if evidence.missing_columns:
        listed = ", ".join(f"{table}.{column}" for table, column in evidence.missing_columns)
        yield finding(
            slug="missing-columns",
            severity="warning",
            text=f"the export lacks {listed}: what depends on them is left out",
            hint="export again from the report with a current nsys",
        )
    if evidence.nameless_kernels:
        yield finding(
            slug="missing-names",
            severity="warning",
            text=f"{evidence.nameless_kernels:,} kernels have no name in the export",
            hint="export again from the report with all of StringIds",
        )
