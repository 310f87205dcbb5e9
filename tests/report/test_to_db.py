"""The database is read with SQLite itself, and served by datasette."""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from msgspec.structs import replace

from nsysroof.errors import UsageError
from nsysroof.report.to_db import RENDERER
from nsysroof.report.views import Listing
from nsysroof.results import Report
from tests.report import sample


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute(query).fetchall()


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    RENDERER.save(sample.full(), tmp_path / "run.db")
    return tmp_path / "run.db"


def test_operators_have_the_columns_of_the_other_formats(saved: Path) -> None:
    query = 'select measured_ns, ratio, "bytes.weight", kernels from operators where role = ?'
    with closing(sqlite3.connect(saved)) as database:
        found = database.execute(query, ["attn.core"]).fetchone()
    assert found[:3] == (41_000, 2.0467, 50_331_648)
    assert json.loads(found[3])[0] == sample.FLASH


def test_steps_and_findings_are_tables(saved: Path) -> None:
    assert rows(saved, 'select count, source, "wall_ns.p50" from steps') == [
        (38, "graph", 6_100_000)
    ]
    assert [slug for (slug,) in rows(saved, "select slug from findings")] == [
        "low-coverage",
        "software-node-trace",
        "warm-up-in-window",
    ]


def test_names_are_stored_once_and_shown_in_full(saved: Path) -> None:
    assert rows(saved, "select count(*) from names") == [(3,)]  # FLASH, FOREIGN, NVJET
    shown = rows(saved, "select before, after, cause from gaps_named limit 2")
    assert shown == [
        (sample.FLASH, sample.NVJET, "in_graph"),
        (sample.FLASH, sample.NVJET, "between_graphs"),
    ]


def test_a_part_of_a_name_finds_it(saved: Path) -> None:
    query = "select name from names where id in (select rowid from names_fts where names_fts match 'splitkv')"
    assert rows(saved, query) == [(sample.FLASH,)]


def test_every_reference_leads_to_a_row(saved: Path) -> None:
    assert rows(saved, "pragma foreign_key_check") == []
    query = "select name from sqlite_master where type = 'table' and sql like '%REFERENCES%'"
    referring = {name for (name,) in rows(saved, query)}
    assert {"operators", "kernels", "gaps", "budget", "timeline", "impossible"} <= referring


def test_a_gpu_that_the_capture_does_not_list_is_added_without_a_name(tmp_path: Path) -> None:
    report = sample.full()
    moved = replace(report, timeline=[replace(report.timeline[0], gpu=3)])
    RENDERER.save(moved, tmp_path / "run.db")
    found = rows(tmp_path / "run.db", "select gpu, name, kernels from devices order by gpu")
    assert found == [(0, "NVIDIA H100 80GB HBM3", 14_003), (3, None, None)]
    assert rows(tmp_path / "run.db", "pragma foreign_key_check") == []


def test_the_worst_names_come_back_as_they_were(tmp_path: Path) -> None:
    RENDERER.save(sample.worst(), tmp_path / "run.db")
    found = rows(tmp_path / "run.db", "select name from kernels_named")
    assert [name for (name,) in found] == list(sample.WORST_NAMES)


@pytest.mark.parametrize("report", [sample.full(), sample.empty(), sample.worst()])
def test_the_same_report_gives_the_same_bytes(report: Report, tmp_path: Path) -> None:
    for name in ("a.db", "b.db"):
        RENDERER.save(report, tmp_path / name)
    assert (tmp_path / "a.db").read_bytes() == (tmp_path / "b.db").read_bytes()


def test_estimates_have_a_database_and_catalogues_have_none(tmp_path: Path) -> None:
    RENDERER.save(sample.estimate(), tmp_path / "estimate.db")
    assert rows(tmp_path / "estimate.db", "select role, count from operators") == [
        ("attn.qkv_proj", 32),
        ("attn.core", 32),
    ]
    with pytest.raises(UsageError) as caught:
        RENDERER.save(Listing(title="gpus", columns=(), rows=[]), tmp_path / "gpus.db")
    assert caught.value.slug == "no-tables"


@pytest.fixture
def served(saved: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "datasette", str(saved), "--host", "127.0.0.1"]
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    with subprocess.Popen(
        [*command, "--port", str(port)],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as server:
        try:
            yield f"http://127.0.0.1:{port}/run"
        finally:
            server.terminate()


def answer(url: str, seconds: float = 30) -> Any:
    end = time.monotonic() + seconds
    while True:
        try:
            with urlopen(url) as response:
                return json.load(response)
        except URLError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def test_datasette_serves_a_table_and_searches_names(served: str) -> None:
    found = answer(f"{served}/operators.json?role=attn.core&_shape=objects")["rows"]
    assert [row["measured_ns"] for row in found] == [41_000]
    found = answer(f"{served}/names.json?_search=nvjet&_shape=objects")["rows"]
    assert [row["name"] for row in found] == [sample.NVJET]
    labelled = answer(f"{served}/kernels.json?_labels=on&_shape=objects")["rows"]
    assert labelled[0]["name"]["label"] == sample.FLASH
