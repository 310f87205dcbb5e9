"""The theory side of an analysis: which model, which GPU, which peaks, and on whose word."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from msgspec import structs

from nsysroof.analysis import findings as find
from nsysroof.analysis.options import Options
from nsysroof.errors import UsageError
from nsysroof.results import Assumptions, Estimate, Finding, PeakUsed
from nsysroof.theory.cost import Operator
from nsysroof.theory.estimate import estimate
from nsysroof.theory.gpus import Gpu, detect_gpu, find_gpu, formula_gpu, resolve_peaks
from nsysroof.theory.models.draft import drafting_operators
from nsysroof.theory.models.spec import ModelSpec, find_model
from nsysroof.theory.peaks import Peaks, parse_peaks, read_roofs
from nsysroof.theory.workload import Workload

if TYPE_CHECKING:
    from nsysroof.trace import GpuFacts

DEFAULT_FLOOR_US = 1.3
"""Duration of the smallest kernels in a CUDA graph on Hopper, published measurements."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hardware:
    """The GPU that bounds are worked out for.

    Attributes:
        gpu: Its entry, None where it is not known.
        source: On whose word: ``--gpu``, the capture, or a formula.
        peaks: Peaks to divide by; may be empty.
        roofs: Measured roofs, if given.
        floor_ns: Latency floor of a small kernel.
        findings: What is wrong or missing.
    """

    gpu: Gpu | None
    source: str | None
    peaks: Peaks
    roofs: Peaks | None
    floor_ns: float
    findings: tuple[Finding, ...]


def choose_hardware(options: Options, devices: Sequence[GpuFacts]) -> Hardware:
    """Return the GPU meant, by trust: the user, then the capture, then a formula that says so.

    Args:
        options: What the user said.
        devices: The GPUs of the capture that are analysed.

    Raises:
        UsageError: The name or a peak is not known.
        InputError: A file cannot be read.
    """
    user = parse_peaks(options.peaks)
    roofs = read_roofs(options.roofs) if options.roofs else None
    traced, formula = _traced_gpu(devices)
    told: list[Finding] = []
    gpu, source = traced, "the capture" if traced else None
    if formula:
        source = "a formula over the capture's device fields"
    if options.gpu is not None:
        gpu, source = find_gpu(options.gpu), "--gpu"
        names = sorted({device.name for device in devices if device.name})
        if names and (traced is None or traced.key != gpu.key):
            told.append(find.gpu_mismatch(options.gpu, ", ".join(names)))
    same_device = gpu is not None and traced is not None and traced.key == gpu.key
    reported = {device.bytes_per_s for device in devices if device.bytes_per_s}
    peaks = resolve_peaks(
        gpu,
        user=user,
        device_bandwidth=min(reported) if same_device and reported else None,
    )
    if gpu is None and not user and devices:
        told.append(find.unknown_gpu([device.name for device in devices]))
    floor_us = DEFAULT_FLOOR_US if options.floor_us is None else options.floor_us
    return Hardware(
        gpu=gpu,
        source=source,
        peaks=peaks,
        roofs=roofs,
        floor_ns=floor_us * 1e3,
        findings=tuple(told),
    )


def choose_model(options: Options) -> ModelSpec | None:
    """Return the model meant, or None where the user named none."""
    return None if options.model is None else find_model(options.model)


def make_workload(options: Options, phase: str) -> Workload:
    """Return the workload of one step.

    Raises:
        UsageError: The context is not given, or the numbers do not go together.
    """
    if options.context is None:
        raise UsageError(
            "a model needs the KV length of its sequences",
            hint="give --context N (and --batch N), --context n1,n2,… for each sequence, or "
            "--schedule FILE for each step",
            slug="context-missing",
            where=f"--model {options.model}",
        )
    return Workload.create(
        phase=phase,
        batch=options.batch,
        context=options.context,
        new_tokens=_verified_tokens(options),
        query_lengths=options.query_lengths,
        weights=options.weights,
        kv=options.kv,
        activations=options.activations,
        tp=options.tp,
        ep=options.ep,
        dp=options.dp,
        experts=options.experts,
        tokens_per_step=options.tokens_per_step,
        expert_misses=options.expert_misses,
        shared_prefix=options.shared_prefix,
    )


def drafting_of(options: Options, model: ModelSpec, workload: Workload) -> list[Operator]:
    """Return the operators that draft tokens in a step; none where nothing is drafted.

    Raises:
        UsageError: The draft model is not known, or the workload does not fit it.
    """
    if options.draft is None or options.drafts is None:
        return []
    return drafting_operators(model, options.draft, workload, options.drafts)


def _verified_tokens(options: Options) -> int | None:
    """Return the new tokens of a sequence: the drafts and one more where tokens are drafted."""
    if (options.draft is None) != (options.drafts is None):
        raise UsageError(
            "a draft model and the number of drafted tokens go together",
            hint="give both --draft NAME and --drafts N",
            slug="draft-incomplete",
            where="--draft" if options.drafts is None else "--drafts",
        )
    told = options.new_tokens is not None or options.query_lengths is not None
    if not told and options.drafts is not None:
        return options.drafts + 1
    return options.new_tokens


def assume(
    options: Options,
    hardware: Hardware,
    model: ModelSpec | None,
    workload: Workload | None,
    *,
    phase: str | None,
    window_anchor_ns: int | None,
    devices: Sequence[int],
    peaks_used: Collection[str],
    notes: Sequence[str] = (),
) -> Assumptions:
    """Return every input of the theory as it was used; of the peaks those divided by."""
    return Assumptions(
        model=model.name if model else None,
        gpu=hardware.gpu.key if hardware.gpu else None,
        gpu_source=hardware.source,
        batch=workload.batch if workload else options.batch,
        context=list(workload.contexts) if workload else None,
        new_tokens=workload.new_tokens if workload else options.new_tokens,
        query_lengths=list(workload.query_lengths) if workload and workload.query_lengths else None,
        phase=phase,
        weights=options.weights,
        kv=options.kv,
        activations=options.activations,
        tp=options.tp,
        ep=options.ep,
        dp=options.dp,
        experts=options.experts,
        floor_us=hardware.floor_ns / 1e3,
        floor_source="--floor-us"
        if options.floor_us is not None
        else "smallest kernels in a CUDA graph on Hopper, published measurements",
        tokens_per_step=options.tokens_per_step,
        shared_prefix=options.shared_prefix or None,
        draft=options.draft,
        drafts=options.drafts,
        unprofiled_step_us=options.unprofiled_step_us,
        window_s=list(options.window) if options.window else None,
        window_anchor_ns=window_anchor_ns,
        devices=list(devices),
        peaks=[
            PeakUsed(key=key, value=float(peak.value), source=peak.source)
            for key, peak in hardware.peaks.items()
            if key in peaks_used
        ],
        notes=[*hardware.peaks.notes, *notes],
    )


def estimate_for(options: Options) -> Estimate:
    """Return what theory allows, without a trace.

    Raises:
        UsageError: The model, the GPU or the workload is not given or not known.
    """
    model = choose_model(options)
    if model is None:
        raise UsageError(
            "estimate needs a model",
            hint="nsysroof estimate NAME or config.json; nsysroof models lists the names",
            slug="model-missing",
        )
    if options.gpu is None and not options.peaks:
        raise UsageError(
            "estimate needs a GPU",
            hint="give --gpu NAME (nsysroof gpus lists them), or --peak bw=… bf16=…",
            slug="gpu-missing",
        )
    hardware = choose_hardware(options, ())
    phase = "decode" if options.phase == "auto" else options.phase
    workload = make_workload(options, phase)
    found = estimate(
        model,
        hardware.peaks,
        workload,
        floor_ns=None if options.floor_us is None else hardware.floor_ns,
        roofs=hardware.roofs,
        drafting=drafting_of(options, model, workload),
    )
    assumed = structs.replace(found.assumptions, draft=options.draft, drafts=options.drafts)
    return structs.replace(found, assumptions=assumed)


def _traced_gpu(devices: Sequence[GpuFacts]) -> tuple[Gpu | None, bool]:
    """Return the one GPU that all devices are, and whether only a formula describes it."""
    found: dict[str, Gpu] = {}
    formula = False
    for device in devices:
        if device.name is None:
            return None, False
        gpu = detect_gpu(device.name, sm_count=device.sm_count, memory_bytes=device.memory_bytes)
        if gpu is None:
            gpu = _by_formula(device)
            formula = True
        if gpu is None:
            return None, False
        found[gpu.key] = gpu
    if len(found) != 1:
        return None, False
    return next(iter(found.values())), formula


def _by_formula(device: GpuFacts) -> Gpu | None:
    if (
        device.name is None
        or " MIG " in device.name
        or device.compute_capability is None
        or not device.sm_count
        or not device.clock_hz
    ):
        return None
    major, minor = device.compute_capability
    return formula_gpu(
        device.name,
        compute_capability=f"{major}.{minor}",
        sm_count=device.sm_count,
        clock_hz=device.clock_hz,
        memory_bytes=device.memory_bytes,
        l2_bytes=device.l2_bytes,
    )
