"""The rule that is offered for an unknown name: it loads, fits that name, and no more than it."""

from __future__ import annotations

import re
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from nsysroof.errors import InputError
from nsysroof.match.rules import RuleSet, load_rules
from nsysroof.match.stub import TO_FILL_IN, rule_stub, stub_file


def loaded(file: str, klass: str) -> RuleSet:
    """Fill the class in, as a user does, and load the file."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "own.toml"
        path.write_text(file.replace(f'class = "{TO_FILL_IN}"', f'class = "{klass}"'))
        return load_rules(path)


@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("house_kernel", "words = '^house_kernel$'"),
        # The next version has another number.
        ("void ns::fusedHouse2Kernel<(int)8>(T2 *)", "words = '^ns::fused_house[0-9]+_kernel$'"),
        # A function called kernel says nothing: what counts is what it is made of.
        (
            "void kernel<house::Mixer<float>>(T1 *)",
            r"text = '^kernel<house::Mixer<float>>\(T1\*\)'",
        ),
    ],
)
def test_the_pattern_is_the_function_s_name(name: str, match: str) -> None:
    stub = rule_stub(name)
    assert stub is not None
    assert stub.splitlines()[3] == match


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60))
def test_any_name_has_a_rule_that_loads_and_fits_it(name: str) -> None:
    stub = rule_stub(name)
    assume(stub is not None)
    assert stub is not None
    assert loaded(stub, "rope").classify(name).klass == "rope"


PIECES = st.sampled_from(["kernel", "Kernel", "house", "<int>", "<", "::", "(T1 *)", "2", "_", "³"])


@given(st.lists(st.lists(PIECES, min_size=1, max_size=6).map("".join), max_size=5))
def test_any_names_together_make_a_file_that_loads_and_fits_each(names: list[str]) -> None:
    file = stub_file(names)
    assume("[[rule]]" in file)
    rules = loaded(file, "rope")
    assert {rules.classify(name).klass for name in names} == {"rope"}
    identities = re.findall(r"^id = .*$", file, re.MULTILINE)
    assert len(set(identities)) == len(identities)


@pytest.mark.parametrize("name", ["", " ", "\n"])
def test_there_is_none_for_a_name_without_anything_to_match(name: str) -> None:
    assert rule_stub(name) is None


def test_several_names_make_one_file_and_names_of_one_pattern_one_rule() -> None:
    names = ["house_v1", "house_v2", "garden<int>", "garden<float>"]
    file = stub_file(names)
    assert file.count("[[rule]]") == 2
    rules = loaded(file, "scan")
    assert [rules.classify(name).klass for name in names] == ["scan"] * 4
    assert rules.classify("house_of_cards").klass == "unknown"


def test_a_file_that_is_not_filled_in_is_refused_with_the_classes_to_choose_from() -> None:
    with pytest.raises(InputError) as raised:
        loaded(stub_file(["house_kernel"]), TO_FILL_IN)
    assert raised.value.slug == "bad-rule"
    assert "rmsnorm" in raised.value.hint
    commented = stub_file(["house_kernel"]).splitlines()
    assert all(line.startswith("# ") for line in commented[: commented.index("")])
    assert "attention_decode, " in stub_file([])
