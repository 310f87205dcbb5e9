"""Kernels beside other streams apart from kernels alone."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nsysroof.analysis.overlap import _shared_ns, overlap_rows
from nsysroof.results import OverlapRow

US = 1_000
Kernel = tuple[str | None, int, int, int]  # role, stream, start, end

SCHEMA = {"role": pl.String, "stream": pl.UInt32, "start_ns": pl.Int64, "end_ns": pl.Int64}


def frame(kernels: list[Kernel]) -> pl.DataFrame:
    return pl.DataFrame(kernels, schema=SCHEMA, orient="row").with_columns(
        gpu=pl.lit(0, dtype=pl.UInt16),
        pid=pl.lit(1, dtype=pl.UInt32),
        context=pl.lit(1, dtype=pl.UInt32),
        step=pl.lit(0, dtype=pl.UInt32),
        main=pl.lit(value=True),
    )


@pytest.mark.parametrize(
    ("role", "alone_us", "beside_us", "slowdown"),
    [
        ("attn.core", 180, 330, 1.83),
        ("mlp.gate_up_proj", 1_180, 2_080, 1.76),
        ("mlp.act", 20, 50, 2.5),
    ],
)
def test_o42_a_collective_slows_what_runs_beside_it(
    role: str, alone_us: int, beside_us: int, slowdown: float
) -> None:
    """On an A100 attention takes 0.18 or 0.33 ms, a GEMM 1.18 or 2.08, elementwise 0.02 or 0.05."""
    kernels: list[Kernel] = []
    at = 0
    for number in range(20):
        ns = (alone_us if number < 10 else beside_us) * US
        kernels.append((role, 7, at, at + ns))
        if number >= 10:
            kernels.append((None, 20, at - 5 * US, at + ns - 2 * US))
        at += ns + 50 * US
    (row,) = overlap_rows(frame(kernels))
    assert (row.clean, row.overlapped) == (10, 10)
    assert (row.clean_ns, row.overlapped_ns) == (alone_us * US, beside_us * US)
    assert row.slowdown == pytest.approx(slowdown, abs=0.005)


def test_kernels_of_one_stream_overlap_by_design() -> None:
    assert overlap_rows(frame([("mlp.act", 7, 0, 10), ("mlp.act", 7, 5, 15)])) == []


def test_a_role_that_never_ran_alone_has_no_clean_time() -> None:
    kernels: list[Kernel] = [("mlp.act", 7, 0, 10), ("attn.core", 8, 9, 30), ("lm_head", 8, 40, 50)]
    assert overlap_rows(frame(kernels)) == [
        OverlapRow(role=role, clean=0, overlapped=1, clean_ns=None, overlapped_ns=ns, slowdown=None)
        for role, ns in (("attn.core", 21), ("mlp.act", 10))
    ]


def test_streams_of_other_gpus_and_kernels_outside_steps_do_not_count() -> None:
    kernels = frame([("mlp.act", 7, 0, 10), ("mlp.act", 8, 0, 10), (None, 9, 100, 110)])
    apart = kernels.with_columns(gpu=pl.Series([0, 1, 1], dtype=pl.UInt16))
    assert overlap_rows(apart) == []
    outside = kernels.with_columns(step=pl.Series([0, None, None], dtype=pl.UInt32))
    (row,) = overlap_rows(outside)
    assert (row.clean, row.overlapped) == (0, 1)


@given(
    st.lists(
        st.builds(
            lambda stream, start, ns: ("mlp.act", stream, start, start + ns),
            st.integers(0, 3),
            st.integers(0, 40),
            st.integers(0, 12),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_the_time_beside_other_streams_is_the_bitmaps(kernels: list[Kernel]) -> None:
    expected = []
    for _, stream, start, end in kernels:
        others = {t for _, other, s, e in kernels if other != stream for t in range(s, e)}
        expected.append(len(set(range(start, end)) & others))
    assert _shared_ns(frame(kernels)).tolist() == expected
