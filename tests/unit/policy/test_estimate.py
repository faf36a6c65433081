"""What a unit will take, by what the answers so far took."""

from __future__ import annotations

import pytest

from headrace.policy.estimate import ANSWER_TOKENS, TOKENS_A_BYTE, Estimate
from headrace.values import Usage


def test_before_any_answer_the_longest_is_expected() -> None:
    assert Estimate(64).of(100) == (100 * TOKENS_A_BYTE, 64.0)
    assert Estimate().of(0) == (0.0, ANSWER_TOKENS)


def test_answers_teach_the_means() -> None:
    estimate = Estimate(64)
    for _ in range(200):
        estimate.learn(400, Usage(100, 20, cached=75))
    assert estimate.of(400) == pytest.approx((100.0, 20.0))
    assert estimate.computed == pytest.approx(0.25)
    assert estimate.seen == 200


def test_the_first_answer_counts_whole_and_later_ones_less() -> None:
    estimate = Estimate()
    estimate.learn(400, Usage(100, 20))
    assert estimate.of(400) == (100.0, 20.0)
    estimate.learn(400, Usage(100, None))
    assert estimate.of(400) == (100.0, 10.0)


def test_a_reply_that_names_no_prompt_teaches_nothing() -> None:
    estimate = Estimate(64)
    estimate.learn(400, Usage(None, 20))
    assert (estimate.seen, estimate.answer) == (0, 64.0)


def test_impossible_usage_does_no_harm() -> None:
    estimate = Estimate()
    estimate.learn(0, Usage(0, 0, cached=5))
    estimate.learn(10, Usage(5, 0, cached=50))
    assert estimate.computed == pytest.approx(0.5)
