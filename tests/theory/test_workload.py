"""A step's sequences, rows and refusals."""

from __future__ import annotations

from typing import Any

import pytest

from nsysroof.errors import UsageError
from nsysroof.theory.models.batches import split_workload
from nsysroof.theory.workload import Workload


def test_batch_repeats_one_context() -> None:
    step = Workload.create(batch=3, context=4096)
    assert step.contexts == (4096, 4096, 4096)
    assert (step.tokens, step.logit_rows, step.yielded_tokens) == (3, 3, 3.0)


def test_context_list_sets_the_batch() -> None:
    assert Workload.create(context="10,20,30").batch == 3


def test_verify_step_has_several_rows_per_sequence() -> None:
    step = Workload.create(batch=2, context=100, new_tokens=4)
    assert step.tokens == 8
    assert step.logit_rows == 8
    assert step.prefixes == (96, 96)
    assert step.yielded_tokens == 2.0


def test_prefill_of_whole_prompts_takes_every_token_as_new() -> None:
    step = Workload.create(phase="prefill", context=[512, 1024])
    assert step.queries == (512, 1024)
    assert step.prefixes == (0, 0)
    assert (step.tokens, step.logit_rows) == (1536, 2)


def test_chunk_of_a_prefill_keeps_its_prefix() -> None:
    step = Workload.create(phase="prefill", context=4096, new_tokens=512)
    assert (step.queries, step.prefixes) == ((512,), (3584,))


def test_a_mixed_step_has_one_row_of_logits_for_each_sequence() -> None:
    """A chunk of 512 behind 1024 cached tokens, beside two sequences that decode."""
    step = Workload.create(phase="prefill", context=[1536, 700, 90], query_lengths=[512, 1, 1])
    assert step.prefixes == (1024, 699, 89)
    assert (step.tokens, step.logit_rows) == (514, 3)
    halves = split_workload(step)
    assert halves is not None
    assert [half.queries for half in halves] == [(512, 1), (1,)]


def test_data_parallel_ranks_meet_only_in_shared_experts() -> None:
    assert Workload.create(batch=4, context=8, dp=2).expert_tokens == 4
    assert Workload.create(batch=4, context=8, dp=2, ep=2).expert_tokens == 8


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ({"context": 4096, "phase": "verify"}, "--phase"),
        ({"context": "4k"}, "--context"),
        ({"context": 0}, "--context"),
        ({"context": 3, "new_tokens": 4}, "--context"),
        ({"context": "1,2", "batch": 3}, "--context"),
        ({"context": 8, "batch": 2, "query_lengths": [1]}, "query_lengths"),
        ({"context": 8, "new_tokens": 1, "query_lengths": [1]}, "query_lengths"),
        ({"context": 8, "query_lengths": [9]}, "query_lengths"),
        ({"context": 8, "query_lengths": [0]}, "query_lengths"),
        ({"context": 8, "batch": 0}, "--batch"),
        ({"context": 8, "tp": 0}, "--tp"),
        ({"context": 8, "tp": 4, "ep": 3}, "--ep"),
        ({"context": 8, "experts": 0}, "--experts"),
        ({"context": 8, "expert_misses": -1}, "--expert-misses"),
    ],
)
def test_impossible_steps_are_refused(arguments: dict[str, Any], where: str) -> None:
    with pytest.raises(UsageError) as caught:
        Workload.create(**arguments)
    assert caught.value.where == where
    assert caught.value.slug == "bad-workload"
