"""What holds of every cost, whatever the sizes: it grows, it adds up, and nothing is free."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pytest
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from nsysroof.errors import UsageError
from nsysroof.theory.cost import BYTE_KINDS, Cost, Operator
from nsysroof.theory.dtypes import ACTIVATION_FORMATS, WEIGHT_FORMATS
from nsysroof.theory.models.decoder import operators
from nsysroof.theory.models.feedforward import Routing
from nsysroof.theory.models.layers import Moe
from nsysroof.theory.models.spec import ModelSpec, find_model
from nsysroof.theory.models.weights import share_of_weights, weight_bytes
from nsysroof.theory.operators import (
    collective,
    copy,
    elementwise,
    moe,
    norm,
    sampling,
    state,
)
from nsysroof.theory.operators.attention import attention, indexer, kv_write, mla_decode
from nsysroof.theory.operators.gemm import LinearFormat, gemm, lora, quantize
from nsysroof.theory.operators.pairs import Mask
from nsysroof.theory.workload import Workload

Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One operator: its sizes with their largest values, its cost, and what it touches at least.

    Attributes:
        most: The largest value of each size.
        cost: The cost for given sizes.
        least: Bytes of its inputs and outputs, each once, counted by hand.
    """

    most: Sizes
    cost: Callable[[Sizes], Cost]
    least: Callable[[Sizes], int]


BF16 = LinearFormat(
    weights=WEIGHT_FORMATS["bf16"], activations=ACTIVATION_FORMATS["bf16"], output="bf16"
)


def _window(sizes: Sizes) -> Cost:
    mask = Mask(window=sizes["window"], sink_tokens=sizes["sinks"])
    return attention([sizes["q"]], [sizes["prefix"]], heads=8, kv_heads=2, head_dim=64, mask=mask)


CASES: dict[str, Case] = {
    "gemm": Case(
        most={"m": 300, "n": 400, "k": 500},
        cost=lambda s: gemm(s["m"], s["n"], s["k"], fmt=BF16),
        least=lambda s: 2 * (s["m"] * s["k"] + s["k"] * s["n"] + s["m"] * s["n"]),
    ),
    "lora": Case(
        most={"tokens": 99, "n": 300, "k": 300, "rank": 64, "adapters": 8},
        cost=lambda s: lora(
            s["tokens"], s["n"], s["k"], rank=s["rank"], adapters=s["adapters"], dtype="bf16"
        ),
        least=lambda s: 2 * (s["tokens"] * (s["k"] + s["n"]) + s["rank"] * (s["k"] + s["n"])),
    ),
    "quantize": Case(
        most={"m": 99, "k": 999},
        cost=lambda s: quantize(
            s["m"], s["k"], source="bf16", target=ACTIVATION_FORMATS["fp8-block"]
        ),
        least=lambda s: 3 * s["m"] * s["k"],
    ),
    "attention": Case(
        most={"q": 300, "prefix": 3000, "heads": 64, "kv_heads": 8, "head_dim": 256},
        cost=lambda s: attention(
            [s["q"]],
            [s["prefix"]],
            heads=s["heads"],
            kv_heads=s["kv_heads"],
            head_dim=s["head_dim"],
        ),
        least=lambda s: (
            2
            * s["head_dim"]
            * (2 * s["q"] * s["heads"] + 2 * (s["q"] + s["prefix"]) * s["kv_heads"])
        ),
    ),
    "attention with a window": Case(
        most={"q": 99, "prefix": 500, "window": 300, "sinks": 9},
        cost=_window,
        least=lambda s: 2 * 64 * (2 * s["q"] * 8 + 2 * min(s["q"] + s["prefix"], s["window"]) * 2),
    ),
    "latent attention": Case(
        most={"q": 8, "prefix": 5000, "heads": 128, "topk": 2048},
        cost=lambda s: mla_decode(
            [s["q"]],
            [s["prefix"]],
            heads=s["heads"],
            kv_lora=512,
            rope=64,
            token_bytes=1152,
            topk=s["topk"],
        ),
        least=lambda s: (
            2 * s["q"] * s["heads"] * (576 + 512) + 1152 * min(s["q"] + s["prefix"], s["topk"])
        ),
    ),
    "indexer": Case(
        most={"q": 8, "prefix": 5000, "heads": 64},
        cost=lambda s: indexer(
            [s["q"]], [s["prefix"]], heads=s["heads"], head_dim=128, key_bytes=132, dtype="fp8"
        ),
        least=lambda s: 132 * (s["q"] + s["prefix"]) + s["q"] * s["heads"] * 128,
    ),
    "cache write": Case(
        most={"tokens": 999, "values": 2048},
        cost=lambda s: kv_write(s["tokens"], s["values"], kv="fp8", dtype="bf16"),
        least=lambda s: 3 * s["tokens"] * s["values"],
    ),
    "grouped product": Case(
        most={"rows": 999, "n": 300, "k": 300, "experts": 64},
        cost=lambda s: moe.grouped_gemm(s["rows"], s["n"], s["k"], experts=s["experts"], fmt=BF16),
        least=lambda s: 2 * (s["experts"] * s["n"] * s["k"] + s["rows"] * (s["n"] + s["k"])),
    ),
    "top-k": Case(
        most={"tokens": 999, "experts": 512, "top_k": 10},
        cost=lambda s: moe.topk(s["tokens"], s["experts"], s["top_k"]),
        least=lambda s: 4 * s["tokens"] * s["experts"],
    ),
    "combine": Case(
        most={"rows": 999, "tokens": 99, "hidden": 4096},
        cost=lambda s: moe.combine(s["rows"], s["tokens"], s["hidden"], dtype="bf16"),
        least=lambda s: 2 * s["hidden"] * (s["rows"] + s["tokens"]),
    ),
    "norm": Case(
        most={"tokens": 999, "hidden": 8192},
        cost=lambda s: norm.rms_norm(s["tokens"], s["hidden"], dtype="bf16", residual=True),
        least=lambda s: 2 * s["hidden"] * (4 * s["tokens"] + 1),
    ),
    "gated norm": Case(
        most={"tokens": 999, "width": 8192, "weights": 8192},
        cost=lambda s: norm.gated_norm(s["tokens"], s["width"], weights=s["weights"], dtype="bf16"),
        least=lambda s: 2 * (3 * s["tokens"] * s["width"] + s["weights"]),
    ),
    "rotary embedding": Case(
        most={"tokens": 999, "heads": 64},
        cost=lambda s: elementwise.rope(
            s["tokens"], s["heads"] * 128, rotary=128, heads=s["heads"], dtype="bf16"
        ),
        least=lambda s: 2 * s["tokens"] * (2 * s["heads"] * 128 + 128),
    ),
    "gated activation": Case(
        most={"tokens": 999, "width": 8192},
        cost=lambda s: elementwise.activation(
            s["tokens"], s["width"], kind=elementwise.Activation.GATED, dtype="bf16"
        ),
        least=lambda s: 6 * s["tokens"] * s["width"],
    ),
    "embedding": Case(
        most={"tokens": 999, "hidden": 8192},
        cost=lambda s: elementwise.embedding(s["tokens"], s["hidden"], dtype="bf16"),
        least=lambda s: 4 * s["tokens"] * s["hidden"],
    ),
    "sampling": Case(
        most={"rows": 99, "vocab": 150_000},
        cost=lambda s: sampling.argmax(s["rows"], s["vocab"]),
        least=lambda s: 4 * s["rows"] * s["vocab"],
    ),
    "sort": Case(
        most={"rows": 99, "vocab": 150_000, "passes": 8},
        cost=lambda s: sampling.sort(s["rows"], s["vocab"], passes=s["passes"]),
        least=lambda s: 16 * s["rows"] * s["vocab"],
    ),
    "convolution": Case(
        most={"batch": 64, "channels": 8192, "taps": 8},
        cost=lambda s: state.conv_step(
            s["batch"], s["batch"], channels=s["channels"], taps=s["taps"], dtype="bf16"
        ),
        least=lambda s: 4 * s["batch"] * s["channels"] * s["taps"],
    ),
    "delta rule": Case(
        most={"batch": 64, "value_heads": 32},
        cost=lambda s: state.delta_rule(
            s["batch"],
            s["batch"],
            key_heads=16,
            value_heads=s["value_heads"],
            key_dim=128,
            value_dim=128,
            state_dtype="fp32",
            dtype="bf16",
        ),
        least=lambda s: 8 * s["batch"] * s["value_heads"] * 128 * 128,
    ),
    "device copy": Case(
        most={"size": 10**9},
        cost=lambda s: copy.copy(s["size"], kind="d2d"),
        least=lambda s: 2 * s["size"],
    ),
}


def _sizes(case: Case) -> st.SearchStrategy[dict[str, int]]:
    return st.fixed_dictionaries({name: st.integers(1, most) for name, most in case.most.items()})


def _parts(cost: Cost) -> dict[str, int]:
    return {**{kind: getattr(cost, kind) for kind in BYTE_KINDS}, "flop": cost.total_flop}


@pytest.mark.parametrize("name", CASES)
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_no_operator_is_negative_or_cheaper_than_its_operands(
    name: str, data: st.DataObject
) -> None:
    case = CASES[name]
    sizes = data.draw(_sizes(case))
    cost = case.cost(sizes)
    assert min(_parts(cost).values()) >= 0
    assert cost.memory_bytes >= case.least(sizes)


@pytest.mark.parametrize("name", CASES)
@given(data=st.data(), more=st.integers(1, 50))
@settings(max_examples=40, deadline=None)
def test_no_operator_gets_cheaper_as_a_size_grows(
    name: str, data: st.DataObject, more: int
) -> None:
    case = CASES[name]
    sizes = data.draw(_sizes(case))
    before = _parts(case.cost(sizes))
    for grown in sizes:
        after = _parts(case.cost({**sizes, grown: sizes[grown] + more}))
        for part, amount in before.items():
            assert amount <= after[part], (grown, part)


@given(
    st.sampled_from(sorted(WEIGHT_FORMATS)),
    st.integers(1, 500),
    st.integers(1, 500),
    st.integers(1, 50),
)
def test_formats_grow_with_their_matrix(name: str, n: int, k: int, more: int) -> None:
    fmt = WEIGHT_FORMATS[name]

    def size(rows: int, columns: int) -> int:
        return fmt.payload_bytes(rows, columns) + fmt.scale_bytes(rows, columns)

    assert n * k * fmt.bits / 8 <= size(n, k) <= min(size(n + more, k), size(n, k + more))


@given(st.integers(1, 10**9), st.integers(2, 64), st.integers(1, 10**6))
def test_exchanges_grow_and_never_send_more_than_a_ring_does(
    size: int, ranks: int, more: int
) -> None:
    for operation in (
        collective.all_gather,
        collective.reduce_scatter,
        collective.all_to_all,
    ):
        assert 0 < operation(size, ranks).link <= operation(size + more, ranks).link <= size + more
    ring = collective.all_reduce(size, ranks, in_switch=False).link
    switch = collective.all_reduce(size, ranks, in_switch=True).link
    assert switch == size
    assert switch <= ring <= 2 * size


@given(
    st.integers(2, 300).flatmap(
        lambda experts: st.tuples(
            st.just(experts), st.integers(1, experts), st.integers(1, 500), st.integers(1, 50)
        )
    )
)
def test_expected_experts_lie_between_the_fewest_and_the_most(
    drawn: tuple[int, int, int, int],
) -> None:
    experts, top_k, tokens, more = drawn
    expected = moe.expected_experts(experts, top_k, tokens)
    slack = 1e-9 * experts
    assert top_k - slack <= expected <= moe.most_experts(experts, top_k, tokens) + slack
    assert expected <= moe.expected_experts(experts, top_k, tokens + more) + slack


@given(
    st.sampled_from([2, 4, 8]),
    st.integers(1, 4),
    st.integers(1, 8),
    st.integers(1, 300),
)
def test_expert_parallel_shares_add_up_to_the_whole(
    ep: int, width: int, top_k: int, tokens: int
) -> None:
    # Over all GPUs: every token-expert pair once, and the experts that one GPU would expect.
    ffn = Moe(experts=ep * width * 4, top_k=min(top_k, ep * width * 4), intermediate=64)
    whole = Routing.of(ffn, Workload.create(batch=tokens * ep, context=1))
    share = Routing.of(ffn, Workload.create(batch=tokens, context=1, dp=ep, ep=ep))
    assert share.rows * ep == pytest.approx(whole.rows)
    assert share.expected * ep == pytest.approx(whole.expected)
    assert share.most * ep >= whole.most
    assert share.fewest <= whole.fewest


SMALL = {
    key: dataclasses.replace(model, layers=model.layers[:5])
    for key, model in (
        (key, find_model(key))
        for key in (
            "llama-3.1-8b",
            "qwen3-30b-a3b",
            "gpt-oss-20b",
            "qwen3-next-80b-a3b",
            "deepseek-v3.2",
            "nemotron-3-nano-30b-a3b",
            "minimax-text-01",
        )
    )
}
models = st.sampled_from(sorted(SMALL)).map(SMALL.__getitem__)


def _total(found: list[Operator]) -> Cost:
    return sum((op.cost for op in found), Cost())


@given(models, st.lists(st.integers(1, 9000), min_size=1, max_size=5))
@settings(max_examples=40, deadline=None)
def test_what_mixes_tokens_adds_over_sequences(model: ModelSpec, contexts: list[int]) -> None:
    roles = ("attn.core", "attn.index.scores", "ssm.state", "ssm.conv", "attn.kv_write")

    def mixed(lengths: list[int]) -> Cost:
        step = operators(model, Workload.create(context=lengths))
        return _total([op for op in step if op.role in roles])

    together, apart = mixed(contexts), [mixed([length]) for length in contexts]
    # Weights (sinks, convolutions, steps) are read once however many sequences there are.
    assert together.flop == sum(apart, Cost()).flop
    for kind in ("kv_read", "kv_write", "state", "act_read", "act_write"):
        assert getattr(together, kind) == sum(getattr(cost, kind) for cost in apart), kind


@given(models, st.integers(1, 64), st.sampled_from(["batch", "context", "new_tokens"]))
@settings(max_examples=60, deadline=None)
def test_a_step_grows_with_each_of_its_sizes(model: ModelSpec, more: int, grown: str) -> None:
    def total(extra: Mapping[str, int]) -> Cost:
        step = Workload.create(
            batch=3 + extra.get("batch", 0),
            context=700 + extra.get("context", 0),
            new_tokens=2 + extra.get("new_tokens", 0),
        )
        return _total(operators(model, step))

    before, after = total({}), total({grown: more})
    assert before.total_flop <= after.total_flop
    assert before.memory_bytes <= after.memory_bytes


@given(models, st.integers(0, 690), st.integers(2, 8))
@settings(max_examples=40, deadline=None)
def test_sharing_a_prefix_saves_cache_and_nothing_else(
    model: ModelSpec, shared: int, batch: int
) -> None:
    plain = _total(operators(model, Workload.create(batch=batch, context=700)))
    step = Workload.create(batch=batch, context=700, shared_prefix=shared)
    saved = _total(operators(model, step))
    assert saved.kv_read <= plain.kv_read
    assert saved.flop == plain.flop
    assert saved.act_read == plain.act_read
    alone = _total(operators(model, Workload.create(context=700)))
    assert saved.kv_read >= alone.kv_read


@given(models, st.sampled_from([2, 4]), st.sampled_from([None, "fp8"]))
@settings(max_examples=40, deadline=None)
def test_tensor_parallel_shares_cover_the_weights(
    model: ModelSpec, tp: int, weights: str | None
) -> None:
    try:
        share = share_of_weights(model, Workload.create(context=1, tp=tp, weights=weights))
    except UsageError:  # this tp does not divide the model's heads
        reject()
    whole = weight_bytes(model, Workload.create(context=1, weights=weights))
    assert whole <= share * tp
    # What is replicated (norms, routers, latents, KV heads beyond their number) stays small.
    assert share * tp < 1.35 * whole


@given(models, st.lists(st.integers(1, 400), min_size=1, max_size=4))
@settings(max_examples=40, deadline=None)
def test_chunks_of_a_prefill_keep_the_arithmetic_of_products(
    model: ModelSpec, chunks: list[int]
) -> None:
    roles = ("attn.qkv_proj", "attn.o_proj", "mlp.gate_up_proj", "moe.gate_up", "moe.down")

    def flop(step: Workload) -> int:
        return _total([op for op in operators(model, step) if op.role in roles]).total_flop

    done, parts = 0, 0
    for chunk in chunks:
        done += chunk
        parts += flop(Workload.create(phase="prefill", context=done, new_tokens=chunk))
    assert parts == flop(Workload.create(phase="prefill", context=done))
