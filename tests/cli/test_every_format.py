"""Every format of the real program: opened where it can be, equal twice, and without secrets."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from fixtures.builder import ExportBuilder
from nsysroof.report.base import ANALYSIS_FORMATS, any_renderer
from tests.cli.conftest import Outcome

Command = Callable[..., Outcome]
FIXTURE = Path(__file__).parents[2] / "fixtures" / "qwen3-30b-a3b-gh200.sqlite"
THEORY = ("--model", "qwen3-30b-a3b", "--batch", "1", "--context", "4096")
SECRET = "hunter2"


def content(path: Path) -> bytes:
    """Return all that a result holds, unpacked."""
    if path.is_dir():
        files = sorted(path.iterdir())
        return b"".join(file.name.encode() + file.read_bytes() for file in files)
    stored = path.read_bytes()
    return gzip.decompress(stored) if path.suffix == ".gz" else stored


@pytest.mark.parametrize("fmt", ANALYSIS_FORMATS)
def test_two_runs_give_the_same_bytes(command: Command, fmt: str, tmp_path: Path) -> None:
    suffix = any_renderer(fmt, ANALYSIS_FORMATS).suffixes[0]
    for name in ("first", "second"):
        result = command("analyze", FIXTURE, *THEORY, "-o", tmp_path / f"{name}{suffix}")
        assert (result.code, result.out) == (0, "")
    first, second = (tmp_path / f"{name}{suffix}" for name in ("first", "second"))
    assert content(first) == content(second)
    assert len(content(first)) > 1_000


def test_a_saved_report_is_written_again_as_the_trace_would_be(
    command: Command, tmp_path: Path
) -> None:
    assert command("analyze", FIXTURE, *THEORY, "-o", tmp_path / "run.json").code == 0
    for fmt in ("html", "md", "tsv"):
        again = command("analyze", tmp_path / "run.json", "-f", fmt)
        assert (again.code, again.err) == (0, "")
        assert again.out == command("analyze", FIXTURE, *THEORY, "-f", fmt).out
    late = command("analyze", tmp_path / "run.json", "--batch", "2")
    assert (late.code, "[options-without-trace]" in late.err) == (2, True)
    viewer = command("analyze", tmp_path / "run.json", "-o", tmp_path / "run.trace.json.gz")
    assert viewer.code == 2  # a report does not hold every kernel


@pytest.fixture
def telltale(tmp_path: Path) -> Path:
    """Return an export that holds a secret wherever nsys stores what it saw of a machine."""
    export = ExportBuilder().gpu(0, "NVIDIA H100", uuid=f"GPU-{SECRET}").session(1_000_000)
    for key in (
        "EXPORT_HOST", "EXPORT_USER", "EXPORT_PARAM_INPUT_PATH_ABS", "EXPORT_PARAM_TIME_SHIFT",
        "EXPORT_PARAM_TABLES_TO_EXPORT", "DERIVED_WINDOW_NS",
    ):  # fmt: skip
        export.meta_export(key, f"/home/{SECRET}")
    for key in (
        "PROCESS_0:ENVIRONMENT_VARIABLE", "PROCESS_0:COMMAND", "PROCESS_0:ARGUMENT_1",
        "PROCESS_0:WORKING_DIR", "DEVICE_DISPLAY_NAME", "CUDA_GRAPH_TRACE_OPTIONS:MODE",
    ):  # fmt: skip
        export.meta_capture(key, f"TOKEN={SECRET}")
    for key in ("DeviceEnvironment", "Hostname", "GpuInfo", "TargetInstallDir"):
        export.system_env(key, f"TOKEN={SECRET}")
    export.diagnostic(f"Loaded CUPTI library: /home/{SECRET}/libcupti.so")
    export.process(4000, name=SECRET, cuda_devices=[0]).thread(SECRET, pid=4000, tid=1)
    export.string(f"stdout: {SECRET}")
    export.nvtx(f"load /home/{SECRET}/model", 0, 900_000)
    for number in range(40):
        start = 1_000 + 10_000 * number
        export.launch("cudaLaunchKernel", start - 500, start - 400, correlation=number + 1)
        name = ("gemm", "norm", "attention", "copy")[number % 4]
        export.kernel(name, start, start + 5_000, correlation=number + 1)
    folder = tmp_path / f"home-of-{SECRET}"
    folder.mkdir()
    export.write(folder / "run.sqlite")
    return folder / "run.sqlite"


@pytest.mark.parametrize("fmt", ANALYSIS_FORMATS)
def test_no_secret_of_the_capture_leaves_it(
    command: Command, fmt: str, telltale: Path, tmp_path: Path
) -> None:
    assert SECRET.encode() in telltale.read_bytes()
    target = tmp_path / f"out{any_renderer(fmt, ANALYSIS_FORMATS).suffixes[0]}"
    assert command("analyze", telltale, *THEORY, "-o", target).code == 0
    assert b"attention" in content(target) or fmt == "parquet"  # which is compressed
    assert SECRET.encode() not in content(target)


def test_parquet_holds_no_secret_either(command: Command, telltale: Path, tmp_path: Path) -> None:
    import polars as pl  # noqa: PLC0415  as the others do, only where it is needed

    assert command("analyze", telltale, *THEORY, "-o", tmp_path / "out.parquet").code == 0
    frames = [pl.read_parquet(file) for file in sorted((tmp_path / "out.parquet").iterdir())]
    shown = "".join(frame.write_json() for frame in frames)
    assert "attention" in shown
    assert SECRET not in shown


def test_the_json_names_the_command_without_folders(
    command: Command, telltale: Path, tmp_path: Path
) -> None:
    assert command("analyze", telltale, "-o", tmp_path / "out.json").code == 0
    report = json.loads((tmp_path / "out.json").read_text(encoding="utf-8"))
    assert report["command"] == "nsysroof analyze run.sqlite"
