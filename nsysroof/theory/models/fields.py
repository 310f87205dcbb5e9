"""Reading a model configuration: named fields with their aliases, refused where missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from nsysroof.errors import UsageError
from nsysroof.theory.models.layers import Attention, FeedForward, Layer, Mlp, Moe, QkNorm
from nsysroof.theory.operators.elementwise import Activation

HIDDEN = ("hidden_size", "n_embd", "n_embed", "d_model")
LAYERS = ("num_hidden_layers", "n_layer", "num_layers")
HEADS = ("num_attention_heads", "n_head")
KV_HEADS = ("num_key_value_heads", "n_head_kv", "num_kv_heads")
INTERMEDIATE = ("intermediate_size", "ffn_dim", "n_inner", "ffn_hidden_size")
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
TOP_K = ("num_experts_per_tok", "experts_per_token", "moe_topk", "top_k_experts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What a family's reader makes of a configuration."""

    hidden: int
    vocab: int
    layers: tuple[Layer, ...]
    tied: bool
    layer_norm: bool = False
    positions: int = 0
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Fields:
    """A configuration whose fields are asked for by name."""

    config: Mapping[str, Any]

    @property
    def model_type(self) -> str:
        """The ``model_type`` field."""
        return str(self.config.get("model_type"))

    def number(self, *names: str, default: int | None = None) -> int:
        """Return the first of the named fields that is a whole number.

        Raises:
            UsageError: None is present and there is no default, or the value is no number.

        >>> Fields({"n_embd": 768}).number(*HIDDEN)
        768
        """
        for name in names:
            value = self.config.get(name)
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or value != int(value):
                raise self.unusable(name, value, "a whole number is needed")
            return int(value)
        if default is None:
            raise UsageError(
                f"the {self.model_type} configuration has no {names[0]}",
                hint=f"add {' or '.join(names)}",
                slug="unsupported-model",
                where=names[0],
            )
        return default

    def flag(self, name: str, *, default: bool) -> bool:
        """Return a boolean field."""
        value = self.config.get(name)
        return default if value is None else bool(value)

    def fraction(self, name: str, *, default: float) -> float:
        """Return a number field that may be fractional, also from ``rope_parameters``."""
        nested = self.config.get("rope_parameters")
        value = self.config.get(name)
        if value is None and isinstance(nested, Mapping):
            value = nested.get(name)
        return default if value is None else float(value)

    def sequence(self, name: str) -> list[Any] | None:
        """Return a list field, or None where it is absent."""
        value = self.config.get(name)
        return list(value) if isinstance(value, list | tuple) else None

    def unusable(self, name: str, value: object, why: str) -> UsageError:
        """Return the error for a field that cannot be used."""
        return UsageError(
            f"cannot read {name} = {value!r} of a {self.model_type} model",
            hint=why,
            slug="unsupported-model",
            where=name,
        )

    @property
    def hidden(self) -> int:
        """Width of the residual stream."""
        return self.number(*HIDDEN)

    @property
    def count(self) -> int:
        """Number of layers."""
        return self.number(*LAYERS)

    def head_dim(self, *, default: int | None = None) -> int:
        """Return the head width: the explicit field wins over hidden / heads."""
        if self.config.get("head_dim") is not None:
            return self.number("head_dim")
        return default or self.hidden // self.number(*HEADS)

    def layer_kinds(self) -> list[str] | None:
        """Return ``layer_types``, which has the last word where present.

        Raises:
            UsageError: Its length is not the number of layers.
        """
        kinds = self.sequence("layer_types")
        if kinds is not None and len(kinds) != self.count:
            raise self.unusable("layer_types", kinds, f"{self.count} entries are needed")
        return kinds


def windows(fields: Fields, *, sliding: list[bool] | None = None) -> list[int | None]:
    """Return the window of each layer: ``layer_types`` first, else the family's own pattern.

    Args:
        fields: The configuration.
        sliding: Which layers slide where ``layer_types`` is absent; None: none of them.

    >>> windows(Fields({"num_hidden_layers": 2, "sliding_window": 128,
    ...                 "layer_types": ["sliding_attention", "full_attention"]}))
    [128, None]
    """
    kinds = fields.layer_kinds()
    if kinds is not None:
        sliding = [kind == "sliding_attention" for kind in kinds]
    if sliding is None or not any(sliding):
        return [None] * fields.count
    window = fields.number("sliding_window")
    return [window if slides else None for slides in sliding]


def attention(
    fields: Fields,
    *,
    window: int | None = None,
    qkv_bias: bool = False,
    out_bias: bool = False,
    qk_norm: QkNorm = QkNorm.NONE,
    head_dim: int | None = None,
    rotary_factor: float = 1.0,
) -> Attention:
    """Return grouped-query attention from the usual field names."""
    width = fields.head_dim(default=head_dim)
    heads = fields.number(*HEADS)
    factor = fields.fraction("partial_rotary_factor", default=rotary_factor)
    return Attention(
        heads=heads,
        kv_heads=fields.number(*KV_HEADS, default=heads),
        head_dim=width,
        value_dim=width,
        rotary=int(width * factor),
        window=window,
        qkv_bias=qkv_bias,
        out_bias=out_bias,
        qk_norm=qk_norm,
    )


def mlp(
    fields: Fields,
    *,
    act: Activation = Activation.GATED,
    bias: bool = False,
    width: int | None = None,
) -> Mlp:
    """Return the dense feed-forward block from the usual field names."""
    return Mlp(
        intermediate=fields.number(*INTERMEDIATE) if width is None else width,
        act=act,
        bias=bias,
    )


def moe(
    fields: Fields,
    *,
    intermediate: int,
    act: Activation = Activation.GATED,
    bias: bool = False,
    shared: int = 0,
    shared_gate: bool = False,
) -> Moe:
    """Return the routed experts from the usual field names.

    Raises:
        UsageError: More experts are chosen than there are, or than the kept groups hold.
    """
    experts, top_k = fields.number(*EXPERTS), fields.number(*TOP_K)
    if not 1 <= top_k <= experts:
        raise fields.unusable(TOP_K[0], top_k, f"between 1 and the {experts} experts are chosen")
    limited = fields.config.get("topk_method") != "greedy"
    groups = fields.number("n_group", default=1) if limited else 1
    kept = fields.number("topk_group", default=groups) if limited else 1
    if not 1 <= kept <= groups or experts % groups or kept * experts // groups < top_k:
        raise fields.unusable(
            "topk_group", kept, f"{groups} groups of {experts} experts must leave {top_k} to choose"
        )
    return Moe(
        experts=experts,
        top_k=top_k,
        intermediate=intermediate,
        act=act,
        expert_bias=bias,
        router_bias=bias,
        shared=shared,
        shared_gate=shared_gate,
        groups=groups,
        kept_groups=kept,
    )


def sparse_ffn(fields: Fields) -> list[FeedForward]:
    """Return the blocks of a Qwen mixture: dense ones where the configuration says so."""
    experts = moe(
        fields,
        intermediate=fields.number("moe_intermediate_size"),
        shared=fields.number("shared_expert_intermediate_size", default=0),
        shared_gate=True,
    )
    dense = set(fields.sequence("mlp_only_layers") or [])
    every = fields.number("decoder_sparse_step", default=1)
    return [
        experts if index not in dense and (index + 1) % every == 0 else mlp(fields)
        for index in range(fields.count)
    ]


def family(
    fields: Fields,
    layers: list[Layer],
    *,
    tied: bool,
    layer_norm: bool = False,
    positions: int = 0,
    vocab: int | None = None,
) -> Family:
    """Return the family; ``tied`` is its class's default where the configuration is silent."""
    silent = fields.config.get("tie_word_embeddings") is None
    notes = (f"tie_word_embeddings is not given: {tied} as {fields.model_type} has it",)
    return Family(
        hidden=fields.hidden,
        vocab=fields.number("vocab_size", default=vocab),
        layers=tuple(layers),
        tied=fields.flag("tie_word_embeddings", default=tied),
        layer_norm=layer_norm,
        positions=positions,
        notes=notes if silent else (),
    )
