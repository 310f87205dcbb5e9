"""A table of measured matrix products: CSV with m, n, k, a dtype and a time or a rate.

Column names are taken with or without their units: ``time_us``, ``Runtime (ms)``, ``tflops``,
``GFLOPs``. Operands of CUTLASS's profiler (``A`` = ``bf16:row``) name the dtype too.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import StringIO
from math import isfinite

from nsysroof.theory.gpus import Gpu
from nsysroof.theory.measured.roof import Measurement, Roof, unreadable
from nsysroof.theory.peaks import CUDA_KEYS, TENSOR_KEYS
from nsysroof.theory.roofline import ridges

DTYPES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "f16": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "f32": "fp32",
    "f64": "fp64",
    "float64": "fp64",
    "e4m3": "fp8",
    "e5m2": "fp8",
    "fe4m3": "fp8",
    "float8_e4m3fn": "fp8",
    "fp8_block": "fp8",
    "s8": "int8",
    "nvfp4": "fp4",
    "e2m1": "fp4",
    **{key: key for key in (*CUDA_KEYS, *TENSOR_KEYS)},
}
VALUE_BYTES = {"fp64": 8, "fp32": 4, "tf32": 4, "bf16": 2, "fp16": 2, "fp8": 1, "int8": 1}
"""Bytes of an operand's value where reading them can tell a bandwidth."""

CACHED = 4
"""A product that touches less than so many times the L2 cache may never reach the memory."""

STARVED = 4
"""A product whose intensity is so many times below the ridge is bound by memory for sure."""

_DTYPE_COLUMNS = ("dtype", "type", "precision", "a")
_TIMES = {
    "time_ns": 1.0,
    "time_us": 1e3,
    "time_ms": 1e6,
    "time_s": 1e9,
    "runtime_ms": 1e6,
    "latency_ms": 1e6,
    "latency_us": 1e3,
    "us": 1e3,
    "ms": 1e6,
    "ns": 1.0,
}
_RATES = {"tflops": 1e12, "gflops": 1e9, "tops": 1e12}
_HINT = "give a CSV with the columns m, n, k, dtype, and time_us or tflops"


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """One measured product."""

    m: int
    n: int
    k: int
    dtype: str
    time_ns: float

    @property
    def flop_per_s(self) -> float:
        """2·m·n·k over the time."""
        return 2 * self.m * self.n * self.k / self.time_ns * 1e9

    @property
    def distinct_bytes(self) -> int | None:
        """Both operands and a 2-byte result, each once; None where a value has no whole bytes."""
        size = VALUE_BYTES.get(self.dtype)
        if size is None:
            return None
        return (self.m * self.k + self.k * self.n) * size + self.m * self.n * 2

    @property
    def bytes_per_s(self) -> float:
        """Distinct bytes over the time, 0 where they are not known."""
        return (self.distinct_bytes or 0) / self.time_ns * 1e9

    @property
    def intensity(self) -> float:
        """FLOP per distinct byte, without end where the bytes are not known."""
        return 2 * self.m * self.n * self.k / (self.distinct_bytes or 1)

    @property
    def shape(self) -> str:
        """The shape as text."""
        return f"{self.m}x{self.n}x{self.k}"


def looks_like(text: str) -> bool:
    """Return whether a file is a table of products.

    >>> looks_like("m,n,k,dtype,time_us"), looks_like("size,time")
    (True, False)
    """
    first = text.lstrip("\ufeff").split("\n", 1)[0]
    return {"m", "n", "k"} <= {_plain(column) for column in first.split(",")}


def read(text: str, *, where: str, gpu: Gpu | None = None) -> Measurement:
    """Return the highest rate of each dtype, and the memory bandwidth where it can be told.

    Args:
        text: The CSV.
        where: Its name.
        gpu: The GPU that was measured: without its L2 no product tells a bandwidth.

    Raises:
        InputError: Columns are missing, or no row has a shape, a dtype and a time.
    """
    products: list[Product] = []
    left_out: dict[str, int] = {}
    for found in _rows(text, where):
        if isinstance(found, Product):
            products.append(found)
        else:
            left_out[found] = left_out.get(found, 0) + 1
    if not products:
        reasons = ", ".join(left_out) or "it has no rows"
        raise unreadable(f"no row of {where} can be used: {reasons}", where, hint=_HINT)
    notes = [f"{count} rows are left out: {why}" for why, count in sorted(left_out.items())]
    roofs = []
    for dtype in sorted({product.dtype for product in products}):
        best = max((p for p in products if p.dtype == dtype), key=_by_rate)
        roofs.append(Roof(key=dtype, value=best.flop_per_s, test=f"product {best.shape}"))
    bandwidth, why = _bandwidth(products, gpu)
    if bandwidth is not None:
        roofs.append(bandwidth)
    notes.append(why)
    return Measurement(
        source=f"{len(products)} measured products",
        device=None,
        roofs=tuple(roofs),
        notes=tuple(notes),
    )


def _by_rate(product: Product) -> tuple[float, str]:
    return product.flop_per_s, product.shape


def _bandwidth(products: list[Product], gpu: Gpu | None) -> tuple[Roof | None, str]:
    """Return the highest bandwidth of products that cannot lie in the L2 cache, and what it is."""
    if gpu is None or gpu.l2_bytes is None:
        return None, "no bandwidth is taken from products: without a known GPU its L2 is unknown"
    ridge = ridges(gpu.dense_peaks())
    least = CACHED * gpu.l2_bytes
    cold = [
        product
        for product in products
        if (product.distinct_bytes or 0) >= least
        and product.intensity * STARVED <= ridge.get(product.dtype, 0.0)
    ]
    if not cold:
        return None, (
            f"no bandwidth is taken from products: none that memory binds touches {least:,} bytes, "
            f"{CACHED} times the L2 of {gpu.key}"
        )
    best = max(cold, key=lambda p: (p.bytes_per_s, p.shape))
    roof = Roof(key="bw", value=best.bytes_per_s, test=f"product {best.shape} {best.dtype}")
    what = f"products that memory binds and that touch {CACHED} times the L2 or more"
    return roof, f"bw is the highest of {len(cold)} {what}"


def _rows(text: str, where: str) -> Iterator[Product | str]:
    table = csv.DictReader(StringIO(text.lstrip("\ufeff")))
    columns = {_plain(name): name for name in table.fieldnames or ()}
    missing = [name for name in ("m", "n", "k") if name not in columns]
    dtype = next((columns[name] for name in _DTYPE_COLUMNS if name in columns), None)
    timed = next((name for name in (*_TIMES, *_RATES) if name in columns), None)
    missing += ["dtype"] * (dtype is None) + ["time_us or tflops"] * (timed is None)
    if missing or dtype is None or timed is None:
        raise unreadable(f"{where} has no column {', '.join(missing)}", where, hint=_HINT)
    for row in table:
        yield _product(row, columns, dtype, timed)


def _product(
    row: Mapping[str, str], columns: Mapping[str, str], dtype: str, timed: str
) -> Product | str:
    try:
        m, n, k = (int(float(row[columns[name]])) for name in ("m", "n", "k"))
        value = float(row[columns[timed]])
    except (TypeError, ValueError):
        return "a shape or a time is no number"
    if min(m, n, k) < 1 or not isfinite(value) or value <= 0:
        return "a shape or a time is not above 0"
    spelt = str(row[dtype] or "").split(":")[0].strip().lower()
    if spelt not in DTYPES:
        return f"the dtype {spelt!r} is not known"
    if timed in _RATES:
        time_ns = 2 * m * n * k / (value * _RATES[timed]) * 1e9
    else:
        time_ns = value * _TIMES[timed]
    return Product(m=m, n=n, k=k, dtype=DTYPES[spelt], time_ns=time_ns)


def _plain(column: str) -> str:
    """Return a column name in lower case with its unit behind an underscore.

    >>> _plain(" Runtime (ms)"), _plain("GFLOPs")
    ('runtime_ms', 'gflops')
    """
    return re.sub(r"[^a-z0-9]+", "_", column.strip().strip('"').lower()).strip("_")
