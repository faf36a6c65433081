"""Which changed keys could explain a figure."""

from __future__ import annotations

import pytest

from headrace.reports.changes import Change, _flat, changes
from headrace.reports.explanations import ANSWERS, Explanation, explain, moved_by
from headrace.reports.operation import Difference
from headrace.spec import JobSpec


def differing(*names: str) -> list[Difference]:
    return [Difference(name, 1.0, 2.0, "differs") for name in names]


def test_a_figure_is_explained_by_the_keys_that_can_move_it() -> None:
    changed = [Change("endpoint.concurrency", 2, 8), Change("model.temperature", 0, 1), Change("output.path", "a", "b")]
    found = explain(changed, differing("items_per_minute", "cached_share"), answers_differ=True)
    assert found == [
        Explanation("items_per_minute", ["endpoint.concurrency", "model.temperature"]),
        Explanation("cached_share", ["endpoint.concurrency"]),
        Explanation(ANSWERS, ["model.temperature"]),
    ]


def test_what_nothing_explains_says_so_and_what_is_noise_needs_no_explanation() -> None:
    noise = [Difference("latency_s.p50", 1.0, 1.1, "noise"), Difference("retry_rate", 0.0, None, "unknown")]
    found = explain([Change("output.path", "a", "b")], [*noise, *differing("failure_rate")], answers_differ=False)
    assert found == [Explanation("failure_rate", [])]


def test_a_latency_that_differs_beside_what_is_in_flight_follows_that() -> None:
    found = explain([Change("model.max_tokens", 2, 8)], differing("latency_s.p95", "in_flight.mean"), answers_differ=False)
    assert found == [
        Explanation("latency_s.p95", ["model.max_tokens"], ["in_flight.mean"]),
        Explanation("in_flight.mean", ["model.max_tokens"]),
    ]
    assert explain([], differing("latency_s.p95"), answers_differ=False)[0].beside == []


def test_long_lists_and_objects_are_compared_line_by_line_and_short_ones_shown_whole() -> None:
    labels = [f"label {n}" for n in range(9)]
    (change,) = changes({"answer.labels": labels}, {"answer.labels": [*labels, "other"]})
    assert change.diff == ["@@ -9 +9,2 @@", ' "label 8"', '+"other"']
    (change,) = changes({"answer.schema": {"a": "x" * 40}}, {"answer.schema": {"a": "y" * 40}})
    assert [line for line in change.diff if line[0] in "+-"] == [f'-  "a": "{"x" * 40}"', f'+  "a": "{"y" * 40}"']
    assert changes({"model.stop": ["a"]}, {"model.stop": ["b"]})[0].diff == []
    assert changes({"input.records": ["a" * 64]}, {"input.records": ["b" * 64]})[0].diff == []


@pytest.mark.parametrize(
    ("key", "moved", "not_moved"),
    [
        ("endpoint[3].concurrency", "items_per_minute", ANSWERS),
        ("endpoint.url", ANSWERS, None),
        ("endpoint.api_key_env", "retry_rate", ANSWERS),
        ("limits.order", "cached_share", "failure_rate"),
        ("prices.input_per_million", "cost_per_item", "items_per_minute"),
        ("prompt.system", ANSWERS, None),
        ("slice.split.size", "prompt_tokens.mean", None),
        ("a_key_of_tomorrow", ANSWERS, None),
    ],
)
def test_a_key_is_known_by_its_section_and_name(key: str, moved: str, not_moved: str | None) -> None:
    assert moved in moved_by(key)
    assert not_moved is None or not_moved not in moved_by(key)


def test_every_key_of_a_job_is_looked_up_somewhere() -> None:
    """A section that nobody has thought of would explain everything."""
    everything = moved_by("a_key_of_tomorrow")
    sections = set(JobSpec.model_fields) - {"endpoint", "model"}
    assert {section for section in sections if moved_by(f"{section}.x") == everything} == set()


def test_only_what_differs_is_a_change_and_longer_texts_show_their_lines() -> None:
    a = {"model.seed": None, "prompt.user": "Sort.\n{{ text }}\nThanks.", "limits.order": "auto"}
    b = {"prompt.user": "Sort well.\n{{ text }}\nThanks.", "limits.order": "auto", "model.top_p": 0.5}
    prompt, top_p = changes(a, b)
    assert (prompt.key, top_p) == ("prompt.user", Change("model.top_p", None, 0.5))
    assert [line for line in prompt.diff if line[:1] in "+-"] == ["-Sort.", "+Sort well."]


def test_a_key_added_to_an_empty_table_is_one_change() -> None:
    job = {"input": {"path": "a"}, "prompt": {"user": "x"}, "endpoint": {"url": "http://a/v1"}, "output": {"path": "b"}}
    one, other = (JobSpec(**job, model={"name": "m", "extra": extra}) for extra in ({}, {"top_k": 3}))
    found = changes(*(_flat("model", spec.content()["model"]) for spec in (one, other)))
    assert [(change.key, change.a, change.b) for change in found] == [("model.extra.top_k", None, 3)]
