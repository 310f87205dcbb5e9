"""Which file is this: what can be opened, what cannot and what the user is told."""

from __future__ import annotations

import hashlib
import os
import sqlite3
import stat
from pathlib import Path

import pytest

from fixtures.builder import ExportBuilder
from nsysroof.errors import InputError
from nsysroof.trace import open_trace


def one_kernel() -> ExportBuilder:
    export = ExportBuilder().launch("cudaLaunchKernel", 100, 200, correlation=1)
    return export.kernel("add", 1_000, 3_000, correlation=1)


def refusal(path: Path) -> InputError:
    with pytest.raises(InputError) as caught:
        open_trace(path)
    lines = caught.value.lines()
    assert len(lines) <= 3
    assert str(path) in lines[1]
    return caught.value


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_missing_file(tmp_path: Path) -> None:
    assert refusal(tmp_path / "nothing.sqlite").slug == "file-not-found"


def test_empty_file(tmp_path: Path) -> None:
    path = tmp_path / "empty.sqlite"
    path.touch()
    assert refusal(path).slug == "empty-file"


def test_git_lfs_pointer(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 9\n")
    error = refusal(path)
    assert error.slug == "git-lfs-pointer"
    assert "git lfs pull" in error.hint


def test_text_file_is_no_trace(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    path.write_text("hello")
    error = refusal(path)
    assert error.slug == "not-a-trace"
    assert "nsys export --type sqlite" in error.hint


def test_folder_without_parquet(tmp_path: Path) -> None:
    error = refusal(tmp_path)
    assert error.slug == "not-a-trace"
    assert "parquetdir" in error.hint


def test_fifo_is_refused_without_waiting(tmp_path: Path) -> None:
    path = tmp_path / "pipe.sqlite"
    os.mkfifo(path)
    assert refusal(path).slug == "not-a-trace"


def test_truncated_file_is_refused_before_reading(tmp_path: Path) -> None:
    path = one_kernel().write(tmp_path / "run.sqlite")
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) - 4096])
    assert refusal(path).slug == "truncated-file"


def test_file_cut_within_the_header(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    path.write_bytes(b"SQLite format 3\0" + bytes(20))
    assert refusal(path).slug == "truncated-file"


def test_overwritten_pages_are_an_error_not_a_traceback(tmp_path: Path) -> None:
    path = one_kernel().write(tmp_path / "run.sqlite")
    whole = bytearray(path.read_bytes())
    whole[100:4096] = b"\xa5" * 3996
    path.write_bytes(bytes(whole))
    assert refusal(path).slug == "damaged-file"


def test_nvprof_database(tmp_path: Path) -> None:
    path = tmp_path / "run.nvvp"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE StringTable (_id_ INTEGER, value TEXT)")
        connection.execute("CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (_id_, start, end)")
    connection.close()
    error = refusal(path)
    assert error.slug == "nvprof-database"
    assert "nsys profile" in error.hint


def test_dlprof_database(tmp_path: Path) -> None:
    path = tmp_path / "dlprof_dldb.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE ops (id INTEGER)")
    connection.close()
    assert refusal(path).slug == "dlprof-database"


def test_other_database(tmp_path: Path) -> None:
    path = tmp_path / "mail.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
        connection.execute("CREATE TABLE messages (id INTEGER)")
    connection.close()
    assert refusal(path).slug == "not-a-trace"


def test_database_in_utf16(tmp_path: Path) -> None:
    path = tmp_path / "run.sqlite"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA encoding = 'UTF-16'")
        connection.execute("CREATE TABLE StringIds (id INTEGER, value TEXT)")
    connection.close()
    assert "UTF-16" in refusal(path).message


def test_report_without_nsys_names_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    path = tmp_path / "my run.nsys-rep"
    path.write_bytes(b"\x7fNSYS")
    error = refusal(path)
    assert error.slug == "needs-export"
    wanted = f"nsys export --type sqlite -o '{tmp_path}/my run.sqlite' '{path}'"
    assert wanted in error.hint


def fake_nsys(folder: Path, script: str) -> None:
    nsys = folder / "nsys"
    nsys.write_text(f"#!/bin/sh\n{script}\n")
    nsys.chmod(nsys.stat().st_mode | stat.S_IXUSR)


def test_report_is_exported_where_nsys_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    export = one_kernel().write(tmp_path / "ready.sqlite")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr("tempfile.tempdir", None)
    tools = tmp_path / "bin"
    tools.mkdir()
    fake_nsys(tools, f'[ "$1 $2 $3 $4" = "export --type sqlite -o" ] && /bin/cp {export} "$5"')
    monkeypatch.setenv("PATH", str(tools))
    report = tmp_path / "run.nsys-rep"
    report.write_bytes(b"\x7fNSYS")
    trace = open_trace(report)
    assert trace.kernels.height == 1
    assert trace.path == report
    assert len(list(scratch.iterdir())) == 1
    del trace
    assert list(scratch.iterdir()) == []
    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "bin", "ready.sqlite", "run.nsys-rep", "scratch",
    ]  # fmt: skip


def test_failing_nsys_export(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_nsys(tmp_path, "exit 3")
    monkeypatch.setenv("PATH", str(tmp_path))
    report = tmp_path / "run.qdrep"
    report.write_bytes(b"\x7fQD")
    error = refusal(report)
    assert error.slug == "needs-export"
    assert "status 3" in error.message


@pytest.mark.parametrize("name", ["a b.sqlite", "a#b.sqlite", "a?mode=rwc.sqlite", "100%41é.db"])
def test_names_that_uris_must_escape(tmp_path: Path, name: str) -> None:
    path = one_kernel().write(tmp_path / "plain.sqlite").rename(tmp_path / name)
    assert open_trace(path).kernels.height == 1
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_file_stays_as_it_is_and_alone(tmp_path: Path) -> None:
    path = one_kernel().write(tmp_path / "run.sqlite")
    path.chmod(0o444)
    tmp_path.chmod(0o555)
    before, status = digest(path), path.stat()
    try:
        trace = open_trace(path)
        trace.capture()
        assert trace.ranges.is_empty()
        assert digest(path) == before
        assert path.stat().st_mtime_ns == status.st_mtime_ns
        assert [entry.name for entry in tmp_path.iterdir()] == ["run.sqlite"]
    finally:
        tmp_path.chmod(0o755)


def test_write_ahead_database_gets_no_files_beside_it(tmp_path: Path) -> None:
    path = one_kernel().write(tmp_path / "run.sqlite")
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA journal_mode = WAL").fetchone() == ("wal",)
    connection.close()
    before = digest(path)
    assert path.read_bytes()[18:20] == b"\x02\x02"
    assert open_trace(path).kernels.height == 1
    assert [entry.name for entry in tmp_path.iterdir()] == ["run.sqlite"]
    assert digest(path) == before


def test_open_write_ahead_log_is_refused(tmp_path: Path) -> None:
    path = one_kernel().write(tmp_path / "run.sqlite")
    writer = sqlite3.connect(path, isolation_level=None)
    try:
        writer.execute("PRAGMA journal_mode = WAL")
        writer.execute("CREATE TABLE later (x)")
        assert refusal(path).slug == "file-locked"
    finally:
        writer.close()


def test_lock_without_a_writer_is_read_around(tmp_path: Path) -> None:
    """File systems without locks answer like a lock that nobody holds a journal for."""
    path = one_kernel().write(tmp_path / "run.sqlite")
    holder = sqlite3.connect(path, isolation_level=None)
    try:
        holder.execute("BEGIN EXCLUSIVE")
        assert open_trace(path).kernels.height == 1
    finally:
        holder.close()


def test_writer_with_a_journal_is_refused(tmp_path: Path) -> None:
    path = one_kernel().write(tmp_path / "run.sqlite")
    writer = sqlite3.connect(path, isolation_level=None)
    try:
        writer.execute("PRAGMA cache_size = 1")
        writer.execute("BEGIN EXCLUSIVE")
        writer.execute("CREATE TABLE later (x)")
        for _ in range(200):
            writer.execute("INSERT INTO later VALUES (zeroblob(4000))")
        assert refusal(path).slug == "file-locked"
    finally:
        writer.close()


def test_a_journal_that_goes_away_meanwhile_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that commits removes its journal between any two looks at it."""
    path = one_kernel().write(tmp_path / "run.sqlite")
    journal = Path(f"{path}-journal")
    exists = Path.exists
    monkeypatch.setattr(Path, "exists", lambda at, **how: at == journal or exists(at, **how))
    assert open_trace(path).kernels.height == 1


def test_change_while_open_is_noticed(tmp_path: Path) -> None:
    path = one_kernel().write(tmp_path / "run.sqlite")
    trace = open_trace(path)
    with sqlite3.connect(path) as writer:
        writer.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 900")
    writer.close()
    os.utime(path, ns=(1, 1))
    with pytest.raises(InputError) as caught:
        _ = trace.kernels
    assert caught.value.slug == "file-changed"
