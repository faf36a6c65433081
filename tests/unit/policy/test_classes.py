"""What follows from a class, and what each kind of failure comes to under it."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.policy.classes import BATCH, CLASSES, KEYS, MANY, ONLINE, Course, course, defaults_of, misfit
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


def limits(name: str, **written: Any) -> dict[str, Any]:
    return {"class": name, **defaults_of(name), **written}


@pytest.mark.parametrize(
    ("found", "requests", "reason"),
    [
        (limits("online"), MANY, 'limits.class = "online" gives a record up after 3 sends or 300 s'),
        (limits("batch", unit_deadline=30.0), 0, "limits.unit_deadline = 30 s gives up what may have been paid for"),
        (limits("batch", attempt_timeout=2.0), 0, "limits.attempt_timeout = 2 s gives up"),
    ],
)
def test_a_job_that_looks_as_if_it_were_of_the_other_class_is_told_why(found: Any, requests: int, reason: str) -> None:
    said = misfit(found, requests)
    assert said is not None
    assert said.startswith(reason)
    assert said.endswith('limits.class = "batch"' if found["class"] == "online" else 'limits.class = "online"')


@pytest.mark.parametrize(
    ("found", "requests"),
    [
        (limits("online"), MANY - 1),
        (limits("online", max_attempts=6), 10**6),
        (limits("online", unit_deadline=3600.0), 10**6),
        (limits("batch"), 10**6),
        (limits("batch"), 3),
        (limits("batch", attempt_timeout=10.0, unit_deadline=60.0), 3),
    ],
)
def test_a_job_that_fits_its_class_is_not_told_anything(found: Any, requests: int) -> None:
    assert misfit(found, requests) is None
