"""The encoded variable part of a body."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import NotYetError, RecordError, SpecError
from headrace.prompts.render import PromptRenderer
from headrace.spec import JobSpec
from headrace.values import Piece


def renderer(prompt: dict[str, Any], route: str = "chat") -> PromptRenderer:
    job = {"input": {"path": "x.jsonl"}, "endpoint": {"url": "http://127.0.0.1:1/v1"}, "output": {"path": "o.jsonl"}}
    return PromptRenderer(JobSpec.model_validate({**job, "prompt": prompt, "model": {"name": "m", "route": route}}))


def rendered(prompt: dict[str, Any], fields: dict[str, Any], route: str = "chat") -> bytes:
    return renderer(prompt, route).render(Piece(0, 0, fields))


def test_a_chat_is_system_and_user_with_role_before_content() -> None:
    raw = rendered({"system": "You sort {packages}.", "user": "{{ text }}\n"}, {"text": "ä"})
    assert raw == '[{"role":"system","content":"You sort {packages}."},{"role":"user","content":"ä\\n"}]'.encode()


def test_system_is_a_template_too() -> None:
    raw = rendered({"system": "Speak {{ lang }}.", "user": "hi"}, {"lang": "fr"})
    assert raw == b'[{"role":"system","content":"Speak fr."},{"role":"user","content":"hi"}]'


def test_a_completion_is_a_json_string() -> None:
    assert rendered({"prompt": "Q: {{ q }}\nA:"}, {"q": '"x"'}, "completions") == b'"Q: \\"x\\"\\nA:"'


def test_messages_keep_their_other_keys_and_their_parts() -> None:
    messages = [
        {"content": "shot {{ a }}", "role": "user", "name": "ann"},
        {"role": "assistant", "content": "fine"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "{{ a }}!"},
                {"type": "image_url", "image_url": {"url": "data:{{ b }}", "detail": "{{ low }}"}},
                {"type": "other", "x": "{{ kept }}"},
            ],
        },
    ]
    raw = rendered({"messages": messages}, {"a": "A", "b": "B"})
    assert json.loads(raw) == [
        {"role": "user", "content": "shot A", "name": "ann"},
        {"role": "assistant", "content": "fine"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "A!"},
                {"type": "image_url", "image_url": {"url": "data:B", "detail": "{{ low }}"}},
                {"type": "other", "x": "{{ kept }}"},
            ],
        },
    ]
    assert raw.startswith(b'[{"role":"user","content":"shot A"')


@given(st.text(alphabet=st.characters(codec=None)))
def test_any_text_arrives_as_it_was(text: str) -> None:
    raw = rendered({"user": "<{{ text }}>"}, {"text": text})
    assert json.loads(raw) == [{"role": "user", "content": f"<{text}>"}]
    assert rendered({"user": "<{{ text | string }}>"}, {"text": text}) == raw


def test_lone_surrogates_are_sent_escaped() -> None:
    assert rendered({"user": "{{ t }}"}, {"t": "\ud800"}) == b'[{"role":"user","content":"\\ud800"}]'


def test_inp_11_records_become_requests_or_are_rejected_one_by_one() -> None:
    render = renderer({"user": "{{ prompt }}"}).render
    outcomes: list[bool] = []
    for fields in ({"prompt": "a"}, {}, {"prompt": None}, {"prompt": 123}, {"prompt": "b"}):
        try:
            render(Piece(0, 0, fields))
            outcomes.append(True)
        except RecordError:
            outcomes.append(False)
    assert outcomes == [True, False, False, True, True]


@pytest.mark.parametrize(
    ("prompt", "route", "key"),
    [
        ({}, "chat", "prompt.user"),
        ({"system": "s"}, "chat", "prompt.user"),
        ({"prompt": "p"}, "chat", "prompt.prompt"),
        ({"user": "u", "input": "i"}, "chat", "prompt.input"),
        ({"messages": [], "user": "u"}, "chat", "prompt.user"),
        ({"messages": [{"role": "user", "content": "x"}], "system": "s"}, "chat", "prompt.system"),
        ({"messages": []}, "chat", "prompt.messages"),
        ({"messages": [{"content": "x"}]}, "chat", "prompt.messages[0].role"),
        ({"messages": [{"role": "user"}]}, "chat", "prompt.messages[0].content"),
        ({"messages": [{"role": "user", "content": ["x"]}]}, "chat", "prompt.messages[0].content"),
        ({"messages": [{"role": "user", "content": "{{"}]}, "chat", "prompt.messages[0].content"),
        ({"messages": [{"role": "user", "content": "x", "y": float("nan")}]}, "chat", "prompt.messages[0].y"),
        ({"user": "{{ x"}, "chat", "prompt.user"),
        ({}, "completions", "prompt.prompt"),
        ({"prompt": "p", "user": "u"}, "completions", "prompt.user"),
        ({"prompt": "p", "system": "s"}, "completions", "prompt.system"),
    ],
)
def test_a_prompt_that_does_not_fit_its_route_is_refused_by_key(prompt: dict[str, Any], route: str, key: str) -> None:
    with pytest.raises(SpecError) as caught:
        renderer(prompt, route)
    assert caught.value.key == key
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("route", ["responses", "embeddings"])
def test_routes_not_served_are_refused(route: str) -> None:
    with pytest.raises(NotYetError, match=route):
        renderer({"input": "x"}, route)


def test_fields_are_those_of_all_templates() -> None:
    assert renderer({"system": "{{ a }}", "user": "{{ b.c }}"}).fields == {"a", "b"}
    assert renderer({"system": "{{ record }}", "user": "{{ b }}"}).fields is None
    assert renderer({"user": "constant"}).fields == frozenset()


@pytest.mark.parametrize(
    ("prompt", "route"),
    [
        ({"system": "You sort.", "user": 'Title "{{ a }}": {{ b }}'}, "chat"),
        ({"system": "You sort {{ a }}.", "user": "x"}, "chat"),
        ({"user": "{{ a }}"}, "chat"),
        ({"user": "{% if a %}x{% endif %}{{ b }}"}, "chat"),
        ({"messages": [{"role": "user", "content": "Ünïcode\n{{ a }}"}]}, "chat"),
        ({"prompt": "Q: {{ a }}"}, "completions"),
    ],
)
def test_payloads_share_at_least_what_stands_before_the_first_field(prompt: dict[str, Any], route: str) -> None:
    found = renderer(prompt, route)
    one, two = (found.render(Piece(0, 0, {"a": letter * 3, "b": letter})) for letter in "yz")
    common = next(at for at in range(len(one)) if one[at] != two[at])
    assert common - 1 <= found.shared_bytes <= common


def test_a_prompt_without_fields_is_shared_whole() -> None:
    found = renderer({"user": "constant"})
    assert found.shared_bytes == len(found.render(Piece(0, 0, {})))


def test_line_ends_of_constant_and_rendered_text_are_alike() -> None:
    assert rendered({"system": "a\r\nb", "user": "{{ x }}\r\nb"}, {"x": "\r\n"}) == (
        b'[{"role":"system","content":"a\\nb"},{"role":"user","content":"\\r\\n\\nb"}]'
    )
