"""From a kernel's name to its class, its attributes and the operators it may implement.

The first rule that matches wins, in the order of the files and of the rules in them; a user's
file comes before the built-in ones. Distinct names are matched together, rule by rule over whole
columns, so that many names cost little more than one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import polars as pl

from nsysroof.errors import InputError
from nsysroof.match.attributes import DECODERS, decode_types
from nsysroof.match.classes import (
    UNKNOWN,
    KernelClassEntry,
    implements_of,
    kernel_classes,
    roles_of_kinds,
)
from nsysroof.match.dtype_names import Attribute
from nsysroof.match.names import spell_names
from nsysroof.match.rulefile import BUILT_IN, Rule, RuleFile, read_rule_file, read_table
from nsysroof.theory.kinds import OperatorKind

CLASSIFIED = pl.Schema({"name": pl.String(), "class": pl.String(), "rule": pl.String()})
"""One row per name given; ``rule`` is null and ``class`` ``unknown`` where no rule matches."""

_Rows: TypeAlias = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelClass:
    """What a kernel's name tells.

    Attributes:
        name: The name as given.
        klass: Its class, one of ``kernel_classes()``; ``unknown`` where no rule matches.
        rule: Id of the rule that matched, or None.
        attributes: Decoded facts such as dtype, tile, split_k, head_dim, phase.
        implements: Sets of operator kinds of one launch, most complete first.
        parts: Operator kinds that it is one of several steps of.
    """

    name: str
    klass: str
    rule: str | None
    attributes: MappingProxyType[str, Attribute] = field(default_factory=lambda: _NO_ATTRIBUTES)
    implements: tuple[frozenset[str], ...] = ()
    parts: frozenset[str] = frozenset()

    @property
    def roles(self) -> tuple[str, ...]:
        """The roles that such a kernel may have, in the order of the class table."""
        return roles_of_kinds(self.klass, self.implements)

    @property
    def entry(self) -> KernelClassEntry:
        """The class's row of the table: its meaning, and whom it serves."""
        return kernel_classes()[self.klass]


_NO_ATTRIBUTES: MappingProxyType[str, Attribute] = MappingProxyType({})


class RuleSet:
    """Rules in the order in which they are tried.

    >>> rules = load_rules()
    >>> rules.classify("nvjet_tst_64x8_64x16_4x1_v_bz_splitK_TNT").klass
    'gemm'
    >>> rules.classify("a name nobody gave").klass
    'unknown'
    """

    def __init__(self, files: Sequence[RuleFile]) -> None:
        """Take files in order; ``load_rules`` reads and checks them."""
        self.rules: tuple[Rule, ...] = tuple(rule for file in files for rule in file.rule)
        self._files = tuple(_Matcher(file, first=_first(files, n)) for n, file in enumerate(files))

    def classify(self, name: str) -> KernelClass:
        """Return what one name tells; never raises on any text."""
        return self.classify_each([name])[0]

    def classify_each(self, names: Sequence[str]) -> list[KernelClass]:
        """Return what each name tells, in input order."""
        views = spell_names(pl.Series(list(names), dtype=pl.String()))
        matched = self._match(views).tolist()
        texts = views["text"].to_list()
        return [
            self._describe(name, text, rule)
            for name, text, rule in zip(names, texts, matched, strict=True)
        ]

    def classify_many(self, names: Sequence[str] | pl.Series) -> pl.DataFrame:
        """Return name, class and rule of each name, in input order (``CLASSIFIED``).

        Only what the class needs is computed: use ``classify_each`` for attributes.
        """
        series = names if isinstance(names, pl.Series) else pl.Series(list(names))
        series = series.cast(pl.String()).rename("name")
        matched = self._match(spell_names(series))
        found = pl.Series("i", matched)
        classes = pl.Series([rule.klass for rule in self.rules] + [UNKNOWN], dtype=pl.String())
        ids = pl.Series([rule.id for rule in self.rules] + [None], dtype=pl.String())
        # The row of "no rule" is the last one: index -1 counted from the end.
        index = pl.select(pl.when(found < 0).then(len(self.rules)).otherwise(found)).to_series()
        columns = [series, classes.gather(index).rename("class"), ids.gather(index).rename("rule")]
        return pl.DataFrame(columns, schema=CLASSIFIED)

    def _match(self, views: pl.DataFrame) -> _Rows:
        """Return the index of the first rule that matches each row, -1 where none does."""
        matched = np.full(views.height, -1, dtype=np.int32)
        pending = views.select("text", "words").with_row_index("row")
        for file in self._files:
            if pending.is_empty():
                break
            file.match(pending, matched)
            pending = pending.filter(pl.Series(matched[pending["row"].to_numpy()] < 0))
        return matched

    def _describe(self, name: str, text: str, index: int) -> KernelClass:
        if index < 0:
            return KernelClass(name=name, klass=UNKNOWN, rule=None)
        rule = self.rules[index]
        attributes = decode_types(text) | dict(rule.attributes)
        if rule.decode is not None:
            attributes |= DECODERS[rule.decode](text)
        implements = _implements(rule)
        if attributes.get("fused_activation") is not None:
            implements = _with_activation(implements)
        return KernelClass(
            name=name,
            klass=rule.klass,
            rule=rule.id,
            attributes=MappingProxyType({k: v for k, v in attributes.items() if v is not None}),
            implements=implements,
            parts=frozenset(map(str, rule.parts)),
        )


class _Matcher:
    """The rules of one file behind one pattern that most names fail at once."""

    def __init__(self, file: RuleFile, *, first: int) -> None:
        self.rules = file.rule
        self.first = first
        self._words = _any_of([rule.words for rule in file.rule if rule.words is not None])
        self._text = _any_of([str(rule.text) for rule in file.rule if rule.words is None])

    def match(self, pending: pl.DataFrame, matched: _Rows) -> None:
        """Write the index of the first matching rule of this file into ``matched``."""
        gate = pending["words"].str.contains(self._words)
        if self._text:
            gate |= pending["text"].str.contains(self._text)
        rows = pending.filter(gate)
        for number, rule in enumerate(self.rules):
            if rows.is_empty():
                return
            hit = _hits(rule, rows)
            if hit.any():
                matched[rows["row"].filter(hit).to_numpy()] = self.first + number
                rows = rows.filter(~hit)


def _hits(rule: Rule, rows: pl.DataFrame) -> pl.Series:
    if rule.words is None:
        return rows["text"].str.contains(str(rule.text))
    hit = rows["words"].str.contains(rule.words)
    if rule.text is not None and hit.any():
        hit &= rows["text"].str.contains(rule.text)
    return hit


def _any_of(patterns: list[str]) -> str:
    # An empty alternation would match everything, so a file without such rules matches nothing.
    return "|".join(f"(?:{pattern})" for pattern in patterns) or r"[^\s\S]"


def _first(files: Sequence[RuleFile], number: int) -> int:
    return sum(len(file.rule) for file in files[:number])


def _implements(rule: Rule) -> tuple[frozenset[str], ...]:
    if rule.implements is None:
        return implements_of(rule.klass)
    return tuple(frozenset(kinds) for kinds in rule.implements)


def _with_activation(implements: tuple[frozenset[str], ...]) -> tuple[frozenset[str], ...]:
    return (implements[0] | {"activation"}, *implements) if implements else implements


def load_rules(extra: Path | None = None) -> RuleSet:
    """Return the built-in rules, those of a user's file ``extra`` before them.

    Raises:
        InputError: ``unreadable-rules`` or ``bad-rule`` where the user's file is not right; its
            examples are tried.
    """
    if extra is None:
        return _built_in()
    own = read_rule_file(extra)
    for rule in own.rule:
        check_meaning(rule, where=str(extra))
    rules = RuleSet([own, *_built_in_files()])
    _check_examples(rules, own, where=str(extra))
    return rules


def check_meaning(rule: Rule, *, where: str) -> None:
    """Raise ``bad-rule`` unless the rule's class, decoder and operator kinds exist."""
    kinds = {kind for group in rule.implements or [] for kind in group}
    checks = (
        ("class", {rule.klass}, kernel_classes().keys()),
        ("decode", {rule.decode} - {None}, DECODERS.keys()),
        ("implements", kinds, {str(kind) for kind in OperatorKind}),
    )
    for field_name, given, known in checks:
        for wrong in sorted(str(value) for value in given if value not in known):
            raise InputError(
                f"rule {rule.id!r} has {field_name} {wrong!r}, which does not exist",
                hint=f"one of: {', '.join(sorted(known))}",
                slug="bad-rule",
                where=where,
            )


def _check_examples(rules: RuleSet, own: RuleFile, *, where: str) -> None:
    wanted = [(rule.id, name, True) for rule in own.rule for name in rule.examples]
    wanted += [(rule.id, name, False) for rule in own.rule for name in rule.not_examples]
    found = rules.classify_many([name for _, name, _ in wanted])["rule"].to_list()
    for (rule, name, matches), got in zip(wanted, found, strict=True):
        if (got == rule) != matches:
            raise InputError(
                f"rule {rule!r} does not do what its examples say: {name!r} matches {got!r}",
                hint="the first rule that matches wins; change the pattern or move the rule up",
                slug="bad-rule",
                where=where,
            )


def rule_files() -> list[str]:
    """Return the names of the built-in rule files in the order in which they are tried."""
    names = [path.name for path in BUILT_IN.iterdir()]
    return sorted(name for name in names if name.endswith(".toml") and not name.startswith("_"))


@cache
def _built_in() -> RuleSet:
    return RuleSet(_built_in_files())


@cache
def _built_in_files() -> tuple[RuleFile, ...]:
    # Their patterns are checked by the tests; compiling all of them here would cost 70 ms.
    return tuple(
        read_table(BUILT_IN / name, RuleFile, slug="unreadable-rules") for name in rule_files()
    )
