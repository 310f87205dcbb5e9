"""Tables over all kernels, against sums and ranks worked out one kernel at a time."""

from __future__ import annotations

from collections import defaultdict

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from nsysroof.analysis.tables import kernel_rows
from nsysroof.match.rules import load_rules
from nsysroof.trace.schema import KERNELS, pack_block, pack_grid

TEXTS = ["alpha_kernel", "beta_kernel"]
CLASSES = load_rules(None).classify_each(TEXTS)
Kernel = tuple[int, int, str | None, bool, int]  # name, blocks, role, main, ns

kernels = st.tuples(
    st.integers(0, 1),
    st.integers(1, 2),
    st.sampled_from([None, "attn.core", "mlp.act"]),
    st.booleans(),
    st.integers(0, 9),
)


@given(st.lists(kernels, min_size=1, max_size=40))
def test_kernels_by_name_grid_and_role(rows: list[Kernel]) -> None:
    frame = pl.DataFrame(
        [
            {
                "name": name,
                "grid": pack_grid(blocks, 1, 1),
                "block": pack_block(128, 1, 1),
                "role": role,
                "main": main,
                "start_ns": 100 * at,
                "end_ns": 100 * at + ns,
            }
            for at, (name, blocks, role, main, ns) in enumerate(rows)
        ],
        schema={name: KERNELS[name] for name in ("name", "grid", "block", "start_ns", "end_ns")}
        | {"role": pl.String(), "main": pl.Boolean()},
    )
    found = kernel_rows(frame, TEXTS, CLASSES, {"attn.core": 2.0, "mlp.act": None})
    expected: dict[tuple[str, int, str | None], list[int]] = defaultdict(list)
    helpers = set()
    for name, blocks, role, main, ns in rows:
        expected[TEXTS[name], blocks, role].append(ns)
        if not main:
            helpers.add((TEXTS[name], blocks, role))
    assert len(found) == len(expected)
    for row in found:
        key = (row.name, row.grid[0], row.role)
        times = sorted(expected[key])
        p50 = times[len(times) // 2]
        assert (row.instances, row.total_ns) == (len(times), sum(times))
        assert (row.min_ns, row.p50_ns, row.max_ns) == (times[0], p50, times[-1])
        bounded = row.role == "attn.core" and key not in helpers
        assert row.ratio == (p50 / 2.0 if bounded else None)
    assert [row.total_ns for row in found] == sorted((r.total_ns for r in found), reverse=True)
