"""What changed between two cases, from their bitmaps."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any

from tests.timeline.many.idle import CAUSES
from tests.timeline.many.truth import Truth


def account_of(truths: Sequence[Truth], *, labelled: bool) -> dict[str, Any]:
    """Return what a comparison sums up of the whole window of some GPUs."""
    lines = [truth.told["timeline"] for truth in truths]
    sums: Counter[tuple[str, str | None]] = Counter()
    for truth in truths:
        sums.update(truth.kernel_sums(labelled=labelled))
    return {
        "wall": sum(line["window_ns"] for line in lines),
        "overlap": sum(line["overlap_ns"] for line in lines),
        "idle": sum(line["idle_ns"] for line in lines),
        "copy": sum(
            line["sum_by_activity"].get(kind, 0) for line in lines for kind in ("copy", "fill")
        ),
        "causes": {cause: sum(line["idle_by_cause"][cause] for line in lines) for cause in CAUSES},
        "kernels": dict(sums),
    }


def account_of_step(budget: dict[str, Any]) -> dict[str, Any]:
    """Return what a comparison takes from the account of a step."""
    return {
        "wall": budget["wall_ns"],
        "overlap": budget["overlap_ns"],
        "idle": budget["idle_ns"],
        "copy": budget["copy_ns"],
        "causes": {cause: budget["idle_by_cause"].get(cause, 0) for cause in CAUSES},
        "kernels": budget["by_kernel"],
    }


def difference(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """Return what changed between two accounts, as ``diff`` tells it."""
    roles: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    work = [0, 0]
    for side, one in enumerate((a, b)):
        for (_, role), ns in one["kernels"].items():
            work[side] += ns
            if role is not None:
                roles[role][side] += ns
        work[side] += one["copy"]
    found = {
        "wall": b["wall"] - a["wall"],
        "work": work[1] - work[0],
        "overlap": b["overlap"] - a["overlap"],
        "idle": b["idle"] - a["idle"],
        "roles": {role: after - before for role, (before, after) in roles.items()},
        "causes": {cause: b["causes"][cause] - a["causes"][cause] for cause in CAUSES},
    }
    if found["wall"] != found["work"] - found["overlap"] + found["idle"]:
        raise AssertionError(f"the bitmap does not add up: {found}")
    return found
