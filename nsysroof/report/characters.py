"""Untrusted text made inert: names and NVTX texts come from whoever wrote the profiled program.

A character is safe if Python calls it printable. The others (C0 and C1 controls, escape
sequences, line separators, bidirectional marks and overrides) could move the cursor, forge lines
or reorder what a reader sees.
"""

from __future__ import annotations

import unicodedata

_SHORT = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_ELLIPSIS = "…"


def printable(text: str) -> str:
    r"""Return text for eyes: white space of any kind becomes a space, other controls vanish.

    >>> printable("a\tb\x1b[31m\u202ec")
    'a b[31mc'
    """
    if text.isprintable():
        return text
    return "".join(_shown(character) for character in text)


def escaped(text: str, *, backslash: bool = True) -> str:
    r"""Return text for a cell of one line, nothing lost: Python's ``unicode_escape`` notation.

    Args:
        text: Any text.
        backslash: Also double backslashes, so that the cell can be read back; off for text that
            has its own escapes (JSON).

    >>> print(escaped("a\tb\u202ec\\d"))
    a\tb\u202ec\\d
    """
    if text.isprintable() and not (backslash and "\\" in text):
        return text
    return "".join(_escape(character, backslash=backslash) for character in text)


def shortened(text: str, width: int) -> str:
    """Return text of at most ``width`` terminal cells, cut in the middle.

    Two thirds stay at the start, where names differ most, a third at the end.

    >>> shortened("void cutlass::Kernel2<cutlass_80_wmma>", 20)
    'void cutlass:…_wmma>'
    """
    from rich.cells import cell_len  # noqa: PLC0415  only terminals need it

    if cell_len(text) <= width:
        return text
    room = width - 1
    head = tail = ""
    start, end = 0, len(text) - 1
    while start <= end:
        if cell_len(head) <= 2 * cell_len(tail):
            longer, start = head + text[start], start + 1
            if cell_len(longer) + cell_len(tail) > room:
                break
            head = longer
        else:
            longer, end = text[end] + tail, end - 1
            if cell_len(longer) + cell_len(head) > room:
                break
            tail = longer
    return head + _ELLIPSIS + tail


def brief_name(name: str, width: int) -> str:
    """Return a kernel name of at most ``width`` cells that keeps what tells kernels apart.

    What goes first is what many names share: the return type, the parameter list, then the
    namespaces of the function. Of template arguments the first ones tell most, so they are cut at
    the end; other names are cut in the middle.

    >>> brief_name("void at::native::reduce_kernel<(int)128, (int)4>(T3)", 31)
    'reduce_kernel<(int)128, (int)4>'
    >>> brief_name("void at::native::reduce_kernel<(int)128, (int)4>(T3)", 20)
    'reduce_kernel<(int)…'
    >>> brief_name("nvjet_tst_64x8", 20), brief_name("void <unnamed>::f<(bool)1>(T1 *)", 20)
    ('nvjet_tst_64x8', 'f<(bool)1>')
    """
    from rich.cells import cell_len, set_cell_size  # noqa: PLC0415  only terminals need it

    if cell_len(name) <= width:
        return name
    brief = _function(name)
    if "<" not in brief or cell_len(brief) <= width:
        return shortened(brief, width)
    return set_cell_size(brief, width - 1).rstrip() + _ELLIPSIS


def _function(name: str) -> str:
    """Return a function's own name with its template arguments, no more."""
    for anonymous in ("<unnamed>::", "(anonymous namespace)::"):
        name = name.replace(anonymous, "")
    name = name.rpartition("::type ")[2].removeprefix("void ")
    depth = start = 0
    for at, character in enumerate(name):
        if character == "(" and depth == 0 and at > start:
            return name[start:at]
        if character in "<([{":
            depth += 1
        elif character in ">)]}":
            depth -= 1
        elif character == ":" and depth == 0 and "<" not in name[start:at]:
            start = at + 1
    return name[start:]


def _shown(character: str) -> str:
    if character.isprintable():
        return character
    return " " if character.isspace() else ""


def _escape(character: str, *, backslash: bool) -> str:
    if character == "\\":
        return _SHORT[character] if backslash else character
    if character.isprintable() or unicodedata.category(character) == "Zs":
        return character
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    if code <= 0xFFFF:
        return f"\\u{code:04x}"
    if backslash:
        return f"\\U{code:08x}"
    pair = character.encode("utf-16-be").hex()  # JSON has no longer escape
    return f"\\u{pair[:4]}\\u{pair[4:]}"
