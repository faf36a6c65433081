from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.policy.verdict import OVERLOAD, TABLE, Action, Standing, Verdict, decide, is_server_failure
from headrace.values import PERMANENT, STOPPING, TRANSIENT, Failure, Kind, Sent

# The contract's table, written down a second time: (action, does the send count).
EXPECTED = {
    "rate_limited": (Action.RETRY, False),
    "overloaded": (Action.RETRY, False),
    "server_error": (Action.RETRY, True),
    "timeout": (Action.RETRY, True),
    "connection": (Action.RETRY, True),
    "protocol": (Action.RETRY, True),
    "auth": (Action.STOP, False),
    "quota": (Action.STOP, False),
    "model_missing": (Action.STOP, False),
    "bad_endpoint": (Action.STOP, False),
    "schema_refused": (Action.STOP, False),
    "misconfigured": (Action.STOP, False),
    "bad_request": (Action.FAIL, True),
    "context_too_long": (Action.FAIL, True),
    "too_large": (Action.FAIL, True),
    "content_filter": (Action.FAIL, True),
    "deadline": (Action.FAIL, True),
    "ambiguous": (Action.FAIL, True),
    "bad_input": (Action.FAIL, True),
    "invalid_json": (Action.REASK, True),
    "schema_mismatch": (Action.REASK, True),
    "empty": (Action.REASK, True),
    "truncated": (Action.QUARANTINE, True),
    "refusal": (Action.QUARANTINE, True),
}
KINDS = st.sampled_from(Kind)
COUNTED = (Kind.SERVER_ERROR, Kind.TIMEOUT, Kind.CONNECTION, Kind.PROTOCOL)


def standing(spent: int = 0, reasks: int = 0, **changed: object) -> Standing:
    fields = {"max_attempts": 6, "retry_invalid": 1, "retry_ambiguous": True, **changed}
    return Standing(spent, reasks, **fields)  # type: ignore[arg-type]  # the fields are of three types


def failure(kind: Kind, **changed: object) -> Failure:
    return Failure(kind, "why", **changed)  # type: ignore[arg-type]  # as above


def test_every_kind_of_the_contract_has_its_row() -> None:
    assert {kind.value for kind in Kind} == set(EXPECTED)
    assert {kind.value: (row.action, row.counts) for kind, row in TABLE.items()} == EXPECTED


@pytest.mark.parametrize("kind", Kind)
def test_a_first_failure_follows_the_table(kind: Kind) -> None:
    action, counts = EXPECTED[kind.value]
    assert decide(failure(kind), standing()) == Verdict(action, counts, kind)


@pytest.mark.parametrize("kind", COUNTED)
@pytest.mark.parametrize("max_attempts", [1, 2, 6])
def test_RTL_14_a_unit_is_sent_exactly_max_attempts_times(kind: Kind, max_attempts: int) -> None:  # noqa: N802 - the case's id
    spent, actions = 0, []
    while not actions or actions[-1] is Action.RETRY:
        verdict = decide(failure(kind), standing(spent, max_attempts=max_attempts))
        actions.append(verdict.action)
        spent += verdict.counts
    assert actions == [Action.RETRY] * (max_attempts - 1) + [Action.FAIL]
    assert spent == max_attempts


@pytest.mark.parametrize("kind", OVERLOAD)
def test_RTL_02_waiting_for_an_overloaded_endpoint_spends_no_attempt(kind: Kind) -> None:  # noqa: N802 - the case's id
    for spent in range(9):  # even where attempts that counted were used up before
        assert decide(failure(kind), standing(spent, max_attempts=3)) == Verdict(Action.RETRY, counts=False, kind=kind)


@pytest.mark.parametrize("kind", COUNTED)
def test_RTL_16_a_try_while_the_endpoint_is_down_does_not_count(kind: Kind) -> None:  # noqa: N802 - the case's id
    for spent in range(9):
        verdict = decide(failure(kind), standing(spent, max_attempts=3, excused=True))
        assert verdict == Verdict(Action.RETRY, counts=False, kind=kind)


@pytest.mark.parametrize("kind", [kind for kind in Kind if kind not in TRANSIENT])
def test_a_failure_of_the_unit_itself_is_not_excused(kind: Kind) -> None:
    assert decide(failure(kind), standing(excused=True)) == decide(failure(kind), standing())


@pytest.mark.parametrize("kind", Kind)
def test_REQ_03_what_the_endpoint_has_mended_is_sent_again_and_spends_nothing(kind: Kind) -> None:  # noqa: N802 - the case's id
    assert decide(failure(kind, mended=True), standing(5, max_attempts=6)) == Verdict(Action.AGAIN, counts=False, kind=kind)


@given(KINDS, st.sampled_from(Sent), st.integers(0, 20), st.integers(0, 20), st.booleans(), st.booleans())
def test_a_mended_endpoint_is_asked_again_for_nothing(
    kind: Kind, sent: Sent, spent: int, reasks: int, ambiguous: bool, excused: bool
) -> None:
    at = standing(spent, reasks, retry_ambiguous=ambiguous, excused=excused)
    assert decide(failure(kind, mended=True, sent=sent), at) == Verdict(Action.AGAIN, counts=False, kind=kind)


@pytest.mark.parametrize("kind", TRANSIENT)
def test_RTL_09_what_may_have_been_billed_is_not_sent_again_with_never(kind: Kind) -> None:  # noqa: N802 - the case's id
    for excused in (False, True):
        never = standing(retry_ambiguous=False, excused=excused)
        assert decide(failure(kind, sent=Sent.MAYBE), never) == Verdict(Action.FAIL, counts=True, kind=Kind.AMBIGUOUS)
        for sent in (Sent.NO, Sent.YES):
            assert decide(failure(kind, sent=sent), never).action is Action.RETRY
    assert decide(failure(kind, sent=Sent.MAYBE), standing()).action is Action.RETRY


@pytest.mark.parametrize("kind", [Kind.INVALID_JSON, Kind.SCHEMA_MISMATCH, Kind.EMPTY])
@pytest.mark.parametrize("retry_invalid", [0, 1, 3])
def test_an_answer_that_is_not_acceptable_is_asked_for_again_and_then_quarantined(kind: Kind, retry_invalid: int) -> None:
    reasks, actions = 0, []
    while not actions or actions[-1] is Action.REASK:
        verdict = decide(failure(kind), standing(reasks=reasks, retry_invalid=retry_invalid))
        actions.append(verdict.action)
        reasks += 1
    assert actions == [Action.REASK] * retry_invalid + [Action.QUARANTINE]


def test_a_reask_needs_no_attempt_of_the_ask_before() -> None:
    assert decide(failure(Kind.EMPTY), standing(5, max_attempts=6)).action is Action.REASK


@given(
    st.builds(failure, KINDS, sent=st.sampled_from(Sent), mended=st.booleans()),
    st.builds(Standing, st.integers(0, 9), st.integers(0, 9), st.integers(1, 9), st.integers(0, 9), st.booleans(), st.booleans()),
)
def test_what_holds_for_every_verdict(failed: Failure, at: Standing) -> None:
    verdict = decide(failed, at)
    assert verdict.kind in {failed.kind, Kind.AMBIGUOUS}
    assert (verdict.action is Action.STOP) == (failed.kind in STOPPING and not failed.mended)
    if failed.kind in PERMANENT and not failed.mended:
        assert verdict.action is Action.FAIL
    if verdict.action is Action.RETRY:
        assert failed.kind in TRANSIENT
        assert at.spent + verdict.counts < at.max_attempts or not verdict.counts
    if verdict.action in {Action.FAIL, Action.QUARANTINE, Action.REASK}:
        assert verdict.counts


@pytest.mark.parametrize("kind", Kind)
def test_only_failures_of_the_server_open_the_breaker(kind: Kind) -> None:
    assert is_server_failure(kind) == (kind in COUNTED)


def test_overload_is_said_by_two_kinds() -> None:
    assert set(OVERLOAD) == {Kind.RATE_LIMITED, Kind.OVERLOADED}
