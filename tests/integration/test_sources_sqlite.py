from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import HeadraceError, InputBrokenError, InputError, SpecError
from headrace.sources import OpenedSource, matches, open_source
from headrace.sources import sqlite as module
from headrace.values import Record

MAX = 10_000_000
ALL = "SELECT * FROM articles"


@pytest.fixture
def base(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(tmp_path / "x.db")
    connection.execute("CREATE TABLE articles (id INTEGER, title TEXT, score REAL, more)")
    connection.execute("INSERT INTO articles VALUES (1, 'one', 0.5, NULL)")
    connection.commit()
    yield connection
    connection.close()


def opened(folder: Path, query: str | None = ALL, path: str = "sqlite:///x.db", max_record: int = MAX) -> OpenedSource:
    return open_source(path, folder, max_record=max_record, query=query)


def read_all(source: OpenedSource) -> list[Record]:
    records: list[Record] = []
    while True:
        chunk = source.read(3)
        records += chunk.records
        if chunk.done:
            source.close()
            return records


def seen(folder: Path, query: str) -> list[Any]:
    return [record.fields if record.fields is not None else record.reason for record in read_all(opened(folder, query))]


def refusal(folder: Path, query: str | None = ALL, path: str = "sqlite:///x.db") -> HeadraceError:
    with pytest.raises(HeadraceError) as caught:
        opened(folder, query, path)
    assert caught.value.exit_code == 2
    assert "\n" not in str(caught.value)
    return caught.value


def put(base: sqlite3.Connection, *rows: tuple[Any, ...]) -> None:
    base.executemany("INSERT INTO articles VALUES (?, ?, ?, ?)", rows)
    base.commit()


def test_columns_are_fields_and_values_keep_their_type(tmp_path: Path, base: sqlite3.Connection) -> None:
    put(base, (2**63 - 1, "é\u2028\0", 0.1, "x"), (-(2**63), "", 3, 7))
    assert [record.raw for record in read_all(opened(tmp_path))] == [
        b'{"id":1,"title":"one","score":0.5,"more":null}',
        '{"id":9223372036854775807,"title":"é\u2028\\u0000","score":0.1,"more":"x"}'.encode(),
        b'{"id":-9223372036854775808,"title":"","score":3.0,"more":7}',
    ]


def test_a_row_that_has_no_json_form_is_rejected_with_its_column(tmp_path: Path, base: sqlite3.Connection) -> None:
    put(base, (2, "blob", 1.0, b"\x00\x01"), (3, "infinite", float("inf"), None), (4, "fine", None, "x"))
    base.execute("INSERT INTO articles VALUES (5, CAST(x'66FF' AS TEXT), 1.0, NULL)")
    base.commit()
    records = read_all(opened(tmp_path))
    assert [record.reason for record in records] == [
        None,
        "column 'more' holds a blob; make text of it in the query, by CAST(… AS TEXT) or hex(…)",
        "column 'score' is infinite, which has no JSON form",
        None,
        "column 'title' holds bytes that are not UTF-8",
    ]
    assert records[1].raw == b'{"id":2,"title":"blob","score":1.0,"more":null}'


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1 AS n",
        "  \n-- a comment\n/* and\nanother */ select 1 n;  -- done",
        "WITH x(n) AS (SELECT 1) SELECT n FROM x",
        "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 1) SELECT n FROM c",
        "SELECT count(*) AS n FROM articles",
    ],
)
def test_one_query_that_reads_is_asked(tmp_path: Path, base: sqlite3.Connection, query: str) -> None:
    assert seen(tmp_path, query) == [{"n": 1}]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        (None, "is missing: a sqlite:/// input needs one SELECT; tables there: articles"),
        (" ", "is missing: a sqlite:/// input needs one SELECT; tables there: articles"),
        ("SELECT * FROM nope", "no such table: nope; tables there: articles"),
        ("SELECT nope FROM articles", "no such column: nope"),
        ("SELECT FROM", 'near "FROM": syntax error'),
        ("SELECT 1; SELECT 2", "one statement at a time"),
        ("SELECT id, id FROM articles", "gives two columns named 'id'; name one of them otherwise"),
        ("SELECT 1 AS ''", "gives column 1 no name"),
        ("SELECT ? AS n", "has parameters (? or :name); write their values into it"),
        ("SELECT 'a\0b'", "null character"),
        ("SELECT '\udcff'", "holds what is no text"),
        ("", "is missing"),
        ("-- nothing", "begins with ''; allowed is one SELECT, or WITH … SELECT"),
    ],
)
def test_a_query_that_cannot_be_asked_is_refused_with_what_to_do(
    tmp_path: Path, base: sqlite3.Connection, query: str | None, said: str
) -> None:
    error = refusal(tmp_path, query)
    assert isinstance(error, SpecError)
    assert error.key == "input.query"
    assert said in str(error)


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM articles",
        "DROP TABLE articles",
        "WITH x AS (SELECT 1) DELETE FROM articles",
        "WITH x AS (SELECT 1) INSERT INTO articles SELECT 1, 2, 3, 4 RETURNING id",
        "INSERT INTO articles DEFAULT VALUES RETURNING id",
        "PRAGMA journal_mode = WAL",
        "ATTACH 'other.db' AS other",
        "VACUUM INTO 'other.db'",
        "SELECT load_extension('other')",
        "SELECT * FROM pragma_table_info('articles')",
        "EXPLAIN SELECT 1",
    ],
)
def test_nothing_but_reading_is_done(tmp_path: Path, base: sqlite3.Connection, query: str) -> None:
    before = (tmp_path / "x.db").read_bytes()
    refusal(tmp_path, query)
    assert (tmp_path / "x.db").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["x.db"]


def test_a_database_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    assert str(refusal(tmp_path)) == f"input {tmp_path}/x.db: no such file"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["sqlite:x.db", "sqlite://x.db", "sqlite:///", "sqlite:///a\0b"])
def test_a_path_that_names_no_database_says_how_one_is_named(tmp_path: Path, path: str) -> None:
    assert "names no database; write sqlite:///x.db, or sqlite:////folder/x.db" in str(refusal(tmp_path, path=path))


def test_a_path_is_relative_to_the_base_or_absolute_and_may_hold_any_sign(tmp_path: Path) -> None:
    name = "a b?c=d#e%20é.db"
    connection = sqlite3.connect(tmp_path / name)
    connection.execute("CREATE TABLE t AS SELECT 1 AS n")
    connection.commit()
    connection.close()
    for path in (f"sqlite:///{name}", f"sqlite:///{tmp_path}/{name}"):
        assert [record.fields for record in read_all(opened(tmp_path, "SELECT n FROM t", path))] == [{"n": 1}]


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"no database at all" * 100)
    assert str(refusal(tmp_path)) == f"input {tmp_path}/x.db: not a SQLite database, or an encrypted one"
    (tmp_path / "y.db").mkdir()
    assert str(refusal(tmp_path, path="sqlite:///y.db")).endswith("y.db: not a regular file")
    os.mkfifo(tmp_path / "z.db")
    assert str(refusal(tmp_path, path="sqlite:///z.db")).endswith("z.db: not a regular file")


def test_a_locked_database_is_refused(tmp_path: Path, base: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PATIENCE_S", 0.0)
    base.execute("BEGIN EXCLUSIVE")
    error = refusal(tmp_path)
    assert isinstance(error, InputError)
    assert "x.db: is locked: another program has been writing to it" in str(error)
    base.rollback()


def test_rows_in_the_write_ahead_log_are_read(tmp_path: Path, base: sqlite3.Connection) -> None:
    base.execute("PRAGMA journal_mode = WAL")
    put(base, (2, "two", 1.0, None))
    assert (tmp_path / "x.db-wal").stat().st_size
    source = opened(tmp_path, "SELECT title FROM articles")
    put(base, (3, "three", 1.0, None))  # the query reads the state that it found
    assert [record.fields for record in read_all(source)] == [{"title": "one"}, {"title": "two"}]


def test_data_that_break_off_give_the_rows_before(tmp_path: Path, base: sqlite3.Connection) -> None:
    put(base, *((n, "x" * 500, 1.0, None) for n in range(2, 2000)))
    content = bytearray((tmp_path / "x.db").read_bytes())
    content[len(content) // 2 : len(content) // 2 + 40_960] = b"\xff" * 40_960
    (tmp_path / "y.db").write_bytes(content)
    source = opened(tmp_path, path="sqlite:///y.db")
    count = 0
    error = None
    while error is None:
        try:
            chunk = source.read(100)
            assert not chunk.done
            count += len(chunk.records)
        except InputBrokenError as caught:
            error = caught
    source.close()
    assert re.search(r"y\.db: breaks off after [0-9,]+ rows: database disk image is malformed", str(error))
    assert 100 < count < 1999


def test_a_query_in_another_order_is_noticed_when_it_goes_on(tmp_path: Path, base: sqlite3.Connection) -> None:
    put(base, *((n, f"text {n}", 1.0, None) for n in range(2, 100)))
    source = opened(tmp_path, "SELECT title FROM articles ORDER BY random()")
    position = source.read(50).position
    source.close()
    again = opened(tmp_path, "SELECT title FROM articles ORDER BY random()")
    with pytest.raises(InputError, match="does not give the rows that it gave when this run began") as caught:
        again.seek(position)
    assert caught.value.exit_code == 2
    again.close()


def fingerprint(folder: Path, query: str, limit: int | None = None) -> list[dict[str, Any]]:
    source = opened(folder, query)
    if limit is None:
        read_all(source)
    else:
        source.read(limit)
        source.close()
    return source.fingerprint()


def test_what_is_written_to_other_tables_changes_nothing(tmp_path: Path, base: sqlite3.Connection) -> None:
    stored = fingerprint(tmp_path, ALL)
    base.execute("CREATE TABLE other AS SELECT 1 AS n")
    base.commit()
    assert stored[0]["state"] != fingerprint(tmp_path, ALL)[0]["state"]
    assert matches(stored, [tmp_path / "x.db"])


@pytest.mark.parametrize(
    "change",
    [
        "INSERT INTO articles VALUES (9, 'new', 1, 1)",
        "UPDATE articles SET title = 'other'",
        "DELETE FROM articles",
        "DROP TABLE articles",
    ],
)
def test_rows_that_came_went_or_changed_are_noticed(tmp_path: Path, base: sqlite3.Connection, change: str) -> None:
    stored = fingerprint(tmp_path, ALL)
    base.execute(change)
    base.commit()
    assert not matches(stored, [tmp_path / "x.db"])


def test_of_rows_read_in_part_that_part_is_compared(tmp_path: Path, base: sqlite3.Connection) -> None:
    put(base, *((n, f"text {n}", 1.0, None) for n in range(2, 20)))
    stored = fingerprint(tmp_path, ALL, 10)
    base.execute("UPDATE articles SET title = 'other' WHERE id = 15")
    base.commit()
    assert matches(stored, [tmp_path / "x.db"])
    base.execute("UPDATE articles SET title = 'other' WHERE id = 5")
    base.commit()
    assert not matches(stored, [tmp_path / "x.db"])
    (tmp_path / "x.db").unlink()
    assert not matches(stored, [tmp_path / "x.db"])
