from __future__ import annotations

import pytest

from nsysroof.match.classes import implements_of, kernel_classes, roles_of
from nsysroof.theory.kinds import OperatorKind
from nsysroof.theory.models.decoder import operators
from nsysroof.theory.models.spec import find_model
from nsysroof.theory.workload import Workload


def test_a_helper_serves_classes_that_implement_something() -> None:
    table = kernel_classes()
    for entry in table.values():
        assert (entry.serves is None) == (entry.of == []), entry.name
        for served in entry.of:
            assert table[served].implements, (entry.name, served)


@pytest.mark.parametrize(
    ("helper", "direction", "served"),
    [
        ("gemm_splitk_reduce", "previous", "gemm"),
        ("attention_combine", "previous", "attention_decode"),
        ("attention_metadata", "next", "attention_mixed"),
        ("moe_gemm_setup", "next", "moe_grouped_gemm"),
        ("quantize", "next", "gemm"),
        ("memset", "next", "gemm"),
    ],
)
def test_helpers_know_their_direction(helper: str, direction: str, served: str) -> None:
    entry = kernel_classes()[helper]
    assert entry.serves == direction
    assert served in entry.of


@pytest.mark.parametrize(
    ("klass", "first"),
    [
        ("rmsnorm_add", {"residual_add", "rms_norm"}),
        ("qk_norm_rope", {"qk_norm", "rope", "kv_write"}),
        ("allreduce_rmsnorm", {"all_reduce", "residual_add", "rms_norm"}),
        ("activation_quant", {"activation", "quantize"}),
        ("moe_grouped_gemm", {"moe_gemm"}),
    ],
)
def test_the_most_complete_fusion_comes_first(klass: str, first: set[str]) -> None:
    groups = implements_of(klass)
    assert groups[0] == first
    assert len(groups[0]) == max(map(len, groups))


def test_a_name_that_serves_both_phases_may_be_either() -> None:
    assert implements_of("attention_mixed") == (
        frozenset({"attention_decode"}),
        frozenset({"attention_prefill"}),
    )


def test_no_class_outside_language_models_implements_an_operator() -> None:
    assert not [e.name for e in kernel_classes().values() if not e.llm and (e.implements or e.of)]


@pytest.mark.parametrize(
    "model", ["llama-3.1-8b", "qwen3-30b-a3b", "deepseek-v3", "qwen3-next-80b-a3b", "glm-5"]
)
def test_every_role_of_a_model_belongs_to_a_class(model: str) -> None:
    workload = Workload.create(context=1024, tp=2)
    by_kind: dict[str, set[str]] = {kind: set() for kind in OperatorKind}
    for entry in kernel_classes().values():
        for group in entry.implements:
            for kind in group:
                by_kind[kind] |= set(roles_of(entry.name))
    for operator in operators(find_model(model), workload):
        assert operator.role in by_kind[operator.kind], (operator.kind, operator.role)


def test_a_helper_has_the_roles_of_those_it_serves() -> None:
    assert roles_of("attention_combine") == ("attn.core",)
    assert roles_of("moe_gemm_setup") == ("moe.setup",)
    assert roles_of("gemm_splitk_reduce")[0] == "attn.qkv_proj"
