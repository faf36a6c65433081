from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.wrong import ENOUGH, FEWEST, MOST_SHAPES, SUSPECT, WrongConfiguration
from headrace.values import Failure, Kind


def bad(message: str = "no such field", kind: Kind = Kind.BAD_REQUEST, status: int = 400) -> Failure:
    return Failure(kind, message, status=status)


def proofs(rule: WrongConfiguration, units: range, total: int | None = None) -> list[int]:
    return [unit for unit in units if rule.on_failure(unit, bad(), total)]


@pytest.mark.parametrize("total", [None, 10, 11, 1_000_000])
def test_ten_identical_failures_prove_it(total: int | None) -> None:
    rule = WrongConfiguration()
    assert proofs(rule, range(10), total) == [9]
    assert rule.suspects == list(range(10))


@pytest.mark.parametrize("kind", SUSPECT)
def test_it_may_stand_behind_an_error_of_the_server(kind: Kind) -> None:
    rule = WrongConfiguration()
    assert [rule.on_failure(unit, bad(kind=kind, status=500), None) for unit in range(10)] == [False] * 9 + [True]


@pytest.mark.parametrize("total", range(3, 10))
def test_with_fewer_units_all_of_them_prove_it(total: int) -> None:
    rule = WrongConfiguration()
    assert proofs(rule, range(total), total) == [total - 1]


@pytest.mark.parametrize("total", [1, 2])
def test_one_or_two_units_prove_nothing(total: int) -> None:
    rule = WrongConfiguration()
    assert proofs(rule, range(total), total) == []
    assert FEWEST == 3


def test_one_unit_that_fails_often_proves_nothing() -> None:
    rule = WrongConfiguration()
    assert not any(rule.on_failure(1, bad(), None) for _ in range(100))
    assert rule.suspects == [1]


def test_digits_are_masked() -> None:
    rule = WrongConfiguration()
    assert [rule.on_failure(unit, bad(f"request 77{unit}: no field x"), None) for unit in range(10)][-1]


def test_what_differs_in_words_kind_or_status_is_not_identical() -> None:
    rule = WrongConfiguration()
    for unit in range(9):
        assert not rule.on_failure(unit, bad(), None)
        assert not rule.on_failure(100 + unit, bad("another word"), None)
        assert not rule.on_failure(200 + unit, bad(status=422), None)
        assert not rule.on_failure(300 + unit, bad(kind=Kind.PROTOCOL), None)


@pytest.mark.parametrize("kind", sorted(set(Kind) - {Kind.BAD_REQUEST, Kind.SERVER_ERROR, Kind.PROTOCOL}))
def test_CTX_02_other_kinds_do_not_count(kind: Kind) -> None:  # noqa: N802 - the case's id
    rule = WrongConfiguration()
    assert not any(rule.on_failure(unit, bad(kind=kind), 50) for unit in range(50))
    assert rule.suspects == []


def test_what_the_endpoint_has_mended_does_not_count() -> None:
    rule = WrongConfiguration()
    mended = Failure(Kind.BAD_REQUEST, "use max_completion_tokens", status=400, mended=True)
    assert not any(rule.on_failure(unit, mended, None) for unit in range(50))


@pytest.mark.parametrize("before", [0, 9])
def test_a_success_ends_it_for_good(before: int) -> None:
    rule = WrongConfiguration()
    assert proofs(rule, range(before)) == []
    rule.on_success()
    assert rule.suspects == []
    assert proofs(rule, range(100)) == []
    assert rule.suspects == []


def test_units_still_on_their_way_when_it_is_proven_go_back_too() -> None:
    rule = WrongConfiguration()
    assert proofs(rule, range(64)) == list(range(9, 64))
    assert rule.on_failure(64, bad("another word"), None)
    assert rule.suspects == list(range(65))


def test_once_it_is_proven_no_unit_is_forgotten() -> None:
    rule = WrongConfiguration()
    proofs(rule, range(10))
    for unit in range(10, 10 + MOST_SHAPES * 2):
        assert rule.on_failure(unit, bad("x" * unit), None)
    assert rule.suspects == list(range(10 + MOST_SHAPES * 2))


def test_a_unit_that_failed_in_two_ways_goes_back_once() -> None:
    rule = WrongConfiguration()
    rule.on_failure(0, bad("first", Kind.SERVER_ERROR), None)
    proofs(rule, range(10))
    assert sorted(rule.suspects) == list(range(10))


def test_input_that_ends_late_lowers_the_bar_for_the_next_failure() -> None:
    rule = WrongConfiguration()
    assert proofs(rule, range(5), None) == []
    assert rule.on_failure(4, bad(), 5)


@pytest.mark.parametrize(
    ("failed", "total", "proven"), [(5, 5, True), (3, 3, True), (4, 5, False), (2, 2, False), (9, 1_000, False)]
)
def test_the_end_of_the_input_tells_whether_a_small_job_has_failed_as_a_whole(failed: int, total: int, proven: bool) -> None:
    rule = WrongConfiguration()
    assert proofs(rule, range(failed), None) == []
    assert rule.on_input_read(total) is proven
    assert rule.suspects == list(range(failed))
    # Once it is proven, what was still on its way goes back too, alike or not.
    assert rule.on_failure(failed, bad("another word"), total) is proven


def test_the_end_of_the_input_proves_nothing_after_a_success_or_without_a_failure() -> None:
    rule = WrongConfiguration()
    assert rule.on_input_read(3) is False
    proofs(rule, range(4), None)
    rule.on_success()
    assert rule.on_input_read(4) is False


def test_ten_alike_were_proof_before_the_input_ended_and_are_afterwards() -> None:
    rule = WrongConfiguration()
    proofs(rule, range(10), None)
    assert rule.on_input_read(1_000_000) is True


def test_a_server_that_never_says_the_same_twice_does_not_fill_the_memory() -> None:
    rule = WrongConfiguration()
    words = ["".join(chr(97 + (number >> 4 * place) % 16) for place in range(3)) for number in range(MOST_SHAPES * 4)]
    assert not any(rule.on_failure(unit, bad(word), None) for unit, word in enumerate(words))
    assert len(rule.suspects) == MOST_SHAPES
    assert rule.suspects[-1] == len(words) - 1


def test_what_is_said_again_and_again_is_proven_among_many_other_words() -> None:
    rule = WrongConfiguration()
    words = ["".join(chr(97 + (number >> 4 * place) % 16) for place in range(3)) for number in range(1_000)]
    proven = []
    for unit, word in enumerate(words):
        rule.on_failure(10_000 + unit, bad(word), None)
        if unit % 100 == 0 and rule.on_failure(unit, bad(), None):
            proven.append(unit)
    assert proven == [900]


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 30), st.sampled_from(["a 1", "a 2", "b"])), max_size=80), st.none() | st.integers(0, 40))
def test_it_is_proven_exactly_when_enough_units_have_failed_alike(failures: list[tuple[int, str]], total: int | None) -> None:
    rule, alike, proven = WrongConfiguration(), {"a": set(), "b": set()}, False  # type: ignore[var-annotated]  # sets of units
    needed = ENOUGH if total is None else min(ENOUGH, max(3, total))
    for unit, message in failures:
        alike[message[0]].add(unit)
        proven = proven or any(len(units) >= needed for units in alike.values())
        assert rule.on_failure(unit, bad(message), total) == proven
    assert set(rule.suspects) == alike["a"] | alike["b"]


def test_a_unit_that_is_forgotten_is_not_taken_back() -> None:
    wrong = WrongConfiguration()
    failure = Failure(Kind.BAD_REQUEST, "unknown field", status=400)
    for unit in range(5):
        wrong.on_failure(unit, failure, None)
    wrong.forget(3)
    wrong.forget(99)
    assert wrong.suspects == [0, 1, 2, 4]
