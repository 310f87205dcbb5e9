"""Which copies belong to a collective: the message, next to its kernel, in its stream."""

from __future__ import annotations

import polars as pl
import pytest

from nsysroof.analysis.operators import OperatorGroup
from nsysroof.analysis.staging import staged_copies
from nsysroof.theory.cost import Cost, Operator
from nsysroof.theory.kinds import OperatorKind
from nsysroof.theory.peaks import Peaks
from nsysroof.theory.roofline import bound
from nsysroof.timeline.activity import ACTIVITIES, Activity
from nsysroof.trace.schema import COPIES

MESSAGE = 1_000_000


def group(kind: OperatorKind) -> OperatorGroup:
    link = MESSAGE if kind is OperatorKind.ALL_REDUCE else 0
    cost = Cost(link=link)
    operator = Operator(
        role=str(kind),
        kind=kind,
        layer=0,
        cost=cost,
        dtype="bf16",
        formula="given",
        inputs={"bytes": MESSAGE} if link else {},
    )
    return OperatorGroup(
        role=str(kind),
        members=(operator,),
        cost=cost,
        min_cost=None,
        bound=bound(cost, Peaks(entries={}), floor_ns=1_000.0),
        min_bound=None,
        reachable=None,
        penalty=0.0,
    )


GROUPS = [group(OperatorKind.ALL_REDUCE), group(OperatorKind.GEMM)]
A, G = 0, 1  # an all-reduce, a matrix product


def copies_of(*done: int | tuple[int, str] | str, streams: str = "") -> list[tuple[int, int]]:
    """Start and operator instance of the copies that serve a collective.

    ``done`` ran one after the other, 10 ns each from 0 ns: ``A``, ``G``, a kernel without operator
    or a copy of (bytes, kind). ``streams`` has a digit for each.
    """
    streams = streams or "7" * len(done)
    rows: list[dict[str, object]] = []
    copied: list[dict[str, object]] = []
    kernels: list[dict[str, object]] = []
    for at, (what, stream) in enumerate(zip(done, streams, strict=True)):
        row: dict[str, object] = dict.fromkeys(ACTIVITIES) | {
            "start_ns": 10 * at,
            "end_ns": 10 * at + 10,
            "gpu": 0,
            "pid": 1,
            "stream": int(stream),
        }
        if isinstance(what, tuple):
            rows.append(row | {"activity": int(Activity.COPY), "copy_kind": what[1]})
            copied.append(
                {name: row.get(name) for name in COPIES} | {"bytes": what[0], "kind": what[1]}
            )
        else:
            rows.append(row | {"activity": int(Activity.KERNEL), "kernel": len(kernels)})
            known = isinstance(what, int)
            kernels.append(
                {
                    "step": 0,
                    "covers": at if known else None,
                    "group": what if known else None,
                    "role": GROUPS[what].role if isinstance(what, int) else None,
                    "main": known,
                }
            )
    found = staged_copies(
        pl.DataFrame(rows, schema=ACTIVITIES),
        pl.DataFrame(copied, schema=COPIES),
        pl.DataFrame(
            kernels,
            schema={
                "step": pl.UInt32,
                "covers": pl.UInt32,
                "group": pl.UInt32,
                "role": pl.String,
                "main": pl.Boolean,
            },
        ),
        GROUPS,
    )
    assert found["main"].to_list() == [False] * found.height
    assert found["advance_ns"].to_list() == [10] * found.height
    return list(found.select("start_ns", "covers").iter_rows())


WHOLE, PADDED = (MESSAGE, "d2d"), (MESSAGE * 5 // 4, "d2d")


def test_the_copy_in_and_the_copy_out_belong_to_the_collective() -> None:
    assert copies_of(G, WHOLE, A, WHOLE, G) == [(10, 2), (30, 2)]
    assert copies_of(G, PADDED, A, PADDED, G) == [(10, 2), (30, 2)]


def test_two_collectives_have_their_own() -> None:
    assert copies_of(WHOLE, A, WHOLE, WHOLE, A, WHOLE) == [(0, 1), (20, 1), (30, 4), (50, 4)]


def test_other_streams_between_do_not_matter() -> None:
    assert copies_of(WHOLE, G, A, WHOLE, streams="7977") == [(0, 2), (30, 2)]
    assert copies_of(WHOLE, A, WHOLE, streams="979") == []


@pytest.mark.parametrize(
    "copy",
    [
        (MESSAGE - 1, "d2d"),
        (MESSAGE * 5 // 4 + 1, "d2d"),
        (MESSAGE, "h2d"),
        (MESSAGE, "d2h"),
    ],
)
def test_other_copies_do_not(copy: tuple[int, str]) -> None:
    assert copies_of(G, copy, A, copy, G) == []


def test_only_neighbours_of_a_collective_do() -> None:
    assert copies_of(WHOLE, G, A, "foreign", WHOLE) == []
    assert copies_of(WHOLE, G, WHOLE) == []
