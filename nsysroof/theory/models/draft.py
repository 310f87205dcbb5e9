"""What drafting costs: a draft model, or one layer of multi-token prediction, per drafted token."""

from __future__ import annotations

from dataclasses import replace

from nsysroof.theory.cost import Operator
from nsysroof.theory.models.decoder import head_operators, layer_operators, operators
from nsysroof.theory.models.linear import Linear
from nsysroof.theory.models.spec import ModelSpec, find_model
from nsysroof.theory.models.stage import Stage
from nsysroof.theory.workload import Workload

PREFIX = "draft."
OWN_HEAD = "mtp"
"""What names the model's own multi-token prediction head in place of a draft model."""


def drafting_operators(
    model: ModelSpec, draft: str, workload: Workload, drafts: int
) -> list[Operator]:
    """Return the operators that draft ``drafts`` tokens per sequence, one pass for each.

    Args:
        model: The model that verifies them.
        draft: Catalogue name or ``config.json`` of the draft model, or ``mtp``.
        workload: The verifying step; the drafts see its contexts, one new token at a time.
        drafts: Drafted tokens per sequence.

    Raises:
        UsageError: The draft model is not known, or the workload does not fit it.

    >>> from nsysroof.theory.models.spec import find_model
    >>> step = Workload.create(context=4096, new_tokens=3)
    >>> found = drafting_operators(find_model("qwen3-8b"), "qwen3-0.6b", step, 2)
    >>> sum(op.role == "draft.lm_head" for op in found)
    2
    """
    one_token = replace(workload, phase="decode", new_tokens=1, tokens_per_step=None)
    if draft == OWN_HEAD:
        return drafts * prediction_operators(model, one_token)
    own_formats = replace(one_token, weights=None, kv=None, activations=None)
    return drafts * draft_operators(find_model(draft), own_formats)


def draft_operators(model: ModelSpec, workload: Workload) -> list[Operator]:
    """Return the operators of one step of a draft model, their roles told apart by a prefix.

    >>> from nsysroof.theory.models.spec import find_model
    >>> step = draft_operators(find_model("qwen3-0.6b"), Workload.create(context=4096))
    >>> step[1].role
    'draft.attn.norm'
    """
    return [_draft(op) for op in operators(model, workload)]


def prediction_operators(model: ModelSpec, workload: Workload) -> list[Operator]:
    """Return the operators of a multi-token prediction head that drafts one token per sequence.

    The hidden state and the embedding of the last token, each normed, are projected from 2h to h;
    one layer like the model's last follows, and the LM head. With several drafted tokens it runs
    once for each.

    Raises:
        UsageError: The workload does not fit the model.

    >>> from nsysroof.theory.models.spec import find_model
    >>> step = prediction_operators(find_model("deepseek-v3"), Workload.create(context=4096))
    >>> sum(op.cost.weight for op in step if op.role == "draft.eh_proj")
    205520896
    """
    stage = Stage(model=model, workload=workload, layer=len(model.layers))
    enter = Linear(
        role="eh_proj", modules=("eh_proj",), n=model.hidden, k=2 * model.hidden, quantisable=False
    )
    outside = replace(stage, layer=None)
    found = [
        stage.norm("embed_norm"),
        stage.norm("hidden_norm"),
        *stage.matmul(enter, workload.tokens),
        *layer_operators(stage, model.layers[-1]),
        outside.norm("final_norm"),
        *head_operators(outside),
    ]
    return [_draft(op) for op in found]


def _draft(operator: Operator) -> Operator:
    return replace(operator, role=f"{PREFIX}{operator.role}")
