"""The commands of docs/compare-and-check.md run as they stand there."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from nsysroof.report.saved import load_report
from nsysroof.results import Report
from tests.cli.conftest import Outcome
from tests.report.render import to_file

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/compare-and-check.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^\$ nsysroof (.*?)(?:  # exit (\d))?$", PAGE, re.MULTILINE)


def slowed(report: Report, factor: float) -> Report:
    assert report.steps.wall_ns is not None
    p50 = round(report.steps.wall_ns.p50 * factor)
    wall = msgspec.structs.replace(report.steps.wall_ns, p50=p50)
    return msgspec.structs.replace(
        report, steps=msgspec.structs.replace(report.steps, wall_ns=wall)
    )


def test_each_command_ends_with_the_code_that_the_page_tells(
    command: Callable[..., Outcome], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert len(COMMANDS) == 8
    (tmp_path / "fixtures").symlink_to(ROOT / "fixtures")
    monkeypatch.chdir(tmp_path)
    for line, code in COMMANDS:
        result = command(*shlex.split(line))
        assert result.code == int(code or 0), (line, result.err)
        if "analyze" in line:
            before = load_report("before.json")
            for name, factor in (("after", 1.2), ("repeat", 1.01)):
                Path(f"{name}.json").write_text(to_file(slowed(before, factor), "json"))
    assert Path("check.xml").read_text(encoding="utf-8").startswith("<?xml")
