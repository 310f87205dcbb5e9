"""What the kernels around a kernel say of it, where its name fits several operators."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from nsysroof.match.align import Launch
from nsysroof.match.rules import KernelClass
from nsysroof.theory.kinds import ATTENTION_KINDS, LINK_KINDS, OperatorKind

_SUM = frozenset({str(OperatorKind.RESIDUAL_ADD)})
_COMBINE = frozenset({str(OperatorKind.MOE_COMBINE)})
_CACHE = frozenset({str(OperatorKind.KV_WRITE)})
_GEMM = frozenset({str(OperatorKind.GEMM)})
_ATTENTION = frozenset(map(str, ATTENTION_KINDS))
_NORMS = frozenset({str(OperatorKind.RMS_NORM), str(OperatorKind.LAYER_NORM)})
_CONCAT = "concat"
_AFTER_EXPERTS = _NORMS | _ATTENTION | frozenset(map(str, LINK_KINDS))


def with_shared_sums(launches: Sequence[Launch]) -> list[Launch]:
    """Let the sum of routed and shared experts serve the combine of the routed ones.

    It is the first sum after the combine and before the next norm, collective or attention; that
    of the residual looks like it.
    """
    found: list[Launch] = []
    combined = False
    for launch in launches:
        if combined and launch.implements == (_SUM,):
            combined = False
            found.append(replace(launch, implements=(), absorbed_by="earlier", serves=_COMBINE))
            continue
        combined = _COMBINE in launch.implements or (
            combined and _kinds(launch).isdisjoint(_AFTER_EXPERTS)
        )
        found.append(launch)
    return found


def with_cache_concats(launches: Sequence[Launch], classes: Sequence[KernelClass]) -> list[Launch]:
    """Let concatenations between the rotary embedding and attention append to the cache.

    Frameworks without a paged cache concatenate old and new keys, then values. Those of the rotary
    embedding itself have another step of it behind them; where another kernel writes the cache
    before attention, a concatenation does not.
    """
    found = list(launches)
    waiting: list[int] = []  # concatenations before the attention last seen, from the end
    before_attention = False
    for row in range(len(found) - 1, -1, -1):
        launch, kinds = found[row], _kinds(found[row])
        if before_attention and classes[row].klass == _CONCAT:
            waiting.append(row)
            continue
        if kinds & _ATTENTION:
            waiting, before_attention = [], True
        elif kinds & _CACHE:
            waiting, before_attention = [], False
        elif before_attention and (launch.parts or _GEMM in launch.implements):
            for at in waiting:
                found[at] = replace(found[at], implements=(_CACHE,), parts=frozenset())
            waiting, before_attention = [], False
    return found


def _kinds(launch: Launch) -> frozenset[str]:
    return frozenset[str]().union(*launch.implements)
