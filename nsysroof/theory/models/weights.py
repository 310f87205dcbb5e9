"""How many parameters a model has, how many it uses per token, and what it all weighs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from nsysroof.theory.dtypes import FLOAT_BYTES, kv_bytes
from nsysroof.theory.models.decoder import lm_head
from nsysroof.theory.models.feedforward import Routing
from nsysroof.theory.models.latent import latent_token_bytes
from nsysroof.theory.models.layers import Attention, FeedForward, LatentAttention, Layer, Moe
from nsysroof.theory.models.linear import Linear, replicated_heads
from nsysroof.theory.models.spec import ModelSpec
from nsysroof.theory.models.stage import kv_format, linear_format
from nsysroof.theory.models.states import DeltaNet, Lightning, Mamba2
from nsysroof.theory.operators.gemm import split
from nsysroof.theory.operators.pairs import Mask, distinct_keys
from nsysroof.theory.workload import Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Parameter counts of a model.

    ``active`` is what multiplies per token in the layers; a decode step reads ``active_with_head``;
    vendors often quote ``active_with_embedding``.
    """

    total: int
    active: int
    active_with_head: int
    active_with_embedding: int


def count_parameters(model: ModelSpec) -> Parameters:
    """Return the parameter counts of a model.

    >>> from nsysroof.theory.models.spec import find_model
    >>> counts = count_parameters(find_model("qwen3-30b-a3b"))
    >>> round(counts.total / 1e9, 3), round(counts.active_with_head / 1e9, 3)
    (30.532, 3.042)
    """
    norm = model.hidden * (2 if model.layer_norm else 1)
    table = model.vocab * model.hidden
    total, active = norm, norm
    for layer in model.layers:
        small = _small(layer) + (layer.pre_norms + layer.post_norms) * norm
        every = sum(linear.parameters for linear in _linears(layer, model.hidden))
        total += small + every
        active += small + every - _idle_parameters(layer.ffn, model.hidden)
    # A multi-token prediction head, a vision tower and the like are no part of the decoder.
    positions = model.positions * model.hidden
    return Parameters(
        total=total + table + positions + (0 if model.tied else table),
        active=active,
        active_with_head=active + table,
        active_with_embedding=active + table + (0 if model.tied else table),
    )


def _small(layer: Layer) -> int:
    return sum(part.small_parameters for part in (layer.mixer, layer.ffn) if part is not None)


def _linears(layer: Layer, hidden: int) -> Iterator[Linear]:
    if layer.mixer is not None:
        yield from layer.mixer.linears(hidden)
    if layer.ffn is not None:
        yield from layer.ffn.linears(hidden)
    if isinstance(layer.ffn, Moe):
        yield from layer.ffn.shared_linears(hidden)


def _idle_parameters(ffn: FeedForward | None, hidden: int) -> int:
    """Return the parameters of the experts that a token does not choose."""
    if not isinstance(ffn, Moe):
        return 0
    experts = [linear for linear in ffn.linears(hidden) if linear.copies > 1]
    return sum(linear.parameters // linear.copies * (ffn.experts - ffn.top_k) for linear in experts)


def quoted_active_bytes(model: ModelSpec, workload: Workload) -> int:
    """Return the bytes of the active parameters as vendors quote them, in the workload's formats.

    What one token multiplies in the layers and the LM head, and the embedding table, of which a
    step reads a row per token only.

    >>> from nsysroof.theory.models.spec import find_model
    >>> quoted_active_bytes(find_model("qwen3-30b-a3b"), Workload.create(context=1))
    6706065408
    """
    return _every_matrix(model, workload, used_only=True)


def weight_bytes(model: ModelSpec, workload: Workload) -> int:
    """Return the bytes of the whole model's weights in the workload's formats, over all GPUs.

    Every weight counts once, whatever parallelism replicates.

    >>> from nsysroof.theory.models.spec import find_model
    >>> weight_bytes(find_model("qwen3-30b-a3b"), Workload.create(context=1))
    61064245248
    """
    return _every_matrix(model, workload, used_only=False)


def _every_matrix(model: ModelSpec, workload: Workload, *, used_only: bool) -> int:
    size = FLOAT_BYTES[model.dtype]
    norm = model.hidden * (2 if model.layer_norm else 1)
    total = (norm + model.positions * model.hidden + model.vocab * model.hidden) * size
    if not model.tied:
        total += _matrix_bytes(model, workload, lm_head(model), None)
    for index, layer in enumerate(model.layers):
        total += (_small(layer) + (layer.pre_norms + layer.post_norms) * norm) * size
        for linear in _linears(layer, model.hidden):
            used = linear
            if used_only and linear.copies > 1 and isinstance(layer.ffn, Moe):
                used = replace(linear, copies=layer.ffn.top_k)
            total += _matrix_bytes(model, workload, used, index)
    return total


def share_of_weights(model: ModelSpec, workload: Workload) -> int:
    """Return the bytes of the weights that one GPU holds, with all that is replicated on it.

    Raises:
        UsageError: The parallelism does not divide the model.

    >>> from nsysroof.theory.models.spec import find_model
    >>> model = find_model("llama-3.1-70b")
    >>> share_of_weights(model, Workload.create(context=1, tp=8)) * 8 - weight_bytes(
    ...     model, Workload.create(context=1))
    18464768
    """
    return _share_of_weights(model, _formats_and_gpus(workload))


def _formats_and_gpus(workload: Workload) -> Workload:
    """Return a workload that keeps only what weights depend on, so that they are counted once."""
    return Workload(
        contexts=(1,),
        weights=workload.weights,
        activations=workload.activations,
        tp=workload.tp,
        ep=workload.ep,
        dp=workload.dp,
    )


@lru_cache(maxsize=1024)
def _share_of_weights(model: ModelSpec, workload: Workload) -> int:
    size, tp = FLOAT_BYTES[model.dtype], workload.tp
    norm = model.hidden * (2 if model.layer_norm else 1)
    table = split(model.vocab, tp) * model.hidden
    total = (norm + model.positions * model.hidden + table) * size
    if not model.tied:
        total += _matrix_bytes(model, workload, lm_head(model, tp), None)
    for index, layer in enumerate(model.layers):
        total += (_small(layer) + (layer.pre_norms + layer.post_norms) * norm) * size
        if layer.mixer is not None:
            for linear in layer.mixer.linears(model.hidden, tp):
                total += _matrix_bytes(model, workload, linear, index)
        for linear in _feed_forward_share(layer.ffn, model.hidden, workload):
            total += _matrix_bytes(model, workload, linear, index)
    return total


def _feed_forward_share(
    ffn: FeedForward | None, hidden: int, workload: Workload
) -> tuple[Linear, ...]:
    if ffn is None:
        return ()
    if not isinstance(ffn, Moe):
        return ffn.linears(hidden, workload.tp)
    routing = Routing.of(ffn, workload)
    routed = ffn.linears(hidden, routing.tp, ep=workload.ep)
    return (*routed, *ffn.shared_linears(hidden, workload.tp))


def _matrix_bytes(model: ModelSpec, workload: Workload, linear: Linear, layer: int | None) -> int:
    fmt = linear_format(model, workload, linear, layer)
    one = fmt.weights.payload_bytes(linear.n, linear.k)
    one += fmt.weights.scale_bytes(linear.n, linear.k)
    return linear.copies * (one + (linear.n * fmt.output_bytes if linear.bias else 0))


def cache_bytes(model: ModelSpec, workload: Workload, *, per_gpu: bool = False) -> int:
    """Return the bytes of the KV cache of the workload's sequences, over all layers.

    Windowed and chunked layers keep what they can still look at; the keys of a sparse indexer are
    part of it, recurrent states are not.

    Args:
        model: The decoder.
        workload: Its sequences.
        per_gpu: What one GPU holds, with the KV heads that tensor parallelism replicates; else
            every KV head once.

    Raises:
        UsageError: Per GPU, ``tp`` does not divide the heads.

    >>> from nsysroof.theory.models.spec import find_model
    >>> model, step = find_model("qwen3-30b-a3b"), Workload.create(context=4096, tp=8)
    >>> cache_bytes(model, step), cache_bytes(model, step, per_gpu=True)
    (402653184, 100663296)
    """
    kv = kv_format(model, workload)
    tp = workload.tp if per_gpu else 1
    return sum(_layer_cache_bytes(mixer, workload, kv, tp) for mixer in model.attention_layers())


def _layer_cache_bytes(
    mixer: Attention | LatentAttention, workload: Workload, kv: str, tp: int
) -> int:
    if isinstance(mixer, LatentAttention):
        index = mixer.indexer.key_bytes if mixer.indexer else 0
        return (latent_token_bytes(mixer, kv) + index) * workload.distinct_context
    limits = [limit for limit in (mixer.window, mixer.chunk) if limit is not None]
    kept = Mask(window=min(limits, default=None))
    ends = [context - 1 for context in workload.contexts]
    tokens = distinct_keys(kept, [1] * len(ends), ends, shared_prefix=workload.shared_prefix)
    values = replicated_heads(mixer.kv_heads, tp) * (mixer.head_dim + mixer.value_dim)
    return kv_bytes(values * tokens, kv)


def state_bytes(model: ModelSpec, workload: Workload, *, per_gpu: bool = False) -> int:
    """Return the bytes of the recurrent states of the workload's sequences, over all layers.

    Args:
        model: The decoder.
        workload: Its sequences.
        per_gpu: What one GPU holds; else every state once.

    >>> from nsysroof.theory.models.spec import find_model
    >>> state_bytes(find_model("qwen3-next-80b-a3b"), Workload.create(context=4096))
    77266944
    """
    tp, dtype = workload.tp if per_gpu else 1, FLOAT_BYTES[model.dtype]
    mixers = (layer.mixer for layer in model.layers)
    kept = (
        m.state_bytes(tp, dtype) for m in mixers if isinstance(m, Mamba2 | DeltaNet | Lightning)
    )
    return workload.batch * sum(kept)
