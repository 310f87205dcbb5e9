"""Where operators are made: one layer of one model in one workload, and its formats."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from nsysroof.errors import UsageError
from nsysroof.theory.cost import Cost, Operator
from nsysroof.theory.dtypes import (
    FLOAT_BYTES,
    KV_BITS,
    ActivationFormat,
    WeightFormat,
    activation_format,
    weight_format,
)
from nsysroof.theory.kinds import OperatorKind
from nsysroof.theory.models.linear import Linear
from nsysroof.theory.models.spec import ModelSpec
from nsysroof.theory.operators.collective import all_reduce
from nsysroof.theory.operators.gemm import FORMULA, LinearFormat, gemm, lora, quantize
from nsysroof.theory.operators.norm import layer_norm, rms_norm
from nsysroof.theory.workload import Workload

Inputs = Mapping[str, int | float | str]

_ADAPTED = re.compile(r"(attn|mlp)\.\w+_proj")
"""Roles of the matrices that adapters are trained for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One place in the stack; ``layer`` is None outside the layers.

    ``in_switch`` says whether the switch between the GPUs adds up an all-reduce.
    """

    model: ModelSpec
    workload: Workload
    layer: int | None = None
    in_switch: bool = True

    @property
    def dtype(self) -> str:
        """Dtype of activations and of unquantised weights."""
        return self.model.dtype

    @property
    def size(self) -> int:
        """Bytes of one activation."""
        return FLOAT_BYTES[self.model.dtype]

    @property
    def kv(self) -> str:
        """Format of the KV cache."""
        return kv_format(self.model, self.workload)

    @property
    def attention_peak(self) -> str:
        """Peak key of attention: FP8 only where inputs and cache are FP8, else the dtype."""
        inputs = self.workload.activations or ""
        return "fp8" if self.kv == "fp8" and inputs.startswith("fp8") else self.dtype

    def linear_format(self, linear: Linear) -> LinearFormat:
        """Return the formats of a matrix: the options first, then the configuration."""
        return linear_format(self.model, self.workload, linear, self.layer)

    def operator(
        self,
        role: str,
        kind: OperatorKind,
        cost: Cost,
        *,
        inputs: Inputs,
        formula: str,
        dtype: str = "fp32",
        min_cost: Cost | None = None,
        optional: bool = False,
        auxiliary: bool = False,
    ) -> Operator:
        """Return an operator of this layer."""
        return Operator(
            role=role,
            kind=kind.value,
            layer=self.layer,
            cost=cost,
            min_cost=min_cost,
            dtype=dtype,
            formula=formula,
            inputs=inputs,
            optional=optional,
            auxiliary=auxiliary,
        )

    def matmul(
        self, linear: Linear, rows: int, *, kind: OperatorKind = OperatorKind.GEMM
    ) -> list[Operator]:
        """Return the product with a matrix, after the conversion of its input where it needs one."""
        fmt = self.linear_format(linear)
        product = self.operator(
            linear.role,
            kind,
            gemm(rows, linear.n, linear.k, fmt=fmt, bias=linear.bias),
            dtype=fmt.activations.peak,
            formula=FORMULA,
            inputs={
                "m": rows,
                "n": linear.n,
                "k": linear.k,
                "weights": fmt.weights.name,
                "activations": fmt.activations.name,
                "tp": self.workload.tp,
            },
        )
        return [*self.conversion(linear, rows, fmt), product, *self._adapters(linear, rows)]

    def _adapters(self, linear: Linear, rows: int) -> list[Operator]:
        """Return the low-rank update beside a product of the attention or feed-forward block."""
        rank = self.workload.lora_rank
        if rank is None or not _ADAPTED.fullmatch(linear.role):
            return []
        n, k, slices = linear.n, linear.k, len(linear.modules)
        adapters = self.workload.lora_adapters
        return [
            self.operator(
                f"{linear.role}.lora",
                OperatorKind.LORA,
                lora(rows, n, k, rank=rank, adapters=adapters, dtype=self.dtype, slices=slices),
                dtype=self.dtype,
                formula="flop = 2*m*rank*(slices*k+n); weight = adapters*rank*(slices*k+n)",
                inputs={
                    "m": rows,
                    "n": n,
                    "k": k,
                    "rank": rank,
                    "adapters": adapters,
                    "slices": slices,
                },
            )
        ]

    def conversion(self, linear: Linear, rows: int, fmt: LinearFormat) -> list[Operator]:
        """Return the conversion of a matrix's input, if its format needs one."""
        if not fmt.quantises:
            return []
        part = linear.role.split(".")[0]
        return [
            self.operator(
                f"{part}.quant",
                OperatorKind.QUANTIZE,
                quantize(rows, linear.k, source=self.dtype, target=fmt.activations),
                formula="read m*k at the dtype, write m*k at the format and its scales",
                inputs={"m": rows, "k": linear.k, "activations": fmt.activations.name},
                auxiliary=True,
            )
        ]

    def norm(self, role: str, width: int | None = None, rows: int | None = None) -> Operator:
        """Return a norm over the residual stream, or over ``width`` values per row."""
        rows = self.workload.tokens if rows is None else rows
        hidden = self.model.hidden if width is None else width
        if self.model.layer_norm:
            cost, kind = layer_norm(rows, hidden, dtype=self.dtype), OperatorKind.LAYER_NORM
        else:
            cost, kind = rms_norm(rows, hidden, dtype=self.dtype), OperatorKind.RMS_NORM
        return self.operator(
            role,
            kind,
            cost,
            formula="read T*h, write T*h, weight h; 4 flop per value (8 with mean and bias)",
            inputs={"tokens": rows, "hidden": hidden},
        )

    def all_reduce(self, role: str) -> list[Operator]:
        """Return the all-reduce of the residual stream over the tensor-parallel GPUs."""
        if self.workload.tp == 1:
            return []
        size = self.workload.tokens * self.model.hidden * self.size
        return [
            self.operator(
                role,
                OperatorKind.ALL_REDUCE,
                all_reduce(size, self.workload.tp, in_switch=self.in_switch),
                dtype=self.dtype,
                formula="link = S where the switch adds up, else 2*(n-1)/n*S; S = T*h*bytes",
                inputs={"bytes": size, "ranks": self.workload.tp, "link": "nvlink"},
            )
        ]


def linear_format(
    model: ModelSpec, workload: Workload, linear: Linear, layer: int | None
) -> LinearFormat:
    """Return the formats of one matrix: the workload's options first, then the configuration.

    Raises:
        UsageError: Quantised inputs are asked for with weights that are not quantised.
    """
    quant, plain = model.quantisation, model.dtype
    where = "" if layer is None else f"model.layers.{layer}."
    modules = [f"{where}{name}" for m in linear.modules for name in _spellings(m)]
    covered = linear.quantisable and all(quant.covers(module) for module in modules)
    weights = weight_format(plain)
    activations: str | None = plain
    if covered and workload.weights is not None:
        weights = weight_format(workload.weights)
        activations = workload.activations or weights.activations
    elif covered and quant.weights is not None:
        weights = quant.weights
        configured = plain if quant.weight_only else quant.activations or weights.activations
        activations = workload.activations or configured
    inputs = activation_format(activations or plain)
    _refuse_mixed(weights, inputs)
    return LinearFormat(weights=weights, activations=inputs, output=plain)


def _spellings(module: str) -> tuple[str, ...]:
    """Return the names that checkpoints give a module.

    >>> _spellings("mlp.experts.0.up_proj")
    ('mlp.experts.0.up_proj', 'mixer.experts.0.up_proj')
    """
    single = module.replace("shared_experts.", "shared_expert.")
    mixer = re.sub(r"^(mlp|self_attn)\.", "mixer.", module)
    return tuple(dict.fromkeys((module, single, mixer)))


def _refuse_mixed(weights: WeightFormat, inputs: ActivationFormat) -> None:
    if weights.name in FLOAT_BYTES and inputs.name not in FLOAT_BYTES:
        raise UsageError(
            f"{inputs.name} activations need quantised weights, these are {weights.name}",
            hint="give --weights in a quantised format too",
            slug="bad-workload",
            where="--activations",
        )


def kv_format(model: ModelSpec, workload: Workload) -> str:
    """Return the KV-cache format: the option, the configuration, or the model's dtype.

    Raises:
        UsageError: The option names no KV format.
    """
    chosen = workload.kv or model.quantisation.kv or model.dtype
    if chosen not in KV_BITS:
        raise UsageError(
            f"unknown KV-cache format {chosen!r}",
            hint=f"use one of: {', '.join(KV_BITS)}",
            slug="unknown-format",
            where="--kv",
        )
    return chosen
