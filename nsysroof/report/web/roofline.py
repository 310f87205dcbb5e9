"""The roofline: one dot per operator, its area the time that it takes in a step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, floor, log10, sqrt

from nsysroof.report.placing import Box, Dot, inside, overlap, place_labels
from nsysroof.report.tones import tone_of_role
from nsysroof.report.web.blocks import scrolling
from nsysroof.report.web.markup import Markup, element, join, number
from nsysroof.results import OperatorRow, PeakUsed, Report
from nsysroof.units import format_rate, format_ratio, format_us

_WIDTH, _HEIGHT = 960, 520
_LEFT, _RIGHT, _TOP, _BOTTOM = 84, 150, 16, 52
_FRAME = (_LEFT, _TOP, _WIDTH - _RIGHT, _HEIGHT - _BOTTOM)
_LARGEST, _SMALLEST = 24.0, 3.0  # radius of a dot
_LABELLED = 8
_LETTER, _LINE = 6.6, 15.0  # what a label needs
_BANDWIDTH = "bw"
_COMPUTE = ("fp64", "fp32", "tf32", "fp16", "bf16", "fp8", "int8", "fp4", "int4")
_EXPONENTS = {3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Dot:
    row: OperatorRow
    intensity: float
    rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Axes:
    """Decades shown, and where a value lies in the drawing."""

    x: tuple[float, float]
    y: tuple[float, float]

    def across(self, intensity: float) -> float:
        share = (log10(intensity) - self.x[0]) / (self.x[1] - self.x[0])
        return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)

    def down(self, rate: float) -> float:
        share = (log10(rate) - self.y[0]) / (self.y[1] - self.y[0])
        return _HEIGHT - _BOTTOM - share * (_HEIGHT - _TOP - _BOTTOM)


def roofline(report: Report) -> Markup:
    """Return the drawing and what it leaves out, or why there is none."""
    dots = [
        _Dot(row=row, intensity=row.intensity, rate=row.flop_per_s)
        for row in report.operators
        if row.intensity and row.flop_per_s
    ]
    left_out = [row.role for row in report.operators if not (row.intensity and row.flop_per_s)]
    if not dots:
        return element("p", "None: no operator with arithmetic has a known intensity.")
    dots.sort(key=lambda dot: (-dot.row.ns_per_step, dot.row.role, dot.intensity))
    peaks = {peak.key: peak for peak in report.assumptions.peaks}
    roofs = [peaks[key] for key in _COMPUTE if key in peaks]
    axes = _axes(dots, roofs, peaks.get(_BANDWIDTH))
    drawing = element(
        "svg",
        *_grid(axes),
        *_roofs(axes, roofs, peaks.get(_BANDWIDTH)),
        *(_stem(dot, axes, peaks.get(_BANDWIDTH), peaks.get(dot.row.dtype)) for dot in dots),
        *(_dot(dot, axes, dots[0].row.ns_per_step) for dot in dots),
        *_labels(dots, axes, peaks.get(_BANDWIDTH)),
        viewBox=f"0 0 {_WIDTH} {_HEIGHT}",
        role="img",
        aria_label="Roofline: achieved FLOP/s of each operator over its FLOP per byte",
    )
    legend = (
        "One dot per operator: FLOP per byte across, achieved FLOP/s up; its area is its time per "
        "step, the line above it the way to its roof. Hollow: limited by latency or a link."
    )
    omitted = f" Without arithmetic, so not drawn: {', '.join(left_out)}." if left_out else ""
    return join(
        scrolling(drawing, label="roofline"), element("p", legend + omitted, class_="legend")
    )


def _axes(dots: Sequence[_Dot], roofs: Sequence[PeakUsed], bandwidth: PeakUsed | None) -> _Axes:
    intensities = [dot.intensity for dot in dots]
    rates = [dot.rate for dot in dots] + [peak.value for peak in roofs]
    if bandwidth is not None:
        intensities += [max(peak.value for peak in roofs) / bandwidth.value] if roofs else []
    low, high = log10(min(intensities)) - 0.3, log10(max(intensities)) + 0.5
    return _Axes(x=(low, high), y=(log10(min(rates)) - 0.4, log10(max(rates)) + 0.2))


def _grid(axes: _Axes) -> Iterator[Markup]:
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    for exponent in range(ceil(axes.x[0]), floor(axes.x[1]) + 1):
        x = number(axes.across(10.0**exponent))
        yield element("line", x1=x, x2=x, y1=_TOP, y2=bottom, class_="grid")
        yield element("text", _plain(exponent), x=x, y=bottom + 18, class_="tick mid")
    for exponent in range(ceil(axes.y[0]), floor(axes.y[1]) + 1):
        y = axes.down(10.0**exponent)
        yield element("line", x1=_LEFT, x2=right, y1=number(y), y2=number(y), class_="grid")
        yield element(
            "text", f"{_prefixed(exponent)}FLOP/s", x=_LEFT - 8, y=number(y + 4), class_="tick end"
        )
    middle = (_LEFT + right) / 2
    yield element("text", "FLOP per byte", x=number(middle), y=_HEIGHT - 10, class_="tick mid")


def _plain(exponent: int) -> str:
    return f"{10.0**exponent:g}" if -4 < exponent < 6 else f"1e{exponent}"


def _prefixed(exponent: int) -> str:
    base = 3 * (exponent // 3)
    return f"{10 ** (exponent - base)} {_EXPONENTS.get(base, f'e{base} ' if base else '')}"


def _roofs(axes: _Axes, roofs: Sequence[PeakUsed], bandwidth: PeakUsed | None) -> Iterator[Markup]:
    right = _WIDTH - _RIGHT
    top = max((peak.value for peak in roofs), default=10 ** axes.y[1])
    if bandwidth is not None:
        start = max(10 ** axes.x[0], 10 ** axes.y[0] / bandwidth.value)
        end = min(10 ** axes.x[1], top / bandwidth.value)
        yield element(
            "line",
            x1=number(axes.across(start)),
            y1=number(axes.down(start * bandwidth.value)),
            x2=number(axes.across(end)),
            y2=number(axes.down(end * bandwidth.value)),
            class_="roof",
        )
    for peak in roofs:
        y = axes.down(peak.value)
        ridge = peak.value / bandwidth.value if bandwidth else 10 ** axes.x[0]
        x = axes.across(min(max(ridge, 10 ** axes.x[0]), 10 ** axes.x[1]))
        yield element("line", x1=number(x), x2=right, y1=number(y), y2=number(y), class_="roof")
        unit = "OP" if peak.key.startswith("int") else "FLOP"
        text = f"{peak.key} {format_rate(peak.value, unit)}"
        yield element("text", text, x=right + 6, y=number(y + 4), class_="rooftext")


def _stem(dot: _Dot, axes: _Axes, bandwidth: PeakUsed | None, compute: PeakUsed | None) -> Markup:
    """Return the line from a dot to the roof above it."""
    above = [peak.value * dot.intensity for peak in (bandwidth,) if peak]
    above += [compute.value] if compute else []
    if not above or min(above) <= dot.rate:
        return Markup()
    x = number(axes.across(dot.intensity))
    top = max(axes.down(min(above)), _TOP)
    return element(
        "line", x1=x, x2=x, y1=number(top), y2=number(axes.down(dot.rate)), class_="stem"
    )


def _dot(dot: _Dot, axes: _Axes, longest_ns: float) -> Markup:
    row = dot.row
    bounded = row.limiter in {"memory", "compute"}
    told = (
        f"{row.role}: {format_us(row.ns_per_step)} µs per step, "
        f"{format_rate(dot.rate, 'FLOP')}, {dot.intensity:.3g} FLOP/B, "
        f"ratio {format_ratio(row.ratio)}, limiter {row.limiter or 'not known'}"
    )
    return element(
        "circle",
        element("title", told),
        cx=number(axes.across(dot.intensity)),
        cy=number(axes.down(dot.rate)),
        r=number(_radius(dot, longest_ns)),
        class_=f"dot f-{tone_of_role(row.role)}" + ("" if bounded else " hollow"),
    )


def _radius(dot: _Dot, longest_ns: float) -> float:
    share = dot.row.ns_per_step / longest_ns if longest_ns else 0.0
    return max(_LARGEST * sqrt(share), _SMALLEST)


def _labels(dots: Sequence[_Dot], axes: _Axes, bandwidth: PeakUsed | None) -> Iterator[Markup]:
    """Yield the names of the longest operators, each as near to its dot as there is room."""
    longest_ns = dots[0].row.ns_per_step
    drawn = [
        Dot(x=axes.across(dot.intensity), y=axes.down(dot.rate), radius=_radius(dot, longest_ns))
        for dot in dots
    ]
    taken: list[Box] = [dot.box for dot in drawn]
    if bandwidth is not None:
        yield from _memory_label(bandwidth, axes, taken)
    widths = [_LETTER * len(dot.row.role) for dot in dots[:_LABELLED]]
    places = place_labels(drawn, widths, frame=_FRAME, line=_LINE, taken=taken)
    for dot, mark, place in zip(dots, drawn, places, strict=False):
        if place is None:
            continue
        if place.leader is not None:
            yield element(
                "line",
                x1=number(mark.x),
                y1=number(mark.y),
                x2=number(place.leader[0]),
                y2=number(place.leader[1]),
                class_="leader",
            )
        yield element(
            "text",
            dot.row.role,
            x=number(place.left),
            y=number(place.base),
            class_="dotlabel",
        )


def _memory_label(bandwidth: PeakUsed, axes: _Axes, taken: list[Box]) -> Iterator[Markup]:
    """Yield the name of the sloping roof, left of it where there is room."""
    text = f"memory {format_rate(bandwidth.value, 'B')}"
    width = _LETTER * len(text)
    for step in range(int(axes.y[1] * 4), int(axes.y[0] * 4), -1):
        intensity = 10 ** (step / 4) / bandwidth.value
        left, base = axes.across(intensity) - 10 - width, axes.down(10 ** (step / 4)) - 4
        box = (left, base - _LINE, left + width, base)
        if inside(box, _FRAME) and not any(overlap(box, other) for other in taken):
            taken.append(box)
            yield element("text", text, x=number(left), y=number(base), class_="rooftext")
            return
