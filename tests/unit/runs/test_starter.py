"""The first job file: what it holds is loaded again as it was meant, whatever names and texts hold."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import SpecError
from headrace.prompts.environment import TextTemplate
from headrace.runs.jobfile import job_from_dict
from headrace.runs.starter import Starter, check, field_access, fields_schema, job_text, quoted, toml_value
from headrace.spec import InputSpec, ModelSpec, OutputSpec, PromptSpec

PLAIN = Starter(
    input="in.jsonl",
    text="text",
    url="http://127.0.0.1:8000/v1",
    model="m",
    output="out.jsonl",
    ask="Say what it is.",
    name="job",
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))


def loaded(starter: Starter) -> Any:
    return job_from_dict(tomllib.loads(check(starter, Path.cwd())), Path.cwd()).spec


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"labels": ("a", "b"), "id": "name"},
        {"schema": {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}},
        {"key_env": "MY_KEY"},
        {"ask": ""},
        {"ask": 'Say "what" it is: C:\\new\n\tand 日本 \u202e\x7f'},
        {"input": 'it\'s a "file" \\ .jsonl', "output": "ü\x01.csv"},
        {"fields": ("text", "a\nb", "\u202egnp", "\x1b[2J", "x" * 500, *(f"f{n}" for n in range(40)))},
    ],
)
def test_each_kind_of_answer_is_loaded_as_it_was_meant(more: dict[str, Any]) -> None:
    starter = msgspec.structs.replace(PLAIN, **more)
    spec = loaded(starter)
    assert (spec.input.path, spec.input.id, spec.output.path) == (starter.input, starter.id, starter.output)
    assert (spec.model.name, spec.endpoint[0].url, spec.endpoint[0].api_key_env) == (starter.model, starter.url, starter.key_env)
    assert spec.answer.labels == (list(starter.labels) if starter.labels is not None else None)
    assert spec.answer.schema_ == starter.schema
    assert spec.prompt.user == "{{ text }}"
    assert (spec.prompt.system or "").startswith(starter.ask)


def test_the_comments_are_the_descriptions_of_the_keys() -> None:
    text = job_text(PLAIN)
    for section, key in ((InputSpec, "path"), (PromptSpec, "user"), (ModelSpec, "max_tokens"), (OutputSpec, "path")):
        assert f"# {section.model_fields[key].description}\n" in text


def test_what_is_only_offered_can_be_taken_as_it_stands() -> None:
    lines = job_text(PLAIN).split("\n")
    taken = [
        line.removeprefix("# ") if line.startswith("# ") and " = " in line and not line.endswith(".") else line for line in lines
    ]
    spec = job_from_dict(tomllib.loads("\n".join(taken)), Path.cwd()).spec
    assert spec.input.limit == 100
    assert spec.endpoint[0].concurrency == 16
    assert spec.endpoint[0].api_key_env == "OPENAI_API_KEY"


def test_nothing_that_commands_a_terminal_stands_in_the_file() -> None:
    text = job_text(msgspec.structs.replace(PLAIN, ask="\x1b[2J\u202e", fields=("\x1b[31m", "a\u202eb"), name="\x9b"))
    assert all(char.isprintable() or char == "\n" for char in text)


def test_labels_are_told_to_the_model_once() -> None:
    told = msgspec.structs.replace(PLAIN, labels=("cat", "dog"))
    assert "Answer with one of these labels: cat, dog." in loaded(told).prompt.system
    knowing = msgspec.structs.replace(told, ask="Say cat or dog.")
    assert loaded(knowing).prompt.system == "Say cat or dog."
    marked = msgspec.structs.replace(PLAIN, labels=("{{ x }}", "b"))
    assert loaded(marked).prompt.system == PLAIN.ask


def test_the_embedded_model_needs_no_key() -> None:
    tables = tomllib.loads(job_text(msgspec.structs.replace(PLAIN, url="local", model="local", key_env="K")))
    assert (tables["endpoint"], tables["model"]["name"]) == ({"url": "local"}, "local")


@pytest.mark.parametrize(
    "more", [{"labels": ("a", "a")}, {"key_env": "not a name"}, {"output": "x.doc"}, {"ask": "{{ open"}, {"url": "x"}]
)
def test_an_answer_that_cannot_be_used_is_refused_by_the_loader(more: dict[str, Any]) -> None:
    with pytest.raises(SpecError):
        check(msgspec.structs.replace(PLAIN, **more), Path.cwd())


@pytest.mark.parametrize("more", [{"name": "\ud800"}, {"ask": "a\udcff"}, {"labels": ("\ud83d",)}])
def test_text_that_is_no_unicode_is_refused(more: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match="Unicode"):
        job_text(msgspec.structs.replace(PLAIN, **more))


HOSTILE = [
    "my field",
    "a-b",
    'a"b',
    "a\\b",
    "a\nb",
    "\x00",
    "a}}b",
    "{{ x }}",
    "{% x %}",
    "true",
    "not",
    "self",
    "ünï",
    "日本",
    "😀",
    "",
    "'",
]


@pytest.mark.parametrize("name", [*HOSTILE, "text", "_x", "items", "range", "loop", "__class__", "record"])
def test_any_field_can_be_asked_about(name: str) -> None:
    starter = msgspec.structs.replace(PLAIN, text=name, fields=(name,))
    user = loaded(starter).prompt.user
    assert TextTemplate(user, "prompt.user").render({name: "the value"}) == "the value"


@given(TEXT)
def test_a_field_of_any_name_is_found(name: str) -> None:
    template = TextTemplate(f"{{{{ {field_access(name)} }}}}", "prompt.user")
    assert template.render({"other": 1, name: "the value"}) == "the value"


def test_a_field_that_only_the_whole_record_could_name_is_refused_where_record_is_a_field() -> None:
    assert field_access("text", ("record", "text")) == "text"
    with pytest.raises(SpecError, match="called `record`"):
        field_access("a-b", ("record", "a-b"))


@given(TEXT)
def test_a_quoted_text_is_read_again_as_it_was(text: str) -> None:
    assert tomllib.loads(f"x = {quoted(text)}") == {"x": text}


@given(
    st.recursive(
        TEXT | st.booleans() | st.integers(-(2**63), 2**63 - 1), lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner)
    )
)
def test_a_value_is_read_again_as_it_was(value: Any) -> None:
    assert tomllib.loads(f"x = {toml_value(value)}") == {"x": value}


def test_fields_become_a_schema() -> None:
    assert fields_schema("name, age:integer, a-b : boolean") == {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "a-b": {"type": "boolean"}},
        "required": ["name", "age", "a-b"],
        "additionalProperties": False,
    }


@pytest.mark.parametrize("text", ["", " , ", "a:what", "a, a", ":string"])
def test_fields_that_make_no_schema_are_refused(text: str) -> None:
    with pytest.raises(SpecError):
        fields_schema(text)
