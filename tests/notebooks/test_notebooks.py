"""The notebooks run from their own folder, are quick, and are stored without what they printed."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
SECONDS = 60


def read(path: Path) -> Any:
    return nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]


def test_there_are_four() -> None:
    assert [path.name[:3] for path in NOTEBOOKS] == ["01-", "02-", "03-", "04-"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_it_is_stored_without_outputs(path: Path) -> None:
    cells = [cell for cell in read(path).cells if cell.cell_type == "code"]
    assert cells
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
# Jupyter's own libraries warn about their files and sockets.
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_it_runs_within_a_minute(path: Path) -> None:
    notebook = read(path)
    folder = {"metadata": {"path": str(FOLDER)}}
    start = time.monotonic()
    NotebookClient(notebook, timeout=SECONDS, kernel_name="python3", resources=folder).execute()
    assert time.monotonic() - start < SECONDS
    shown = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    assert any(output.output_type in {"stream", "execute_result"} for output in shown)
    complaints = [o.text for o in shown if o.output_type == "stream" and o.name == "stderr"]
    assert complaints == []
