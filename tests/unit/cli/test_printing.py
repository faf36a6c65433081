"""Lines for people are as wide as the terminal is, and whole where somebody else reads them."""

from __future__ import annotations

import io

import pytest

from headrace.cli.printing import facts, notes, wrapped

ROWS = [
    ("order", "973 more are served where prompts that begin alike stand together (order prefix or auto)"),
    ("cost", "unknown"),
]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_on_a_terminal_a_long_line_goes_on_under_its_own_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "60")
    assert facts(ROWS) == [
        "order  973 more are served where prompts that begin alike",
        "       stand together (order prefix or auto)",
        "cost   unknown",
    ]
    assert notes(["a limit " * 12]) == ["note: " + "a limit " * 6 + "a", "      " + "limit a " * 5 + "limit"]


def test_a_narrow_terminal_still_gets_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "3")
    assert max(map(len, facts(ROWS))) <= 40


def test_a_pipe_gets_each_fact_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout", io.StringIO())
    monkeypatch.setenv("COLUMNS", "60")
    assert facts(ROWS) == [f"order  {ROWS[0][1]}", "cost   unknown"]


def test_a_long_line_of_a_table_goes_on_below_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    line = "12  failed  bad_request  " + "a reason " * 6
    assert wrapped(line, 4) == [line]
    monkeypatch.setattr("sys.stdout", Terminal())
    assert wrapped(line, 4) == ["12  failed  bad_request  a reason a", "    reason a reason a reason a reason a", "    reason"]
