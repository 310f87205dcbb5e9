from __future__ import annotations

from functools import cache

import pytest

from tests.bench.score_rules import (
    EQUIVALENT,
    NAMES,
    PAGE,
    SEQUENCES,
    Row,
    coverage_page,
    score_names,
    score_sequences,
    score_sources,
)

pytestmark = pytest.mark.skipif(
    not NAMES.exists(), reason="the survey of kernel names is not beside this checkout"
)


@cache
def names() -> list[Row]:
    return score_names()


@cache
def sequences() -> list[Row]:
    return score_sequences()


def share(rows: list[Row]) -> float:
    return sum(row.right for row in rows) / len(rows)


def test_ninety_eight_of_a_hundred_surveyed_names_get_their_operator() -> None:
    assert len(names()) > 3000
    assert share(names()) >= 0.985


def test_equivalences_excuse_few_names() -> None:
    excused = [row for row in names() if row.right and not row.exact]
    assert len(excused) <= 0.01 * len(names())
    assert all(EQUIVALENT.values())


def test_nothing_outside_language_models_is_taken_for_an_operator() -> None:
    assert [row.name for row in names() if row.false_operator] == []


@pytest.mark.parametrize(
    "library",
    ["cuBLAS nvjet", "cuBLAS legacy", "cuBLAS xmma", "NCCL", "Marlin", "FlashAttention-3"],
)
def test_libraries_with_a_grammar_are_complete(library: str) -> None:
    rows = [row for row in names() if row.library.partition(" (")[0] == library]
    assert len(rows) > 30
    assert [(row.name, row.klass) for row in rows if not row.right] == []


def test_launches_of_real_layer_sequences_get_their_operator() -> None:
    assert SEQUENCES.exists()
    assert share(sequences()) >= 0.95


def test_the_page_shows_the_rules_as_they_are() -> None:
    assert PAGE.read_text(encoding="utf-8") == coverage_page(names(), sequences(), score_sources())
