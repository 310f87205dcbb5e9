"""The median step as a waterfall: each part of its budget begins where the one before ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from nsysroof.report.pages.idle import CAUSES
from nsysroof.report.web.blocks import scrolling
from nsysroof.report.web.markup import Markup, element, number
from nsysroof.results import Budget
from nsysroof.units import format_share, format_us_exact

_WIDTH = 1000
_HEIGHT = 16
_THINNEST = 1.5  # a part that is there can be seen


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    label: str
    ns: int
    tone: str
    meaning: str


def waterfall(budget: Budget) -> Markup:
    """Return the budget as a table with bars; its rows add up to the wall time exactly."""
    scale = _WIDTH / max(_highest(budget), 1)
    rows = []
    reached = 0
    for part in _parts(budget):
        rows.append(_row(part, min(reached, reached + part.ns), scale, budget))
        reached += part.ns
    wall = _Part(
        label="= wall",
        ns=budget.wall_ns,
        tone="wall",
        meaning="first kernel to the next step's first kernel",
    )
    rows.append(_row(wall, 0, scale, budget))
    head = element(
        "tr",
        element("th", "part", scope="col"),
        element("th", "", class_="bar", scope="col", aria_hidden="true"),
        element("th", "µs", class_="n", scope="col"),
        element("th", "share", class_="n", scope="col"),
        element("th", "what it is", class_="wide", scope="col"),
    )
    table = element("table", element("thead", head), element("tbody", *rows), class_="waterfall")
    return scrolling(table, label="budget of the median step")


def _parts(budget: Budget) -> Iterator[_Part]:
    yield _Part(label="bound", ns=budget.bound_ns, tone="bound", meaning="operators at their roofs")
    yield _Part(
        label="+ over bound",
        ns=budget.over_bound_ns,
        tone="over",
        meaning="operators above their roofs: to win back",
    )
    yield _Part(
        label="+ fixed",
        ns=budget.fixed_ns,
        tone="fixed",
        meaning="kernels at the latency floor: fewer of them help, faster ones do not",
    )
    yield _Part(
        label="+ unexplained",
        ns=budget.unexplained_ns,
        tone="unexplained",
        meaning="kernels without an operator",
    )
    yield _Part(label="+ copies", ns=budget.copy_ns, tone="copy", meaning="copies and fills")
    yield from _idle(budget)
    if budget.overlap_ns:
        yield _Part(
            label="− overlap", ns=-budget.overlap_ns, tone="overlap", meaning="counted twice above"
        )


def _idle(budget: Budget) -> Iterator[_Part]:
    causes: Sequence[tuple[str, int]] = sorted(
        ((cause, ns) for cause, ns in budget.idle_by_cause.items() if ns),
        key=lambda pair: (-pair[1], pair[0]),
    )
    for cause, ns in causes or [("", budget.idle_ns)]:
        yield _Part(
            label=f"+ idle {cause}".rstrip(),
            ns=ns,
            tone="idle",
            meaning=CAUSES.get(cause, "nothing runs on the GPU"),
        )


def _highest(budget: Budget) -> int:
    reached = highest = 0
    for part in _parts(budget):
        reached += part.ns
        highest = max(highest, reached)
    return max(highest, budget.wall_ns)


def _row(part: _Part, start: int, scale: float, budget: Budget) -> Markup:
    length = max(abs(part.ns) * scale, _THINNEST) if part.ns else 0.0
    bar = element(
        "rect",
        x=number(min(start * scale, _WIDTH - length)),
        y=0,
        width=number(length),
        height=_HEIGHT,
        class_=f"t-{part.tone}",
    )
    drawn = element(
        "svg",
        bar,
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        preserveAspectRatio="none",
        aria_hidden="true",
    )
    return element(
        "tr",
        element("th", part.label, scope="row"),
        element("td", drawn, class_="bar"),
        element("td", format_us_exact(abs(part.ns)), class_="n"),
        element("td", format_share(budget.share(abs(part.ns))), class_="n"),
        element("td", part.meaning, class_="wide"),
    )
