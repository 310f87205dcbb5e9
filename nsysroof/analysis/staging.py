"""Copies that bring the data of a collective into its buffer, and out of it.

Collectives over symmetric memory work in a buffer of their own, so the engine copies within the
device before the kernel and after it. The operator takes as long as all three.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from nsysroof.analysis.operators import OperatorGroup
from nsysroof.timeline.activity import Activity
from nsysroof.timeline.intervals import advance

STAGED = pl.Schema(
    {
        "gpu": pl.UInt16(),
        "step": pl.UInt32(),
        "covers": pl.UInt32(),
        "group": pl.UInt32(),
        "main": pl.Boolean(),
        "role": pl.String(),
        "start_ns": pl.Int64(),
        "end_ns": pl.Int64(),
        "advance_ns": pl.Int64(),
    }
)
"""One row per copy, with the columns that kernels have; ``main`` is False."""

_LANE = ["gpu", "pid", "stream"]
_WITHIN_DEVICE = "d2d"
_PREVIOUS, _NEXT = 1, -1  # by how much a neighbour's values are shifted to stand at the copy
_PADDING = 1.25  # of the message: engines pad the hidden size to a multiple of 256 or so


def staged_copies(
    activities: pl.DataFrame,
    copies: pl.DataFrame,
    kernels: pl.DataFrame,
    groups: Sequence[OperatorGroup],
) -> pl.DataFrame:
    """Return the copies that serve a collective, schema ``STAGED``.

    Such a copy stays within the device, runs next to the collective's main kernel in its stream,
    and moves the whole message: that much, or up to a quarter more where it is padded.

    Args:
        activities: Schema ``ACTIVITIES``, of the kernels and copies given.
        copies: Schema ``COPIES``, sorted by GPU and start.
        kernels: Kernels with ``step``, ``covers``, ``group``, ``role`` and ``main``.
        groups: The operator groups.
    """
    messages = [_message_bytes(group) for group in groups]
    if not any(messages) or not (copies["kind"] == _WITHIN_DEVICE).any():
        return pl.DataFrame(schema=STAGED)
    told = kernels.select("step", "covers", "group", "role", message=_messages(kernels, messages))
    rows = _streams_that_copy(activities, copies)
    rows = rows.hstack(told.select(pl.all().gather(rows["kernel"]))).with_columns(
        advance(rows.with_columns(context=pl.lit(0)))
    )
    serves = pl.lit(None, dtype=pl.Int8)
    for shift in (_PREVIOUS, _NEXT):  # where both fit, the copy brings data for the next
        message = pl.col("message").shift(shift).over(_LANE)
        fits = pl.col("bytes").is_between(message, message * _PADDING)
        serves = pl.when(fits).then(pl.lit(shift, dtype=pl.Int8)).otherwise(serves)
    rows = rows.with_columns(serves=serves)
    found = [
        rows.with_columns(pl.col("step", "covers", "group", "role").shift(shift).over(_LANE))
        .filter(pl.col("serves") == shift)
        .with_columns(pl.lit(value=False).alias("main"))
        .select(*STAGED)
        for shift in (_PREVIOUS, _NEXT)
    ]
    return pl.concat(found).sort("gpu", "start_ns", "end_ns", "covers").cast(STAGED)


def _message_bytes(group: OperatorGroup) -> int | None:
    """Return the bytes that every rank holds of a collective, None for other operators."""
    size = group.collective.inputs.get("bytes") if group.collective else None
    return None if size is None else int(size)


def _messages(kernels: pl.DataFrame, messages: Sequence[int | None]) -> pl.Series:
    """Return the message of each kernel that is the main one of a collective."""
    found = pl.Series("message", messages, dtype=pl.Int64).gather(kernels["group"])
    return found.set(~kernels["main"].fill_null(value=False), None)


def _streams_that_copy(activities: pl.DataFrame, copies: pl.DataFrame) -> pl.DataFrame:
    """Return kernels and copies, stream by stream, of streams with copies within the device.

    ``bytes`` is null but for such copies.
    """
    copied = pl.col("activity") == int(Activity.COPY)
    shown = pl.col("activity") == int(Activity.KERNEL)
    rows = activities.filter(copied | shown).select(
        *_LANE, "start_ns", "end_ns", "activity", "kernel"
    )
    within = pl.when(pl.col("kind") == _WITHIN_DEVICE).then("bytes")
    sizes = np.full(rows.height, -1, dtype=np.int64)
    # Copies stand in one order in both frames.
    at = (rows["activity"] == int(Activity.COPY)).to_numpy()
    sizes[at] = copies.select(within.fill_null(-1)).to_series().to_numpy()
    rows = rows.with_columns(pl.Series("bytes", sizes)).with_columns(
        pl.when(pl.col("bytes") >= 0).then("bytes")
    )
    lanes = rows.filter(pl.col("bytes").is_not_null()).select(_LANE).unique()
    rows = rows.join(lanes, on=_LANE, how="semi", maintain_order="left")
    return rows.sort(*_LANE, "start_ns", "end_ns", maintain_order=True)
