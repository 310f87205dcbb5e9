"""Integers out of the pages of a file: always what SQLite itself answers, or nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fixtures.builder import ExportBuilder
from nsysroof.trace import fields, open_trace, pages
from nsysroof.trace.pages import Irregular, PagedTable
from nsysroof.trace.source import find_source
from nsysroof.trace.sqlite import SqliteReader

Row = tuple[object, ...]
LARGEST, LEAST = 2**63 - 1, -(2**63)
EDGES = [
    0, 1, -1, 2, 127, 128, -128, -129, 32_767, 32_768, -32_768, -32_769, 2**23 - 1, 2**23, -(2**23),
    -(2**23) - 1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**47 - 1, 2**47, -(2**47),
    -(2**47) - 1, LARGEST, LEAST,
]  # fmt: skip
INTEGERS = st.none() | st.sampled_from(EDGES) | st.integers(LEAST, LARGEST)
SLOW_FOLDERS = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=60
)


def write(
    path: Path, rows: Sequence[Row], *, page_bytes: int = 4096, then: Sequence[str] = ()
) -> Path:
    """Write rows of ``a``, ``note``, ``b``, and run statements on them."""
    path.unlink(missing_ok=True)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA page_size = {page_bytes}")
        connection.execute("CREATE TABLE other (x)")
        connection.execute("CREATE TABLE t (a INTEGER, note, b INTEGER)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
        for statement in then:
            connection.execute(statement)
        connection.commit()
    return path


def answer(path: Path) -> list[Row]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT a, b FROM t ORDER BY rowid").fetchall()


def table(path: Path, columns: Sequence[str | None] = ("a", None, "b")) -> PagedTable:
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 't'"
        ).fetchone()
    return PagedTable.of(path, root, columns)


def decoded(path: Path) -> list[Row]:
    paged = table(path)
    return [row for part in paged.ranges() for row in paged.integers(part).iter_rows()]


def test_integers_of_every_width(tmp_path: Path) -> None:
    rows = [(value, "", other) for value in (*EDGES, None) for other in (*EDGES, None)]
    path = write(tmp_path / "x.sqlite", rows)
    assert decoded(path) == [(a, b) for a, _, b in rows]


@SLOW_FOLDERS
@given(
    rows=st.lists(st.tuples(INTEGERS, st.text(max_size=20) | st.binary(max_size=20), INTEGERS)),
    page_bytes=st.sampled_from([512, 1024, 4096, 65_536]),
)
def test_any_integers_beside_short_texts(tmp_path: Path, rows: list[Row], page_bytes: int) -> None:
    path = write(tmp_path / "x.sqlite", rows, page_bytes=page_bytes)
    assert decoded(path) == [(a, b) for a, _, b in rows]


@pytest.mark.parametrize("page_bytes", [512, 4096, 65_536])
def test_a_tree_of_several_levels_that_was_written_over(tmp_path: Path, page_bytes: int) -> None:
    """20,000 rows are three levels of small pages; deleted rows leave holes, updated ones move."""
    rows = [(n * n, "n" * (n % 50), -n) for n in range(20_000)]
    path = write(
        tmp_path / "x.sqlite",
        rows,
        page_bytes=page_bytes,
        then=[
            "DELETE FROM t WHERE rowid % 7 = 3 OR rowid BETWEEN 4000 AND 9000",
            "INSERT INTO t (rowid, a, b) VALUES (-5, 1, 2), (-9223372036854775808, 3, 4)",
            "INSERT INTO t (rowid, a, b) VALUES (9223372036854775807, 5, 6)",
            "UPDATE t SET note = 'a longer note than before' WHERE rowid % 11 = 0",
        ],
    )
    assert decoded(path) == answer(path)
    assert decoded(path)[:2] == [(3, 4), (1, 2)]
    assert decoded(path)[-1] == (5, 6)


def test_no_rows(tmp_path: Path) -> None:
    assert decoded(write(tmp_path / "x.sqlite", [])) == []
    rows = [(n, "", n) for n in range(5_000)]
    assert decoded(write(tmp_path / "y.sqlite", rows, then=["DELETE FROM t"])) == []


def test_columns_without_a_name_are_left_out(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", [(1, "x", 2)])
    paged = table(path, (None, None, "b"))
    (part,) = paged.ranges()
    assert paged.integers(part).to_dict(as_series=False) == {"b": [2]}


IRREGULAR: dict[str, tuple[Row, tuple[str, ...]]] = {
    "a real": ((1.5, "", 2), ()),
    "a text for an integer": (("one", "", 2), ()),
    "a long text": ((1, "x" * 100, 2), ()),
    "a row over several pages": ((1, "x" * 100_000, 2), ()),
    "rows older than a column": ((1, "", 2), ("ALTER TABLE t ADD COLUMN c INTEGER DEFAULT 7",)),
    "rows of another table": ((1, "", 2), ("ALTER TABLE t DROP COLUMN note",)),
}


@pytest.mark.parametrize("name", IRREGULAR)
def test_what_is_irregular_is_not_guessed(tmp_path: Path, name: str) -> None:
    row, then = IRREGULAR[name]
    path = write(tmp_path / "x.sqlite", [(1, "", 2), row], then=then)
    columns = ("a", None, "b", None) if "ADD" in "".join(then) else ("a", None, "b")
    paged = table(path, columns)
    (part,) = paged.ranges()
    with pytest.raises(Irregular):
        paged.integers(part)


def test_the_root_of_an_index_is_irregular(tmp_path: Path) -> None:
    path = write(tmp_path / "x.sqlite", [(1, "", 2)], then=["CREATE INDEX i ON t (a)"])
    with closing(sqlite3.connect(path)) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'i'"
        ).fetchone()
    with pytest.raises(Irregular):
        PagedTable.of(path, root, ("a", "b")).ranges()


@SLOW_FOLDERS
@given(
    damage=st.lists(st.tuples(st.integers(0, 20_000), st.integers(0, 255)), min_size=1, max_size=20)
)
def test_damaged_pages_end_in_rows_or_are_irregular(
    tmp_path: Path, damage: list[tuple[int, int]]
) -> None:
    """Whatever the bytes: no other error, no endless walk, no memory without limit."""
    rows = [(n * n, "n" * (n % 9), -n) for n in range(1_000)]
    path = write(tmp_path / "x.sqlite", rows, page_bytes=512)
    paged = table(path)
    data = bytearray(path.read_bytes())
    for place, value in damage:
        data[512 + place % (len(data) - 512)] = value
    path.write_bytes(data)
    try:
        found = [row for part in paged.ranges() for row in paged.integers(part).iter_rows()]
    except Irregular:
        return
    assert all(len(row) == 2 for row in found)


def test_pages_that_lead_round_in_circles(tmp_path: Path) -> None:
    rows = [(n, "", n) for n in range(1_000)]
    path = write(tmp_path / "x.sqlite", rows, page_bytes=512)
    paged = table(path)
    data = bytearray(path.read_bytes())
    begin = (paged.root - 1) * 512
    itself = paged.root.to_bytes(4, "big")
    data[begin + 3 : begin + 5] = b"\0\0"  # no cells, and the last child is the page itself
    data[begin + 8 : begin + 12] = itself
    path.write_bytes(data)
    with pytest.raises(Irregular):
        paged.ranges()


def test_a_truncated_file_is_irregular(tmp_path: Path) -> None:
    rows = [(n, "", n) for n in range(1_000)]
    path = write(tmp_path / "x.sqlite", rows, page_bytes=512)
    paged = table(path)
    path.write_bytes(path.read_bytes()[:-600])
    with pytest.raises(Irregular):
        _ = [paged.integers(part) for part in paged.ranges()]


def read(path: Path) -> list[Row]:
    wanted = {"a": fields.number("A", pl.Int64()), "b": fields.number("b", pl.Int64())}
    reader = SqliteReader(find_source(path))
    return [row for rows in reader.map_blocks("T", wanted, pl.DataFrame.rows) for row in rows]


Statements = Sequence[str]


@pytest.mark.parametrize(
    "then",
    [
        (),
        ("UPDATE t SET note = printf('%.*c', 100, 'x') WHERE rowid % 1000 = 0",),
        ("UPDATE t SET note = printf('%.*c', 9000, 'x') WHERE rowid = 2500",),
        ("DELETE FROM t WHERE rowid < 2000",),
        ("ALTER TABLE t ADD COLUMN c INTEGER",),
    ],
)
def test_the_reader_gives_every_row_once_and_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, then: Statements
) -> None:
    """Some ranges are decoded, and SQLite reads the rows of the others; names have any case."""
    monkeypatch.setattr(pages, "_PAGES_PER_RANGE", 3)
    rows = [(n * n, "", -n) for n in range(5_000)]
    path = write(tmp_path / "x.sqlite", rows, page_bytes=1024, then=then)
    assert read(path) == answer(path)


def test_both_ways_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "_PAGES_PER_RANGE", 3)
    queries: list[str] = []
    query = SqliteReader._query

    def watched(self: SqliteReader, name: str, text: str, *rest: object) -> object:
        queries.append(text)
        return query(self, name, text, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(SqliteReader, "_query", watched)
    rows = [(n, "", -n) for n in range(5_000)]
    path = write(tmp_path / "x.sqlite", rows)
    assert read(path) == answer(path)
    assert queries == []
    path = write(tmp_path / "x.sqlite", [*rows, (1, "x" * 9_000, 2)])
    assert read(path) == answer(path)
    assert len(queries) == 1


KEYED: dict[str, Callable[[sqlite3.Connection], object]] = {
    "a key is the rowid": lambda c: c.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER)"),
    "no rowid": lambda c: c.execute(
        "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER) WITHOUT ROWID"
    ),
    "a view": lambda c: c.executescript(
        "CREATE TABLE s (a INTEGER, b INTEGER); CREATE VIEW t AS SELECT * FROM s;"
        "CREATE TRIGGER i INSTEAD OF INSERT ON t BEGIN INSERT INTO s VALUES (NEW.a, NEW.b); END"
    ),
    "a computed column": lambda c: c.execute(
        "CREATE TABLE t (a INTEGER, b INTEGER, c INTEGER AS (a + b) STORED)"
    ),
}


@pytest.mark.parametrize("name", KEYED)
def test_tables_of_another_form(tmp_path: Path, name: str) -> None:
    path = tmp_path / "x.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        KEYED[name](connection)
        connection.executemany(
            "INSERT INTO t (a, b) VALUES (?, ?)", [(n, n % 3) for n in range(500)]
        )
        connection.commit()
    assert read(path) == [(n, n % 3) for n in range(500)]


def test_the_export_stays_as_it_is(tmp_path: Path) -> None:
    path = ExportBuilder().kernel("k", 10, 20).write(tmp_path / "run.sqlite")
    before = path.read_bytes()
    assert open_trace(path).kernels["end_ns"].to_list() == [20]
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["run.sqlite"]
