"""The table of kernel classes: what each may implement, the roles it may have, whom it serves."""

from __future__ import annotations

from functools import cache
from typing import Literal

import msgspec

from nsysroof.match.rulefile import BUILT_IN, read_table
from nsysroof.theory.kinds import OperatorKind

UNKNOWN = "unknown"
"""The class of a name that no rule describes."""


class KernelClassEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One class of kernels.

    Attributes:
        name: The class.
        meaning: What such a kernel does.
        implements: Sets of operator kinds of one launch, most complete first.
        roles: Roles beyond those of its operator kinds.
        serves: Whether it is a part of the kernel before it or after it, else None.
        of: The classes it serves.
        llm: False for kernels that no forward pass of a language model has.
        waits: Whether it runs until other ranks have come, so that its time is not its own.
    """

    name: str
    meaning: str
    implements: list[list[OperatorKind]] = []
    roles: list[str] = []
    serves: Literal["previous", "next"] | None = None
    of: list[str] = []
    llm: bool = True
    waits: bool = False


class _ClassFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    roles: dict[OperatorKind, list[str]]
    entries: list[KernelClassEntry] = msgspec.field(name="class")


@cache
def _table() -> _ClassFile:
    return read_table(BUILT_IN / "_classes.toml", _ClassFile, slug="unreadable-classes")


@cache
def kernel_classes() -> dict[str, KernelClassEntry]:
    """Return every class by name.

    >>> kernel_classes()["gemm_splitk_reduce"].serves
    'previous'
    """
    return {entry.name: entry for entry in _table().entries}


@cache
def implements_of(klass: str) -> tuple[frozenset[str], ...]:
    """Return the sets of operator kinds that one launch of a class may implement.

    >>> [sorted(kinds) for kinds in implements_of("qk_norm_rope")]
    [['kv_write', 'qk_norm', 'rope'], ['qk_norm', 'rope']]
    """
    return tuple(frozenset(map(str, kinds)) for kinds in kernel_classes()[klass].implements)


@cache
def roles_of(klass: str) -> tuple[str, ...]:
    """Return the roles that kernels of a class may have, in the order of the class table.

    >>> roles_of("router_gemm")[0], roles_of("attention_combine"), roles_of("unknown")
    ('moe.router', ('attn.core',), ())
    """
    entry = kernel_classes()[klass]
    return _roles(entry.implements, entry)


def roles_of_kinds(klass: str, implements: tuple[frozenset[str], ...]) -> tuple[str, ...]:
    """Return the roles of a kernel of a class that implements certain sets of operator kinds."""
    kinds = [sorted(OperatorKind(kind) for kind in group) for group in implements]
    return _roles(kinds, kernel_classes()[klass])


def _roles(implements: list[list[OperatorKind]], entry: KernelClassEntry) -> tuple[str, ...]:
    roles = list(entry.roles)
    if not roles:
        roles += [role for kinds in implements for kind in kinds for role in _table().roles[kind]]
    if not roles:
        roles += [role for served in entry.of for role in roles_of(served)]
    return tuple(dict.fromkeys(roles))
