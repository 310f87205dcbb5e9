from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Outcome

Command = Callable[..., Outcome]

QWEN = ("estimate", "qwen3-30b-a3b", "--context", "4096")
GH200 = ("--gpu", "gh200-96")


def test_a_sweep_has_a_row_a_point(command: Command) -> None:
    result = command(*QWEN, *GH200, "--sweep", "batch=1:8", "-f", "json")
    found = json.loads(result.out)
    assert [row["batch"] for row in found["rows"]] == [1, 2, 4, 8]
    # 1.6215 ms for one sequence, by hand.
    assert found["rows"][0]["serial_ns"] == pytest.approx(1_621_491.712)
    assert found["rows"][0]["tokens_per_s"] == pytest.approx(616.7, abs=0.05)


def test_a_sweep_of_contexts_needs_no_other_context(command: Command) -> None:
    result = command(
        "estimate", "qwen3-30b-a3b", *GH200, "--sweep", "context=1024,2048", "-f", "json"
    )
    rows = json.loads(result.out)["rows"]
    assert [row["context"] for row in rows] == [1024, 2048]
    # 48 layers x 2,048 B per token of context, and one token written.
    assert [row["kv_bytes"] for row in rows] == [48 * 2048 * 1025, 48 * 2048 * 2049]


def test_machines_are_compared_without_naming_one(command: Command) -> None:
    result = command(*QWEN, "--compare", "gpu=h100-sxm,h200-sxm,b200", "-f", "table")
    assert result.code == 0
    lines = [line.split() for line in result.out.splitlines()]
    assert ["h100-sxm", "h200-sxm", "b200"] in lines
    assert ["step", "µs", "1,935.0", "1,351.2", "810.7"] in lines


def test_a_sweep_in_a_pipe_is_one_table(command: Command) -> None:
    result = command(*QWEN, *GH200, "--sweep", "tp=1,3")
    header, one, three = (line.split("\t") for line in result.out.splitlines())
    assert one[header.index("note")] == ""
    assert three[header.index("serial_ns")] == ""
    assert three[header.index("note")] == "tp 3 does not divide 32 attention heads"


@pytest.mark.parametrize("name", ["roofline.png", "roofline.svg"])
def test_a_picture_is_drawn_beside_the_table(command: Command, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    result = command(*QWEN, *GH200, "--plot", path, "-f", "json")
    assert json.loads(result.out)["format"] == "nsysroof-estimate"
    start = path.read_bytes()[:5]
    assert start in (b"\x89PNG\r", b"<?xml")
    again = command(*QWEN, *GH200, "--plot", path)
    assert again.code == 2
    assert "[output-exists]" in again.err
    assert command(*QWEN, *GH200, "--plot", path, "--force").code == 0


@pytest.mark.parametrize(
    ("arguments", "slug"),
    [
        (["--sweep", "batch=a"], "bad-sweep"),
        (["--sweep", "layers=1,2"], "bad-sweep"),
        (["--compare", "gpu=h100-sxm,nope"], "unknown-gpu-name"),
        (["--sweep", "batch=1,2", "--compare", "batch=4"], "bad-sweep"),
        (["--plot", "picture.jpg"], "unknown-format"),
        (["--acceptance", "0.7"], "bad-acceptance"),
        (["--acceptance", "often", "--new-tokens", "3"], "bad-acceptance"),
        (["--acceptance", "1.7", "--new-tokens", "3"], "bad-acceptance"),
        (["--acceptance", "0.9,0.8,0.7", "--new-tokens", "3"], "bad-acceptance"),
        (["--acceptance", "0.9", "--new-tokens", "3", "--tokens-per-step", "2"], "bad-acceptance"),
        (["--peak", "sm-clock=fast"], "bad-peak"),
        (["--peak", "sm-clock=1508"], "bad-peak"),
    ],
)
def test_mistakes_say_what_to_do(command: Command, arguments: list[str], slug: str) -> None:
    result = command(*QWEN, *GH200, *arguments)
    assert result.code == 2
    assert result.out == ""
    assert result.err.splitlines()[-1].endswith(f"[{slug}]")


def test_accepted_drafts_make_tokens(command: Command) -> None:
    # (1 - 0.7^5) / 0.3 = 2.7731 tokens per sequence; eight sequences.
    result = command(
        *QWEN, *GH200, "--batch", "8", "--new-tokens", "5", "--acceptance", "0.7", "-f", "json"
    )
    step = json.loads(result.out)["step"]
    assert step["tokens"] == pytest.approx(8 * 2.7731)
    by_position = command(*QWEN, *GH200, "--acceptance", "0.92,0.5", "-f", "json")
    found = json.loads(by_position.out)
    assert found["assumptions"]["new_tokens"] == 3
    assert found["step"]["tokens"] == pytest.approx(1 + 0.92 + 0.46)


def test_a_slower_clock_moves_only_arithmetic_o26(command: Command) -> None:
    # A 3090 at 1,508 of 1,695 MHz: compute roof x 0.8897, memory roof unchanged.
    given = ("estimate", "llama-3.1-8b", "--gpu", "rtx3090", "--context", "512", "-f", "json")
    capped = ("--peak", "sm-clock=1508/1695")
    decode = [json.loads(command(*given, *more).out)["step"] for more in ((), capped)]
    assert decode[0]["serial_ns"] == decode[1]["serial_ns"]
    prefill = [
        json.loads(command(*given, "--phase", "prefill", *more).out)["operators"]
        for more in ((), capped)
    ]
    products = [
        next(row["bound_ns"] for row in rows if row["role"] == "mlp.down_proj") for rows in prefill
    ]
    assert products[0] / products[1] == pytest.approx(1508 / 1695, rel=1e-9)


def test_host_memory_caps_its_link(command: Command) -> None:
    result = command(*QWEN, *GH200, "--expert-misses", "2", "--peak", "host=384e9", "-f", "json")
    offload = json.loads(result.out)["offload"]
    # 48 layers x 2 experts of 9,437,184 B at the 384 GB/s of the host's memory, not C2C's 450.
    assert offload["link_bytes_per_token"] == 48 * 2 * 9_437_184
    assert offload["limiter"] == "host memory"
    assert offload["hit_rate"] == pytest.approx(0.75)
    assert offload["cap_tokens_per_s"] == pytest.approx(384e9 / (48 * 2 * 9_437_184))
