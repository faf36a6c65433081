from __future__ import annotations

import random

import pytest

from headrace.policy.lengths import KEPT, Lengths


def taught(pairs: list[tuple[int, float]]) -> Lengths:
    lengths = Lengths()
    for size, answer in pairs:
        lengths.learn(size, size // 4, answer)
    return lengths


def test_before_any_answer_work_is_as_long_as_its_prompt() -> None:
    lengths = Lengths()
    assert lengths.cost(2000) == 2 * lengths.cost(1000) > 0


def test_answers_that_are_as_long_as_their_prompts_are_expected_so() -> None:
    lengths = taught([(size, size / 4) for size in range(400, 4400, 20)])
    assert lengths.cost(4000) - lengths.cost(2000) == pytest.approx(500 + 62.5)


def test_answers_of_one_length_leave_the_prompt_alone_to_tell_them_apart() -> None:
    lengths = taught([(size, 100.0) for size in range(400, 4400, 20)])
    assert lengths.cost(4000) - lengths.cost(2000) == pytest.approx(62.5)
    assert lengths.cost(0) == pytest.approx(100)


def test_prompts_of_one_length_tell_nothing_of_their_answers() -> None:
    lengths = taught([(1000, float(n)) for n in range(64)])
    assert lengths.slope == pytest.approx(0.125 / 4)


def test_long_prompts_may_have_short_answers() -> None:
    lengths = taught([(size, 2000 - size / 4) for size in range(400, 4400, 20)])
    assert lengths.cost(4000) < lengths.cost(2000)
    assert lengths.cost(1_000_000) > 0


def test_a_few_answers_that_ran_to_their_limit_move_the_line_little() -> None:
    rng = random.Random(1)
    pairs = [(size, 32_000.0 if rng.random() < 0.05 else size / 4) for size in range(400, 4400, 20)]
    assert taught(pairs).slope == pytest.approx(0.25 + 0.03125, rel=0.1)


def test_it_follows_what_changes_and_remembers_a_bounded_number() -> None:
    lengths = taught([(size % 4000, size % 4000 / 4) for size in range(1, 400_000, 37)])
    for n in range(40_000):
        lengths.learn(n % 4000, n % 4000 // 4, 7.0)
    assert lengths.slope == pytest.approx(0.03125, rel=0.05)
    assert len(lengths._seen) == KEPT
    assert lengths.skip  # one in a few is enough


def test_it_tells_when_the_line_is_new() -> None:
    lengths = Lengths()
    assert [n for n in range(1, 33) if lengths.learn(n, None, 1.0)] == [16, 32]
    assert lengths.tokens_a_byte == 0.25  # nobody has said how many tokens a prompt had
