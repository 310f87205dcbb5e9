"""A rule to fill in for a kernel name that no rule knows."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable

import polars as pl

from nsysroof.match.classes import UNKNOWN, kernel_classes
from nsysroof.match.names import spell_names

TO_FILL_IN = "CLASS"
"""What stands where the class belongs; a file that still has it is refused, with the classes."""

_TELLS_NOTHING = re.compile(r"(^|:)(cuda_?|device_?|global_?|fwd_?|main_?)?kernel_?[0-9]*$")
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
    _, text, words = spell_names(pl.Series([name])).row(0)
    if not text:
        return None
    if words and not (_TELLS_NOTHING.search(words) and words != text):
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


def stub_file(names: Iterable[str]) -> str:
    """Return rules to fill in for several names as one TOML file, with the classes to choose from.

    Names that one rule fits have one.
    """
    stubs = dict.fromkeys(filter(None, (rule_stub(name) for name in names)))
    by_pattern = {stub.splitlines()[3]: stub for stub in reversed(stubs)}
    kept = [stub for stub in stubs if stub in set(by_pattern.values())]
    return "\n\n".join([class_comment(), *kept]) + "\n"


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
