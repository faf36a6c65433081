"""Parts of the page: which columns are numbers, and how time is counted."""

from __future__ import annotations

from headrace.reports.page import Clock, Part


def test_a_column_of_numbers_is_known_and_one_of_words_too() -> None:
    rows = [["red", "1,200", "12.5%", "-0.3", "unknown", "1 of 2"], ["blue", "3", "0.00%", "1e-05", "-", "7"]]
    assert Part("t", list("abcdef"), rows).numeric == [False, True, True, True, True, False]
    assert Part("t", ["a"], []).numeric == []


def test_time_is_counted_in_the_unit_of_the_clock() -> None:
    assert (Clock("second", 60.0).shown(0.033), Clock("second", 60.0).title) == (1.98, "seconds in which it was sending")
    assert Clock("minute", 1.0).shown(0.033) == 0.033
