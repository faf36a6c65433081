"""When equal answers to distinct questions are strange."""

from __future__ import annotations

import pytest

from headrace.policy.monotony import alarm


@pytest.mark.parametrize(
    ("answers", "equal", "are_labels", "is_strange"),
    [
        (200, 200, False, True), (200, 180, False, True), (200, 179, False, False), (99, 99, False, False),
        (999, 999, True, False), (1000, 1000, True, True), (5000, 4999, True, False),
    ],
)  # fmt: skip
def test_equal_answers(answers: int, equal: int, are_labels: bool, is_strange: bool) -> None:
    assert (alarm(answers, equal, "{}", are_labels=are_labels) is not None) == is_strange


def test_it_says_how_many_and_what() -> None:
    assert alarm(200, 190, "{}", are_labels=False) == (
        "identical outputs 95%: 190 of 200 distinct requests were answered {}"
    )  # fmt: skip
