"""``nsysroof ranks`` on files that it really reads: every format, exit codes, no secrets."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import jsonschema
import polars as pl
import pytest

import nsysroof
from nsysroof.errors import Inconclusive
from nsysroof.report.base import RESULT_FORMATS, any_renderer
from nsysroof.schema import json_schema
from tests.analysis.decode_steps import GEMM
from tests.analysis.rank_steps import Plan, Session, captures
from tests.cli.conftest import Outcome

Command = Callable[..., Outcome]
SECRET = "hunter2"


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Return three ranks of one run, the last of another machine; the second is 12 µs slower."""
    hosts = (SECRET, SECRET, f"{SECRET}-2")
    sessions = [Session(began_ns=-(10**9) * at, host=host) for at, host in enumerate(hosts)]
    exports = captures([Plan(), Plan(slower={GEMM: 3_000}), Plan()], sessions)
    paths = [tmp_path / SECRET / f"rank{at}.sqlite" for at in range(3)]
    paths[0].parent.mkdir()
    return [export.write(path) for export, path in zip(exports, paths, strict=True)]


def test_the_slow_rank_and_the_clocks_are_told(command: Command, files: list[Path]) -> None:
    result = command("ranks", *files, "--step-range", "^step_", "-f", "table")
    assert (result.code, result.err) == (0, "")
    lines = result.out.splitlines()
    titles = [line for line in lines if line and not line.startswith(" ")]
    assert titles == ["Files of the run", "Ranks", "Collectives"]
    text = " ".join(result.out.split())
    assert "rank 1 (GPU 0 of rank1.sqlite (file 1)) is the slowest of 3 ranks" in text
    assert "rank2.sqlite (file 2): no clock in common with rank0.sqlite (file 0)" in text
    rows = [line.split() for line in lines[lines.index("Ranks") :] if " 5 " in line]
    # rank, file, GPU, steps, wall; … behind, slowest
    assert [row[:5] for row in rows] == [[str(at), str(at), "0", "5", "148.0"] for at in range(3)]
    assert [row[-2:] for row in rows] == [["0.0", "no"], ["12.0", "yes"], ["0.0", "no"]]


@pytest.mark.parametrize("fmt", RESULT_FORMATS)
def test_every_format_holds_the_ranks_and_nothing_of_the_machine(
    command: Command, fmt: str, files: list[Path], tmp_path: Path
) -> None:
    outputs = [tmp_path / f"{at}{any_renderer(fmt).suffixes[0]}" for at in range(2)]
    for output in outputs:
        assert command("ranks", *files, "--step-range", "^step_", "-o", output).code == 0
    contents = []
    for output in outputs:
        stored = sorted(output.iterdir()) if output.is_dir() else [output]
        contents.append(b"".join(file.read_bytes() for file in stored))
    assert contents[0] == contents[1]
    assert SECRET.encode() not in contents[0]
    if fmt == "parquet":
        found = pl.read_parquet(outputs[0] / "ranks.parquet")
        assert found["behind_ns"].to_list() == [0, 12_000, 0]
        assert SECRET not in pl.read_parquet(outputs[0] / "files.parquet").write_json()
    else:
        assert b"rank1.sqlite" in contents[0]


def test_the_json_is_that_of_its_schema(command: Command, files: list[Path]) -> None:
    found = json.loads(command("ranks", *files, "--step-range", "^step_", "-f", "json").out)
    jsonschema.validate(found, json_schema("ranks"))
    assert found["format"] == "nsysroof-run"
    assert found["command"] == (
        "nsysroof ranks rank0.sqlite rank1.sqlite rank2.sqlite --step-range '^step_'"
    )
    assert [file["axis"] for file in found["files"]] == [0, 0, 1]
    assert found["common_steps"] is None


def test_python_says_it_in_the_same_words(command: Command, files: list[Path]) -> None:
    told = json.loads(command("ranks", *files[:2], "--step-range", "^step_", "-f", "json").out)
    run = nsysroof.ranks(files[:2], step_range="^step_")
    assert json.loads(nsysroof.render(run, "json")) == {**told, "command": None}
    assert run.frame("ranks")["slowest"].to_list() == [False, True]
    assert "rank1.sqlite" in run._repr_html_()


def test_what_cannot_be_compared_is_refused(command: Command, files: list[Path]) -> None:
    twice = command("ranks", files[0], files[1], files[0].parent / "." / files[0].name)
    assert (twice.code, "[same-file]" in twice.err) == (2, True)
    alone = command("ranks", files[0])
    assert (alone.code, "[one-rank]" in alone.err) == (4, True)
    assert command("ranks").code == 2
    with pytest.raises(Inconclusive):
        nsysroof.ranks(files[:1])


def test_strict_trips_on_a_missing_rank(command: Command, files: list[Path]) -> None:
    options = ("--step-range", "^step_", "--tp", "8", "-f", "json")
    assert command("ranks", *files, *options).code == 0
    strict = command("ranks", *files, *options, "--strict")
    assert (strict.code, "rank-missing" in strict.err) == (4, True)
