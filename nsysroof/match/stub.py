"""A rule to fill in for a kernel name that no rule knows."""

from __future__ import annotations

import re
import textwrap
from collections import Counter
from collections.abc import Sequence

import polars as pl

from nsysroof.match.classes import UNKNOWN, kernel_classes
from nsysroof.match.names import spell_names

TO_FILL_IN = "CLASS"
"""What stands where the class belongs; a file that still has it is refused, with the classes."""

_TELLS_NOTHING = re.compile(r"(^|:)(cuda_?|device_?|global_?|fwd_?|main_?)?kernel_?[0-9]*$")
_ID_LINE, _MATCH_LINE = 1, 3
_TEXT_SHOWN = 80  # characters of a name that is told by its template arguments


def rule_stub(name: str) -> str | None:
    """Return a rule for ``name`` as TOML, complete but for the class; None: nothing to match.

    Its pattern fits the function's name with any other number in it, or, where that says nothing,
    the beginning of the whole name.

    >>> print(rule_stub("void house::mixTiles4<__half>(T1 *)"))
    [[rule]]
    id = "own.house.mix_tiles4"
    class = "CLASS"
    words = '^house::mix_tiles[0-9]+$'
    examples = ['void house::mixTiles4<__half>(T1 *)']
    """
    return rule_stubs([name])[0]


def rule_stubs(names: Sequence[str]) -> list[str | None]:
    """Return the rule of each name, as ``rule_stub`` does; many take little longer than one."""
    views = spell_names(pl.Series(list(names), dtype=pl.String()))
    return [_stub(*row) for row in views.iter_rows()]


def _stub(name: str, text: str, words: str) -> str | None:
    if not text:
        return None
    if words and not ("<" in text and _TELLS_NOTHING.search(words)):
        pattern = re.sub(r"[0-9]+", "[0-9]+", pl.escape_regex(words))
        match = f"words = {_quoted(f'^{pattern}$')}"
    else:
        match = f"text = {_quoted('^' + pl.escape_regex(text[:_TEXT_SHOWN]))}"
    identity = ".".join(re.findall(r"\w+", words, re.ASCII)) or "kernel"
    lines = (
        "[[rule]]",
        f'id = "own.{identity}"',
        f'class = "{TO_FILL_IN}"',
        match,
        f"examples = [{_quoted(name)}]",
    )
    return "\n".join(lines)


def stub_file(names: Sequence[str]) -> str:
    """Return rules to fill in for several names as one TOML file, with the classes to choose from.

    Names that one rule fits have one. Rules for the beginning of a name come first, the longest
    before the others, since a rule for a function's name would take what they are for.
    """
    by_match: dict[str, list[str]] = {}
    for stub in filter(None, rule_stubs(names)):
        lines = stub.splitlines()
        by_match.setdefault(lines[_MATCH_LINE], lines)
    used: Counter[str] = Counter()
    rules = []
    for match in sorted(by_match, key=lambda match: -len(match) if match.startswith("text") else 1):
        lines = by_match[match]
        identity = lines[_ID_LINE]
        used[identity] += 1
        if used[identity] > 1:
            lines[_ID_LINE] = f'{identity[:-1]}-{used[identity]}"'
        rules.append("\n".join(lines))
    return "\n\n".join([class_comment(), *rules]) + "\n"


def class_comment() -> str:
    """Return the classes that a rule may give, as comments of a TOML file."""
    classes = ", ".join(name for name in kernel_classes() if name != UNKNOWN)
    told = f"Write one of these for {TO_FILL_IN}: {classes}"
    return textwrap.fill(told, 96, initial_indent="# ", subsequent_indent="# ")


def _quoted(text: str) -> str:
    """Return a TOML string of ASCII characters: literal where it can be, else with escapes."""
    if text.isascii() and text.isprintable() and "'" not in text:
        return f"'{text}'"
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    if character.isascii() and character.isprintable():
        return character
    code = ord(character)
    return f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"
