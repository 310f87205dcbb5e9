"""One model over several workloads or machines: the axes, the points, and a row for each.

What a point costs is the caller's to say, so that a sweep prices exactly as a single estimate does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

from nsysroof.errors import UsageError
from nsysroof.results import Estimate, EstimateRow, Sweep, SweepRow

NUMBERS = ("batch", "context", "new-tokens", "tp", "ep", "dp")
"""Axes of whole numbers."""

WORDS = ("gpu", "weights", "kv", "activations")
"""Axes of names."""

IMPOSSIBLE = frozenset({"bad-workload", "unknown-peak"})
"""Why one point may have no numbers while others have: the error's slug."""

EXPECTED_EXPERTS = "distinct experts are an expectation under uniform routing"
MOST_POINTS = 4096
Value = int | str
Point = Mapping[str, Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One input that changes, and the values it takes."""

    name: str
    values: tuple[Value, ...]


def parse_axis(text: str, *, where: str) -> Axis:
    """Return the axis that ``NAME=VALUES`` spells.

    ``a:b`` doubles from a up to b and ends with b, ``a:b:step`` counts, ``a,b,c`` lists.

    Args:
        text: What the user wrote.
        where: The option.

    Raises:
        UsageError: ``bad-sweep``: an unknown name, or values that cannot be read.

    >>> parse_axis("batch=1:12", where="--sweep").values
    (1, 2, 4, 8, 12)
    >>> parse_axis("context=1000:3000:1000", where="--sweep").values
    (1000, 2000, 3000)
    >>> parse_axis("weights=bf16,fp8", where="--sweep")
    Axis(name='weights', values=('bf16', 'fp8'))
    """
    name, separator, values = text.partition("=")
    name = name.strip().replace("_", "-")
    if not separator or name not in (*NUMBERS, *WORDS) or not values.strip():
        raise _unreadable(text, f"write NAME=VALUES; names are {', '.join(NUMBERS + WORDS)}", where)
    if name in WORDS:
        words = tuple(dict.fromkeys(part.strip() for part in values.split(",")))
        if not all(words):
            raise _unreadable(text, f"list names: {name}=one,other", where)
        return Axis(name=name, values=words)
    try:
        numbers = _numbers(values)
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise _unreadable(text, f"write {name}=1:256, {name}=1:256:16 or {name}=1,8,64", where)
    return Axis(name=name, values=tuple(dict.fromkeys(numbers)))


def _numbers(text: str) -> list[int]:
    if ":" not in text:
        return [int(part) for part in text.split(",")]
    ends = [int(part) for part in text.split(":")]
    if len(ends) == 3:
        start, end, step = ends
        return list(range(start, end + 1, step)[: MOST_POINTS + 1])
    start, end = ends
    if start < 1 or start > end:
        return []
    doubled = [start]
    while doubled[-1] * 2 <= end:
        doubled.append(doubled[-1] * 2)
    return doubled if doubled[-1] == end else [*doubled, end]


def _unreadable(text: str, hint: str, where: str) -> UsageError:
    return UsageError(
        f"cannot read {text!r} as values to go through", hint=hint, slug="bad-sweep", where=where
    )


def points(axes: Sequence[Axis]) -> Iterator[dict[str, Value]]:
    """Iterate over every combination, the last axis fastest.

    Raises:
        UsageError: ``bad-sweep``: an axis comes twice, or there are too many points.

    >>> axes = [Axis(name="tp", values=(1, 2)), Axis(name="batch", values=(1, 8))]
    >>> [tuple(point.values()) for point in points(axes)]
    [(1, 1), (1, 8), (2, 1), (2, 8)]
    """
    names = [axis.name for axis in axes]
    if len(set(names)) < len(names):
        raise _unreadable(", ".join(names), "give each of them once", "--sweep")
    count = 1
    for axis in axes:
        count *= len(axis.values)
    if count > MOST_POINTS:
        hint = f"at most {MOST_POINTS:,} points are worked out: fewer values, or a larger step"
        raise _unreadable(f"{count:,} points", hint, "--sweep")
    for values in product(*(axis.values for axis in axes)):
        yield dict(zip(names, values, strict=True))


def sweep(
    price: Callable[[Point], Estimate], axes: Sequence[Axis], *, compared: Sequence[str] = ()
) -> Sweep:
    """Return a row for every point of the axes.

    Args:
        price: Returns the estimate of a point.
        axes: What changes.
        compared: Names of the axes whose values stand side by side.

    Raises:
        UsageError: No point can be priced, or one has a name that is not known. A point that cannot
            be (a ``tp`` that does not divide the heads) is a row without numbers, with the reason.
    """
    rows: list[SweepRow] = []
    refused: list[tuple[dict[str, Value], UsageError]] = []
    some: Estimate | None = None
    for point in points(axes):
        try:
            found = price(point)
        except UsageError as error:
            if error.slug not in IMPOSSIBLE:
                raise
            refused.append((point, error))
            rows.append(_empty_row(point, error.message))
            continue
        some = found
        rows.append(sweep_row(found))
    if some is None:
        raise refused[0][1]
    return Sweep(
        tool_version=some.tool_version,
        model=some.assumptions.model or "",
        phase=some.assumptions.phase or "",
        axes=[axis.name for axis in axes],
        compared=list(compared),
        rows=[_completed(row, some) for row in rows],
        notes=[] if some.experts is None else [EXPECTED_EXPERTS],
    )


def sweep_row(found: Estimate) -> SweepRow:
    """Return one estimate as a row."""
    taken, step = found.assumptions, found.step
    parts = {"memory": step.memory_ns, "compute": step.compute_ns, "link": step.link_ns}
    known = {name: ns for name, ns in parts.items() if ns is not None}
    real = [row for row in found.operators if not row.optional]
    held = _total(real, ("weight", "scale"))
    cached = _total(real, ("kv_read", "kv_write", "state"))
    memory = found.memory
    return SweepRow(
        gpu=taken.gpu,
        batch=taken.batch or 0,
        context=max(taken.context or [0]),
        new_tokens=taken.new_tokens,
        weights=taken.weights,
        kv=taken.kv,
        activations=taken.activations,
        tp=taken.tp or 1,
        ep=taken.ep or 1,
        dp=taken.dp or 1,
        serial_ns=step.serial_ns,
        serial_with_activations_ns=step.serial_with_activations_ns,
        hard_ns=step.hard_ns,
        memory_ns=step.memory_ns,
        weights_ns=None if step.memory_ns is None else step.memory_ns * held / step.bytes,
        compute_ns=step.compute_ns,
        link_ns=step.link_ns,
        limiter=max(known, key=lambda name: known[name]) if known else None,
        tokens=step.tokens,
        tokens_per_s=step.tokens_per_s,
        weight_bytes=held,
        kv_bytes=cached,
        activation_bytes=step.bytes - held - cached,
        link_bytes=_total(real, ("link",)),
        flop=step.flop,
        experts=(found.experts or {}).get("expected"),
        resident_bytes=memory.weight_bytes + memory.kv_bytes + memory.state_bytes,
        gpus_needed=memory.gpus_needed,
    )


def _total(rows: Sequence[EstimateRow], kinds: Sequence[str]) -> int:
    return sum(row.count * int(getattr(row.bytes, kind)) for row in rows for kind in kinds)


def _empty_row(point: Point, why: str) -> SweepRow:
    def number(name: str) -> int:
        value = point.get(name)
        return value if isinstance(value, int) else 0

    def text(name: str) -> str | None:
        value = point.get(name)
        return value if isinstance(value, str) else None

    return SweepRow(
        gpu=text("gpu"),
        batch=number("batch"),
        context=number("context"),
        new_tokens=number("new-tokens") or None,
        weights=text("weights"),
        kv=text("kv"),
        activations=text("activations"),
        tp=number("tp"),
        ep=number("ep"),
        dp=number("dp"),
        note=why,
    )


def _completed(row: SweepRow, some: Estimate) -> SweepRow:
    """Fill a row without numbers with the inputs that do not change."""
    if row.note is None:
        return row
    taken = some.assumptions
    return SweepRow(
        gpu=row.gpu or taken.gpu,
        batch=row.batch or taken.batch or 0,
        context=row.context or max(taken.context or [0]),
        new_tokens=row.new_tokens or taken.new_tokens,
        weights=row.weights or taken.weights,
        kv=row.kv or taken.kv,
        activations=row.activations or taken.activations,
        tp=row.tp or taken.tp or 1,
        ep=row.ep or taken.ep or 1,
        dp=row.dp or taken.dp or 1,
        note=row.note,
    )
