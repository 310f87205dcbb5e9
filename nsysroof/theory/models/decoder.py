"""A model and a workload to the operators of one step on one GPU, in execution order."""

from __future__ import annotations

from dataclasses import replace

from nsysroof.errors import UsageError
from nsysroof.theory.cost import Operator
from nsysroof.theory.kinds import OperatorKind
from nsysroof.theory.models.feedforward import ffn_operators
from nsysroof.theory.models.layers import Layer
from nsysroof.theory.models.linear import Linear
from nsysroof.theory.models.mixers import mixer_operators, mixer_prefix
from nsysroof.theory.models.spec import ModelSpec
from nsysroof.theory.models.stage import Stage
from nsysroof.theory.operators.collective import all_gather
from nsysroof.theory.operators.elementwise import cast, embedding, residual_add
from nsysroof.theory.operators.gemm import split
from nsysroof.theory.operators.sampling import argmax
from nsysroof.theory.workload import Workload


def operators(
    model: ModelSpec, workload: Workload, *, in_switch_reduction: bool = True
) -> list[Operator]:
    """Return every operator of one step on one GPU in execution order.

    Embedding, the layers, the final norm, the LM head over the rows that need logits, sampling.

    Args:
        model: The decoder.
        workload: The step.
        in_switch_reduction: Whether the switch between the GPUs adds up an all-reduce, which
            halves its traffic; the default is the bound that holds everywhere.

    Raises:
        UsageError: The workload does not fit the model, such as a ``tp`` that does not divide its
            heads.

    >>> from nsysroof.theory.models.spec import find_model
    >>> step = operators(find_model("qwen3-30b-a3b"), Workload.create(context=4096))
    >>> step[0].role, step[-1].role, sum(op.role == "moe.gate_up" for op in step)
    ('embed', 'sample', 48)
    """
    _refuse_experts_of_a_dense_model(model, workload)
    outside = Stage(model=model, workload=workload, in_switch=in_switch_reduction)
    step = _embed(outside)
    for index, layer in enumerate(model.layers):
        stage = Stage(model=model, workload=workload, layer=index, in_switch=in_switch_reduction)
        step += layer_operators(stage, layer)
    return [*step, outside.norm("final_norm"), *head_operators(outside)]


def _refuse_experts_of_a_dense_model(model: ModelSpec, workload: Workload) -> None:
    given = {
        "--experts": workload.experts is not None,
        "--expert-misses": workload.expert_misses is not None,
        "--ep": workload.ep > 1,
    }
    for option, present in given.items():
        if present and not model.is_moe:
            raise UsageError(
                f"{option} is given, and {model.name} has no experts",
                hint=f"leave {option} out, or name a mixture-of-experts model",
                slug="bad-workload",
                where=option,
            )


def layer_operators(stage: Stage, layer: Layer) -> list[Operator]:
    """Return the operators of one layer in execution order."""
    found: list[Operator] = []
    both = layer.mixer is not None and layer.ffn is not None
    if layer.mixer is not None:
        prefix = mixer_prefix(layer.mixer)
        if layer.pre_norms:
            found.append(stage.norm(f"{prefix}.norm"))
        found += mixer_operators(stage, layer.mixer)
        found += stage.all_reduce(f"{prefix}.all_reduce")
        found += _post_norm(stage, layer, prefix)
        if not (layer.parallel and both):
            found.append(_residual(stage, f"{prefix}.residual"))
    if layer.ffn is not None:
        if layer.pre_norms == 2 or (layer.pre_norms and not both):
            found.append(stage.norm("mlp.norm"))
        found += ffn_operators(stage, layer.ffn)
        found += _post_norm(stage, layer, "mlp")
        found.append(_residual(stage, "mlp.residual"))
    return found


def _post_norm(stage: Stage, layer: Layer, prefix: str) -> list[Operator]:
    if not layer.post_norms:
        return []
    # Where a block has only this norm, it is the block's norm.
    role = f"{prefix}.post_norm" if layer.pre_norms else f"{prefix}.norm"
    return [stage.norm(role)]


def _residual(stage: Stage, role: str) -> Operator:
    tokens, hidden = stage.workload.tokens, stage.model.hidden
    return stage.operator(
        role,
        OperatorKind.RESIDUAL_ADD,
        residual_add(tokens, hidden, dtype=stage.dtype),
        formula="read 2*T*h, write T*h",
        inputs={"tokens": tokens, "hidden": hidden},
        optional=True,
    )


def _embed(stage: Stage) -> list[Operator]:
    tokens, hidden = stage.workload.tokens, stage.model.hidden
    tables = 2 if stage.model.positions else 1
    found = stage.operator(
        "embed",
        OperatorKind.EMBEDDING,
        embedding(tokens, hidden, dtype=stage.dtype, tables=tables),
        formula="read T rows of h values and their ids, write T*h; never the table",
        inputs={"tokens": tokens, "hidden": hidden, "tables": tables},
    )
    # A vocabulary split over GPUs leaves each with the rows it holds; engines may keep it whole.
    reduced = [replace(op, optional=True) for op in stage.all_reduce("embed")]
    return [found, *reduced]


def lm_head(model: ModelSpec, tp: int = 1) -> Linear:
    """Return the LM head's matrix on one GPU."""
    return Linear(
        role="lm_head",
        modules=("lm_head",),
        n=split(model.vocab, tp),
        k=model.hidden,
        quantisable=model.quantisation.head and not model.tied,
    )


def head_operators(stage: Stage) -> list[Operator]:
    """Return the LM head over the rows that need logits, and what makes tokens of them."""
    model, step = stage.model, stage.workload
    rows = step.logit_rows
    found = stage.matmul(lm_head(model, step.tp), rows)
    if step.tp > 1:
        size = rows * model.vocab * stage.size
        found.append(
            stage.operator(
                "logits",
                OperatorKind.ALL_GATHER,
                all_gather(size, step.tp),
                dtype=stage.dtype,
                formula="link = (n-1)/n*R*V*bytes",
                inputs={"bytes": size, "ranks": step.tp, "link": "nvlink"},
                optional=True,
            )
        )
    found.append(
        stage.operator(
            "logits",
            OperatorKind.CAST,
            cast(rows * model.vocab, source=stage.dtype, target="fp32"),
            formula="read R*V logits, write them with 4 bytes",
            inputs={"rows": rows, "vocab": model.vocab},
            optional=True,
        )
    )
    sample = stage.operator(
        "sample",
        OperatorKind.SAMPLING,
        argmax(rows, model.vocab),
        formula="read R*V logits of 4 bytes, write R ids",
        inputs={"rows": rows, "vocab": model.vocab},
    )
    return [*found, sample]
