"""The same step where an engine launches projections one by one that others fuse."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from nsysroof.theory.cost import Cost, Operator

QKV, GATE_UP = "attn.qkv_proj", "mlp.gate_up_proj"
_SHARED = "moe.shared."
SEPARABLE = (QKV, GATE_UP)
"""Roles of fused projections that engines also launch apart."""


def fused_layouts(operators: Sequence[Operator]) -> list[list[Operator]]:
    """Return the orders in which engines run shared experts.

    They come after the routed ones, before their products, or before the router.
    """
    layouts = [list(operators)]
    if any(op.role.startswith(_SHARED) for op in operators):
        layouts += [shared_first(operators, role) for role in ("moe.gate_up", "moe.router")]
    return layouts


def separate_layouts(
    operators: Sequence[Operator], *, value_first: bool = False
) -> list[list[Operator]]:
    """Return the ways in which engines launch projections apart."""
    present = {op.role for op in operators}
    choices: list[set[str]] = [{QKV, GATE_UP}, {QKV}, {GATE_UP}]
    return [
        separate(operators, roles, value_first=value_first) for roles in choices if roles <= present
    ]


def shared_first(operators: Sequence[Operator], before: str) -> list[Operator]:
    """Return the operators with the shared experts of each layer before another role of it."""
    found: list[Operator] = []
    waiting: list[Operator] = []
    for at, operator in enumerate(operators):
        if operator.role == before:
            waiting = [
                op
                for op in operators[at:]
                if op.layer == operator.layer and op.role.startswith(_SHARED)
            ]
            found += waiting
        if operator.role.startswith(_SHARED) and operator in waiting:
            continue
        found.append(operator)
    return found


def separate(
    operators: Sequence[Operator], roles: Collection[str], *, value_first: bool = False
) -> list[Operator]:
    """Return the operators with some fused projections taken apart.

    Each part reads the input again and writes its own columns; weights, scales and FLOP are
    shared out by columns, so they add up to those of the fused projection.

    Args:
        operators: The operators of one step in order.
        roles: Which of ``SEPARABLE`` to take apart.
        value_first: Whether V is projected before K, as in engines whose graph is ordered so.

    >>> from nsysroof.theory.models.decoder import operators
    >>> from nsysroof.theory.models.spec import find_model
    >>> from nsysroof.theory.workload import Workload
    >>> step = operators(find_model("llama-3.1-8b"), Workload.create(context=64))
    >>> apart = separate(step, {QKV})
    >>> [(op.role, op.inputs["n"]) for op in apart[2:5]]
    [('attn.q_proj', 4096), ('attn.k_proj', 1024), ('attn.v_proj', 1024)]
    """
    found: list[Operator] = []
    for at, operator in enumerate(operators):
        if operator.role not in roles:
            found.append(operator)
        elif operator.role == QKV:
            core = next(op for op in operators[at:] if op.role == "attn.core")
            found += _qkv(operator, core, value_first=value_first)
        else:
            half = int(operator.inputs["n"]) // 2
            found += [_part(operator, role, half) for role in ("mlp.gate_proj", "mlp.up_proj")]
    return found


def _qkv(operator: Operator, core: Operator, *, value_first: bool) -> list[Operator]:
    heads = int(core.inputs["kv_heads"])
    keys, values = heads * int(core.inputs["head_dim"]), heads * int(core.inputs["value_dim"])
    queries = int(operator.inputs["n"]) - keys - values
    columns = {"attn.q_proj": queries, "attn.k_proj": keys, "attn.v_proj": values}
    order = ["attn.q_proj", "attn.k_proj", "attn.v_proj"]
    if value_first:
        order[1:] = order[:0:-1]
    return [_part(operator, role, columns[role]) for role in order]


def _part(operator: Operator, role: str, columns: int) -> Operator:
    whole, cost = int(operator.inputs["n"]), operator.cost
    return replace(
        operator,
        role=role,
        inputs=dict(operator.inputs) | {"n": columns},
        cost=Cost(
            flop={dtype: flop * columns // whole for dtype, flop in cost.flop.items()},
            weight=cost.weight * columns // whole,
            scale=cost.scale * columns // whole,
            act_read=cost.act_read,
            act_write=cost.act_write * columns // whole,
        ),
    )
