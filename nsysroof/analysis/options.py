"""What the user may say about a run; everything is optional, and what is not said is not guessed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from nsysroof.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The inputs of ``analyze`` and ``estimate``, as the command line names them.

    Attributes:
        model: Catalogue name, or path of a ``config.json``.
        gpu: Catalogue name, or path of a TOML file; None: the device that the trace names.
        batch: Sequences in a step.
        context: KV length of every sequence including the new tokens, or of each.
        phase: ``decode``, ``prefill`` or ``auto``: the phase with the most steps.
        new_tokens: New tokens of each sequence.
        query_lengths: New tokens of each sequence where they differ.
        weights: Weight format of the linear layers.
        kv: Format of the KV cache.
        activations: Format of the activations.
        tp: Tensor-parallel GPUs.
        ep: Expert-parallel GPUs.
        dp: Data-parallel replicas of the attention.
        experts: Distinct experts observed per layer on this GPU.
        floor_us: Time that the smallest kernel takes, µs.
        peaks: Peaks as ``KEY=VALUE`` per second, such as ``bw=3.9e12``.
        roofs: TOML file of measured roofs.
        tokens_per_step: Tokens that one step yields over all its sequences.
        shared_prefix: Cached tokens at the start that all sequences share, kept and read once.
        draft: Model that drafts tokens for this one to verify; ``mtp``: the model's own head.
        drafts: Drafted tokens per sequence and step.
        expert_misses: Experts loaded from the host per layer.
        unprofiled_step_us: Step time without the profiler, µs.
        devices: GPUs to analyse; empty: all.
        window: Seconds from the first kernel, [start, end).
        step_range: Regular expression for the NVTX ranges that are steps.
        schedule: CSV file with new tokens and contexts of each step; in place of ``batch``,
            ``context`` and ``new_tokens``.
        rules: TOML file with more kernel rules.

    Raises:
        UsageError: ``bad-regex`` where ``step_range`` is no regular expression, ``bad-workload``
            where ``unprofiled_step_us`` is not a time.
    """

    model: str | None = None
    gpu: str | None = None
    batch: int | None = None
    context: tuple[int, ...] | None = None
    phase: str = "auto"
    new_tokens: int | None = None
    query_lengths: tuple[int, ...] | None = None
    weights: str | None = None
    kv: str | None = None
    activations: str | None = None
    tp: int = 1
    ep: int = 1
    dp: int = 1
    experts: float | None = None
    floor_us: float | None = None
    peaks: tuple[str, ...] = ()
    roofs: Path | None = None
    tokens_per_step: float | None = None
    shared_prefix: int = 0
    draft: str | None = None
    drafts: int | None = None
    expert_misses: float | None = None
    unprofiled_step_us: float | None = None
    devices: tuple[int, ...] = ()
    window: tuple[float, float] | None = None
    step_range: str | None = None
    schedule: Path | None = None
    rules: Path | None = None

    def __post_init__(self) -> None:
        """Refuse what nothing could be analysed with, before a trace is read."""
        if self.step_range is not None:
            try:
                re.compile(self.step_range)
            except re.error as error:
                raise UsageError(
                    f"cannot read {self.step_range!r} as a regular expression: {error}",
                    hint="give one that the text of each step's range matches, such as '^decode'",
                    slug="bad-regex",
                    where="--step-range",
                ) from error
        if self.unprofiled_step_us is not None and self.unprofiled_step_us <= 0:
            raise UsageError(
                f"a step of {self.unprofiled_step_us:g} µs without the profiler",
                hint="give the time that a step takes without nsys, in µs",
                slug="bad-workload",
                where="--unprofiled-step-us",
            )
