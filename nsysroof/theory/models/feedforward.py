"""The operators of a feed-forward block in execution order: dense, routed and shared experts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nsysroof.errors import UsageError
from nsysroof.theory.cost import Cost, Operator
from nsysroof.theory.kinds import OperatorKind
from nsysroof.theory.models.layers import FeedForward, Mlp, Moe
from nsysroof.theory.models.linear import Linear
from nsysroof.theory.models.stage import Stage
from nsysroof.theory.operators.collective import all_to_all, expected_destinations
from nsysroof.theory.operators.elementwise import Activation, activation, gate
from nsysroof.theory.operators.gemm import split
from nsysroof.theory.operators.moe import (
    FORMULA,
    align,
    combine,
    expected_experts,
    fewest_experts,
    grouped_gemm,
    load_experts,
    most_experts,
    permute,
    same_group_experts,
    topk,
)
from nsysroof.theory.workload import Workload

ACTIVATION_FORMULA = (
    "read 2*T*I with a gate, else T*I; write T*I; 5 flop per output gated, 8 GELU, 2 squared ReLU"
)


def ffn_operators(stage: Stage, ffn: FeedForward) -> list[Operator]:
    """Return the operators of a layer's feed-forward block, without its norm and residual."""
    match ffn:
        case Mlp():
            return _dense(stage, ffn) + stage.all_reduce("mlp.all_reduce")
        case Moe():
            routing = Routing.of(ffn, stage.workload)
            reduced = stage.all_reduce("moe.all_reduce") if not routing.exchanges else []
            return _routed(stage, ffn, routing) + reduced


def _dense(stage: Stage, ffn: Mlp) -> list[Operator]:
    up, down = ffn.linears(stage.model.hidden, stage.workload.tp)
    return _pair(stage, up, down, "mlp.act", act=ffn.act)


def _pair(stage: Stage, up: Linear, down: Linear, role: str, *, act: Activation) -> list[Operator]:
    tokens = stage.workload.tokens
    between = stage.operator(
        role,
        OperatorKind.ACTIVATION,
        activation(tokens, down.k, kind=act, dtype=stage.dtype),
        formula=ACTIVATION_FORMULA,
        inputs={"tokens": tokens, "width": down.k, "activation": act.value},
    )
    return [*stage.matmul(up, tokens), between, *stage.matmul(down, tokens)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """How many experts and token-expert pairs one GPU sees in one layer.

    Attributes:
        experts: Distinct experts that the bound takes: the expectation, or the observed number.
        expected: Their expected number under uniform routing.
        same_groups: The same where all tokens keep the same groups of experts; None without groups.
        fewest: The least there can be.
        most: The most there can be.
        rows: Token-expert pairs on this GPU.
        tokens: Distinct tokens that reach this GPU's experts.
        tp: GPUs that split each expert.
        exchanges: Tokens travel between data-parallel ranks to their experts.
    """

    experts: float
    expected: float
    same_groups: float | None
    fewest: float
    most: float
    rows: float
    tokens: float
    tp: int
    exchanges: bool

    @classmethod
    def of(cls, ffn: Moe, workload: Workload) -> Routing:
        """Return the routing of a mixture in a workload.

        Raises:
            UsageError: ``ep`` does not divide the experts, or more are said to be observed on
                this GPU than it has.
        """
        ep, tokens = workload.ep, workload.expert_tokens
        if ffn.experts % ep:
            raise UsageError(
                f"ep {ep} does not divide {ffn.experts} experts",
                hint="give an --ep that divides the model's experts",
                slug="bad-workload",
                where="--ep",
            )
        local = ffn.experts // ep
        if workload.experts is not None and workload.experts > local:
            raise UsageError(
                f"{workload.experts:g} distinct experts on a GPU that has {local}",
                hint="--experts counts the distinct experts of one layer on one GPU",
                slug="bad-workload",
                where="--experts",
            )
        expected = expected_experts(ffn.experts, ffn.top_k, tokens, ep=ep)
        fewest = fewest_experts(ffn.experts, ffn.top_k, ep=ep)
        observed = workload.experts
        share = destinations(ffn, ep) / ep
        return cls(
            experts=expected if observed is None else observed,
            expected=expected,
            same_groups=None
            if ffn.groups == 1 or ep > 1
            else same_group_experts(
                ffn.experts, ffn.top_k, tokens, groups=ffn.groups, kept=ffn.kept_groups
            ),
            fewest=float(fewest) if observed is None else min(fewest, observed),
            most=float(most_experts(ffn.experts, ffn.top_k, tokens, ep=ep)),
            rows=tokens * ffn.top_k / ep,
            tokens=tokens * share,
            tp=workload.tp * workload.dp // ep if ep > 1 else workload.tp,
            exchanges=ep > 1 and workload.dp > 1,
        )

    @property
    def inputs(self) -> Mapping[str, int | float | str]:
        """The numbers that a reader needs to recompute the experts' cost."""
        return {
            "experts": self.experts,
            "experts_expected": self.expected,
            "experts_min": self.fewest,
            "experts_max": self.most,
            "rows": self.rows,
        }


def destinations(ffn: Moe, ep: int) -> float:
    """Return how many GPUs a token is sent to on average; 1 where all experts are on one."""
    return expected_destinations(ep, ffn.top_k, groups=ffn.groups, kept=ffn.kept_groups)


def _routed(stage: Stage, ffn: Moe, routing: Routing) -> list[Operator]:
    tokens, hidden = stage.workload.tokens, stage.model.hidden
    router, up, down = ffn.linears(hidden, routing.tp, ep=stage.workload.ep)
    width = split(ffn.intermediate, routing.tp)
    rows = round(routing.rows)
    return [
        *stage.matmul(router, tokens, kind=OperatorKind.ROUTER_GEMM),
        stage.operator(
            "moe.topk",
            OperatorKind.TOPK,
            topk(tokens, ffn.experts, ffn.top_k),
            formula="read a 4-byte score per expert, write 8 bytes per choice",
            inputs={"tokens": tokens, "experts_total": ffn.experts, "top_k": ffn.top_k},
        ),
        *_placement(stage, ffn, routing),
        *_loading(stage, up, down),
        *_expert_gemm(stage, up, routing, read_rows=min(routing.rows, routing.tokens)),
        stage.operator(
            "moe.act",
            OperatorKind.ACTIVATION,
            activation(rows, width, kind=ffn.act, dtype=stage.dtype),
            formula=ACTIVATION_FORMULA,
            inputs={"tokens": rows, "width": width, "activation": ffn.act.value},
        ),
        *_expert_gemm(stage, down, routing, read_rows=routing.rows),
        # Shared experts run beside the routed ones; both are in before the sum.
        *_shared(stage, ffn),
        _combine(stage, ffn, routing),
    ]


def _placement(stage: Stage, ffn: Moe, routing: Routing) -> list[Operator]:
    """Return what brings tokens to their experts: the exchange between ranks, sort and layout."""
    step, hidden = stage.workload, stage.model.hidden
    operators = [
        stage.operator(
            "moe.align",
            OperatorKind.MOE_ALIGN,
            align(step.tokens, ffn.top_k),
            formula="read and write a 4-byte id per token-expert pair",
            inputs={"tokens": step.tokens, "top_k": ffn.top_k},
            auxiliary=True,
        )
    ]
    if routing.exchanges:
        size = _exchange_bytes(stage, ffn)
        operators.append(
            stage.operator(
                "moe.dispatch",
                OperatorKind.ALL_TO_ALL,
                all_to_all(size, step.ep),
                dtype=stage.dtype,
                formula="link = (n-1)/n*T*h*bytes*distinct GPUs per token",
                inputs={"bytes": size, "ranks": step.ep, "link": "nvlink"},
            )
        )
    operators.append(
        stage.operator(
            "moe.permute",
            OperatorKind.MOE_PERMUTE,
            permute(routing.tokens, routing.rows / routing.tokens, hidden, dtype=stage.dtype),
            formula="read T*h, write rows*h",
            inputs={"tokens": routing.tokens, "rows": routing.rows, "hidden": hidden},
            auxiliary=True,
        )
    )
    return operators


def _exchange_bytes(stage: Stage, ffn: Moe) -> int:
    sent = stage.workload.tokens * destinations(ffn, stage.workload.ep)
    return round(sent * stage.model.hidden * stage.size)


def _loading(stage: Stage, up: Linear, down: Linear) -> list[Operator]:
    misses = stage.workload.expert_misses
    if misses is None:
        return []
    size = 0
    for linear in (up, down):
        weights = stage.linear_format(linear).weights
        size += weights.payload_bytes(linear.n, linear.k) + weights.scale_bytes(linear.n, linear.k)
    return [
        stage.operator(
            "moe.load_experts",
            OperatorKind.COPY,
            load_experts(misses, size),
            dtype=stage.dtype,
            formula="link = misses * bytes of one expert",
            inputs={"misses": misses, "expert_bytes": size, "link": "h2d"},
        )
    ]


def _expert_gemm(
    stage: Stage, linear: Linear, routing: Routing, *, read_rows: float
) -> list[Operator]:
    fmt = stage.linear_format(linear)

    def cost(experts: float) -> Cost:
        return grouped_gemm(
            routing.rows,
            linear.n,
            linear.k,
            experts=experts,
            fmt=fmt,
            read_rows=read_rows,
            bias=linear.bias,
        )

    product = stage.operator(
        linear.role,
        OperatorKind.MOE_GEMM,
        cost(routing.experts),
        min_cost=cost(routing.fewest) if routing.fewest < routing.experts else None,
        dtype=fmt.activations.peak,
        formula=FORMULA,
        inputs={
            **routing.inputs,
            "n": linear.n,
            "k": linear.k,
            "weights": fmt.weights.name,
            "activations": fmt.activations.name,
            "tp": routing.tp,
        },
    )
    return [*stage.conversion(linear, round(read_rows), fmt), product]


def _combine(stage: Stage, ffn: Moe, routing: Routing) -> Operator:
    step, hidden = stage.workload, stage.model.hidden
    cost = combine(routing.rows, step.tokens, hidden, dtype=stage.dtype)
    inputs: dict[str, int | float | str] = {
        "rows": routing.rows,
        "tokens": step.tokens,
        "hidden": hidden,
    }
    formula = "read rows*h, write T*h"
    if routing.exchanges:
        cost = replace(cost, link=all_to_all(_exchange_bytes(stage, ffn), step.ep).link)
        inputs |= {"ranks": step.ep, "link": "nvlink"}
        formula += "; link as the dispatch"
    return stage.operator(
        "moe.combine", OperatorKind.MOE_COMBINE, cost, formula=formula, inputs=inputs
    )


def _shared(stage: Stage, ffn: Moe) -> list[Operator]:
    linears = ffn.shared_linears(stage.model.hidden, stage.workload.tp)
    if not linears:
        return []
    tokens, hidden = stage.workload.tokens, stage.model.hidden
    operators = _pair(stage, linears[0], linears[1], "moe.shared.act", act=ffn.act)
    for gate_linear in linears[2:]:
        operators += stage.matmul(gate_linear, tokens)
        operators.append(
            stage.operator(
                gate_linear.role,
                OperatorKind.GATE,
                gate(tokens, hidden, gates=1, dtype=stage.dtype),
                formula="read T*h and a gate per token, write T*h",
                inputs={"tokens": tokens, "width": hidden},
                optional=True,
            )
        )
    return operators
