"""What a unit's hash covers besides its payload."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.canon import UnitHasher
from headrace.errors import SpecError
from headrace.prompts.body import BodyTemplate
from headrace.spec import JobSpec

BASE = {"name": "m", "temperature": 0, "max_tokens": 10, "extra": {"top_k": 1, "nested": {"a": 1, "b": 2}}}


def body(model: dict[str, Any], answer: dict[str, Any] | None = None, url: str = "http://127.0.0.1:1/v1") -> BodyTemplate:
    job = {"input": {"path": "x.jsonl"}, "prompt": {"user": "x"}, "endpoint": {"url": url}, "output": {"path": "o.jsonl"}}
    return BodyTemplate(JobSpec.model_validate({**job, "model": model, "answer": answer or {}}))


def unit(model: dict[str, Any], answer: dict[str, Any] | None = None, url: str = "http://127.0.0.1:1/v1") -> bytes:
    return UnitHasher(body(model, answer, url).hash_constants())(b"[]")


@pytest.mark.parametrize(
    "change",
    [
        {"name": "other"},
        {"temperature": 0.5},
        {"seed": 1},
        {"stop": ["x"]},
        {"top_p": 0.5},
        {"route": "completions"},
        {"extra": {}},
        {"extra": {"top_k": 2, "nested": {"a": 1, "b": 2}}},
        {"extra": {"top_k": 1, "nested": {"a": 1, "b": 3}}},
    ],
)
def test_dup_01_whatever_changes_the_answer_changes_the_hash(change: dict[str, Any]) -> None:
    assert unit({**BASE, **change}) != unit(BASE)


def test_dup_01_schema_and_labels_are_part_of_the_hash() -> None:
    hashes = {
        unit(BASE),
        unit(BASE, {"schema": {"type": "object"}}),
        unit(BASE, {"schema": {"type": "array"}}),
        unit(BASE, {"labels": ["a", "b"]}),
        unit(BASE, {"labels": ["a", "c"]}),
    }
    assert len(hashes) == 5


def test_dup_01_key_order_does_not_matter() -> None:
    turned = {"extra": {"nested": {"b": 2, "a": 1}, "top_k": 1}, "temperature": 0, "name": "m"}
    assert unit(turned) == unit(BASE)
    assert unit(BASE, {"schema": {"type": "object", "title": "x"}}) == unit(BASE, {"schema": {"title": "x", "type": "object"}})


def test_dup_01_the_same_body_has_the_same_hash_wherever_a_key_stands() -> None:
    assert unit({"name": "m", "seed": 3}) == unit({"name": "m", "extra": {"seed": 3}})


@pytest.mark.parametrize("field", ["stream", "priority", "user", "service_tier", "max_tokens", "max_completion_tokens"])
def test_how_a_request_travels_and_how_long_its_answer_may_be_is_not_hashed(field: str) -> None:
    assert unit({**BASE, "extra": {**BASE["extra"], field: 1}}) == unit(BASE)  # type: ignore[dict-item]  # a dict of dicts


def test_who_answers_and_how_it_is_judged_is_not_hashed() -> None:
    assert unit(BASE, url="http://127.0.0.1:2/v1") == unit(BASE)
    assert unit(BASE, {"retry_invalid": 3, "strip_think": False, "on_truncated": "keep"}) == unit(BASE)
    assert unit({**BASE, "max_tokens": 11}) == unit(BASE)


def test_the_fields_of_a_body_are_what_was_written() -> None:
    assert body(BASE).fields() == {"temperature": 0, "top_k": 1, "nested": {"a": 1, "b": 2}}
    assert body({"name": "m"}).fields() == {}


@pytest.mark.parametrize("field", ["model", "messages", "prompt", "temperature", "response_format"])
def test_extra_does_not_say_again_what_has_its_own_key(field: str) -> None:
    with pytest.raises(SpecError) as caught:
        body({**BASE, "extra": {field: 1}}, {"labels": ["a"]})
    assert caught.value.key == f"model.extra.{field}"


def test_extra_holds_json_only() -> None:
    with pytest.raises(SpecError, match=r"model\.extra holds"):
        body({**BASE, "extra": {"x": float("nan")}})
