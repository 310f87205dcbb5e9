"""The parts a decoder layer is made of: their weight matrices and their other parameters.

Widths are those of one GPU once ``tp`` is given; ``tp=1`` describes the whole layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nsysroof.theory.models.linear import Linear, replicated_heads, shared_heads
from nsysroof.theory.models.states import DeltaNet, Lightning, Mamba2
from nsysroof.theory.operators.elementwise import Activation
from nsysroof.theory.operators.gemm import split


class QkNorm(StrEnum):
    """How queries and keys are normalised."""

    NONE = "none"
    HEAD = "head"  # one weight per head dimension
    FULL = "full"  # one weight per value of all heads
    PLAIN = "plain"  # without weights


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention:
    """Softmax attention with grouped KV heads.

    ``window`` limits the keys of a query, ``chunk`` keeps it inside its own chunk; ``rotary`` is
    the number of rotated values of a head, 0 for none; ``gated`` doubles the query projection.
    """

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    rotary: int
    window: int | None = None
    chunk: int | None = None
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: QkNorm = QkNorm.NONE
    sinks: bool = False
    gated: bool = False

    def linears(self, hidden: int, tp: int = 1) -> tuple[Linear, ...]:
        """Return the fused QKV projection and the output projection."""
        heads, kv = shared_heads(self.heads, tp), replicated_heads(self.kv_heads, tp)
        query = heads * self.head_dim * (2 if self.gated else 1)
        return (
            Linear(
                role="attn.qkv_proj",
                modules=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
                n=query + kv * (self.head_dim + self.value_dim),
                k=hidden,
                bias=self.qkv_bias,
            ),
            Linear(
                role="attn.o_proj",
                modules=("self_attn.o_proj",),
                n=hidden,
                k=heads * self.value_dim,
                bias=self.out_bias,
            ),
        )

    @property
    def small_parameters(self) -> int:
        """Norm weights and sinks."""
        norm = {
            QkNorm.NONE: 0,
            QkNorm.PLAIN: 0,
            QkNorm.HEAD: 2 * self.head_dim,
            QkNorm.FULL: (self.heads + self.kv_heads) * self.head_dim,
        }[self.qk_norm]
        return norm + (self.heads if self.sinks else 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexer:
    """A sparse attention's scorer: it picks ``topk`` keys for each query."""

    heads: int
    head_dim: int
    topk: int

    @property
    def key_bytes(self) -> int:
        """Bytes of one cached key: FP8 values and an FP32 scale."""
        return self.head_dim + 4


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention: a latent of ``kv_lora + rope`` values per token is cached."""

    heads: int
    q_lora: int | None
    kv_lora: int
    nope: int
    rope: int
    value_dim: int
    indexer: Indexer | None = None

    @property
    def query_dim(self) -> int:
        """Width of one query head."""
        return self.nope + self.rope

    def linears(self, hidden: int, tp: int = 1) -> tuple[Linear, ...]:
        """Return the projections; those into the latents are replicated on every GPU."""
        heads = shared_heads(self.heads, tp)
        latent = self.kv_lora + self.rope
        query = heads * self.query_dim
        if self.q_lora is None:
            first = [
                _attn("attn.q_proj", ("q_proj",), query, hidden),
                _attn("attn.kv_a_proj", ("kv_a_proj_with_mqa",), latent, hidden),
            ]
        else:
            names = ("q_a_proj", "kv_a_proj_with_mqa")
            first = [
                _attn("attn.qkv_a_proj", names, self.q_lora + latent, hidden),
                _attn("attn.q_b_proj", ("q_b_proj",), query, self.q_lora),
            ]
        up = heads * (self.nope + self.value_dim)
        return (
            *first,
            _attn("attn.kv_b_proj", ("kv_b_proj",), up, self.kv_lora),
            _attn("attn.o_proj", ("o_proj",), hidden, heads * self.value_dim),
            *self._index_linears(hidden),
        )

    def _index_linears(self, hidden: int) -> tuple[Linear, ...]:
        if self.indexer is None:
            return ()
        index = self.indexer
        wide = index.heads * index.head_dim
        return (
            _attn("attn.index.q_proj", ("indexer.wq_b",), wide, self.q_lora or hidden),
            _attn("attn.index.k_proj", ("indexer.wk",), index.head_dim, hidden),
            _attn("attn.index.weights_proj", ("indexer.weights_proj",), index.heads, hidden),
        )

    @property
    def small_parameters(self) -> int:
        """Norms of the latents and of the indexer's keys."""
        norms = (self.q_lora or 0) + self.kv_lora
        return norms + (2 * self.indexer.head_dim if self.indexer else 0)

    @property
    def cached_values(self) -> int:
        """Numbers cached per token, on every GPU."""
        return self.kv_lora + self.rope


def _attn(role: str, modules: tuple[str, ...], n: int, k: int) -> Linear:
    return Linear(role=role, modules=tuple(f"self_attn.{m}" for m in modules), n=n, k=k)


GATED: tuple[str, ...] = ("gate_proj", "up_proj")
PLAIN: tuple[str, ...] = ("up_proj",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlp:
    """A dense feed-forward block of three matrices (gated) or two."""

    intermediate: int
    act: Activation = Activation.GATED
    bias: bool = False

    @property
    def gated(self) -> bool:
        """Whether a gate of its own scales the values."""
        return self.act is Activation.GATED

    def linears(self, hidden: int, tp: int = 1) -> tuple[Linear, ...]:
        """Return the matrices up and down."""
        return feed_forward(self, hidden, tp, prefix="mlp", module="mlp", up_role="mlp.up_proj")

    @property
    def small_parameters(self) -> int:
        """None beside the matrices."""
        return 0


def feed_forward(
    mlp: Mlp, hidden: int, tp: int, *, prefix: str, module: str, up_role: str
) -> tuple[Linear, ...]:
    """Return the matrices of a feed-forward block under other roles and module names."""
    inner = split(mlp.intermediate, tp)
    names = GATED if mlp.gated else PLAIN
    role = f"{prefix}.gate_up_proj" if mlp.gated else up_role
    modules = tuple(f"{module}.{name}" for name in names)
    return (
        Linear(role=role, modules=modules, n=len(names) * inner, k=hidden, bias=mlp.bias),
        Linear(
            role=f"{prefix}.down_proj",
            modules=(f"{module}.down_proj",),
            n=hidden,
            k=inner,
            bias=mlp.bias,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Moe:
    """Routed experts, and shared ones that every token passes through.

    Where the experts lie in ``groups``, a token chooses among those of ``kept_groups`` only.
    """

    experts: int
    top_k: int
    intermediate: int
    act: Activation = Activation.GATED
    expert_bias: bool = False
    router_bias: bool = False
    shared: int = 0
    shared_gate: bool = False
    groups: int = 1
    kept_groups: int = 1

    @property
    def gated(self) -> bool:
        """Whether a gate of its own scales the values of an expert."""
        return self.act is Activation.GATED

    def linears(self, hidden: int, tp: int = 1, *, ep: int = 1) -> tuple[Linear, ...]:
        """Return router, experts and shared experts; ``tp`` splits each expert, ``ep`` the set."""
        inner = split(self.intermediate, tp)
        local = self.experts // ep
        names = GATED if self.gated else PLAIN
        return (
            Linear(
                role="moe.router",
                modules=("mlp.gate",),
                n=self.experts,
                k=hidden,
                bias=self.router_bias,
                quantisable=False,
            ),
            Linear(
                role="moe.gate_up",
                modules=tuple(f"mlp.experts.0.{name}" for name in names),
                n=len(names) * inner,
                k=hidden,
                bias=self.expert_bias,
                copies=local,
            ),
            Linear(
                role="moe.down",
                modules=("mlp.experts.0.down_proj",),
                n=hidden,
                k=inner,
                bias=self.expert_bias,
                copies=local,
            ),
        )

    def shared_linears(self, hidden: int, tp: int = 1) -> tuple[Linear, ...]:
        """Return the matrices of the shared experts, taken together, and their gate."""
        if not self.shared:
            return ()
        mlp = Mlp(intermediate=self.shared, act=self.act)
        matrices = feed_forward(
            mlp,
            hidden,
            tp,
            prefix="moe.shared",
            module="mlp.shared_experts",
            up_role="moe.shared.up_proj",
        )
        if not self.shared_gate:
            return matrices
        gate = Linear(role="moe.shared.gate", modules=("mlp.shared_expert_gate",), n=1, k=hidden)
        return (*matrices, gate)

    @property
    def small_parameters(self) -> int:
        """None beside the matrices."""
        return 0


Mixer = Attention | LatentAttention | Mamba2 | DeltaNet | Lightning
FeedForward = Mlp | Moe


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer:
    """One layer of the stack: a token mixer, a feed-forward block, or both.

    Attributes:
        mixer: How tokens see each other.
        ffn: What each token passes through.
        pre_norms: Norms before the blocks; one for both where they are parallel.
        post_norms: Norms after the blocks.
        parallel: Both blocks read the same input.
    """

    mixer: Mixer | None
    ffn: FeedForward | None
    pre_norms: int = 2
    post_norms: int = 0
    parallel: bool = False
