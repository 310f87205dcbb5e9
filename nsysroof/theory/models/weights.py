"""How many parameters a model has, how many it uses per token, and what it all weighs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from nsysroof.theory.dtypes import FLOAT_BYTES, kv_bytes
from nsysroof.theory.models.decoder import lm_head
from nsysroof.theory.models.latent import latent_token_bytes
from nsysroof.theory.models.layers import Attention, FeedForward, LatentAttention, Layer, Moe
from nsysroof.theory.models.linear import Linear
from nsysroof.theory.models.spec import ModelSpec
from nsysroof.theory.models.stage import kv_format, linear_format
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


def weight_bytes(model: ModelSpec, workload: Workload) -> int:
    """Return the bytes of the whole model's weights in the workload's formats, over all GPUs.

    Every weight counts once, whatever parallelism replicates.

    >>> from nsysroof.theory.models.spec import find_model
    >>> weight_bytes(find_model("qwen3-30b-a3b"), Workload.create(context=1))
    61064245248
    """
    size = FLOAT_BYTES[model.dtype]
    norm = model.hidden * (2 if model.layer_norm else 1)
    total = (norm + model.positions * model.hidden + model.vocab * model.hidden) * size
    if not model.tied:
        total += _matrix_bytes(model, workload, lm_head(model), None)
    for index, layer in enumerate(model.layers):
        total += (_small(layer) + (layer.pre_norms + layer.post_norms) * norm) * size
        for linear in _linears(layer, model.hidden):
            total += _matrix_bytes(model, workload, linear, index)
    return total


def _matrix_bytes(model: ModelSpec, workload: Workload, linear: Linear, layer: int | None) -> int:
    fmt = linear_format(model, workload, linear, layer)
    one = fmt.weights.payload_bytes(linear.n, linear.k)
    one += fmt.weights.scale_bytes(linear.n, linear.k)
    return linear.copies * (one + (linear.n * fmt.output_bytes if linear.bias else 0))


def cache_bytes(model: ModelSpec, workload: Workload) -> int:
    """Return the bytes of the KV cache of the workload's sequences, over all layers.

    Windowed and chunked layers keep what they can still look at; the keys of a sparse indexer are
    part of it. KV heads count once, whatever parallelism replicates; recurrent states are not part
    of it.

    >>> from nsysroof.theory.models.spec import find_model
    >>> cache_bytes(find_model("qwen3-30b-a3b"), Workload.create(context=4096))
    402653184
    """
    kv = kv_format(model, workload)
    return sum(_layer_cache_bytes(mixer, workload, kv) for mixer in model.attention_layers())


def _layer_cache_bytes(mixer: Attention | LatentAttention, workload: Workload, kv: str) -> int:
    if isinstance(mixer, LatentAttention):
        index = mixer.indexer.key_bytes if mixer.indexer else 0
        return (latent_token_bytes(mixer, kv) + index) * workload.distinct_context
    limits = [limit for limit in (mixer.window, mixer.chunk) if limit is not None]
    kept = Mask(window=min(limits, default=None))
    ends = [context - 1 for context in workload.contexts]
    tokens = distinct_keys(kept, [1] * len(ends), ends, shared_prefix=workload.shared_prefix)
    return kv_bytes(mixer.cached_values * tokens, kv)
