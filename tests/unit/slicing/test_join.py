from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.slicing.gaps import TEXTS, between, gap_at
from headrace.slicing.join import Joined, concat, groups, join, levels, vote


@pytest.mark.parametrize(
    ("answers", "gaps", "joined"),
    [
        (["one"], [0], "one"),
        (["one", "two"], [1, 0], "one two"),
        (["one", "two"], [3, 0], "one\n\ntwo"),
        (["漢", "字"], [0, 0], "漢字"),
        (["one ", "two"], [1, 0], "one two"),  # the answer brings its white space along
        (["one", "", "two"], [3, 1, 0], "one two"),
        (["", "two"], [3, 0], "two"),
        ([["a"], [], ["b", "c"]], [1, 1, 0], ["a", "b", "c"]),
        ([{"a": 1}], [0], {"a": 1}),
        ([{"a": 1}, {"a": 2}], [1, 0], [{"a": 1}, {"a": 2}]),
        (["a", 1], [1, 0], ["a", 1]),
    ],
)
def test_concat_puts_texts_and_lists_together(answers: list[Any], gaps: list[int], joined: Any) -> None:
    assert concat(answers, gaps) == joined


def test_list_keeps_every_answer_in_order() -> None:
    assert join("list", ["b", "a", "b"], []) == Joined(["b", "a", "b"])


@pytest.mark.parametrize(
    ("answers", "joined"),
    [
        (["a"], Joined("a", 1.0)),
        (["a", "b", "b"], Joined("b", 0.666667)),
        (["b", "a", "a", "b", "c"], Joined("b", 0.4, ["a"])),  # a tie: what came first
        (["c", "b", "a"], Joined("c", 0.333333, ["b", "a"])),
        ([1, True, "1", 1], Joined(1, 0.5, [])),  # values are told apart as JSON tells them
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], Joined({"a": 1, "b": 2}, 1.0)),
    ],
)
def test_a_vote_says_its_share_and_what_it_was_tied_with(answers: list[Any], joined: Joined) -> None:
    assert vote(answers) == joined


@pytest.mark.parametrize(
    "answers",
    [
        [1, 1.0, 2], [1.0, 1, 2], [0, -0.0, 1], [[1], [1.0], 1], [{"a": [1, {"b": 2}]}, {"a": [1.0, {"b": 2.0}]}, None],
        [10**30, 1e30, 1e31], [2**53, 9007199254740992.0, 2**53 + 1],
    ],
)  # fmt: skip
def test_a_number_is_what_it_is_however_it_was_written(answers: list[Any]) -> None:
    found = vote(answers)
    assert (found.value, type(found.value), found.share, found.tied) == (answers[0], type(answers[0]), 0.666667, [])


@pytest.mark.parametrize("answers", [[1, True], [0, False], [1, "1"], [0, None], [[], {}], [0.1, 0.10000000000000002]])
def test_what_json_tells_apart_are_different_answers(answers: list[Any]) -> None:
    assert vote(answers).tied == answers[1:]


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=20))
def test_nobody_has_more_votes_than_who_wins(answers: list[str]) -> None:
    found = vote(answers)
    most = max(map(answers.count, answers))
    assert answers.count(found.value) == most
    assert found.share == round(most / len(answers), 6)
    assert {found.value, *found.tied} == {one for one in answers if answers.count(one) == most}
    assert all(answers.index(found.value) < answers.index(other) for other in found.tied)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=60), st.integers(1, 200))
def test_groups_hold_every_answer_once_and_halve_a_level_at_least(lengths: list[int], room: int) -> None:
    found = groups(lengths, room)
    assert [n for first, stop in found for n in range(first, stop)] == list(range(len(lengths)))
    assert len(found) <= max(1, len(lengths) // 2)
    for first, stop in found:
        together = sum(lengths[first:stop])
        assert together <= room or stop - first <= 3 or sum(lengths[first : stop - 1]) <= room


@pytest.mark.parametrize(
    ("text", "at", "gap"), [("ab", 1, 0), ("a b", 1, 1), ("a b", 2, 1), ("a\nb", 1, 2), ("a.\n\n b", 2, 3), ("a", 1, 0)]
)
def test_a_gap_is_the_white_space_around_a_place(text: str, at: int, gap: int) -> None:
    assert gap_at(text, at) == gap
    assert between("a", gap, "b") == TEXTS[gap]


@pytest.mark.parametrize(
    ("count", "length", "room", "found"),
    [
        (1, 10, 100, []),
        (0, 10, 100, []),
        (2, 1000, 10, [1]),
        (10, 10, 100, [1]),
        (569, 400, 4000, [57, 6, 1]),
        (5, 90, 100, [2, 1]),
    ],
)
def test_the_levels_of_a_reduction_can_be_foretold(count: int, length: float, room: float, found: list[int]) -> None:
    assert levels(count, length, room) == found
