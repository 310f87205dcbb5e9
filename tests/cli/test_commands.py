from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from nsysroof.analysis import Options
from nsysroof.errors import InputError
from nsysroof.report.saved import load_report
from tests.cli.conftest import Library, Outcome
from tests.report import sample

Command = Callable[..., Outcome]
TRACE_COMMANDS = ("info", "analyze", "steps", "gaps", "kernels")


def test_every_option_reaches_the_library(library: Library, command: Command) -> None:
    result = command(
        "analyze", "run.sqlite", "--model", "llama-3.1-8b", "--gpu", "h100-sxm", "--batch", "2",
        "--context", "512,1024", "--phase", "prefill", "--new-tokens", "3", "--weights", "fp8",
        "--kv", "fp8", "--activations", "bf16", "--tp", "2", "--ep", "4", "--dp", "8",
        "--experts", "57.4", "--floor-us", "1.5", "--peak", "bw=3.9e12", "--peak", "h2d=4e11",
        "--roofs", "roofs.toml", "--tokens-per-step", "2.5", "--expert-misses", "0",
        "--unprofiled-step-us", "5900", "--device", "0", "--device", "3", "--window", "14-32.5",
        "--step-range", "^step", "--schedule", "steps.csv", "--rules", "more.toml",
    )  # fmt: skip
    assert result.code == 0
    assert library.traces == ["opened run.sqlite"]
    assert library.options == [
        Options(
            model="llama-3.1-8b",
            gpu="h100-sxm",
            batch=2,
            context=(512, 1024),
            phase="prefill",
            new_tokens=3,
            weights="fp8",
            kv="fp8",
            activations="bf16",
            tp=2,
            ep=4,
            dp=8,
            experts=57.4,
            floor_us=1.5,
            peaks=("bw=3.9e12", "h2d=4e11"),
            roofs=Path("roofs.toml"),
            tokens_per_step=2.5,
            expert_misses=0.0,
            unprofiled_step_us=5900.0,
            devices=(0, 3),
            window=(14.0, 32.5),
            step_range="^step",
            schedule=Path("steps.csv"),
            rules=Path("more.toml"),
        )
    ]


@pytest.mark.parametrize("name", TRACE_COMMANDS)
def test_what_is_not_said_is_not_guessed(library: Library, command: Command, name: str) -> None:
    command(name, "run.sqlite")
    assert library.options == [Options()]
    in_full = {"gaps": ("gaps",), "steps": ("step_budgets",)}
    assert library.complete == [in_full.get(name, ())]


def test_estimate_takes_the_model_by_place(library: Library, command: Command) -> None:
    result = command("estimate", "qwen3-8b", "--gpu", "h100-sxm", "--context", "4096", "-f", "json")
    assert library.options == [Options(model="qwen3-8b", gpu="h100-sxm", context=(4096,))]
    assert json.loads(result.out)["format"] == "nsysroof-estimate"


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("analyze", "# capture"),
        ("info", "# capture"),
        ("gaps", "gpu\tstart_ns\tend_ns\tcause\tbefore\tafter\tposition\thost_ns"),
        (
            "kernels",
            "name\tclass\tgrid\tblock\tinstances\ttotal_ns\tp50_ns\tmin_ns\tmax_ns\trole\tratio",
        ),
    ],
)
@pytest.mark.usefixtures("library")
def test_a_pipe_gets_tsv_with_full_names(command: Command, name: str, first: str) -> None:
    result = command(name, "run.sqlite")
    assert result.out.splitlines()[0] == first
    assert result.err == ""
    if name != "info":
        assert sample.FLASH in result.out


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("info", ["capture", "steps", "phases"]),
        ("gaps", ["timeline", "gaps", "host_late"]),
        ("kernels", ["kernels"]),
        ("steps", ["steps", "phases", "step_budgets"]),
    ],
)
@pytest.mark.usefixtures("library")
def test_json_has_the_keys_of_the_contract(command: Command, name: str, keys: list[str]) -> None:
    assert list(json.loads(command(name, "run.sqlite", "-f", "json").out)) == keys


@pytest.mark.usefixtures("library")
def test_a_file_gets_the_format_of_its_ending(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    result = command("analyze", "run.sqlite", "-o", path)
    assert (result.code, result.out, result.err) == (0, "", f"wrote {path}\n")
    saved = load_report(path)
    assert saved.command == "nsysroof analyze run.sqlite"
    assert replace(saved, command=None) == sample.full()
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.json"]
    named = tmp_path / "report.txt"
    command("analyze", "run.sqlite", "-f", "md", "-o", named)
    assert named.read_text(encoding="utf-8").startswith("## What this capture can answer\n")


@pytest.mark.usefixtures("library")
def test_a_file_is_overwritten_only_by_force(command: Command, tmp_path: Path) -> None:
    path = tmp_path / "report.csv"
    path.write_text("mine")
    result = command("kernels", "run.sqlite", "-o", path)
    assert result.code == 2
    assert "[output-exists]" in result.err
    assert "--force" in result.err
    assert path.read_text() == "mine"
    assert command("kernels", "run.sqlite", "-o", path, "--force").code == 0
    assert path.read_text().startswith("name,class,grid")


def test_tables_for_other_tools_hold_every_gap(
    library: Library, command: Command, tmp_path: Path
) -> None:
    assert command("analyze", "run.sqlite", "-o", tmp_path / "run.db").code == 0
    assert command("analyze", "run.sqlite", "-o", f"{tmp_path}/run.parquet/").code == 0
    assert command("analyze", "run.sqlite", "-o", tmp_path / "run.json").code == 0
    everything = ("gaps", "step_budgets")
    assert library.complete == [everything, everything, ()]
    names = sorted(entry.name for entry in tmp_path.iterdir())
    assert names == ["run.db", "run.json", "run.parquet"]
    assert (tmp_path / "run.parquet" / "gaps.parquet").is_file()


@pytest.mark.usefixtures("library")
def test_a_folder_of_tables_is_replaced_by_force_but_no_folder_of_others(
    command: Command, tmp_path: Path
) -> None:
    path = tmp_path / "run.parquet"
    assert command("gaps", "run.sqlite", "-o", path).code == 0
    assert "[output-exists]" in command("kernels", "run.sqlite", "-o", path).err
    assert command("kernels", "run.sqlite", "-o", path, "--force").code == 0
    assert [entry.name for entry in path.iterdir()] == ["kernels.parquet"]
    (path / "thesis.tex").write_text("mine")
    result = command("kernels", "run.sqlite", "-o", path, "--force")
    assert (result.code, "[output-exists]" in result.err) == (2, True)
    assert (path / "thesis.tex").read_text() == "mine"


def test_the_trace_itself_is_never_overwritten(
    library: Library, command: Command, tmp_path: Path
) -> None:
    trace = tmp_path / "run.sqlite"
    trace.write_bytes(b"precious")
    result = command("analyze", trace, "-f", "json", "-o", trace, "--force")
    assert result.code == 2
    assert "[output-is-input]" in result.err
    assert trace.read_bytes() == b"precious"
    assert library.options == []


@pytest.mark.parametrize(
    ("arguments", "slug"),
    [
        (["-f", "jsn"], "unknown-format"),
        (["-o", "report.docx"], "unknown-format"),
        (["-f", "db"], "needs-file"),
        (["-o", "no/such/folder/report.json"], "cannot-write"),
        (["--context", "12,x"], "bad-workload"),
        (["--window", "5"], "bad-window"),
        (["--window", "9-4"], "bad-window"),
        (["--step-range", "step["], "bad-regex"),
        (["--unprofiled-step-us", "0"], "bad-workload"),
        (["--phase", "training"], "usage"),
        (["--batch", "0"], "usage"),
        (["--tp", "two"], "usage"),
        (["--floor-us", "nan"], "usage"),
        (["--experts", "inf"], "usage"),
        (["--no-such-option"], "usage"),
        (["--peak"], "usage"),
    ],
)
def test_mistakes_exit_with_2_and_say_what_to_do(
    library: Library, command: Command, arguments: list[str], slug: str
) -> None:
    result = command("analyze", "run.sqlite", *arguments)
    assert result.code == 2
    assert result.out == ""
    lines = result.err.splitlines()
    assert 2 <= len(lines) <= 3
    assert lines[0].startswith("error: ")
    assert lines[-1].startswith("hint: ")
    assert lines[-1].endswith(f"[{slug}]")
    if slug != "cannot-write":
        assert library.options == []  # refused before any work


def test_misspelt_commands_and_options_get_suggestions(command: Command) -> None:
    assert "Did you mean 'analyze'?" in command("anlyze", "run.sqlite").err
    assert "--model" in command("analyze", "run.sqlite", "--modle", "x").err


def test_errors_of_the_library_are_three_lines_at_most(library: Library, command: Command) -> None:
    library.report = InputError(
        "not\x1b[31m a trace", hint="export it", slug="not-a-trace", where="a\u202eb.sqlite"
    )
    result = command("analyze", "run.sqlite")
    assert result.code == 2
    assert result.err.splitlines() == [
        "error: not[31m a trace",
        "  in ab.sqlite",
        "hint: export it   [not-a-trace]",
    ]


@pytest.mark.parametrize("name", ["analyze", "gaps", "kernels"])
def test_a_capture_without_kernels_is_told_and_inconclusive(
    library: Library, command: Command, name: str
) -> None:
    library.report = sample.empty()
    result = command(name, "run.sqlite", "-f", "table")
    assert result.code == 4
    assert result.out
    assert result.err.splitlines() == [
        "error: no GPU kernel records; 5 launch calls were traced",
        "hint: what to do about no-kernels   [no-kernels]",
    ]


def test_kernels_that_were_all_set_aside_are_no_answer_either(
    library: Library, command: Command
) -> None:
    report = sample.full()
    library.report = msgspec.structs.replace(report, capture=sample.capture(kernels_used=0))
    result = command("analyze", "run.sqlite")
    assert result.code == 4
    assert result.err.endswith("[no-kernels]\n")


def test_info_on_a_readable_capture_is_done(library: Library, command: Command) -> None:
    library.report = sample.empty()
    result = command("info", "run.sqlite", "-f", "table")
    assert result.code == 0
    assert "[no-kernels]" in result.out


@pytest.mark.parametrize("name", TRACE_COMMANDS)
def test_strict_trips_on_errors_only(library: Library, command: Command, name: str) -> None:
    assert command(name, "run.sqlite").code == 0
    result = command(name, "run.sqlite", "--strict")
    assert result.code == 4
    assert result.out
    assert result.err.splitlines() == [
        "error: --strict: the report has errors: low-coverage",
        "hint: what to do about low-coverage   [strict]",
    ]
    library.report = msgspec.structs.replace(sample.full(), capture=sample.capture(findings=[]))
    assert command(name, "run.sqlite", "--strict").code == 0


def test_an_unexpected_failure_asks_for_a_report(library: Library, command: Command) -> None:
    library.report = RuntimeError("boom\nboom")
    result = command("analyze", "run.sqlite")
    assert result.code == 1
    lines = result.err.splitlines()
    assert lines[0] == "error: unexpected RuntimeError: boom boom"
    assert lines[1].startswith("hint: please report this")
    assert len(lines) == 2


def test_a_traceback_is_shown_when_asked_for(
    library: Library, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.report = RuntimeError("boom")
    monkeypatch.setenv("NSYSROOF_DEBUG", "")
    assert "Traceback" not in command("analyze", "run.sqlite").err
    assert "Traceback" in command("analyze", "run.sqlite", "-v").err
    monkeypatch.setenv("NSYSROOF_DEBUG", "1")
    assert "Traceback" in command("analyze", "run.sqlite").err


def test_an_interrupt_is_quiet(library: Library, command: Command) -> None:
    library.report = KeyboardInterrupt()
    assert command("analyze", "run.sqlite") == Outcome(130, "", "")


def test_a_failed_write_leaves_nothing_behind(
    library: Library, command: Command, tmp_path: Path
) -> None:
    row = msgspec.structs.replace(sample.full().kernels[0], name="\ud800")  # cannot be encoded
    library.report = msgspec.structs.replace(sample.full(), kernels=[row])
    assert command("kernels", "run.sqlite", "-o", tmp_path / "kernels.json").code == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["info", "kernels"])
def test_a_saved_report_is_shown_as_the_trace_is(
    library: Library, command: Command, tmp_path: Path, name: str
) -> None:
    report = saved_report(command, tmp_path)
    told = [command(name, given, "-f", "json") for given in ("run.sqlite", report)]
    assert [one.code for one in told] == [0, 0]
    assert told[0].out == told[1].out
    assert library.traces == ["opened run.sqlite"] * 2  # one of them was saved
    options = command(name, report, "--batch", "2")
    assert (options.code, "[options-without-trace]" in options.err) == (2, True)


@pytest.mark.parametrize(("name", "what"), [("gaps", "gaps"), ("steps", "step_budgets")])
@pytest.mark.usefixtures("library")
def test_a_saved_report_has_no_list_in_full(
    command: Command, tmp_path: Path, name: str, what: str
) -> None:
    result = command(name, saved_report(command, tmp_path))
    assert (result.code, result.out) == (2, "")
    error, *_, hint = result.err.splitlines()
    assert error.endswith(f"a saved report does not hold all {what}, only the longest")
    assert hint.endswith("shows those that the report holds   [not-saved]")


def saved_report(command: Command, folder: Path) -> Path:
    path = folder / "run.json"
    assert command("analyze", "run.sqlite", "-o", path).code == 0
    return path
