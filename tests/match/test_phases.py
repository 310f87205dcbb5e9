"""The phase of a step, where the name of its attention kernel fits prompts and decode alike."""

from __future__ import annotations

import polars as pl
import pytest

from nsysroof.match.phases import step_phases
from nsysroof.match.rules import load_rules
from nsysroof.timeline.steps import STEPS
from nsysroof.trace.schema import pack_grid

# FlashAttention 2 over a paged cache without split; its grid is (tiles of 64 queries, sequences,
# heads).
PAGED = "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, false, false, cutlass::bfloat16_t, Flash_kernel_traits<128, 64, 128, 4, cutlass::bfloat16_t> >, true, false, false, false, true, true, false, false>(flash::Flash_fwd_params)"
TRITON = "kernel_unified_attention_2d"


def phases(
    name: str, grids: list[tuple[int, int, int]], *, replayed: list[bool], stated: str | None = None
) -> list[str]:
    count = len(grids)
    steps = pl.DataFrame(
        {
            "gpu": [0] * count,
            "step": list(range(count)),
            "start_ns": list(range(count)),
            "end_ns": list(range(1, count + 1)),
            "source": ["graph"] * count,
            "replayed": replayed,
            "mark": [None] * count,
        },
        schema=STEPS,
    )
    kernels = steps.select("gpu", "step", name=pl.lit(0)).with_columns(
        grid=pl.Series([pack_grid(*grid) for grid in grids])
    )
    found = step_phases(kernels, steps, load_rules().classify_each([name]), stated=stated)
    return found["phase"].to_list()


def test_several_tiles_of_queries_are_a_prompt() -> None:
    # 1,024 new tokens of one sequence, then two steps of eight sequences with one token each.
    grids = [(16, 1, 32), (1, 8, 32), (1, 8, 32)]
    assert phases(PAGED, grids, replayed=[False] * 3) == ["prefill", "decode", "decode"]
    assert phases(PAGED, grids, replayed=[False, True, True]) == ["prefill", "decode", "decode"]


@pytest.mark.parametrize(("stated", "found"), [(None, "other"), ("prefill", "prefill")])
def test_an_eager_step_among_replays_is_no_decode_unless_something_says_so(
    stated: str | None, found: str
) -> None:
    grids = [(9, 8, 1), (1, 8, 1), (1, 8, 1)]
    seen = phases(TRITON, grids, replayed=[False, True, True], stated=stated)
    assert seen == [found, "decode", "decode"]
    assert phases(TRITON, grids, replayed=[False] * 3)[0] == "decode"
