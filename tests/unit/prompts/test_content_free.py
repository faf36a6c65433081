"""The job's prompt with nothing in it: every field, however a template reads it, is one of three texts."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.errors import SpecError
from headrace.prompts.content_free import FILLINGS, content_free_payloads
from headrace.prompts.render import PromptRenderer
from headrace.spec import JobSpec


def payloads(prompt: dict[str, Any], route: str = "chat") -> list[Any]:
    job = {"input": {"path": "x.jsonl"}, "endpoint": {"url": "http://127.0.0.1:1/v1"}, "output": {"path": "o.jsonl"}}
    spec = JobSpec.model_validate({**job, "prompt": prompt, "model": {"name": "m", "route": route}})
    return [json.loads(payload) for payload in content_free_payloads(PromptRenderer(spec))]


def texts(template: str) -> list[str]:
    return payloads({"prompt": template}, "completions")


def refused(template: str) -> str:
    with pytest.raises(SpecError) as error:
        texts(template)
    assert error.value.key == "answer.calibrate"
    message = str(error.value)
    assert "\n" not in message
    assert len(message) < 450
    return message


def test_the_fillings_are_those_of_the_paper() -> None:
    assert texts("Text: {{ text }}\nLabel:") == ["Text: N/A\nLabel:", "Text: [MASK]\nLabel:", "Text: \nLabel:"]
    assert FILLINGS == ("N/A", "[MASK]", "")


def test_all_messages_of_a_chat_are_filled() -> None:
    messages = [
        {"role": "system", "content": "Speak {{ lang }}."},
        {"role": "user", "content": "An example"},
        {"role": "assistant", "content": "web"},
        {"role": "user", "content": [{"type": "text", "text": "{{ title }}: {{ text }}"}]},
    ]
    for filling, payload in zip(FILLINGS, payloads({"messages": messages}), strict=True):
        assert [message["content"] for message in payload] == [
            f"Speak {filling}.", "An example", "web", [{"type": "text", "text": f"{filling}: {filling}"}],
        ]  # fmt: skip


def test_system_and_user_are_filled() -> None:
    assert payloads({"system": "About {{ a }}", "user": "{{ b }}"})[0] == [
        {"role": "system", "content": "About N/A"}, {"role": "user", "content": "N/A"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    "template",
    [
        "{{ record.text }}", "{{ record['a text'] }}", "{{ doc.author.name }}", "{{ doc['author']['name'] }}", "{{ doc.title }}",
        "{{ doc.count }}", "{{ doc.format }}", "{{ doc.items }}", "{{ tags[0] }}", "{{ tags.0 }}", "{{ rows[0].name }}",
        "{{ tags | join(', ') }}", "{{ tags | first }}", "{{ rows | map(attribute='name') | join(';') }}", "{{ (rows | first).name }}",
        "{% for tag in tags %}{{ tag }}{% endfor %}", "{% for row in rows %}{{ row.name }}{% endfor %}",
        "{% for row in rows %}{% for tag in row.tags %}{{ tag.name }}{% endfor %}{% endfor %}",
        "{% for key in meta.keys() %}{{ key }}{% endfor %}", "{{ meta.get('author', 'nobody') }}", "{% set t = text %}{{ t }}",
        "{% if note is defined %}{{ note }}{% endif %}", "{{ text | default('none') }}", "{% if lang == 'en' %}x{% endif %}{{ text }}",
        "{% if text is string %}{{ text }}{% endif %}", "{{ text | trim }}", "{{ text[:2000] }}", "{{ text | truncate(100) }}",
        "{{ text.strip() }}", "{{ text | string }}", "{{ text ~ '' }}",
        "{% for i in range(1) %}{{ text }}{% endfor %}", "{% set ns = namespace(x='') %}{{ ns.x }}{{ text }}",
    ],
)  # fmt: skip
def test_however_a_field_is_read_it_is_the_filling(template: str) -> None:
    assert texts(template) == list(FILLINGS)


@pytest.mark.parametrize(
    ("template", "first"),
    [
        ("{% for k, v in meta.items() %}{{ k }}={{ v }};{% endfor %}", "N/A=N/A;"), ("{{ text.lower() }}", "n/a"),
        ("{{ text | upper }}", "N/A"), ("{{ text.split('/')[0] }}", "N"), ("{{ text | replace('N', 'M') }}", "M/A"),
        ("{{ text | tojson }}", '"N/A"'), ("{{ text | length }}", "3"), ("{% if 'N' in text %}yes{% endif %}", "yes"),
        ("{% if a > b %}x{% else %}y{% endif %}", "y"), ("{% for t in tags %}{{ loop.index }}{{ loop.last }}{% endfor %}", "1true"),
        ("{{ price | float }}", "0.0"), ("{{ {'a': text} }}", '{"a":"N/A"}'),
    ],
)  # fmt: skip
def test_what_a_template_does_with_a_text_it_does_with_the_filling(template: str, first: str) -> None:
    assert texts(template)[0] == first


def test_a_prompt_without_fields_is_asked_as_it_is() -> None:
    assert texts("constant") == ["constant"] * 3


@pytest.mark.parametrize(
    "template", ["{{ price + 1 }}", "{{ price | round(2) }}", "{% if price > 3 %}x{% endif %}", "{{ '%.2f' % p }}"]
)
def test_a_prompt_that_needs_numbers_is_refused_in_one_line(template: str) -> None:
    message = refused(template)
    assert message.startswith("answer.calibrate asks the prompt with a text in place of each field too")
    assert "TypeError" in message


@pytest.mark.parametrize("template", ["{{ text.format('x') }}", "{{ text.nothing() }}", "{{ text.format_map(text) }}"])
def test_what_no_text_can_do_is_refused_in_one_line(template: str) -> None:
    assert "is no method of a text" in refused(template)


@pytest.mark.parametrize("template", ["{{ record }}", "{% for key in record %}{{ key }}{% endfor %}", "{{ record[name] }}"])
def test_a_prompt_whose_fields_are_not_known_is_refused(template: str) -> None:
    assert "name them in the template" in refused(template)
