"""Which file is this? Finds out before anything is read, and says what to do when it is no export.

The user's file is opened read-only and never changed; nothing is created beside it.
"""

from __future__ import annotations

import shlex
import shutil
import sqlite3
import subprocess
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

from nsysroof.errors import InputError

_SQLITE_MAGIC = b"SQLite format 3\0"
_HEADER_BYTES = 100
_LFS_MAGIC = b"version https://git-lfs"
_REPORT_SUFFIXES = frozenset({".nsys-rep", ".qdrep", ".qdstrm"})
_WAL_VERSION = 2  # bytes 18 and 19 of the header of a database in write-ahead mode
_UTF8 = 1  # bytes 56 to 59; 2 and 3 are the forms of UTF-16, and 0 an empty database


class SourceKind(StrEnum):
    """The forms of an export that can be read."""

    SQLITE = "sqlite"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """An export that can be read: ``path`` is the file or folder, ``shown`` what the user named.

    ``uri`` opens a SQLite file read-only. ``scratch`` is a folder that was made for the export of
    a report and goes away with the trace.
    """

    kind: SourceKind
    path: Path
    shown: Path
    uri: str = ""
    stamp: tuple[int, int] | None = None
    scratch: Path | None = None

    def check_unchanged(self) -> None:
        """Raise InputError where the file changed since it was opened: its rows do not agree."""
        if self.stamp is not None and _stamp(self.path) != self.stamp:
            raise InputError(
                "the file changed while it was read",
                hint="wait until it is written completely, then run again",
                slug="file-changed",
                where=str(self.shown),
            )


def find_source(path: Path) -> Source:
    """Return how to read the export at ``path``.

    Raises:
        InputError: The path holds nothing that can be read; the hint says what to do.
    """
    if not path.exists():
        raise _refusal(path, "no such file", "check the path", "file-not-found")
    if path.is_dir():
        return _folder(path)
    if not path.is_file():
        raise _refusal(path, "not a regular file", "give the path of an export", "not-a-trace")
    try:
        with path.open("rb") as file:
            head = file.read(_HEADER_BYTES)
    except OSError as error:
        reason = f"the file cannot be read: {error.strerror}"
        raise _refusal(path, reason, "check its permissions", "unreadable-file") from error
    if not head:
        hint = "the export wrote nothing: run nsys export again and check the free space"
        raise _refusal(path, "the file is empty", hint, "empty-file")
    if head.startswith(_LFS_MAGIC):
        reason = "a Git LFS pointer, not the file itself"
        hint = "fetch the content: git lfs pull"
        raise _refusal(path, reason, hint, "git-lfs-pointer")
    if head.startswith(_SQLITE_MAGIC):
        return _sqlite(path, head, shown=path)
    if path.suffix.lower() in _REPORT_SUFFIXES:
        return _report(path)
    raise _refusal(
        path,
        "not an Nsight Systems export: neither SQLite nor a parquet folder",
        "export the report: nsys export --type sqlite -o run.sqlite run.nsys-rep",
        "not-a-trace",
    )


def _refusal(path: Path, message: str, hint: str, slug: str) -> InputError:
    return InputError(message, hint=hint, slug=slug, where=str(path))


def _folder(path: Path) -> Source:
    if any(path.glob("*.parquet")):
        return Source(kind=SourceKind.PARQUET, path=path, shown=path)
    raise _refusal(
        path,
        "a folder without parquet tables",
        "give a file, or export one: nsys export --type parquetdir run.nsys-rep",
        "not-a-trace",
    )


def _report(path: Path) -> Source:
    by_hand = shlex.join(_export_command("nsys", path, path.with_suffix(".sqlite")))
    nsys = shutil.which("nsys")
    if nsys is None:
        raise _refusal(
            path,
            "an Nsight Systems report, not an export, and nsys is not on the PATH",
            f"where nsys is installed, run: {by_hand}",
            "needs-export",
        )
    scratch = Path(tempfile.mkdtemp(prefix="nsysroof-"))
    exported = scratch / "report.sqlite"
    command = _export_command(nsys, path, exported)
    done = subprocess.run(command, capture_output=True, check=False)  # noqa: S603  no shell
    if done.returncode != 0 or not exported.is_file():
        shutil.rmtree(scratch, ignore_errors=True)
        raise _refusal(
            path,
            f"nsys export failed with status {done.returncode}",
            f"see what it says: {by_hand}",
            "needs-export",
        )
    with exported.open("rb") as file:
        head = file.read(_HEADER_BYTES)
    return _sqlite(exported, head, shown=path, scratch=scratch)


def _export_command(nsys: str, report: Path, target: Path) -> list[str]:
    return [nsys, "export", "--type", "sqlite", "-o", str(target), str(report)]


def _sqlite(path: Path, head: bytes, *, shown: Path, scratch: Path | None = None) -> Source:
    if _missing_bytes(path, head) > 0:
        hint = "copy or export it again: the end is missing"
        raise _refusal(shown, "the SQLite file is truncated", hint, "truncated-file")
    if int.from_bytes(head[56:60], "big") > _UTF8:
        hint = "give the export as nsys wrote it"
        raise _refusal(shown, "a SQLite file with UTF-16 text, as no export", hint, "not-a-trace")
    stamp = _stamp(path)
    uri = _open_read_only(path, head, shown)
    return Source(
        kind=SourceKind.SQLITE, path=path, shown=shown, uri=uri, stamp=stamp, scratch=scratch
    )


def page_size(head: bytes) -> int:
    """Return the bytes of a page by the head of a SQLite file; the largest is written as 1."""
    size = int.from_bytes(head[16:18], "big")
    return 65_536 if size == 1 else size


def _missing_bytes(path: Path, head: bytes) -> int:
    """Return how many bytes the header promises beyond the end of the file."""
    if len(head) < _HEADER_BYTES:
        return _HEADER_BYTES - len(head)
    pages = int.from_bytes(head[28:32], "big")
    if head[24:28] != head[92:96]:
        return 0  # a library older than SQLite 3.7 wrote last: its page count is not kept up
    return pages * page_size(head) - path.stat().st_size


def _open_read_only(path: Path, head: bytes, shown: Path) -> str:
    """Return the URI that opens the file without locks or files that it does not need.

    A database in write-ahead mode would get two files beside it even from a reader, and a file
    system without locks refuses readers; both are read as immutable, unless a writer's files lie
    beside the export.
    """
    plain = f"file:{quote(str(path.absolute()))}?mode=ro"
    immutable = f"{plain}&immutable=1"
    if any(_holds_something(Path(f"{path}{suffix}")) for suffix in ("-wal", "-journal")):
        raise _refusal(
            shown,
            "the SQLite file is being written, or its writer was interrupted",
            "wait for the export to end, or export again",
            "file-locked",
        )
    if _WAL_VERSION in head[18:20]:
        return _first_that_opens([immutable], shown)
    return _first_that_opens([plain, immutable], shown)


def _holds_something(path: Path) -> bool:
    try:
        return path.stat().st_size > 0
    except FileNotFoundError:  # a writer takes its journal away at any moment
        return False


def _first_that_opens(uris: list[str], shown: Path) -> str:
    failures: list[sqlite3.Error] = []
    for uri in uris:
        try:
            _probe(uri)
        except sqlite3.OperationalError as error:
            failures.append(error)
        except sqlite3.DatabaseError as error:
            failures.append(error)
            break
        else:
            return uri
    raise _refusal(
        shown,
        f"the SQLite file cannot be opened: {failures[-1]}",
        "copy or export it again",
        "damaged-file",
    ) from failures[-1]


def _probe(uri: str) -> None:
    connection = sqlite3.connect(uri, uri=True, timeout=0)
    try:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    finally:
        connection.close()


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_size, status.st_mtime_ns
