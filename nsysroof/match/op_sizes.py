"""Shapes of matrix products in the text of NVTX ranges, as frameworks write them around an operator.

``aten::addmm, seq = 7, sizes = [[6144], [16, 4096], [4096, 6144]]`` names the operator and the
sizes of its inputs; scalars are ``[]``. The text is written around the call on the host, so it
speaks for kernels that were launched inside the range, not for those of a replayed graph.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

PREFIX = "aten::"
"""How the text of a range begins that may hold sizes."""

_TEXT = re.compile(r"aten::(\w+)\b.*?\bsizes = (\[(?:\[[\d, ]*\](?:, )?)*\])")
_SKIPPED_INPUTS = {"mm": 0, "matmul": 0, "bmm": 0, "linear": 0, "addmm": 1, "baddbmm": 1}
_TRANSPOSED = ("linear",)  # the weights are n x k


@dataclass(frozen=True, slots=True, kw_only=True)
class Product:
    """``batch`` products (m x k) @ (k x n)."""

    batch: int
    m: int
    n: int
    k: int


def parse_product(text: str) -> Product | None:
    """Return the matrix product that a range's text tells, None where it tells none.

    >>> parse_product("aten::linear, seq = 3, sizes = [[2, 8, 4096], [6144, 4096], []]")
    Product(batch=1, m=16, n=6144, k=4096)
    >>> parse_product("aten::bmm, op_id = 5, sizes = [[128, 1, 64], [128, 64, 512]]")
    Product(batch=128, m=1, n=512, k=64)
    >>> parse_product("aten::add, sizes = [[16, 4096], [16, 4096], []]") is None
    True
    """
    found = _TEXT.match(text)
    if not found or found[1] not in _SKIPPED_INPUTS:
        return None
    try:
        sizes: list[list[int]] = json.loads(found[2])
    except json.JSONDecodeError:
        return None
    first = _SKIPPED_INPUTS[found[1]]
    operands = sizes[first : first + 2]
    if len(operands) < len(("left", "right")) or min(map(len, operands)) < 1:
        return None
    return _product(*operands, transposed=found[1] in _TRANSPOSED)


def _product(left: Sequence[int], right: Sequence[int], *, transposed: bool) -> Product | None:
    if len(right) == 1:
        right = (1, *right) if transposed else (*right, 1)
    k, n = (right[-1], right[-2]) if transposed else (right[-2], right[-1])
    if left[-1] != k:
        return None
    shared = prod(right[:-2])
    rows = prod(left[:-1])
    if rows % shared:
        return None
    return Product(batch=shared, m=rows // shared, n=n, k=k)
