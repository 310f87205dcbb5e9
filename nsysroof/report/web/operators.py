"""Every operator beside its bound, and how each bound was worked out."""

from __future__ import annotations

import msgspec

from nsysroof.report.pages.step import operators_section
from nsysroof.report.web.blocks import block_of, scrolling
from nsysroof.report.web.markup import Markup, element, join, name, role, whole_name
from nsysroof.results import OperatorRow, Report
from nsysroof.units import format_bytes, format_flop, format_ratio, format_us

_LATENCY = "latency"
_COLUMNS = (
    ("operator", "names"),
    ("to win per step, µs", "n"),
    ("ratio", "n"),
    ("measured µs", "n"),
    ("bound µs", "n"),
    ("reachable µs", "n"),
    ("limiter", None),
    ("n/step", "n"),
    ("per step, µs", "n"),
    ("main kernel", "names"),
)
_LEGEND = (
    "measured: the median instance, helpers included; ratio: measured / bound; to win: what a step "
    "would save with this operator at its bound; reachable: what measured roofs (--roofs) allow."
)


def operators_table(report: Report) -> Markup:
    """Return the operators, those first that cost most above their bound, or why there are none.

    The script makes the table sortable by its headings and adds the filter.
    """
    told = operators_section(report).blocks
    if not report.operators:
        return join(*(block_of(block) for block in told))
    head = element("tr", *(element("th", t, scope="col", class_=c) for t, c in _COLUMNS))
    body = (_row(row, at) for at, row in _ranked(report))
    table = element("table", element("thead", head), element("tbody", *body), class_="sortable")
    further = told[2:]  # what follows the grid of the text page and the legend of its columns
    return join(
        scrolling(table, label="operators"),
        element("p", _LEGEND),
        *(block_of(block) for block in further),
    )


def derivations(report: Report) -> Markup:
    """Return formula, inputs, bytes, kernels and notes of every operator."""
    if not report.operators:
        return element("p", "None.")
    return join(*(_derivation(row, at) for at, row in _ranked(report)))


def _ranked(report: Report) -> list[tuple[int, OperatorRow]]:
    rows = sorted(report.operators, key=_by_excess)
    return list(enumerate(rows))


def _by_excess(row: OperatorRow) -> tuple[float, str, str, str]:
    excess = float("-inf") if row.excess_ns_per_step is None else row.excess_ns_per_step
    return -excess, row.role, row.kind, repr(row)


def _row(row: OperatorRow, at: int) -> Markup:
    fixed = row.limiter == _LATENCY
    below = row.ratio is not None and row.ratio < 1
    ratio = f"{format_ratio(row.ratio)} (!)" if below else format_ratio(row.ratio)
    link = element("a", role(row.role), href=f"#op{at}")
    return element(
        "tr",
        element("th", link, scope="row", class_="names"),
        _time(row.excess_ns_per_step),
        _number("fixed" if fixed and not below else ratio, None if fixed else row.ratio),
        _time(row.measured_ns),
        _time(row.floor_ns if fixed else row.bound_ns),
        _time(row.reachable_ns),
        element("td", row.limiter or "–"),
        _number(f"{row.instances_per_step:,.1f}".removesuffix(".0"), row.instances_per_step),
        _time(row.ns_per_step),
        element("td", name(row.kernels[0]) if row.kernels else "–", class_="names"),
        class_="impossible" if below else None,
    )


def _time(ns: float | None) -> Markup:
    return _number(format_us(ns), ns)


def _number(shown: str, value: float | None) -> Markup:
    return element("td", shown, class_="n", data_v="" if value is None else repr(float(value)))


def _derivation(row: OperatorRow, at: int) -> Markup:
    sizes = msgspec.structs.asdict(row.bytes).items()
    facts = [
        ("formula", row.formula),
        ("with", ", ".join(f"{key} {_plain(value)}" for key, value in row.inputs.items())),
        ("bytes", ", ".join(f"{kind} {format_bytes(n)}" for kind, n in sizes if n) or "none"),
        ("arithmetic", f"{format_flop(row.flop)} in {row.dtype}"),
        ("measured", _distribution(row)),
        ("assigned", f"{row.confidence} confidence, on the evidence of: {row.evidence}"),
        *(("note", note) for note in row.notes),
    ]
    lines = [_fact(label, element("span", text)) for label, text in facts if text]
    lines += [_fact("kernel", whole_name(kernel)) for kernel in row.kernels]
    heading = element("h3", role(row.role), " ", element("small", row.kind))
    return element("article", heading, element("dl", *lines), id=f"op{at}")


def _fact(label: str, content: Markup) -> Markup:
    return element("div", element("dt", label), element("dd", content))


def _distribution(row: OperatorRow) -> str:
    return (
        f"{format_us(row.measured_ns)} µs in the median, {format_us(row.p10_ns)} to "
        f"{format_us(row.p90_ns)} from the 10th to the 90th percentile, {format_us(row.min_ns)} at "
        f"least; its main kernel {format_us(row.main_ns)}"
    )


def _plain(value: float | str) -> str:
    return value if isinstance(value, str) else f"{value:,}"
