"""Names collected from the sources and shipped libraries of engines, beside the survey."""

from __future__ import annotations

from collections import Counter
from functools import cache

from nsysroof.match.classes import kernel_classes
from tests.bench.score_rules import SOURCES, Row, score_sources


@cache
def sources() -> list[Row]:
    return score_sources()


def test_each_name_is_there_once_with_an_operator_of_the_table() -> None:
    assert len(sources()) > 1200
    assert max(Counter(row.name for row in sources()).values()) == 1
    assert {row.operator for row in sources()} <= set(kernel_classes())


def test_each_name_says_where_it_is_from() -> None:
    lines = SOURCES.read_text(encoding="utf-8").splitlines()[1:]
    assert {line.count("\t") for line in lines} == {3}
    assert all("/" in line.rpartition("\t")[2] for line in lines)


def test_ninety_seven_of_a_hundred_get_their_operator() -> None:
    assert sum(row.right for row in sources()) >= 0.97 * len(sources())


def test_few_are_right_by_an_equivalence_alone() -> None:
    assert sum(row.right and not row.exact for row in sources()) <= 0.02 * len(sources())


def test_no_kernel_of_training_vision_or_recommenders_is_taken_for_an_operator() -> None:
    table = kernel_classes()
    foreign = [row for row in sources() if not table[row.operator].llm]
    assert len(foreign) > 150
    assert [(row.name, row.klass) for row in foreign if row.false_operator] == []
