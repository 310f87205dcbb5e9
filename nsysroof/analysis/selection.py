"""What part of a trace is analysed: which GPUs, and which stretch of time."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from nsysroof.analysis.options import Options
from nsysroof.errors import UsageError
from nsysroof.timeline.activity import selected
from nsysroof.trace import GpuFacts, Trace


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The part of a trace that counts.

    Attributes:
        gpus: GPUs analysed, ascending.
        devices: What the capture tells of them.
        kernels: Their kernels in the window.
        copies: Their copies in the window.
        window_ns: The window, None for everything.
        anchor_ns: First kernel of these GPUs: where seconds are counted from.
    """

    gpus: list[int]
    devices: list[GpuFacts]
    kernels: pl.DataFrame
    copies: pl.DataFrame
    window_ns: tuple[int, int] | None
    anchor_ns: int | None


def select(trace: Trace, options: Options) -> Selection:
    """Return the part of the trace that the options name.

    Raises:
        UsageError: ``device-missing`` where a GPU has no activity, ``empty-window`` where no
            kernel starts in the window.
    """
    frames = (trace.kernels, trace.copies, trace.fills, trace.replays)
    active = sorted({gpu for frame in frames for gpu in frame["gpu"].unique().to_list()})
    gpus = _wanted(options.devices, active, trace.kernels)
    kernels = trace.kernels
    if len(gpus) < len(active):
        kernels = selected(kernels, gpus, None)
    anchor = kernels["start_ns"].min()
    anchor_ns = int(anchor) if isinstance(anchor, int) else None
    window_ns = _window(options, anchor_ns)
    if window_ns is not None:
        kernels = selected(kernels, gpus, window_ns)
        if not kernels.height:
            raise UsageError(
                f"no kernel starts in the window {options.window}",
                hint="the window is in seconds from the first kernel; nsysroof info shows its span",
                slug="empty-window",
                where="--window",
            )
    return Selection(
        gpus=gpus,
        devices=[device for device in trace.gpus if device.gpu in gpus],
        kernels=kernels,
        copies=selected(trace.copies, gpus, window_ns),
        window_ns=window_ns,
        anchor_ns=anchor_ns,
    )


def _wanted(devices: tuple[int, ...], active: list[int], kernels: pl.DataFrame) -> list[int]:
    if not devices:
        return active
    missing = sorted(set(devices) - set(active))
    if missing:
        counts = dict(sorted(kernels.group_by("gpu").len().iter_rows()))
        told = ", ".join(f"{gpu}: {counts.get(gpu, 0):,} kernels" for gpu in active) or "none"
        raise UsageError(
            f"no activity on GPU {', '.join(map(str, missing))} in this capture",
            hint=f"GPUs with activity are {told}",
            slug="device-missing",
            where="--device",
        )
    return sorted(set(devices))


def _window(options: Options, anchor_ns: int | None) -> tuple[int, int] | None:
    if options.window is None or anchor_ns is None:
        return None
    start, end = options.window
    return anchor_ns + round(start * 1e9), anchor_ns + round(end * 1e9)
