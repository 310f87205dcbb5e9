from __future__ import annotations

import io
import json
import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.builder import ExportBuilder
from nsysroof.theory.gpus import gpu_keys
from nsysroof.theory.models.spec import model_keys
from tests.cli.conftest import Outcome

Command = Callable[..., Outcome]
NVJET = "nvjet_tst_64x8_64x16_4x1_v_bz_splitK_TNT"


def test_gpus_lists_every_key_and_its_peaks(command: Command) -> None:
    header, *rows = (line.split("\t") for line in command("gpus").out.splitlines())
    assert [row[0] for row in rows] == list(gpu_keys())
    h100 = dict(zip(header, rows[list(gpu_keys()).index("h100-sxm")], strict=True))
    assert h100["bw"] == "3352000000000.0"
    assert h100["bf16"] == "989400000000000.0"
    assert h100["fp4"] == ""  # Hopper has none: absent, not 0


def test_one_gpu_has_a_source_for_each_peak(command: Command) -> None:
    gpu = json.loads(command("gpus", "h100-sxm", "-f", "json").out)
    assert gpu["sm_count"] == 132
    assert all(peak["source"] for peak in gpu["peaks"])
    assert "H100 SXM5" in command("gpus", "h100-sxm", "-f", "table").out


def test_a_misspelt_gpu_gets_a_suggestion(command: Command) -> None:
    result = command("gpus", "h100-smx")
    assert result.code == 2
    assert "h100-sxm" in result.err


@pytest.mark.skipif(not model_keys(), reason="the catalogue of models is empty")
def test_models_are_listed_and_shown_layer_by_layer(command: Command) -> None:
    _, *rows = (line.split("\t") for line in command("models").out.splitlines())
    assert [row[0] for row in rows] == list(model_keys())
    model = json.loads(command("models", "qwen3-30b-a3b", "-f", "json").out)
    # 48 equal layers of 32 query heads, 4 KV heads, 128 experts of which 8 are taken
    assert [(run["first"], run["last"]) for run in model["layers"]] == [(0, 47)]
    assert model["layers"][0]["mixer"]["type"] == "Attention"
    assert model["layers"][0]["mixer"]["kv_heads"] == 4
    assert model["layers"][0]["ffn"]["experts"] == 128
    assert command("models", "qwen3-30b-a3b", "-f", "table").code == 0


def test_a_config_file_is_shown_like_a_catalogued_model(command: Command, tmp_path: Path) -> None:
    config = {
        "model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 2, "vocab_size": 32000,
        "num_attention_heads": 32, "intermediate_size": 11008, "torch_dtype": "float16",
    }  # fmt: skip
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    model = json.loads(command("models", path, "-f", "json").out)
    assert (model["hidden"], model["dtype"], model["weights"]) == (4096, "fp16", "fp16")
    assert model["layers"][0]["last"] == 1


def test_rules_explain(command: Command) -> None:
    found = json.loads(command("rules", "explain", NVJET, "-f", "json").out)
    assert list(found)[:5] == ["name", "class", "rule", "attributes", "roles"]
    assert (found["name"], found["class"]) == (NVJET, "gemm")
    assert "attn.qkv_proj" in found["roles"]
    assert "lm_head" in found["roles"]
    assert (found["rule"], found["operators"]) == ("nvjet.gemm", ["gemm", "router_gemm"])
    assert (found["memory"], found["stub"]) == (None, None)


def test_rules_explain_says_what_a_launch_moves(command: Command) -> None:
    name = (
        "void at::native::vectorized_elementwise_kernel<(int)8, "
        "at::native::CUDAFunctor_add<c10::BFloat16>, std::array<char *, (unsigned long)3>>(int)"
    )
    found = json.loads(command("rules", "explain", name, "-f", "json").out)
    # Two operands of 2 B are read, one is written.
    assert found["memory"] == "8 elements a thread, 6 B of memory an element"
    assert (found["operators"], found["part_of"]) == (["residual_add"], ["rope"])


def test_the_rule_that_explain_prints_works_once_its_class_is_filled_in(
    command: Command, tmp_path: Path
) -> None:
    name = "void house::fusedHouseThing4<__nv_bfloat16>(const T1 *, 'x')"
    shown = command("rules", "explain", name, "-f", "table").out
    pasted = shown.partition("\nstub\n")[2]
    path = tmp_path / "own.toml"
    path.write_text(pasted)
    refused = command("rules", "explain", name, "--rules", path)
    assert refused.code == 2
    assert "class 'CLASS', which does not exist" in refused.err
    path.write_text(pasted.replace('"CLASS"', '"rmsnorm"'))
    later = name.replace("Thing4", "Thing5")  # the next version of the same kernel
    for asked in (name, later):
        found = json.loads(command("rules", "explain", asked, "--rules", path, "-f", "json").out)
        assert (found["class"], found["stub"]) == ("rmsnorm", None)
        assert found["operators"][0] == "rms_norm"


def test_rules_stub_is_a_file_for_every_unknown_kernel_of_a_trace(
    command: Command, tmp_path: Path
) -> None:
    export = ExportBuilder().kernel(NVJET, 0, 90).kernel("house_one", 100, 110)
    export.kernel("house_two", 200, 290).kernel("house_one", 300, 310)
    trace, path = export.write(tmp_path / "run.sqlite"), tmp_path / "own.toml"
    result = command("rules", "stub", trace)
    assert (result.code, result.err) == (0, "")
    # The longest first, one rule a name, and none for what is known.
    assert re.findall(r"^words = '(.*)'$", result.out, re.MULTILINE) == [
        "^house_two$",
        "^house_one$",
    ]
    path.write_text(result.out.replace('"CLASS"', '"activation"'))
    left = command("rules", "stub", trace, "--rules", path)
    assert "[[rule]]" not in left.out
    report = json.loads(command("analyze", trace, "--rules", path, "-f", "json").out)
    classes = {row["name"]: row["class"] for row in report["unexplained"]}
    assert classes == {NVJET: "gemm", "house_two": "activation", "house_one": "activation"}


def test_rules_lists_the_rules_in_order(command: Command) -> None:
    header, *rows = (line.split("\t") for line in command("rules").out.splitlines())
    assert header == ["id", "class", "words", "text"]
    assert len(rows) > 100
    assert all(row[2] or row[3] for row in rows)


def test_rules_classify_keeps_lines_as_they_come(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "names.txt"
    path.write_bytes(f"{NVJET}\r\na name nobody gave\n\xff\n{NVJET}\n".encode("latin-1"))
    header, *rows = (
        line.split("\t") for line in command("rules", "classify", path).out.splitlines()
    )
    assert header == ["name", "class", "roles"]
    assert [row[:2] for row in rows] == [
        [NVJET, "gemm"],
        ["a name nobody gave", "unknown"],
        ["\N{REPLACEMENT CHARACTER}", "unknown"],
        [NVJET, "gemm"],
    ]
    assert rows[0][2].startswith("attn.qkv_proj,attn.q_proj")
    assert rows[1][2] == ""


def test_rules_classify_reads_stdin(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(f"{NVJET}\n".encode())))
    rows = json.loads(command("rules", "classify", "-", "-f", "json").out)
    assert [row["class"] for row in rows] == ["gemm"]
    assert "attn.o_proj" in rows[0]["roles"]


def test_own_rules_come_first(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "more.toml"
    path.write_text(
        '[[rule]]\nid = "own.norm"\nclass = "rmsnorm"\ntext = "^nvjet"\n'
        f'examples = ["{NVJET}"]\nnot_examples = []\n'
    )
    result = command("rules", "explain", NVJET, "--rules", path, "-f", "json")
    assert json.loads(result.out)["rule"] == "own.norm"


def test_options_before_a_sub_command_are_refused_not_ignored(command: Command) -> None:
    result = command("rules", "-f", "json", "explain", NVJET)
    assert result.code == 2
    assert "[misplaced-options]" in result.err


def test_a_missing_list_of_names_says_what_to_give(command: Command, tmp_path: Path) -> None:
    result = command("rules", "classify", tmp_path / "none.txt")
    assert result.code == 2
    assert "[unreadable-names]" in result.err
