"""The ledger's SQL: every statement prepares, and wide ones say what the narrow ones say."""

from __future__ import annotations

import sqlite3

import pytest

from headrace.ledger.statements import HASH_LISTS, SQL, WIDE, load, ranged, read_text, widened
from headrace.ledger.writer import ranges


@pytest.mark.parametrize("name", SQL)
def test_every_statement_prepares_against_the_schema(name: str) -> None:
    db = sqlite3.connect(":memory:")
    db.executescript(read_text("schema.sql"))
    named = {"first": 0, "last": 0, "thresholds": "[]"}
    db.execute(f"EXPLAIN {SQL[name]}", named if ":first" in SQL[name] else [0] * SQL[name].count("?"))
    db.close()


def test_every_block_of_the_file_is_found_once() -> None:
    text = read_text("queries.sql")
    assert len(SQL) == text.count("\n-- ") - 1  # the header's second line
    assert all(statement.endswith(";") and "--" not in statement for statement in SQL.values())


def test_blocks_may_span_lines() -> None:
    assert load("-- one: first\nSELECT 1\n  + 1;\n\n-- two: second\nSELECT 2;\n") == {
        "one": "SELECT 1 + 1;",
        "two": "SELECT 2;",
    }


def test_a_wide_statement_repeats_its_row_and_nothing_else() -> None:
    statement = "INSERT INTO t (a, b) VALUES (?, nullif(?, 0)) ON CONFLICT (a) DO UPDATE SET b = max(b, 1);"
    assert widened(statement, 1) == statement
    assert widened(statement, 3) == statement.replace(
        "(?, nullif(?, 0))", "(?, nullif(?, 0)), (?, nullif(?, 0)), (?, nullif(?, 0))"
    )


def test_a_condition_on_one_range_becomes_one_on_several() -> None:
    db = sqlite3.connect(":memory:")
    db.execute("CREATE TABLE t (seq INTEGER PRIMARY KEY, state INTEGER)")
    db.executemany("INSERT INTO t VALUES (?, ?)", [(number, number == 4) for number in range(12)])
    statement = "SELECT seq FROM t WHERE (seq BETWEEN ? AND ?) AND state = 0"
    assert ranged(statement, 1) == statement
    assert [row[0] for row in db.execute(ranged(statement, 3), (1, 2, 4, 5, 9, 9))] == [1, 2, 5, 9]
    plan = " ".join(row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {ranged(statement, 3)}", (1, 2, 4, 5, 9, 9)))
    assert "SCAN" not in plan
    db.close()


def test_no_statement_takes_more_values_than_any_sqlite_allows() -> None:
    statements = [text for wide in WIDE.values() for _, text in wide] + [text for _, text in HASH_LISTS]
    assert max(text.count("?") for text in statements) < 32766


def test_ranges_join_numbers_that_follow_each_other() -> None:
    assert ranges([]) == []
    assert ranges([5]) == [(5, 5)]
    assert ranges([1, 2, 3, 5, 7, 8]) == [(1, 3), (5, 5), (7, 8)]
