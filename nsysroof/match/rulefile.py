"""The rule files: what one rule says, and how a file of rules is read and checked."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import TypeVar

import msgspec
import polars as pl

from nsysroof.errors import InputError
from nsysroof.theory.kinds import OperatorKind

_File = TypeVar("_File", bound=msgspec.Struct)

BUILT_IN = files("nsysroof") / "data" / "rules"
"""Rule files in the order of their names, which begin with two digits; ``_``-files are tables."""


class Rule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One rule: a kernel name that fits ``words`` and ``text`` belongs to ``class``.

    Attributes:
        id: Unique name of the rule, ``library.what``.
        klass: The class, one of ``_classes.toml``; the field is called ``class`` in the file.
        words: Regular expression searched in the qualified function name in lower-case words.
        text: Regular expression searched in the whole name in its normalised spelling.
        decode: Name of a decoder that reads more attributes out of the name.
        attributes: Attributes that every such kernel has.
        implements: Sets of operator kinds of one launch, most complete first, where they are
            others than those of the class.
        parts: Operator kinds that such a kernel is one of several steps of, as in an engine that
            computes a norm by element-wise kernels.
        examples: Names that must match this rule first.
        not_examples: Names that must not match this rule.
    """

    id: str
    klass: str = msgspec.field(name="class")
    words: str | None = None
    text: str | None = None
    decode: str | None = None
    attributes: dict[str, str | int | bool] = {}
    implements: list[list[str]] | None = None
    parts: list[OperatorKind] = []
    examples: list[str]
    not_examples: list[str] = []


class RuleFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A file of rules; the first rule that matches wins."""

    rule: list[Rule]


def read_rule_file(path: Path | Traversable) -> RuleFile:
    """Return the rules of one TOML file.

    Raises:
        InputError: ``unreadable-rules`` where the file cannot be read or is not a rule file,
            ``bad-rule`` where a rule has no pattern or one that does not compile.
    """
    where = str(path)
    rules = read_table(path, RuleFile, slug="unreadable-rules")
    for rule in rules.rule:
        check_rule(rule, where=where)
    return rules


def check_rule(rule: Rule, *, where: str) -> None:
    """Raise ``bad-rule`` unless the rule has a pattern, and one that compiles."""
    patterns = [pattern for pattern in (rule.words, rule.text) if pattern is not None]
    if not patterns:
        raise InputError(
            f"rule {rule.id!r} has neither words nor text to match",
            hint="give it a regular expression in words or in text",
            slug="bad-rule",
            where=where,
        )
    for pattern in patterns:
        try:
            pl.Series([""]).str.contains(pattern)
        except pl.exceptions.ComputeError as error:
            said = [line for line in str(error).splitlines() if line.startswith("error: ")]
            reason = said[0].removeprefix("error: ") if said else "not a regular expression"
            raise InputError(
                f"rule {rule.id!r} has a pattern that does not compile: {reason}",
                hint="use linear-time syntax: no look-around, no back-references",
                slug="bad-rule",
                where=where,
            ) from error


def read_table(path: Path | Traversable, kind: type[_File], *, slug: str) -> _File:
    """Return a TOML file decoded as ``kind``.

    Raises:
        InputError: With ``slug``, naming the file and the field, where it does not fit.
    """
    try:
        return msgspec.toml.decode(path.read_bytes(), type=kind)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"not a valid table: {error}",
            hint="docs/rules.md shows every field of a rule",
            slug=slug,
            where=str(path),
        ) from error
