"""Experts that stay on the host until a step needs them: bytes over the link, hit rate, rate cap.

A step cannot be faster than the bytes it brings over the host link, at the slower of link and host
memory; the floors of its kernels stand beside that.
"""

from __future__ import annotations

from collections.abc import Sequence

from nsysroof.results import EstimateOffload
from nsysroof.theory.cost import Cost, Operator
from nsysroof.theory.peaks import HOST_KEY, Peaks
from nsysroof.theory.roofline import bound
from nsysroof.theory.workload import Workload

LINK = "h2d"
NS_PER_S = 1e9

GATHER_RATES = {"bf16": (202e9, 408e9), "mxfp4": (212e9, 408e9), "nvfp4": (222e9, 410e9)}
"""Published rates of one gather kernel by weight format, bytes per second, with 8 blocks for each
of its banks and with 32; the link's copy engine does 418 GB/s and its data sheet 450."""

FAR_OFF = 10.0
"""A measured roof that many times above what serving shows is not the roof of serving."""


def offload(
    operators: Sequence[Operator], workload: Workload, peaks: Peaks
) -> EstimateOffload | None:
    """Return what bringing experts from the host costs, or None where none are said to be missing.

    Args:
        operators: Those of the step.
        workload: The step, with ``expert_misses`` per layer.
        peaks: With the host link ``h2d``, and ``host`` where the host's memory is known.
    """
    loads = [op for op in operators if op.role == "moe.load_experts"]
    rate = peaks.value(LINK)
    if not loads or workload.expert_misses is None or rate is None:
        return None
    expert = int(loads[0].inputs["expert_bytes"])
    products = [op for op in operators if op.role == "moe.gate_up"]
    routed = sum(float(op.inputs["experts"]) for op in products) * expert
    crossed = float(sum(op.cost.link for op in loads))
    transfer = bound(Cost(link=round(crossed)), peaks, link=LINK).spec_ns or 0.0
    host = peaks.value(HOST_KEY)
    return EstimateOffload(
        expert_bytes=expert,
        misses_per_layer=workload.expert_misses,
        routed_bytes_per_step=routed,
        link_bytes_per_step=crossed,
        link_bytes_per_token=crossed / workload.yielded_tokens,
        hit_rate=hit_rate(crossed, routed),
        link_bytes_per_s=rate,
        host_bytes_per_s=host,
        # A link capped by the host's memory has that memory's rate.
        limiter="host memory" if host is not None and rate >= host else "link",
        transfer_ns=transfer,
        cap_tokens_per_s=workload.yielded_tokens / transfer * NS_PER_S if transfer else None,
        notes=[gather_note(peaks)],
    )


def hit_rate(crossed_bytes: float, routed_bytes: float) -> float | None:
    """Return the share of the experts' bytes that did not cross the link.

    None where more crossed than the experts hold: the link carried something else too, or one of
    the two is wrong.

    >>> round(hit_rate(9.8e9 / 13.1, 1_006_632_960), 3)
    0.257
    """
    if routed_bytes <= 0 or crossed_bytes > routed_bytes:
        return None
    return 1 - crossed_bytes / routed_bytes


def gather_note(peaks: Peaks) -> str:
    """Return why a rate measured with one format says little about another.

    >>> gather_note(Peaks(entries={}))[:60]
    'what a gather kernel reaches depends on the weight format an'
    """
    few = ", ".join(f"{rate / 1e9:.0f} GB/s in {fmt}" for fmt, (rate, _) in GATHER_RATES.items())
    mean = sum(rate for rate, _ in GATHER_RATES.values()) / len(GATHER_RATES)
    above = (
        f"; 32 blocks {GATHER_RATES['bf16'][1] / 1e9:.0f} in bf16"
        if (peaks.value(LINK) or 0) >= GATHER_RATES["bf16"][1]
        else ""
    )
    return (
        "what a gather kernel reaches depends on the weight format and on its blocks: on one GH200 "
        f"8 blocks reached {few} (mean {mean / 1e9:.0f}){above}; a rate of about 220 is not the "
        "bf16 one"
    )


def doubtful_roof(measured_roof: float, seen: float) -> str | None:
    """Return why a benchmark's rate is no roof of what serving shows, or None where it may be.

    >>> doubtful_roof(56.2e9, 0.67 * 3.07e9)
    'the benchmark is 27 times above what serving reaches: they do not measure the same path'
    >>> doubtful_roof(56.2e9, 40e9)
    """
    times = measured_roof / seen
    if times < FAR_OFF:
        return None
    return (
        f"the benchmark is {times:.0f} times above what serving reaches: "
        "they do not measure the same path"
    )
