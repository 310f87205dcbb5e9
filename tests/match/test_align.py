"""Alignment of small steps whose roles are known because the steps were written down."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from nsysroof.match.align import Launch, align
from nsysroof.theory.cost import Cost, Operator

FLOOR = 1300.0


def operator(role: str, kind: str, *, optional: bool = False, auxiliary: bool = False) -> Operator:
    return Operator(
        role=role,
        kind=kind,
        layer=0,
        cost=Cost(),
        dtype="bf16",
        formula="",
        inputs={},
        optional=optional,
        auxiliary=auxiliary,
    )


LAYER = (
    operator("attn.norm", "rms_norm"),
    operator("attn.qkv_proj", "gemm"),
    operator("attn.rope", "rope"),
    operator("attn.kv_write", "kv_write"),
    operator("attn.core", "attention_decode"),
    operator("attn.o_proj", "gemm"),
    operator("attn.residual", "residual_add", optional=True),
    operator("mlp.norm", "rms_norm"),
    operator("mlp.gate_up_proj", "gemm"),
    operator("mlp.act", "activation"),
    operator("mlp.down_proj", "gemm"),
    operator("mlp.residual", "residual_add", optional=True),
)
BOUNDS = (10.0, 6300.0, 10.0, 10.0, 4200.0, 4200.0, 10.0, 10.0, 29500.0, 100.0, 14700.0, 10.0)


def launch(
    *kinds: str, ns: float, serves: tuple[str, ...] = (), by: str | None = None, stream: int = 7
) -> Launch:
    """One kernel; each kind may join several with ``+``."""
    sets = tuple(frozenset(kind.split("+")) for kind in kinds)
    return Launch(implements=sets, absorbed_by=by, serves=frozenset(serves), stream=stream, ns=ns)


NORM = launch("residual_add+rms_norm", "rms_norm", ns=3000)
ROPE, WRITE, ACT = (
    launch("rope", ns=2500),
    launch("kv_write", ns=1800),
    launch("activation", ns=3000),
)
CORE = launch("attention_decode", ns=9000)
REDUCE = launch(ns=3400, serves=("gemm",), by="previous")


def gemm(ns: float) -> Launch:
    return launch("gemm", "router_gemm", ns=ns)


STEP = (NORM, gemm(11_000), ROPE, WRITE, CORE, gemm(9_000), NORM, gemm(40_000), ACT, gemm(21_000))
ROLES = [
    "attn.norm",
    "attn.qkv_proj",
    "attn.rope",
    "attn.kv_write",
    "attn.core",
    "attn.o_proj",
    "attn.residual+mlp.norm",
    "mlp.gate_up_proj",
    "mlp.act",
    "mlp.down_proj",
]


def roles(
    launches: Sequence[Launch],
    operators: Sequence[Operator] = LAYER,
    bounds: Sequence[float | None] = BOUNDS,
) -> list[str]:
    found = align(launches, operators, bounds, floor_ns=FLOOR).assignments
    return ["+".join(operators[at].role for at in assignment.operators) for assignment in found]


def test_a_layer_in_order() -> None:
    assert roles(STEP) == ROLES


def test_order_alone_decides_where_no_bound_is_known() -> None:
    assert roles(STEP, bounds=[None] * len(LAYER)) == ROLES


def test_many_layers_whose_norms_are_fused_into_the_layer_before() -> None:
    first = launch("rms_norm", "qk_norm", ns=2500)
    block = [*STEP[1:], NORM]
    found = roles([first, *block * 30], LAYER * 30, BOUNDS * 30)
    inner = [*ROLES[1:], "mlp.residual+attn.norm"]
    last = [*ROLES[1:], "mlp.residual"]
    # After the last layer there is no norm left for the fused kernel: it holds the residual.
    assert found[: 1 + 29 * len(inner)] == ["attn.norm", *inner * 29]
    assert found[1 + 29 * len(inner) : -1] == last[:-1]


def test_a_split_k_reduction_belongs_to_the_product_before_it() -> None:
    steps = [*STEP[:6], REDUCE, *STEP[6:], REDUCE]
    found = align(steps, LAYER, BOUNDS, floor_ns=FLOOR).assignments
    assert [LAYER[at].role for at in found[6].operators] == ["attn.o_proj"]
    assert [LAYER[at].role for at in found[-1].operators] == ["mlp.down_proj"]
    assert (found[5].main, found[6].main) == (True, False)


def test_a_reduction_of_another_stream_is_not_absorbed() -> None:
    stranger = Launch(
        implements=(), absorbed_by="previous", serves=frozenset({"gemm"}), stream=9, ns=3400
    )
    assert roles([*STEP[:6], stranger, *STEP[6:]])[6] == ""


@pytest.mark.parametrize("at", range(1, 10))
def test_a_foreign_product_is_left_over_because_its_time_fits_nothing(at: int) -> None:
    # 0.4 µs cannot read any of these weights.
    foreign = gemm(400.0)
    assert roles([*STEP[:at], foreign, *STEP[at:]]) == [*ROLES[:at], "", *ROLES[at:]]


def test_neighbours_in_the_other_order_keep_their_roles() -> None:
    swapped = [*STEP[:2], WRITE, ROPE, *STEP[4:]]
    assert roles(swapped) == [*ROLES[:2], "attn.kv_write", "attn.rope", *ROLES[4:]]


def test_an_operator_that_no_kernel_computes_is_skipped() -> None:
    without_rope = [*STEP[:2], *STEP[3:]]
    assert roles(without_rope) == [*ROLES[:2], *ROLES[3:]]


def test_one_kernel_may_compute_several_operators() -> None:
    both = launch("rope+kv_write", "rope", ns=3000)
    fused = [*STEP[:2], both, *STEP[4:]]
    assert roles(fused) == [*ROLES[:2], "attn.rope+attn.kv_write", *ROLES[4:]]


def test_k_and_v_written_apart_are_one_operator() -> None:
    apart = [*STEP[:4], WRITE, *STEP[4:]]
    assert roles(apart) == [*ROLES[:4], "attn.kv_write", *ROLES[4:]]


def test_a_wrong_class_never_gets_the_role() -> None:
    unknown = launch(ns=11_000)
    assert roles([STEP[0], unknown, *STEP[2:]]) == [ROLES[0], "", *ROLES[2:]]


def test_kernels_around_the_model_cost_nothing() -> None:
    gather = launch("embedding", ns=4000)
    embed = operator("embed", "embedding")
    metadata = [launch(ns=2000), gather, launch("activation", ns=2000), launch(ns=2000)]
    found = roles([*metadata, gather, *STEP], [embed, *LAYER], [10.0, *BOUNDS])
    assert found == ["", "", "", "", "embed", *ROLES]


def test_no_kernels_and_no_operators() -> None:
    assert roles([]) == []
    assert roles(STEP, operators=[], bounds=[]) == [""] * len(STEP)


def test_queries_and_keys_may_be_rotated_between_the_writes_of_the_cache() -> None:
    # Rotate Q, write V, rotate K, write K: one operator each, of two launches.
    step = (NORM, gemm(11_000), ROPE, WRITE, ROPE, WRITE, CORE, gemm(9_000))
    found = align(step, LAYER, BOUNDS, floor_ns=FLOOR).assignments
    roles = ["+".join(LAYER[at].role for at in one.operators) for one in found]
    assert roles[2:6] == ["attn.rope", "attn.kv_write", "attn.rope", "attn.kv_write"]
    assert sorted(one.main for one in found[2:6]) == [False, False, True, True]
