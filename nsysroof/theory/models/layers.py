"""The parts a decoder layer is made of: their weight matrices and their other parameters.

Widths are those of one GPU once ``tp`` is given; ``tp=1`` describes the whole layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from nsysroof.errors import UsageError
from nsysroof.theory.operators.gemm import split


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """One weight matrix ``n x k``, or ``copies`` of them.

    Attributes:
        role: Role of the operator that multiplies by it.
        modules: Names of the checkpoint's modules that it is made of, below the layer.
        n: Output width.
        k: Reduction width.
        bias: Whether ``n`` biases are added.
        copies: How many such matrices there are (experts).
        quantisable: Whether quantisation ever covers it; routers and gates stay as they are.
    """

    role: str
    modules: tuple[str, ...]
    n: int
    k: int
    bias: bool = False
    copies: int = 1
    quantisable: bool = True

    @property
    def parameters(self) -> int:
        """Numbers in all copies."""
        return self.copies * (self.n * self.k + (self.n if self.bias else 0))


class QkNorm(StrEnum):
    """How queries and keys are normalised."""

    NONE = "none"
    HEAD = "head"  # one weight per head dimension
    FULL = "full"  # one weight per value of all heads
    PLAIN = "plain"  # without weights


def shared_heads(heads: int, tp: int, *, what: str = "attention heads") -> int:
    """Return the heads of one GPU.

    Raises:
        UsageError: ``tp`` does not divide them.

    >>> shared_heads(32, 4)
    8
    """
    if heads % tp:
        raise UsageError(
            f"tp {tp} does not divide {heads} {what}",
            hint="give a --tp that divides the model's heads",
            slug="bad-workload",
            where="--tp",
        )
    return heads // tp


def replicated_heads(heads: int, tp: int) -> int:
    """Return the KV heads of one GPU: at least one, replicated where ``tp`` exceeds them.

    Raises:
        UsageError: Neither divides the other.

    >>> replicated_heads(4, 8), replicated_heads(8, 2)
    (1, 4)
    """
    if tp % heads == 0:
        return 1
    return shared_heads(heads, tp, what="KV heads")


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

    @property
    def cached_values(self) -> int:
        """Numbers cached per token over all GPUs."""
        return self.kv_heads * (self.head_dim + self.value_dim)


@dataclass(frozen=True, slots=True, kw_only=True)
class Indexer:
    """A sparse attention's scorer: it picks ``topk`` keys for each query."""

    heads: int
    head_dim: int
    topk: int


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Mamba2:
    """A Mamba-2 block with a state of heads x head_dim x state values."""

    heads: int
    head_dim: int
    groups: int
    state: int
    conv: int
    state_dtype: str = "fp32"

    def inner(self, tp: int = 1) -> int:
        """Return the channels of one GPU."""
        return shared_heads(self.heads, tp, what="state heads") * self.head_dim

    def channels(self, tp: int = 1) -> int:
        """Return the convolved channels of one GPU."""
        return self.inner(tp) + 2 * replicated_heads(self.groups, tp) * self.state

    def linears(self, hidden: int, tp: int = 1) -> tuple[Linear, ...]:
        """Return the input projection (gate, channels, steps) and the output projection."""
        wide = self.inner(tp) + self.channels(tp) + self.heads // tp
        return (
            Linear(role="ssm.in_proj", modules=("mixer.in_proj",), n=wide, k=hidden),
            Linear(role="ssm.out_proj", modules=("mixer.out_proj",), n=hidden, k=self.inner(tp)),
        )

    @property
    def small_parameters(self) -> int:
        """Convolution with bias, step and decay per head, gated norm."""
        return (self.conv + 1) * self.channels() + 3 * self.heads + self.inner()

    @property
    def cached_values(self) -> int:
        """Nothing grows with the context."""
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaNet:
    """A gated delta-rule block with a key_dim x value_dim state per value head."""

    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv: int
    state_dtype: str = "fp32"

    def keys(self, tp: int = 1) -> int:
        """Return the key width of one GPU."""
        return shared_heads(self.key_heads, tp, what="key heads") * self.key_dim

    def values(self, tp: int = 1) -> int:
        """Return the value width of one GPU."""
        return shared_heads(self.value_heads, tp, what="value heads") * self.value_dim

    def linears(self, hidden: int, tp: int = 1) -> tuple[Linear, ...]:
        """Return the projections to q, k, v and gate, to step and decay, and back."""
        wide = 2 * self.keys(tp) + 2 * self.values(tp)
        steps = 2 * self.value_heads // tp
        return (
            Linear(role="ssm.in_proj", modules=("linear_attn.in_proj_qkvz",), n=wide, k=hidden),
            Linear(role="ssm.steps_proj", modules=("linear_attn.in_proj_ba",), n=steps, k=hidden),
            Linear(
                role="ssm.out_proj",
                modules=("linear_attn.out_proj",),
                n=hidden,
                k=self.values(tp),
            ),
        )

    @property
    def small_parameters(self) -> int:
        """Convolution, step and decay per head, gated norm."""
        return self.conv * (2 * self.keys() + self.values()) + 2 * self.value_heads + self.value_dim

    @property
    def cached_values(self) -> int:
        """Nothing grows with the context."""
        return 0


GATED: tuple[str, ...] = ("gate_proj", "up_proj")
PLAIN: tuple[str, ...] = ("up_proj",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mlp:
    """A dense feed-forward block of three matrices (gated) or two."""

    intermediate: int
    gated: bool = True
    bias: bool = False

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
    """Routed experts, and shared ones that every token passes through."""

    experts: int
    top_k: int
    intermediate: int
    gated: bool = True
    expert_bias: bool = False
    router_bias: bool = False
    shared: int = 0
    shared_gate: bool = False

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
        mlp = Mlp(intermediate=self.shared, gated=self.gated)
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


Mixer = Attention | LatentAttention | Mamba2 | DeltaNet
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
