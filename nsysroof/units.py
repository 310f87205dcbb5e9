"""Numbers to text: times, bytes, rates and shares the way a performance engineer writes them."""

from __future__ import annotations

_TIME_STEPS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1.0, "ns"))
_HALF_DIGIT_NS = 950.0  # below it a microsecond with one decimal would lose its digits
_DECIMAL_STEPS = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))


def format_time(ns: float | None) -> str:
    """Return a time with three or four significant digits and its unit.

    >>> format_time(30_539.776), format_time(1_621_489), format_time(None)
    ('30.5 µs', '1.62 ms', '–')
    """
    if ns is None:
        return "–"
    for size, unit in _TIME_STEPS:
        if abs(ns) >= size:
            return f"{_three_digits(ns / size)} {unit}"
    return f"{_three_digits(ns)} ns" if ns else "0 ns"


def format_us(ns: float | None) -> str:
    """Return a time in microseconds without the unit, for a column headed µs.

    >>> format_us(5_242.88), format_us(39.1), format_us(0), format_us(None)
    ('5.2', '0.039', '0.0', '–')
    """
    if ns is None:
        return "–"
    return f"{ns / 1e3:,.1f}" if ns == 0 or abs(ns) >= _HALF_DIGIT_NS else f"{ns / 1e3:.2g}"


def format_us_exact(ns: int | None) -> str:
    """Return integer ns in microseconds with all digits, so that a printed column adds up.

    >>> format_us_exact(1_621_489), format_us_exact(None)
    ('1,621.489', '–')
    """
    return "–" if ns is None else f"{ns / 1e3:,.3f}"


def format_flop(flop: float | None) -> str:
    """Return a number of floating-point operations.

    >>> format_flop(137_438_953_472), format_flop(None)
    ('137 GFLOP', '–')
    """
    return "–" if flop is None else _decimal(flop, "FLOP")


def format_bytes(size: float | None) -> str:
    """Return a decimal byte count.

    >>> format_bytes(122_159_104), format_bytes(622_329_856)
    ('122 MB', '622 MB')
    """
    return "–" if size is None else _decimal(size, "B")


def format_rate(per_second: float | None, unit: str) -> str:
    """Return a rate such as ``4 TB/s`` or ``989 TFLOP/s``.

    >>> format_rate(989.4e12, "FLOP"), format_rate(4.0e12, "B")
    ('989 TFLOP/s', '4.00 TB/s')
    """
    return "–" if per_second is None else _decimal(per_second, f"{unit}/s")


def format_share(share: float | None) -> str:
    """Return a fraction as a percentage with one decimal.

    >>> format_share(0.9767), format_share(None)
    ('97.7 %', '–')
    """
    return "–" if share is None else f"{share * 100:.1f} %"


def format_ratio(ratio: float | None) -> str:
    """Return measured over bound with two decimals, one from ten upwards.

    >>> format_ratio(1.844), format_ratio(62.31)
    ('1.84', '62.3')
    """
    if ratio is None:
        return "–"
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:,.1f}"


def _decimal(value: float, unit: str) -> str:
    for size, prefix in _DECIMAL_STEPS:
        if abs(value) >= size:
            return f"{_three_digits(value / size)} {prefix}{unit}"
    return f"{_three_digits(value)} {unit}"


def _three_digits(value: float) -> str:
    magnitude = abs(value)
    if magnitude >= 100 or value == 0:
        return f"{value:,.0f}"
    return f"{value:.1f}" if magnitude >= 10 else f"{value:.2f}"
