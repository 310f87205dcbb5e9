"""How fast collectives moved their data once every rank was there, beside what their link takes."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from nsysroof.analysis.operators import OperatorGroup
from nsysroof.results import CollectiveRow
from nsysroof.theory.cost import Operator
from nsysroof.theory.operators.collective import BUS_FACTORS, bus_factor
from nsysroof.theory.peaks import Peaks
from nsysroof.theory.roofline import crossed_link, link_of


def with_rates(
    rows: Sequence[CollectiveRow], groups: Sequence[OperatorGroup], peaks: Peaks
) -> list[CollectiveRow]:
    """Return the rows with message, rates and the peak of the link, where the operator tells them.

    Algorithm bandwidth is the message over the transfer time, bus bandwidth that times what a ring
    would send of it through each link, as nccl-tests define them. A switch that adds up sends
    less, so its bus bandwidth may exceed the link's peak; ``ratio`` is transfer / bound and may
    not fall below 1.

    Args:
        rows: One per role and GPU.
        groups: The operator groups; of a role with several costs nothing is told.
        peaks: Rates of the links.
    """
    by_role: dict[str, list[OperatorGroup]] = {}
    for group in groups:
        if group.crosses_link:
            by_role.setdefault(group.role, []).append(group)
    return [_with_rate(row, by_role.get(row.role, []), peaks) for row in rows]


def _with_rate(row: CollectiveRow, groups: list[OperatorGroup], peaks: Peaks) -> CollectiveRow:
    operator = _collective(groups)
    if operator is None:
        return row
    size, ranks = int(operator.inputs["bytes"]), int(operator.inputs["ranks"])
    rate = size / row.transfer_ns * 1e9 if row.transfer_ns else None
    factor = bus_factor(operator.kind, ranks) if operator.kind in BUS_FACTORS else None
    link = peaks.get(crossed_link(link_of(operator), peaks))
    bound_ns = groups[0].bound.spec_ns
    return structs.replace(
        row,
        operation=str(operator.kind),
        ranks=ranks,
        bytes=size,
        algorithm_bytes_per_s=rate,
        bus_bytes_per_s=None if rate is None or factor is None else rate * factor,
        peak_bytes_per_s=link.value if link else None,
        ratio=row.transfer_ns / bound_ns if bound_ns else None,
    )


def _collective(groups: list[OperatorGroup]) -> Operator | None:
    """Return the one collective of a role, None where it has several messages or none is known."""
    found = groups[0].collective if len(groups) == 1 else None
    return found if found and {"bytes", "ranks"} <= found.inputs.keys() else None
