"""What a job's class makes of its limits, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headrace.errors import SpecError
from headrace.policy.classes import BATCH, KEYS, ONLINE, defaults_of
from headrace.runs.classes import explain_classes
from headrace.runs.jobfile import job_from_dict, without_class
from headrace.runs.pacing import knobs_of
from headrace.spec import JobSpec
from headrace.values import Kind


def spec_of(overrides: list[str] = [], **limits: Any) -> JobSpec:  # noqa: B006 - never changed
    tables = {
        "input": {"path": "in.jsonl"}, "prompt": {"user": "x"}, "model": {"name": "m"}, "output": {"path": "out.jsonl"},
        "endpoint": {"url": "http://127.0.0.1:9/v1"}, "limits": limits,
    }  # fmt: skip
    return job_from_dict(tables, Path("/"), overrides).spec


def values_of(spec: JobSpec) -> dict[str, Any]:
    written = spec.limits.model_dump(by_alias=True)
    return {key: written[key] for key in KEYS}


def test_the_configuration_holds_what_follows_from_the_class() -> None:
    assert values_of(spec_of()) == defaults_of("batch")
    assert values_of(spec_of(**{"class": "online"})) == defaults_of("online")


def test_what_the_job_writes_wins_also_where_it_is_the_other_class_s_value() -> None:
    spec = spec_of(**{"class": "online", "max_attempts": 6, "unit_deadline": "1h"})
    assert values_of(spec) == {**defaults_of("online"), "max_attempts": 6, "unit_deadline": 3600.0}


def test_an_override_of_the_class_changes_what_follows_from_it() -> None:
    assert values_of(spec_of(["limits.class=online"], drain="5s")) == {**defaults_of("online"), "drain": 5.0}


def test_the_class_decides_no_answer() -> None:
    assert spec_of(**{"class": "online"}).content_hash() == spec_of().content_hash()
    assert spec_of(**{"class": "online"}).operating() != spec_of().operating()


def test_what_was_dumped_comes_back_the_same() -> None:
    for limits in ({}, {"class": "online"}, {"class": "online", "max_attempts": 6}):
        spec = spec_of(**limits)
        assert job_from_dict(spec.model_dump(mode="json", by_alias=True), Path("/")).spec == spec


def test_recorded_limits_follow_another_class_where_they_followed_the_first() -> None:
    recorded = spec_of(**{"class": "online", "max_attempts": 4}).limits.model_dump(mode="json", by_alias=True)
    written = without_class(recorded)
    assert {key for key in KEYS if key in written} == {"max_attempts"}
    assert values_of(spec_of(["limits.class=batch"], **written)) == {**defaults_of("batch"), "max_attempts": 4}
    assert values_of(spec_of(**written)) == {**defaults_of("online"), "max_attempts": 4}


@pytest.mark.parametrize(("name", "manners"), [("batch", BATCH), ("online", ONLINE)])
def test_the_engine_is_told_the_class_s_limits_and_manners(name: str, manners) -> None:
    knobs = knobs_of(spec_of(**{"class": name}), "run", 1)
    assert (knobs.max_attempts, knobs.attempt_timeout, knobs.unit_deadline_s, knobs.give_up_after_s, knobs.drain_s) == tuple(
        defaults_of(name).values()
    )
    assert knobs.manners == manners


def test_the_document_has_every_kind_once_with_each_class_beside_the_other() -> None:
    document = explain_classes()
    assert [row["kind"] for row in document["kinds"]] == [kind.value for kind in Kind]
    assert all(set(row["classes"]) == {"batch", "online"} for row in document["kinds"])
    assert document["classes"]["online"]["limits"] == defaults_of("online")
    rows = {row["kind"]: row for row in document["kinds"]}
    assert rows["timeout"] == {
        "kind": "timeout", "action": "retry", "counts": True, "waits": "backoff",
        "classes": {"batch": {"sends": 6, "then": "fail"}, "online": {"sends": 3, "then": "fail"}},
    }  # fmt: skip
    assert (rows["overloaded"]["counts"], rows["overloaded"]["waits"]) == (False, "server")
    assert rows["auth"]["classes"] == {name: {"sends": 1, "then": "stop"} for name in ("batch", "online")}
    assert (rows["empty"]["action"], rows["empty"]["waits"]) == ("reask", None)


def test_one_class_alone_may_be_asked_for() -> None:
    document = explain_classes(["online"])
    assert set(document["classes"]) == {"online"}
    assert all(set(row["classes"]) == {"online"} for row in document["kinds"])


@pytest.mark.parametrize("priority", ["middle", True, 2**63, 1.5])
def test_a_priority_is_low_high_or_a_number_of_64_bits(priority: Any) -> None:
    tables = {
        "input": {"path": "in.jsonl"}, "prompt": {"user": "x"}, "model": {"name": "m"}, "output": {"path": "out.jsonl"},
        "endpoint": {"url": "http://127.0.0.1:9/v1", "priority": priority},
    }  # fmt: skip
    with pytest.raises(SpecError) as caught:
        job_from_dict(tables, Path("/"))
    assert caught.value.key == "endpoint.priority"
    assert '"low"' in str(caught.value)


def test_the_embedded_server_has_nobody_else_to_serve() -> None:
    tables = {
        "input": {"path": "in.jsonl"}, "prompt": {"user": "x"}, "model": {"name": "local"}, "output": {"path": "out.jsonl"},
        "endpoint": {"url": "local", "priority": "low"},
    }  # fmt: skip
    with pytest.raises(SpecError, match=r"endpoint\.priority: makes no sense"):
        job_from_dict(tables, Path("/"))
