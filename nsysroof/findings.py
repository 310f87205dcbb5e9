"""Every finding there is: its slug, how severe it can be, what it means and what to do.

The one list of them. Code that finds something makes it with :func:`finding`, which knows no
other slugs; ``docs/findings.md`` is written from here.
"""

from __future__ import annotations

from dataclasses import dataclass

from nsysroof.results import Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class FindingKind:
    """What can be found; ``severities`` are those it can have, ``error`` trips ``--strict``."""

    slug: str
    severities: tuple[str, ...]
    meaning: str
    action: str


_ERROR, _WARNING, _NOTE = "error", "warning", "note"

_CAPTURE = (
    FindingKind(
        slug="no-kernels",
        severities=(_ERROR,),
        meaning="The capture has no GPU work at all, though a program may have launched some.",
        action="Profile with `-t cuda`. If launches were traced, look for raw GPU timestamps "
        "(`CuptiUseRawGpuTimestamps=false`), WSL2, missing permissions, another profiler.",
    ),
    FindingKind(
        slug="rank-missing",
        severities=(_ERROR,),
        meaning="A process launched work but has no kernels, or fewer GPUs have kernels than "
        "`--tp` says: what is said over ranks is partial. The GPUs that are there stay valid.",
        action="Start workers by spawn, let them exit before nsys stops, trace every rank.",
    ),
    FindingKind(
        slug="graph-level-trace",
        severities=(_ERROR,),
        meaning="CUDA graph replays were traced as a whole: they count as busy, but their kernels "
        "are not in the capture.",
        action="Profile again with `--cuda-graph-trace=node`.",
    ),
    FindingKind(
        slug="graph-launches-unseen",
        severities=(_ERROR, _WARNING),
        meaning="CUDA graphs were launched without any GPU record: all of them (error; idle time "
        "is then not measurable) or some (warning).",
        action="Profile again with `--cuda-graph-trace=node`; a few at the edges are usual.",
    ),
    FindingKind(
        slug="graph-ids-unknown",
        severities=(_WARNING,),
        meaning="The profiler could not tell the graph or node of its records: kernels inside graphs "
        "may be missing, or count as launched alone.",
        action="Profile with `--cuda-graph-trace=graph` for the span of the replays.",
    ),
    FindingKind(
        slug="software-node-trace",
        severities=(_WARNING,),
        meaning="Graph nodes were traced in software, which delays each of them: gaps and the "
        "times of short kernels are upper bounds.",
        action="Give `--unprofiled-step-us` to see the inflation, or use hardware tracing.",
    ),
    FindingKind(
        slug="bad-timestamps",
        severities=(_ERROR, _WARNING),
        meaning="Records with impossible times were set aside and counted: more than 1 % of a "
        "table is an error.",
        action="Totals leave them out; profile again if they matter.",
    ),
    FindingKind(
        slug="incomplete-capture",
        severities=(_ERROR, _WARNING, _NOTE),
        meaning="The export holds fewer CUDA events than the profiler collected, or the profiler "
        "says that it lost some: more than 1 % is an error. That it might have lost some is a note.",
        action="Export again; else stop the program before nsys, or profile a shorter window.",
    ),
    FindingKind(
        slug="partial-export",
        severities=(_WARNING,),
        meaning="The export was made with `--tables` or `--times`, so it is a part of the capture.",
        action="Export again without them to see all of it.",
    ),
    FindingKind(
        slug="driver-newer",
        severities=(_NOTE,),
        meaning="The CUDA driver is newer than this nsys: records may be missing or stop early.",
        action="Profile with an nsys as new as the driver.",
    ),
    FindingKind(
        slug="missing-launch-rows",
        severities=(_NOTE,),
        meaning="Kernels have no launch call in the capture: whether the host was late for them "
        "cannot be judged, and that idle time has the cause `unknown`.",
        action="Trace the CUDA API; a capture or export that was cut has some at its edges.",
    ),
    FindingKind(
        slug="no-gpu-info",
        severities=(_WARNING,),
        meaning="The export does not say which GPU this is.",
        action="Name it with `--gpu`.",
    ),
    FindingKind(
        slug="device-mapping-assumed",
        severities=(_NOTE,),
        meaning="The export does not say which GPU a process means by its CUDA device: numbered "
        "as if every process saw all GPUs.",
        action="With `CUDA_VISIBLE_DEVICES` set per process, GPUs may be mixed up.",
    ),
    FindingKind(
        slug="shared-gpu",
        severities=(_WARNING,),
        meaning="Several processes ran 1 % or more of the kernel time of one GPU each: each is slowed "
        "by what the others run beside it.",
        action="Profile them apart for ratios to theory, or cut one out with `--window`.",
    ),
    FindingKind(
        slug="schema-unknown",
        severities=(_NOTE,),
        meaning="The export carries no schema version, as before 2022: read by column names.",
        action="Export again with a current nsys if something is missing.",
    ),
    FindingKind(
        slug="schema-newer",
        severities=(_WARNING,),
        meaning="The export's schema is newer than the newest known: read by column names.",
        action="Check for a newer nsysroof.",
    ),
    FindingKind(
        slug="missing-columns",
        severities=(_WARNING,),
        meaning="The export lacks columns: what depends on them is left out.",
        action="Export again from the report with a current nsys.",
    ),
    FindingKind(
        slug="missing-names",
        severities=(_WARNING,),
        meaning="Kernels have a name id without a text.",
        action="Export again with all of `StringIds`.",
    ),
)
_ANALYSIS = (
    FindingKind(
        slug="unknown-gpu",
        severities=(_WARNING,),
        meaning="No peaks are known for this GPU, so nothing has a bound or a ratio.",
        action="Give `--gpu NAME|FILE.toml`, or `--peak bw=…` and the dtype used.",
    ),
    FindingKind(
        slug="gpu-mismatch",
        severities=(_WARNING,),
        meaning="`--gpu` names another GPU than the capture was made on; it wins.",
        action="Leave `--gpu` out to use the device of the capture.",
    ),
    FindingKind(
        slug="no-steps",
        severities=(_WARNING,),
        meaning="Nothing shows where a step begins (NVTX range, graph replay, repeating pattern): "
        "times are over the whole window and there is no budget.",
        action="Mark steps with NVTX and give `--step-range`, or capture more of them.",
    ),
    FindingKind(
        slug="schedule-mismatch",
        severities=(_ERROR,),
        meaning="`--schedule` has other steps than were found, so its rows may be those of other "
        "steps.",
        action="Number its rows from 0 at the first step of the window, or cut with `--window`.",
    ),
    FindingKind(
        slug="mixed-phases",
        severities=(_NOTE,),
        meaning="Steps of several phases are in the window; one phase is analysed.",
        action="Choose with `--phase`, or cut with `--window`.",
    ),
    FindingKind(
        slug="warm-up-in-window",
        severities=(_NOTE,),
        meaning="5 % or more of the window or of the work is in no step: loading, warm-up, graph "
        "capture, holes. The budget leaves it out; tables over the window do not.",
        action="Cut it off with `--window`; the finding names the seconds.",
    ),
    FindingKind(
        slug="model-mismatch",
        severities=(_ERROR,),
        meaning="A step runs attention another number of times than the model has layers, or its "
        "grids cover other shapes than the model's.",
        action="Give the model that was served with `--model NAME|config.json`.",
    ),
    FindingKind(
        slug="nvtx-low-coverage",
        severities=(_WARNING,),
        meaning="Less than half of the kernel time was launched inside the NVTX ranges that "
        "`--step-range` names.",
        action="Name ranges that enclose whole steps; ranges inside a captured graph do not come "
        "again when it is replayed.",
    ),
    FindingKind(
        slug="low-coverage",
        severities=(_WARNING,),
        meaning="The theory explains less than 80 % of the kernel time.",
        action="See the unexplained kernels; cut with `--window`, or add `--rules`.",
    ),
    FindingKind(
        slug="below-bound",
        severities=(_ERROR, _WARNING),
        meaning="Operators are faster than theory allows, so an input or the measurement is "
        "wrong: below the least possible bound is an error, below the expected one a warning.",
        action="See the impossible results for the likeliest input.",
    ),
    FindingKind(
        slug="context-mismatch",
        severities=(_ERROR, _WARNING),
        meaning="The engine annotates other KV lengths in NVTX (error), or attention is faster "
        "than reading the whole KV cache would be (warning): shorter contexts than `--context`, a "
        "shared prefix, or a narrower cache.",
        action="Give the KV length of each sequence with `--context`, and what they share with "
        "`--shared-prefix`.",
    ),
    FindingKind(
        slug="batch-mismatch",
        severities=(_ERROR, _WARNING),
        meaning="The launches or the engine's annotation in NVTX cover another number of "
        "sequences or tokens (error), or operators are faster than a step of `--batch` sequences allows (warning).",
        action="Give the number of sequences in a step with `--batch`.",
    ),
    FindingKind(
        slug="tp-mismatch",
        severities=(_ERROR, _WARNING),
        meaning="The grids or the collectives are those of another `--tp` (error), or none that is "
        "known ran, or several operators are faster than reading their weights would be, by a "
        "factor that more tensor-parallel ranks explain (warning).",
        action="Give the number of GPUs that share the model with `--tp`.",
    ),
    FindingKind(
        slug="dtype-mismatch",
        severities=(_WARNING,),
        meaning="A kernel's name shows operands or a cache of another width than assumed, or several "
        "operators are faster than reading weights of the assumed format would be.",
        action="Give the formats with `--weights`, `--kv` and `--activations`.",
    ),
    FindingKind(
        slug="peak-too-low",
        severities=(_WARNING,),
        meaning="Every operator is faster than its bound, or a collective faster than its link: "
        "the peak that was divided by is too low for this GPU.",
        action="Check `--gpu`, or give the peak that holds with `--peak KEY=VALUE`.",
    ),
    FindingKind(
        slug="read-redundancy",
        severities=(_WARNING,),
        meaning="A step reads the same weights more than once.",
        action="One launch over all rows reads them once.",
    ),
    FindingKind(
        slug="gpu-metrics-unusable",
        severities=(_WARNING,),
        meaning="GPU metrics were sampled, but some or all of them cannot be used: names or units "
        "that are not known, values that cannot be, a MIG slice, or no sample in the time "
        "analysed.",
        action="Sample the default metric set with `--gpu-metrics-devices`, of the whole GPU.",
    ),
    FindingKind(
        slug="dram-reads-low",
        severities=(_WARNING,),
        meaning="The GPU metrics show that a step reads less than half of the bytes that the "
        "theory counts for its weights alone: they lie in a cache, or are not those of the model.",
        action="Check `--model`, `--weights` and `--tp`, and the peak that percents were taken of.",
    ),
    FindingKind(
        slug="slow-rank",
        severities=(_WARNING, _NOTE),
        meaning="One GPU takes longer than the others for what it does outside collectives, in "
        "which they wait for it: by 1 % of a step or more (5 %: warning), and in nine steps of "
        "ten.",
        action="See what it spends more on: kernels (clocks, power, temperature, more work), or "
        "idle time that its host causes.",
    ),
    FindingKind(
        slug="clocks-differ",
        severities=(_NOTE,),
        meaning="Files of one run whose timestamps cannot be put on one axis: of several machines, of "
        "one before and after a boot, or without the time at which the session began. UTC of two "
        "machines agrees to milliseconds at best, so no time is computed between such files.",
        action="The ranks are compared by what each does outside collectives. For skew, profile the "
        "ranks of a node in one session.",
    ),
    FindingKind(
        slug="profiler-inflation",
        severities=(_WARNING, _NOTE),
        meaning="How much longer a step takes under the profiler; above 5 % gaps and short "
        "kernels are upper bounds. If it takes less, the time given is that of other steps.",
        action="Capture again with a graph-level trace for the true span; give "
        "`--unprofiled-step-us` of the same batch, context and build.",
    ),
)
CATALOGUE = (*_CAPTURE, *_ANALYSIS)
"""Findings about the capture first, then those of the analysis."""

_BY_SLUG = {kind.slug: kind for kind in CATALOGUE}


def finding(*, slug: str, severity: str, text: str, hint: str) -> Finding:
    """Return a finding of the catalogue.

    Args:
        slug: One of the catalogue.
        severity: One that it can have.
        text: What was found, with numbers.
        hint: What to do about it here.

    >>> finding(slug="no-steps", severity="warning", text="none found", hint="mark them").slug
    'no-steps'
    """
    assert severity in _BY_SLUG[slug].severities, (slug, severity)
    return Finding(slug=slug, severity=severity, text=text, hint=hint)
