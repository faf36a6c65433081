from __future__ import annotations

import inspect

import msgspec
import pytest

from headrace import values
from headrace.values import Attempt, Failure, Item, Kind, Note, Origin, Outcome, Record, Sample, Sent, State, Status, UnitKind

STRUCTS = [
    made
    for _, made in inspect.getmembers(values, inspect.isclass)
    if issubclass(made, msgspec.Struct) and made is not msgspec.Struct
]


def test_every_value_is_frozen() -> None:
    assert len(STRUCTS) > 10
    assert [made.__name__ for made in STRUCTS if not made.__struct_config__.frozen] == []


def test_a_value_that_left_cannot_be_changed() -> None:
    failure = Failure(Kind.TIMEOUT, "late")
    with pytest.raises(AttributeError):
        failure.message = "other"  # type: ignore[misc]  # what is tried here


def test_the_kinds_are_the_contracts_and_belong_to_one_group_each() -> None:
    groups = [values.TRANSIENT, values.STOPPING, values.PERMANENT, values.UNACCEPTABLE, {Kind.BAD_INPUT}]
    assert [sorted(map(str, group)) for group in groups] == [
        ["connection", "overloaded", "protocol", "rate_limited", "server_error", "timeout"],
        ["auth", "bad_endpoint", "misconfigured", "model_missing", "quota", "schema_refused"],
        ["ambiguous", "bad_request", "content_filter", "context_too_long", "deadline", "too_large"],
        ["empty", "invalid_json", "refusal", "schema_mismatch", "truncated"],
        ["bad_input"],
    ]
    assert sorted(kind for group in groups for kind in group) == sorted(Kind)


def test_words_that_users_see() -> None:
    assert list(Status) == ["done", "failed", "quarantined", "rejected", "pending"]
    assert list(Note) == ["input_cut", "output_cut", "repaired", "finish_unknown", "usage_missing", "input_truncation_suspected"]
    assert f"{Kind.RATE_LIMITED}: slow down" == "rate_limited: slow down"


def test_numbers_that_ledgers_hold_never_change() -> None:
    assert {state.name: state.value for state in State} == {"PENDING": 0, "LEASED": 1, "DONE": 2, "FAILED": 3, "QUARANTINED": 4}
    assert {kind.name: kind.value for kind in UnitKind} == {
        "ASK": 0, "REDUCE": 1, "EVAL": 2, "JUDGE": 3, "CANARY": 4, "CALIBRATE": 5, "REPEAT": 6,
    }  # fmt: skip
    assert {origin.name: origin.value for origin in Origin} == {"SENT": 0, "LOST": 1, "REUSED": 2}
    assert list(Sent) == ["no", "maybe", "yes"]


def test_defaults_say_the_ordinary_case() -> None:
    assert Failure(Kind.EMPTY, "").sent is Sent.YES
    assert not Failure(Kind.EMPTY, "").mended
    assert Record(1, b"{}", {}).offset == -1
    assert Item(0, 0, 0, 2, 1, None).readable
    assert Outcome(0, State.DONE, None).spent == 0
    assert Attempt(0, 0, 0.0, 0.0, 1, 0).origin is Origin.SENT


def test_a_sample_says_whether_the_server_told_of_its_load() -> None:
    sample = Sample(1.0, 1, 8, 3, 2, 0, None, paused=False, lag_s=0.0)
    assert not sample.says_load
    assert msgspec.structs.replace(sample, waiting=0).says_load
    assert msgspec.structs.replace(sample, kv_used=0.0).says_load
