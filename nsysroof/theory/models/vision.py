"""The image encoder in front of a decoder: one pass per image, before its tokens join the prompt.

Attention looks both ways, within an image or within windows of it, and nothing is cached. The
encoded tokens then count as new tokens of the decoder's prefill and stay in its context.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nsysroof.theory.cost import Cost, Operator
from nsysroof.theory.dtypes import activation_format, weight_format
from nsysroof.theory.kinds import OperatorKind
from nsysroof.theory.models.fields import Fields
from nsysroof.theory.operators.attention import FORMULA as ATTENTION_FORMULA
from nsysroof.theory.operators.attention import attention
from nsysroof.theory.operators.elementwise import Activation, activation
from nsysroof.theory.operators.gemm import FORMULA, LinearFormat, gemm
from nsysroof.theory.operators.norm import rms_norm
from nsysroof.theory.operators.pairs import Mask

_GATED_ACTS = frozenset({"silu"})


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionTower:
    """A vision transformer.

    Attributes:
        layers: How many.
        hidden: Width of a patch.
        heads: Attention heads.
        intermediate: Width of the feed-forward block.
        gated: Whether that has a gate.
        patch: Values of one patch: channels x frames x side x side.
        window: Patches that attend to each other; None: all of an image.
        full_layers: Layers without the window.
        merged: Patches that become one token.
        output: Width of the decoder; None: the projector is not known.
    """

    layers: int
    hidden: int
    heads: int
    intermediate: int
    gated: bool
    patch: int
    window: int | None = None
    full_layers: frozenset[int] = frozenset()
    merged: int = 1
    output: int | None = None

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> VisionTower:
        """Return the tower of a configuration's ``vision_config``, as Qwen-VL and SigLIP name it.

        Raises:
            UsageError: A field is missing or unusable.
        """
        fields = Fields({"model_type": "vision", **config})
        hidden = fields.number("embed_dim", "hidden_size")
        act = str(config.get("hidden_act", ""))
        side = fields.number("patch_size", "spatial_patch_size")
        merge = fields.number("spatial_merge_size", default=1)
        window = config.get("window_size")
        width = int(hidden * fields.fraction("mlp_ratio", default=4.0))
        output = config.get("out_hidden_size")
        if output is None and config.get("embed_dim") is not None:
            output = config.get("hidden_size")
        return cls(
            layers=fields.number("depth", "num_hidden_layers"),
            hidden=hidden,
            heads=fields.number("num_heads", "num_attention_heads"),
            intermediate=fields.number("intermediate_size", default=width),
            gated=act in _GATED_ACTS,
            patch=fields.number("in_channels", "in_chans", "num_channels", default=3)
            * fields.number("temporal_patch_size", default=1)
            * side**2,
            window=None if window is None else (int(window) // side) ** 2,
            full_layers=frozenset(fields.sequence("fullatt_block_indexes") or ()),
            merged=merge**2,
            output=None if output is None else int(output),
        )

    def tokens(self, patches: int) -> int:
        """Return the decoder tokens of an image of so many patches."""
        return patches // self.merged


def vision_operators(
    tower: VisionTower, images: Sequence[int], *, dtype: str = "bf16"
) -> list[Operator]:
    """Return the operators that encode images, in execution order, on one GPU.

    Args:
        tower: The encoder.
        images: Patches of each image.
        dtype: Dtype of weights and activations.

    >>> small = VisionTower(layers=1, hidden=64, heads=2, intermediate=256, gated=False, patch=588)
    >>> [op.role for op in vision_operators(small, [16])][:3]
    ['vision.embed', 'vision.attn.norm', 'vision.attn.qkv_proj']
    """
    make = _Maker(
        images=tuple(images),
        tokens=sum(images),
        dtype=dtype,
        fmt=LinearFormat(
            weights=weight_format(dtype), activations=activation_format(dtype), output=dtype
        ),
    )
    found = [make.product("vision.embed", tower.hidden, tower.patch)]
    for layer in range(tower.layers):
        found += make.layer(tower, layer)
    if tower.output is not None:
        wide = tower.hidden * tower.merged
        rows = sum(tower.tokens(patches) for patches in images)
        found.append(make.product("vision.merge.up_proj", wide, wide, rows=rows))
        found.append(make.product("vision.merge.down_proj", tower.output, wide, rows=rows))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Maker:
    """Makes operators over all patches of a step."""

    images: tuple[int, ...]
    tokens: int
    dtype: str
    fmt: LinearFormat

    def layer(self, tower: VisionTower, layer: int) -> Iterator[Operator]:
        windowed = tower.window is not None and layer not in tower.full_layers
        yield self._norm("vision.attn.norm", tower.hidden, layer)
        yield self.product("vision.attn.qkv_proj", 3 * tower.hidden, tower.hidden, layer=layer)
        yield self._core(tower, tower.window if windowed else None, layer)
        yield self.product("vision.attn.o_proj", tower.hidden, tower.hidden, layer=layer)
        yield self._norm("vision.mlp.norm", tower.hidden, layer)
        act = Activation.GATED if tower.gated else Activation.GELU
        wide = tower.intermediate * (2 if tower.gated else 1)
        yield self.product("vision.mlp.up_proj", wide, tower.hidden, layer=layer)
        yield self._make(
            "vision.mlp.act",
            OperatorKind.ACTIVATION,
            activation(self.tokens, tower.intermediate, kind=act, dtype=self.dtype),
            formula="read what the product wrote, write its width",
            inputs={"tokens": self.tokens, "width": tower.intermediate, "activation": act.value},
            layer=layer,
        )
        yield self.product("vision.mlp.down_proj", tower.hidden, tower.intermediate, layer=layer)

    def product(
        self, role: str, n: int, k: int, *, rows: int | None = None, layer: int | None = None
    ) -> Operator:
        m = self.tokens if rows is None else rows
        return self._make(
            role,
            OperatorKind.GEMM,
            gemm(m, n, k, fmt=self.fmt, bias=True),
            formula=FORMULA,
            inputs={"m": m, "n": n, "k": k},
            layer=layer,
            dtype=self.dtype,
        )

    def _norm(self, role: str, hidden: int, layer: int) -> Operator:
        return self._make(
            role,
            OperatorKind.RMS_NORM,
            rms_norm(self.tokens, hidden, dtype=self.dtype),
            formula="read T*h, write T*h, weight h",
            inputs={"tokens": self.tokens, "hidden": hidden},
            layer=layer,
        )

    def _core(self, tower: VisionTower, window: int | None, layer: int) -> Operator:
        blocks = list(self.images) if window is None else list(_windows(self.images, window))
        cost = attention(
            blocks,
            [0] * len(blocks),
            heads=tower.heads,
            kv_heads=tower.heads,
            head_dim=tower.hidden // tower.heads,
            mask=Mask(causal=False),
            kv=self.dtype,
            dtype=self.dtype,
        )
        keys = Cost(flop=cost.flop, act_read=cost.act_read + cost.kv_read, act_write=cost.act_write)
        return self._make(
            "vision.attn.core",
            OperatorKind.ATTENTION_PREFILL,
            keys,
            formula=f"{ATTENTION_FORMULA}; pairs = patches^2 per image or window",
            inputs={"tokens": self.tokens, "blocks": len(blocks), "heads": tower.heads},
            layer=layer,
            dtype=self.dtype,
        )

    def _make(
        self,
        role: str,
        kind: OperatorKind,
        cost: Cost,
        *,
        formula: str,
        inputs: Mapping[str, int | float | str],
        layer: int | None,
        dtype: str = "fp32",
    ) -> Operator:
        return Operator(
            role=role,
            kind=kind.value,
            layer=layer,
            cost=cost,
            dtype=dtype,
            formula=formula,
            inputs=inputs,
        )


def _windows(images: Sequence[int], window: int) -> Iterator[int]:
    for patches in images:
        whole, rest = divmod(patches, window)
        yield from [window] * whole
        if rest:
            yield rest
