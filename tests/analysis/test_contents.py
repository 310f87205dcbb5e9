"""Phase, tokens and contexts of each step: from NVTX, from a schedule, never averaged over phases.

A model of one Llama-3.1-8B layer and steps of one attention kernel, so that bounds are worked out
by hand: 4,096 B of K and V for each cached token, 16,384 B of queries and results for each new one.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fixtures.builder import ExportBuilder
from nsysroof.analysis import Options, analyze
from nsysroof.errors import UsageError
from nsysroof.results import Report
from nsysroof.trace import open_trace

DECODE = "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128>>(Flash_fwd_params)"
PREFILL = "void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128>>(Flash_fwd_params)"
KV_BYTES, TOKEN_BYTES = 4_096, 16_384
US = 1_000
Analyzed = Callable[..., Report]


@pytest.fixture
def model(tmp_path: Path) -> str:
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 1,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 128256,
        "tie_word_embeddings": False,
        "torch_dtype": "bfloat16",
    }
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    return str(path)


@pytest.fixture
def analyzed(tmp_path: Path, model: str) -> Analyzed:
    def write_and_analyze(export: ExportBuilder, **options: object) -> Report:
        path = export.write(tmp_path / "capture.sqlite")
        given = {"model": model, "gpu": "h100-sxm", "peaks": ("bw=1e12",)} | options
        return analyze(open_trace(path), Options(**given))  # type: ignore[arg-type]  # its fields

    return write_and_analyze


def engine(requests: int, kv: int) -> str:
    """Return how an engine annotates a decode step of so many KV tokens in all."""
    empty = "sq0sk0sqsq0sqsk0"
    sums = f"sq{requests}sk{kv}sqsq{requests}sqsk{kv}"
    return f"execute_{requests}_context_0({empty})_generation_{requests}({sums})"


def capture(steps: Sequence[tuple[str, str, int]]) -> ExportBuilder:
    """Return one kernel for each step: the text of its range, its name, its µs."""
    export = ExportBuilder().gpu(0, "NVIDIA H100 80GB HBM3").process(4000, cuda_devices=[0])
    for number, (text, name, us) in enumerate(steps, start=1):
        at = 1_000_000 * number
        export.nvtx(text, at - 500, at + 500)
        export.launch("cudaLaunchKernel", at, at + 100, correlation=number)
        export.kernel(name, at + 1_000, at + 1_000 + us * US, correlation=number)
    return export.session(1_000_000 * (len(steps) + 2))


def schedule(folder: Path, *rows: str) -> Path:
    path = folder / "steps.csv"
    path.write_text("\n".join(["step,new_tokens,contexts", *rows]) + "\n")
    return path


def core_bound_ns(found: Report) -> float:
    row = next(row for row in found.operators if row.role == "attn.core")
    assert row.bound_ns is not None
    return row.bound_ns


def slugs(found: Report) -> dict[str, str]:
    return {one.slug: f"{one.severity}: {one.text}" for one in found.capture.findings}


def test_an_annotated_trace_needs_no_batch_and_no_context(analyzed: Analyzed) -> None:
    kv = [8_193 + 16 * step for step in range(5)]
    found = analyzed(capture([(engine(16, total), DECODE, 100) for total in kv]))
    assert (found.steps.count, found.steps.source, found.steps.phase) == (5, "nvtx", "decode")
    # The last step ends with its kernel after 100 µs, the others last 1 ms until the next begins:
    # ascending they are step 4, 0, 1, 2, 3, so the median is step 1.
    assert found.assumptions.batch == 16
    assert found.assumptions.context is not None
    assert sum(found.assumptions.context) == 8_193 + 16
    assert core_bound_ns(found) == pytest.approx((8_209 * KV_BYTES + 16 * TOKEN_BYTES) / 1e3)
    (note,) = [note for note in found.assumptions.notes if "NVTX" in note]
    assert "step 1, the median step" in note
    assert engine(16, 8_209) in note
    # 8193 / 16 and 8257 / 16.
    assert "over the 5 steps analysed a context is 512.1 to 516.1 in the mean" in note
    assert "context-mismatch" not in slugs(found)


def test_options_win_over_the_annotation_and_are_told_where_they_contradict_it(
    analyzed: Analyzed,
) -> None:
    export = capture([(engine(16, 8_192 + 16 * step), DECODE, 100) for step in range(3)])
    found = analyzed(export, batch=8, context=(1024,))
    assert (found.assumptions.batch, found.assumptions.context) == (8, [1024] * 8)
    told = slugs(found)
    assert (
        told["batch-mismatch"]
        == "error: NVTX annotates 16 sequences in a step, but the batch given is 8"
    )
    assert (
        told["context-mismatch"]
        == "error: NVTX annotates 512 to 514 KV tokens of a sequence in the mean, but the "
        "context given is 1,024"
    )
    # Errors come first, before any number.
    assert [one.severity for one in found.capture.findings[:2]] == ["error", "error"]


@pytest.mark.parametrize(("context", "doubted"), [(510, False), (519, False), (505, True)])
def test_a_rounded_context_within_one_percent_of_the_steps_is_no_contradiction(
    analyzed: Analyzed, context: int, doubted: bool
) -> None:
    export = capture([(engine(2, 1_024 + 2 * step), DECODE, 100) for step in range(3)])
    found = slugs(analyzed(export, batch=2, context=(context,)))
    assert ("context-mismatch" in found) == doubted
    assert "batch-mismatch" not in found


def test_what_only_one_option_leaves_open_comes_from_the_annotation(analyzed: Analyzed) -> None:
    export = capture([(engine(4, 4_000), DECODE, 100)] * 3)
    by_context = analyzed(export, context=(1_001,))
    assert (by_context.assumptions.batch, by_context.assumptions.context) == (4, [1_001] * 4)
    by_batch = analyzed(export, batch=2)
    assert by_batch.assumptions.context == [1_000] * 2
    assert "batch-mismatch" in slugs(by_batch)


def test_an_annotation_without_lengths_gives_the_batch_but_no_context(analyzed: Analyzed) -> None:
    export = capture([("execute_context_0(0)_generation_4(4)", DECODE, 100)] * 3)
    with pytest.raises(UsageError) as raised:
        analyzed(export)
    assert raised.value.slug == "context-missing"
    assert analyzed(export, context=(700,)).assumptions.batch == 4


def test_drafts_to_verify_count_as_new_tokens_of_a_decode_step(analyzed: Analyzed) -> None:
    text = "execute_8_context_0(sq0sk0sqsq0sqsk0)_generation_2(sq8sk600sqsq32sqsk2400)"
    found = analyzed(capture([(text, DECODE, 100)] * 3))
    assert (found.steps.phase, found.assumptions.new_tokens) == ("decode", 4)
    assert core_bound_ns(found) == pytest.approx((600 * KV_BYTES + 8 * TOKEN_BYTES) / 1e3)


def test_the_engine_tells_phases_apart_that_one_kernel_name_does_not(analyzed: Analyzed) -> None:
    prompt = "execute_9_context_1(sq9sk9sqsq81sqsk81)_generation_0(sq0sk0sqsq0sqsk0)"
    both = "execute_9_context_1(sq8sk8sqsq64sqsk64)_generation_1(sq1sk99sqsq1sqsk99)"
    export = capture(
        [(prompt, DECODE, 50), *[(engine(1, 90 + n), DECODE, 60) for n in range(3)]]
        + [(both, DECODE, 70)] * 2
    )
    found = analyzed(export)
    assert [(row.phase, row.count) for row in found.phases] == [
        ("prefill", 1),
        ("decode", 3),
        ("mixed", 2),
    ]
    assert found.assumptions.context == [91]  # of the decode steps alone: 90, 91 and 92
    assert analyzed(export, phase="prefill").assumptions.context == [9]


def test_a_schedule_gives_phase_and_workload_of_every_step(
    analyzed: Analyzed, tmp_path: Path
) -> None:
    rows = schedule(tmp_path, "0,300,300", "1,2,301 900", "2,2,302 901", "3,2,303 902")
    export = capture([("x", PREFILL, 400), *[("x", DECODE, 80 - n) for n in range(3)]])
    found = analyzed(export, step_range="^x", schedule=rows)
    assert [(row.phase, row.count) for row in found.phases] == [("prefill", 1), ("decode", 3)]
    # Step 3 ends with its kernel, steps 1 and 2 last 1 ms: ascending they are 3, 1, 2.
    assert found.assumptions.context == [301, 900]
    assert core_bound_ns(found) == pytest.approx((1_201 * KV_BYTES + 2 * TOKEN_BYTES) / 1e3)
    (note,) = [note for note in found.assumptions.notes if "steps.csv" in note]
    assert "step 1, the median step, as line 3 of steps.csv has it" in note
    assert "over the 3 steps analysed a context is 600.5 to 602.5 in the mean" in note
    assert "schedule-mismatch" not in slugs(found)
    prefill = analyzed(export, step_range="^x", schedule=rows, phase="prefill")
    assert (prefill.assumptions.batch, prefill.assumptions.context) == (1, [300])


def test_a_mixed_step_has_the_new_tokens_of_each_sequence(
    analyzed: Analyzed, tmp_path: Path
) -> None:
    rows = schedule(tmp_path, *[f"{step},1 64,514 64" for step in range(3)])
    found = analyzed(capture([("x", PREFILL, 90)] * 3), step_range="^x", schedule=rows)
    assert (found.steps.phase, found.assumptions.batch) == ("mixed", 2)
    assert (found.assumptions.new_tokens, found.assumptions.query_lengths) == (None, [1, 64])
    assert core_bound_ns(found) == pytest.approx((578 * KV_BYTES + 65 * TOKEN_BYTES) / 1e3)
    # 65 rows go through the layer, and one of each sequence through the head.
    assert found.step_bounds is not None
    assert found.step_bounds.tokens == 65


def test_another_number_of_steps_is_told_and_not_cut_off(
    analyzed: Analyzed, tmp_path: Path
) -> None:
    export = capture([("x", DECODE, 80)] * 3)
    more = schedule(tmp_path, *[f"{step},1,{500 + step}" for step in range(5)])
    found = analyzed(export, step_range="^x", schedule=more)
    assert slugs(found)["schedule-mismatch"] == (
        "error: the schedule has 5 steps, but 3 were found on GPU 0: 2 of its rows are no step "
        "found, 0 steps have no row"
    )
    assert found.steps.count == 3
    fewer = schedule(tmp_path, "0,1,500", "1,1,501")
    assert (
        "0 of its rows are no step found, 1 steps have no row"
        in (slugs(analyzed(export, step_range="^x", schedule=fewer))["schedule-mismatch"])
    )


def test_a_schedule_for_a_capture_without_steps_gives_no_bounds(
    analyzed: Analyzed, tmp_path: Path
) -> None:
    rows = schedule(tmp_path, "0,1,500")
    found = analyzed(capture([("x", DECODE, 80)] * 3), step_range="^y", schedule=rows)
    assert found.assumptions.context is None
    assert {"no-steps", "schedule-mismatch"} <= set(slugs(found))
    assert "1 steps, but 0 were found:" in slugs(found)["schedule-mismatch"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"batch": 2}, "--batch and --schedule"),
        ({"context": (9,), "new_tokens": 2}, "--context and --new-tokens and --schedule"),
    ],
)
def test_a_schedule_and_options_that_say_the_same_are_refused(
    analyzed: Analyzed, tmp_path: Path, options: dict[str, object], named: str
) -> None:
    rows = schedule(tmp_path, "0,1,500")
    with pytest.raises(UsageError, match=named) as raised:
        analyzed(capture([("x", DECODE, 80)]), step_range="^x", schedule=rows, **options)
    assert raised.value.slug == "schedule-and-options"


def test_a_sum_that_sequences_can_share_in_many_ways_is_not_guessed(
    analyzed: Analyzed, tmp_path: Path
) -> None:
    rows = schedule(tmp_path, *[f"{step},10,300 300" for step in range(3)])
    with pytest.raises(UsageError) as raised:
        analyzed(capture([("x", DECODE, 80)] * 3), step_range="^x", schedule=rows)
    assert (raised.value.slug, raised.value.where) == ("new-tokens-missing", "line 2 of steps.csv")


REAL = Path(__file__).parents[2] / "../shared/traces/llm/llama-8b-sglang-b300-decode-bs16.sqlite"


@pytest.mark.skipif(not REAL.exists(), reason="the real captures are not here")
def test_a_real_decode_step_tells_its_batch_and_kv_lengths() -> None:
    found = analyze(open_trace(REAL), Options(model="llama-3.1-8b", gpu="b300"))
    assert (found.steps.source, found.assumptions.batch) == ("nvtx", 16)
    assert found.assumptions.context == [514, *[513] * 15]  # 8209 in all
    row = next(row for row in found.operators if row.role == "attn.core")
    assert row.bound_ns == pytest.approx((8_209 * KV_BYTES + 16 * TOKEN_BYTES) / 8e3)
    assert [one.severity for one in found.capture.findings] == []


@pytest.mark.skipif(not REAL.exists(), reason="the real captures are not here")
def test_without_annotation_the_grids_of_attention_tell_the_batch(tmp_path: Path) -> None:
    copy = tmp_path / "unmarked.sqlite"
    copy.write_bytes(REAL.read_bytes())
    with sqlite3.connect(copy) as connection:
        connection.execute("DELETE FROM NVTX_EVENTS")
    connection.close()
    found = analyze(open_trace(copy), Options(model="llama-3.1-8b", gpu="b300", context=(513,)))
    assert (found.steps.source, found.assumptions.batch) == ("graph", 16)
    assert "the batch is what the grids of decode attention cover" in found.assumptions.notes
    assert found.capture.findings == []
