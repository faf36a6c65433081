"""What follows from a class, and what each kind of failure comes to under it."""

from __future__ import annotations

import pytest

from headrace.policy.classes import BATCH, CLASSES, KEYS, ONLINE, Course, course, defaults_of
from headrace.policy.verdict import Action
from headrace.spec import LimitsSpec
from headrace.values import PERMANENT, STOPPING, Kind


def test_batch_is_what_stands_in_the_job_file_as_defaults() -> None:
    written = LimitsSpec().model_dump(by_alias=True)
    assert {key: written[key] for key in KEYS} == defaults_of("batch")


def test_every_class_of_the_job_file_has_its_row() -> None:
    assert set(CLASSES) == {"batch", "online"}
    for name in CLASSES:
        LimitsSpec.model_validate({"class": name, **defaults_of(name)})


def test_online_gives_up_before_batch_in_everything() -> None:
    assert ONLINE.max_attempts < BATCH.max_attempts
    assert ONLINE.unit_deadline < BATCH.unit_deadline
    assert ONLINE.give_up_after < BATCH.give_up_after
    assert ONLINE.drain < BATCH.drain
    assert ONLINE.patience.base_s < BATCH.patience.base_s
    assert ONLINE.patience.per_token_s < BATCH.patience.per_token_s
    assert ONLINE.backoff.longest_s < BATCH.backoff.longest_s


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_gives_up_an_endpoint_only_after_a_unit_could_have_been_tried(name: str) -> None:
    of = CLASSES[name]
    assert of.patience.base_s < of.give_up_after
    assert of.patience.base_s < of.unit_deadline


@pytest.mark.parametrize(("manners", "sends"), [(BATCH, 6), (ONLINE, 3)])
@pytest.mark.parametrize("kind", [Kind.SERVER_ERROR, Kind.TIMEOUT, Kind.CONNECTION, Kind.PROTOCOL])
def test_what_may_pass_is_tried_until_the_attempts_of_the_class_are_used_up(kind: Kind, manners, sends: int) -> None:
    assert course(kind, manners) == Course(Action.RETRY, counts=True, sends=sends, last=Action.FAIL)


@pytest.mark.parametrize("kind", [Kind.RATE_LIMITED, Kind.OVERLOADED])
def test_only_time_bounds_the_tries_at_an_endpoint_that_is_full(kind: Kind) -> None:
    assert course(kind, ONLINE) == Course(Action.RETRY, counts=False, sends=None, last=Action.FAIL)


@pytest.mark.parametrize("retry_invalid", [0, 1, 3])
def test_an_answer_that_is_not_acceptable_is_asked_for_again_and_then_kept_apart(retry_invalid: int) -> None:
    first = Action.REASK if retry_invalid else Action.QUARANTINE
    assert course(Kind.EMPTY, BATCH, retry_invalid) == Course(first, counts=True, sends=1 + retry_invalid, last=Action.QUARANTINE)


@pytest.mark.parametrize("kind", sorted(STOPPING | PERMANENT))
def test_what_another_send_cannot_mend_ends_at_once(kind: Kind) -> None:
    last = Action.STOP if kind in STOPPING else Action.FAIL
    for manners in CLASSES.values():
        assert course(kind, manners) == Course(last, counts=kind in PERMANENT, sends=1, last=last)
