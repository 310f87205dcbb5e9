"""What one step works on: its sequences, the formats it runs in and how many GPUs share it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nsysroof.errors import UsageError

PHASES = ("decode", "prefill")


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One step of one model replica.

    A count that divides work over GPUs (``tp``, ``ep``, ``dp``) makes every cost that of one GPU.

    Attributes:
        phase: ``decode`` or ``prefill``.
        contexts: KV length of each sequence including the step's new tokens. With data-parallel
            attention (``dp`` > 1) these are the sequences of one rank.
        new_tokens: New tokens of each sequence. None: one in decode, the whole context in prefill.
        query_lengths: New tokens of each sequence where they differ, as in a mixed step; None:
            ``new_tokens`` of each.
        weights: Weight format of the linear layers that quantisation covers; None: as the model's
            configuration says.
        kv: Format of the KV cache; None: the configuration's, else the model's dtype.
        activations: Format of the inputs of the linear layers; None: what the weight format
            computes in.
        tp: Tensor-parallel GPUs.
        ep: GPUs that share the experts. With ``ep`` > 1 the tokens of all ``dp`` ranks meet in the
            experts, and ``tp * dp / ep`` GPUs split each expert.
        dp: Data-parallel attention ranks; with ``ep`` 1 they are replicas that never meet.
        experts: Distinct experts observed per layer on this GPU; None: the expectation.
        tokens_per_step: Tokens that one step yields over all its sequences; None: one per sequence
            in decode.
        expert_misses: Experts loaded from the host per layer; None: all are resident.
        shared_prefix: Cached tokens at the start that all sequences share, kept and read once.
        lora_rank: Rank of the adapters of the attention and feed-forward matrices; None: none.
        lora_adapters: Distinct adapters in the batch.

    >>> step = Workload.create(context=4096)
    >>> step.batch, step.tokens, step.phase, step.contexts
    (1, 1, 'decode', (4096,))
    """

    phase: str = "decode"
    contexts: tuple[int, ...]
    new_tokens: int | None = None
    query_lengths: tuple[int, ...] | None = None
    weights: str | None = None
    kv: str | None = None
    activations: str | None = None
    tp: int = 1
    ep: int = 1
    dp: int = 1
    experts: float | None = None
    tokens_per_step: float | None = None
    expert_misses: float | None = None
    shared_prefix: int = 0
    lora_rank: int | None = None
    lora_adapters: int = 1

    def __post_init__(self) -> None:
        """Refuse a step that cannot exist."""
        if self.phase not in PHASES:
            raise _usage(
                f"unknown phase {self.phase!r}", f"use one of: {', '.join(PHASES)}", "--phase"
            )
        if not self.contexts:
            raise _usage("no sequence to work on", "give --batch and --context", "--context")
        self._refuse_numbers()
        shortest = min(self.contexts)
        if shortest < (self.new_tokens or 1):
            raise _usage(
                f"a context of {shortest} cannot hold {self.new_tokens or 1} new tokens",
                "a context is the KV length including the step's new tokens",
                "--context",
            )
        self._refuse_query_lengths()
        if self.shared_prefix > min(self.prefixes):
            raise _usage(
                f"a shared prefix of {self.shared_prefix} is longer than the {min(self.prefixes)} "
                "cached tokens of a sequence",
                "it is the part of every context, before the new tokens, that all have in common",
                "shared_prefix",
            )
        if self.ep > 1 and (self.tp * self.dp) % self.ep:
            raise _usage(
                f"ep {self.ep} does not divide the {self.tp * self.dp} GPUs of tp x dp",
                "give an --ep that divides tp x dp",
                "--ep",
            )

    def _refuse_query_lengths(self) -> None:
        if self.query_lengths is None:
            return
        if self.new_tokens is not None or len(self.query_lengths) != self.batch:
            raise _usage(
                f"{len(self.query_lengths)} numbers of new tokens for {self.batch} sequences",
                "give the new tokens of each sequence, or one number for all",
                "query_lengths",
            )
        if any(not 1 <= q <= s for q, s in zip(self.query_lengths, self.contexts, strict=True)):
            raise _usage(
                "a sequence has no new token, or more of them than its context holds",
                "a context is the KV length including the step's new tokens",
                "query_lengths",
            )

    def _refuse_numbers(self) -> None:
        for option, count in (("--tp", self.tp), ("--ep", self.ep), ("--dp", self.dp)):
            if count < 1:
                raise _usage(f"{option} is {count}", "give a number of GPUs, 1 or more", option)
        for option, value in (
            ("--new-tokens", self.new_tokens),
            ("--experts", self.experts),
            ("--tokens-per-step", self.tokens_per_step),
            ("lora_rank", self.lora_rank),
            ("lora_adapters", self.lora_adapters),
        ):
            if value is not None and value <= 0:
                raise _usage(f"{option} is {value}", "give a positive number", option)
        for option, value in (
            ("--expert-misses", self.expert_misses),
            ("shared_prefix", self.shared_prefix),
        ):
            if value is not None and value < 0:
                raise _usage(f"{option} is {value}", "give 0 or more", option)

    @classmethod
    def create(
        cls,
        *,
        phase: str = "decode",
        batch: int | None = None,
        context: int | str | Sequence[int],
        new_tokens: int | None = None,
        query_lengths: Sequence[int] | None = None,
        weights: str | None = None,
        kv: str | None = None,
        activations: str | None = None,
        tp: int = 1,
        ep: int = 1,
        dp: int = 1,
        experts: float | None = None,
        tokens_per_step: float | None = None,
        expert_misses: float | None = None,
        shared_prefix: int = 0,
        lora_rank: int | None = None,
        lora_adapters: int = 1,
    ) -> Workload:
        """Return a workload from a batch and one context, or from a list of contexts.

        Args:
            phase: ``decode`` or ``prefill``.
            batch: Sequences; None: as many as contexts are given.
            context: One KV length for all sequences, or one for each (``"100,200"`` or a list).
            new_tokens: New tokens of each sequence.
            query_lengths: New tokens of each sequence where they differ.
            weights: Weight format.
            kv: KV-cache format.
            activations: Input format of the linear layers.
            tp: Tensor-parallel GPUs.
            ep: Expert-parallel GPUs.
            dp: Data-parallel attention ranks.
            experts: Distinct experts observed per layer.
            tokens_per_step: Tokens that one step yields.
            expert_misses: Experts loaded from the host per layer.
            shared_prefix: Cached tokens at the start that all sequences share.
            lora_rank: Rank of the adapters.
            lora_adapters: Distinct adapters in the batch.

        Raises:
            UsageError: The values do not make a step.

        >>> Workload.create(context="100,200", batch=2).contexts
        (100, 200)
        >>> Workload.create(phase="prefill", context=512, new_tokens=128).queries
        (128,)
        """
        lengths = parse_contexts(context)
        if batch is not None and batch < 1:
            raise _usage(f"--batch is {batch}", "give 1 or more sequences", "--batch")
        if len(lengths) == 1:
            lengths = lengths * (batch or 1)
        elif batch is not None and batch != len(lengths):
            raise _usage(
                f"{len(lengths)} contexts for a batch of {batch}",
                "give one context for all sequences, or one for each",
                "--context",
            )
        return cls(
            phase=phase,
            contexts=lengths,
            new_tokens=new_tokens,
            query_lengths=None if query_lengths is None else tuple(query_lengths),
            weights=weights,
            kv=kv,
            activations=activations,
            tp=tp,
            ep=ep,
            dp=dp,
            experts=experts,
            tokens_per_step=tokens_per_step,
            expert_misses=expert_misses,
            shared_prefix=shared_prefix,
            lora_rank=lora_rank,
            lora_adapters=lora_adapters,
        )

    @property
    def batch(self) -> int:
        """Sequences of the step."""
        return len(self.contexts)

    @property
    def queries(self) -> tuple[int, ...]:
        """New tokens of each sequence."""
        if self.query_lengths is not None:
            return self.query_lengths
        if self.new_tokens is not None:
            return (self.new_tokens,) * self.batch
        return self.contexts if self.phase == "prefill" else (1,) * self.batch

    @property
    def prefixes(self) -> tuple[int, ...]:
        """Tokens of each sequence that were in the cache before the step."""
        return tuple(s - q for s, q in zip(self.contexts, self.queries, strict=True))

    @property
    def tokens(self) -> int:
        """Rows of every matrix of the step: new tokens over all sequences."""
        return sum(self.queries)

    @property
    def distinct_context(self) -> int:
        """Tokens in the cache over all sequences, a shared prefix once."""
        return sum(self.contexts) - (self.batch - 1) * self.shared_prefix

    @property
    def logit_rows(self) -> int:
        """Rows that need logits: every new token in decode, the last one of a prompt in prefill."""
        return self.tokens if self.phase == "decode" else self.batch

    @property
    def expert_tokens(self) -> int:
        """Tokens that are routed together: those of all ranks where experts are shared."""
        return self.tokens * (self.dp if self.ep > 1 else 1)

    @property
    def yielded_tokens(self) -> float:
        """Tokens that the step produces, for a rate."""
        if self.tokens_per_step is not None:
            return self.tokens_per_step
        return float(self.batch if self.phase == "decode" else self.tokens)


def parse_contexts(context: int | str | Sequence[int]) -> tuple[int, ...]:
    """Return the KV lengths that an option or an argument spells.

    Raises:
        UsageError: Not a list of positive integers.

    >>> parse_contexts("4096"), parse_contexts([1, 2])
    ((4096,), (1, 2))
    """
    lengths: tuple[int, ...]
    if isinstance(context, int):
        lengths = (context,)
    elif isinstance(context, str):
        try:
            lengths = tuple(int(part) for part in context.split(","))
        except ValueError:
            raise _usage(
                f"cannot read {context!r} as context lengths",
                "give one length, or one per sequence: 4096 or 512,1024",
                "--context",
            ) from None
    else:
        lengths = tuple(context)
    if any(length < 1 for length in lengths):
        raise _usage(f"a context of {min(lengths)}", "give lengths of 1 or more", "--context")
    return lengths


def _usage(message: str, hint: str, option: str) -> UsageError:
    return UsageError(message, hint=hint, slug="bad-workload", where=option)
