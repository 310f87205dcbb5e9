from __future__ import annotations

from collections.abc import Callable

import pytest

import nsysroof
from tests.cli.conftest import Outcome

Command = Callable[..., Outcome]

THEORY = (
    "--gpu", "--batch", "--context", "--phase", "--new-tokens", "--weights", "--kv",
    "--activations", "--tp", "--ep", "--dp", "--experts", "--floor-us", "--peak", "--roofs",
    "--tokens-per-step", "--shared-prefix", "--draft", "--drafts", "--expert-misses", "--unprofiled-step-us",
)  # fmt: skip
TRACE = ("--model", "--device", "--window", "--step-range", "--schedule", "--rules",
         "--strict")  # fmt: skip
OUTPUT = (
    "-f, --format", "-o, --output", "--force", "-q, --quiet", "-v, --verbose", "-h, --help",
)  # fmt: skip
EVERYWHERE = {
    "analyze": (*THEORY, *TRACE, *OUTPUT),
    "info": (*THEORY, *TRACE, *OUTPUT),
    "steps": (*THEORY, *TRACE, *OUTPUT),
    "gaps": (*THEORY, *TRACE, *OUTPUT),
    "kernels": (*THEORY, *TRACE, *OUTPUT),
    "ranks": (*THEORY, *TRACE, *OUTPUT),
    "check": (
        "--max-ratio", "--max-idle", "--max-unexplained", "--min-coverage", "--baseline",
        "--max-regression", "--max-regression-us", "--noise-us", "--allow",
        *THEORY, *TRACE, *OUTPUT,
    ),
    "diff": ("--noise-us", *THEORY, *TRACE, *OUTPUT),
    "estimate": (*THEORY, *OUTPUT),
    "whatif": (
        "--gpu", "--batch", "--context", "--new-tokens", "--weights", "--kv", "--activations",
        "--tp", "--ep", "--dp", "--peak", "--model", "--from-gpu", "--from-batch",
        "--from-context", "--from-tp", *TRACE[1:], *OUTPUT,
    ),
    "plot": ("-o, --output", "--force", "-q, --quiet", *THEORY, *TRACE, "-h, --help"),
    "gpus": OUTPUT,
    "models": OUTPUT,
    "schema": ("-h, --help",),
    "rules": (*OUTPUT, "explain", "classify", "stub"),
    "rules explain": ("--rules", *OUTPUT),
    "rules classify": ("--rules", *OUTPUT),
    "rules stub": ("--rules",),
}  # fmt: skip


@pytest.mark.parametrize("name", EVERYWHERE)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_names_every_option_of_the_contract(command: Command, name: str, flag: str) -> None:
    result = command(*name.split(), flag)
    assert result.code == 0
    words = {line.split(" <")[0].strip() for line in result.out.splitlines()}
    for option in EVERYWHERE[name]:
        assert any(line == option or line.startswith(f"{option} ") for line in words), option


def test_help_lists_commands_examples_and_exit_codes(command: Command) -> None:
    result = command("--help")
    assert result.code == 0
    for name in EVERYWHERE:
        assert f"  {name.split()[0]} " in result.out
    for line in ("nsys export --type sqlite", "nsysroof info run.sqlite", "4  inconclusive"):
        assert line in result.out


def test_no_command_shows_help_and_is_a_mistake(command: Command) -> None:
    result = command()
    assert (result.code, result.out) == (2, "")
    assert result.err.startswith("Usage: nsysroof")


def test_version(command: Command) -> None:
    assert command("--version") == Outcome(0, f"nsysroof {nsysroof.__version__}\n", "")
