"""What the capture can answer, what the theory covers of it, and the steps found in it."""

from __future__ import annotations

from nsysroof.report.blocks import (
    Block,
    Grid,
    Item,
    Items,
    Row,
    Section,
    count,
    number,
    word,
)
from nsysroof.results import Capture, Coverage, Finding, Phase, Report, Spread, Steps
from nsysroof.units import format_share, format_time, format_us

_GRAPH_MODES = {
    "node": "CUDA graphs traced node by node",
    "graph": "CUDA graphs traced as a whole, their kernels not shown",
    "none": "no CUDA graph launched",
    "missing": "CUDA graphs launched, their replays not recorded",
    "unknown": "CUDA graph tracing not known",
}
_STEP_SOURCES = {
    "nvtx": "NVTX ranges",
    "graph": "graph replays",
    "pattern": "a repeating kernel pattern",
    "user": "the range you named",
}


def capture_section(capture: Capture) -> Section:
    """Return the verdict on the capture: what is in it, and every finding."""
    blocks: list[Block] = [_origin(capture), _devices(capture), _rows(capture)]
    if capture.set_aside:
        reasons = ", ".join(f"{reason} {n:,}" for reason, n in capture.set_aside_reasons.items())
        blocks.append(f"set aside as unusable: {count(capture.set_aside, 'row')} ({reasons})")
    blocks.append(findings_block(capture.findings))
    return Section(title="What this capture can answer", blocks=tuple(blocks))


def coverage_section(report: Report) -> Section:
    """Return what share the theory explains, or why that is not known."""
    coverage = report.coverage
    if coverage.time_explained is None:
        return Section(title="Coverage", blocks=(f"coverage not known: {_why_uncovered(report)}",))
    explained = (
        f"coverage {format_share(coverage.time_explained)} of kernel time, "
        f"{format_share(coverage.count_explained)} of launches; "
        f"unexplained {format_share(coverage.time_unexplained)}"
    )
    inside = coverage.in_steps_time_explained is not None
    blocks = (explained, _in_steps(coverage)) if inside else (explained,)
    return Section(title="Coverage", blocks=blocks)


def steps_section(steps: Steps, phases: list[Phase]) -> Section:
    """Return the steps found, by phase."""
    blocks: list[Block] = [steps_line(steps)]
    if phases:
        rows = (
            Row(cells=(phase.phase, f"{phase.count:,}", format_time(phase.total_ns)))
            for phase in phases
        )
        columns = (word("phase"), number("steps"), number("total time"))
        blocks.append(Grid(columns=columns, rows=tuple(rows)))
    return Section(title="Steps", blocks=tuple(blocks))


def steps_line(steps: Steps) -> str:
    """Return how many steps were found, by what, and how long they take."""
    if steps.source is None or steps.wall_ns is None:
        return (
            "No steps were found: nothing marks them (NVTX, graph replays, a repeating pattern). "
            "Name a range with --step-range REGEX."
        )
    found = _STEP_SOURCES.get(steps.source, steps.source)
    phase = f"{steps.phase} step" if steps.phase else "step"
    one = f"{format_us(steps.wall_ns.p50)} µs"
    wall = one if steps.count == 1 else _spread(steps.wall_ns)
    return f"{count(steps.count, phase)}, found by {found}; wall {wall}"


def _spread(wall: Spread) -> str:
    return (
        f"{format_us(wall.p50)} µs in the median (p10 {format_us(wall.p10)}, "
        f"p90 {format_us(wall.p90)}, min {format_us(wall.min)}, max {format_us(wall.max)})"
    )


def _origin(capture: Capture) -> str:
    tracing = {"unknown": "tracing not known"}.get(
        capture.trace_kind, f"{capture.trace_kind} tracing"
    )
    mode = _GRAPH_MODES.get(capture.graph_mode, capture.graph_mode)
    return (
        f"nsys {capture.nsys_version or 'version not known'}, "
        f"schema {capture.schema_version or 'not known'}, {tracing}, {mode}"
    )


def _devices(capture: Capture) -> str:
    processes = count(capture.processes, "process", "processes")
    if not capture.devices:
        return f"{processes}, no GPU"
    alike: dict[str, list[str]] = {}
    for device in capture.devices:
        name = device.name or "(name not recorded)"
        alike.setdefault(f"{name}: {count(device.kernels, 'kernel')}", []).append(f"{device.gpu}")
    each = "; ".join(f"GPU {', '.join(gpus)} {what}" for what, gpus in alike.items())
    return f"{processes}, {count(len(capture.devices), 'GPU')}: {each}"


def _rows(capture: Capture) -> str:
    parts = (
        f"{capture.kernels_used:,} of {count(capture.kernels, 'kernel')} used",
        f"{capture.graph_kernels:,} of them in graphs",
        f"{count(capture.launches, 'launch call')} ({capture.graph_launches:,} of graphs)",
        count(capture.graph_replays, "graph replay"),
        count(capture.copies, "copy", "copies"),
        count(capture.fills, "fill"),
    )
    return ", ".join(parts)


def findings_block(findings: list[Finding]) -> Block:
    """Return findings with their hints."""
    if not findings:
        return "Nothing speaks against it: no findings."
    items = (
        Item(
            label=finding.severity,
            text=f"{finding.text} [{finding.slug}]",
            below=f"hint: {finding.hint}" if finding.hint else "",
        )
        for finding in findings
    )
    return Items(items=tuple(items))


def _in_steps(coverage: Coverage) -> str:
    return (
        f"inside the analysed steps {format_share(coverage.in_steps_time_explained)} of kernel "
        f"time, {format_share(coverage.in_steps_count_explained)} of launches"
    )


def _why_uncovered(report: Report) -> str:
    if report.capture.kernels_used == 0:
        return "the capture has no kernels"
    if report.assumptions.model is None:
        return "no model was given, so no kernel has a theory; give --model NAME or config.json"
    return "see the findings above"
