"""Algorithm and bus bandwidth of collectives, worked out from the message and the planted time."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from nsysroof.analysis import Options, analyze
from nsysroof.analysis.bus_rates import with_rates
from nsysroof.results import CollectiveRow
from nsysroof.theory.peaks import Peaks
from nsysroof.trace import open_trace

FIXTURES = Path(__file__).parents[2] / "fixtures"
OPTIONS = Options(model="llama-3.1-8b", batch=8, context=(1024,), tp=2, step_range="^decode_step_")


@cache
def rows() -> dict[tuple[str, int], CollectiveRow]:
    report = analyze(open_trace(FIXTURES / "llama-3.1-8b-h100-tp2.sqlite"), OPTIONS)
    return {(row.role, row.gpu): row for row in report.collectives}


@pytest.mark.parametrize("gpu", [0, 1])
def test_an_all_reduce_of_two_ranks_sends_its_message_once(gpu: int) -> None:
    row = rows()["attn.all_reduce", gpu]
    message = 8 * 4096 * 2  # a batch of 8 hidden vectors in BF16
    assert (row.operation, row.ranks, row.bytes) == ("all_reduce", 2, message)
    assert row.transfer_ns == 9_000
    assert row.algorithm_bytes_per_s == pytest.approx(message / 9e-6)  # 7.28 GB/s
    assert row.bus_bytes_per_s == row.algorithm_bytes_per_s  # 2 (2 - 1) / 2 = 1
    assert row.peak_bytes_per_s == 450e9  # NVLink 4 of an H100, one way
    assert row.ratio == pytest.approx(450e9 * 9e-6 / message)  # 61.8: latency, not the link


def test_an_all_gather_sends_half_of_its_message() -> None:
    row = rows()["logits", 0]
    message = 8 * 128_256 * 2
    assert (row.operation, row.ranks, row.bytes) == ("all_gather", 2, message)
    assert row.algorithm_bytes_per_s == pytest.approx(message / 22e-6)  # 93.3 GB/s
    assert row.bus_bytes_per_s == pytest.approx(message / 2 / 22e-6)  # 46.6 GB/s
    assert row.ratio == pytest.approx(450e9 * 22e-6 / (message / 2))  # 9.65


def test_where_no_operator_tells_the_message_nothing_is_told() -> None:
    given = rows()["attn.all_reduce", 0]
    bare = CollectiveRow(
        **{name: getattr(given, name) for name in CollectiveRow.__struct_fields__[:11]}
    )
    assert with_rates([bare], [], Peaks(entries={})) == [bare]
    assert (bare.bytes, bare.bus_bytes_per_s, bare.ratio) == (None, None, None)


def test_without_a_model_collectives_go_by_the_class_of_their_kernels() -> None:
    options = Options(tp=2, step_range="^decode_step_")
    found = analyze(open_trace(FIXTURES / "llama-3.1-8b-h100-tp2.sqlite"), options).collectives
    told = {(row.role, row.gpu): row for row in found}
    # Both all-reduces of a layer, which the model tells apart: 2 * 32 in each of six steps.
    row = told["allreduce", 0]
    assert (row.instances, row.transfer_ns, row.method) == (384, 9_000, "arrival")
    assert (row.bytes, row.bus_bytes_per_s) == (None, None)
