from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import nsysroof.analysis
import nsysroof.trace
from nsysroof.analysis import Options
from nsysroof.cli.main import run
from nsysroof.results import Estimate, Report
from tests.report import sample


@dataclass
class Library:
    """Stands in for the library: answers with ``report`` and remembers what it was asked."""

    report: Report | BaseException = field(default_factory=sample.full)
    traces: list[object] = field(default_factory=list)
    options: list[Options] = field(default_factory=list)
    complete: list[tuple[str, ...]] = field(default_factory=list)

    def open_trace(self, path: Path) -> str:
        return f"opened {path}"

    def analyze(self, trace: object, options: Options, *, complete: Collection[str] = ()) -> Report:
        self.traces.append(trace)
        self.options.append(options)
        self.complete.append(tuple(complete))
        if isinstance(self.report, BaseException):
            raise self.report
        return self.report

    def estimate_for(self, options: Options) -> Estimate:
        self.options.append(options)
        return sample.estimate()


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Library:
    stand_in = Library()
    monkeypatch.setattr(nsysroof.analysis, "analyze", stand_in.analyze)
    monkeypatch.setattr(nsysroof.analysis, "estimate_for", stand_in.estimate_for)
    monkeypatch.setattr(nsysroof.trace, "open_trace", stand_in.open_trace)
    return stand_in


@dataclass(frozen=True)
class Outcome:
    """What a command left: exit code, stdout, stderr."""

    code: int
    out: str
    err: str


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Outcome]:
    monkeypatch.delenv("NSYSROOF_DEBUG", raising=False)

    def call(*arguments: str | Path) -> Outcome:
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call
