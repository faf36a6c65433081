"""Job files: what loads, what is refused and in which words."""

from __future__ import annotations

import contextlib
import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from headrace.errors import NotYetError, SpecError
from headrace.runs import jobtext
from headrace.runs.jobfile import job_from_dict, load_job
from headrace.spec import ConcurrencySpec

BASE = Path("/nowhere")
JOB: dict[str, Any] = {
    "name": "sort",
    "input": {"path": "in.jsonl"},
    "prompt": {"user": "{{ text }}"},
    "model": {"name": "m"},
    "endpoint": {"url": "http://127.0.0.1:9/v1"},
    "output": {"path": "out.jsonl"},
}
TOML = """
[input]
path = "in.jsonl"
[prompt]
user = "{{ text }}"
[model]
name = "m"
[endpoint]
url = "http://127.0.0.1:9/v1"
[output]
path = "out.jsonl"
"""


def job(**sections: Any) -> dict[str, Any]:
    """JOB with these keys put into its sections; a section given as no dict replaces it."""
    value = copy.deepcopy(JOB)
    for name, section in sections.items():
        value[name] = {**value.get(name, {}), **section} if isinstance(section, dict) else section
    return value


def refused(value: dict[str, Any], overrides: tuple[str, ...] = ()) -> SpecError:
    with pytest.raises(SpecError) as caught:
        job_from_dict(value, BASE, overrides)
    assert "\n" not in str(caught.value)
    return caught.value


def test_prices_may_be_a_table_or_the_endpoints_own_list():
    assert str(refused(job(prices="list"))) == "prices: found 'list'; allowed: a table or \"endpoint\""
    assert job_from_dict(job(prices="endpoint"), BASE).spec.prices is not None


def test_a_small_job_has_the_contracts_defaults() -> None:
    spec = job_from_dict(JOB, BASE).spec
    assert (spec.limits.max_attempts, spec.limits.unit_deadline, spec.limits.give_up_after) == (6, 3600.0, 1800.0)
    assert (spec.input.dedupe, spec.answer.retry_invalid, spec.endpoint[0].concurrency) == (True, 1, "auto")


def test_a_toml_file_is_named_by_its_stem_and_its_paths_start_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "sort.toml").write_text("\ufeff" + TOML, encoding="utf-8")
    loaded = load_job(tmp_path / "sort.toml")
    assert loaded.spec.name == "sort"
    assert loaded.path == (tmp_path / "sort.toml").resolve()
    assert loaded.base == tmp_path.resolve()


def test_yaml_with_the_same_keys_is_the_same_job(tmp_path: Path) -> None:
    (tmp_path / "sort.yaml").write_text(json.dumps(JOB), encoding="utf-8")
    assert load_job(tmp_path / "sort.yaml").spec == job_from_dict(JOB, BASE).spec


def test_yaml_has_no_surprising_types(tmp_path: Path) -> None:
    text = json.dumps(JOB)[:-1] + ', "answer": {"labels": [yes, no, 2024-01-01, 12:30]}}'
    (tmp_path / "sort.yaml").write_text(text, encoding="utf-8")
    assert load_job(tmp_path / "sort.yaml").spec.answer.labels == ["yes", "no", "2024-01-01", "12:30"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: 1\na: 2\n", "stands twice"),
        ("1: x\n", "a key is not text"),
        ("a: [\n", "line 2"),
        ("- x\n", "a job file is a table"),
        ("a: !!python/object:os.system x\n", "not valid YAML"),
        ("a: *sk-secret-anchor\n", "not valid YAML"),
    ],
)
def test_unusable_yaml_is_one_line(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "j.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SpecError, match=words) as caught:
        load_job(tmp_path / "j.yaml")
    assert "\n" not in str(caught.value)
    assert "sk-secret" not in str(caught.value)


def test_yaml_merges_tables(tmp_path: Path) -> None:
    text = (
        json.dumps({name: part for name, part in JOB.items() if name != "output"})[:-1]
        + ', "output": {<<: {path: a.jsonl, details: true}, path: b.jsonl}}'
    )
    (tmp_path / "j.yaml").write_text(text, encoding="utf-8")
    spec = load_job(tmp_path / "j.yaml").spec
    assert (spec.output.path, spec.output.details) == ("b.jsonl", True)


def test_a_path_that_is_no_unicode_is_refused_in_one_line() -> None:
    with pytest.raises(SpecError, match="not Unicode"):
        load_job(Path("/nowhere/\udcff.toml"))


def test_unusable_toml_says_the_line(tmp_path: Path) -> None:
    (tmp_path / "j.toml").write_text("a = \n", encoding="utf-8")
    with pytest.raises(SpecError, match="line 1"):
        load_job(tmp_path / "j.toml")


def test_a_file_without_end_is_not_read_to_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobtext, "_LARGEST", 1 << 20)
    with pytest.raises(SpecError, match=r"prices\.file: .*: longer than 1 MiB") as caught:
        jobtext.read_text(Path("/dev/zero"), "prices.file", "/dev/zero")
    assert caught.value.key == "prices.file"
    (tmp_path / "whole").write_bytes("\ufeffé".encode() + b"x" * (1 << 19))
    assert jobtext.read_text(tmp_path / "whole").startswith("éx")


def test_a_file_that_is_not_utf8_or_not_there_is_refused(tmp_path: Path) -> None:
    (tmp_path / "j.toml").write_bytes(b"name = '\xff'\n")
    with pytest.raises(SpecError, match="not UTF-8"):
        load_job(tmp_path / "j.toml")
    with pytest.raises(SpecError, match="no such file"):
        load_job(tmp_path / "k.toml")


@pytest.mark.parametrize(
    ("sections", "key", "found", "words"),
    [
        ({"limits": {"class": "bath"}}, "limits.class", "'bath'", '"batch" or "online"'),
        ({"limits": {"drain": "3x"}}, "limits.drain", "'3x'", "a duration"),
        ({"limits": {"max_attempts": 0}}, "limits.max_attempts", "0", "1 or more"),
        ({"answer": {"schema": 3}}, "answer.schema", "3", "a table or text"),
        ({"answer": {"labels": ["a", 3]}}, "answer.labels.1", "3", "text"),
        ({"endpoint": {"concurrency": "6"}}, "endpoint.concurrency", "'6'", '"auto" or a whole number'),
        ({"endpoint": {"headers": {"X-Team": 3}}}, "endpoint.headers.X-Team", "3", "text"),
        ({"model": {"temperature": "hot"}}, "model.temperature", "'hot'", "a number"),
        ({"model": {"max_tokens": "64"}}, "model.max_tokens", "'64'", "a whole number"),
        ({"input": {"dedupe": "yes"}}, "input.dedupe", "'yes'", "true or false"),
        ({"prompt": 3}, "prompt", "3", "a table"),
        ({"endpoint": "http://h/v1"}, "endpoint", "'http://h/v1'", "a table"),
        ({"model": {"temperature": True}}, "model.temperature", "true", "a number"),
        ({"model": {"temperature": "0.5"}}, "model.temperature", "'0.5'", "a number"),
    ],
)
def test_a_wrong_value_is_told_with_key_found_and_allowed(sections: dict[str, Any], key: str, found: str, words: str) -> None:
    error = refused(job(**sections))
    assert (error.key, error.found) == (key, found)
    assert words in (error.allowed or "")
    assert key in str(error)


def test_a_missing_key_says_what_it_is_for() -> None:
    error = refused({**JOB, "input": {}})
    assert error.key == "input.path"
    assert "is missing" in str(error)
    assert refused({name: part for name, part in JOB.items() if name != "output"}).key == "output"


@pytest.mark.parametrize(
    ("sections", "hint"),
    [
        ({"limits": {"clas": "batch"}}, "did you mean `class`"),
        ({"limits": {"class_": "batch"}}, "did you mean `class`"),
        ({"endpoint": {"ulr": "x"}}, "did you mean `url`"),
        ({"max_attempts": 3}, "it stands in `limits`"),
        ({"answer": {"zzzz": 1}}, "known there: schema, labels"),
    ],
)
def test_an_unknown_key_comes_with_the_nearest_known_one(sections: dict[str, Any], hint: str) -> None:
    assert hint in str(refused(job(**sections)))


SECRET = "sk-proj-abcdef0123456789"


@pytest.mark.parametrize(
    "sections",
    [
        {"endpoint": {"api_key": SECRET}},
        {"endpoint": {"key": SECRET}},
        {"endpoint": {"token": SECRET}},
        {"endpoint": {"Authorization": SECRET}},
        {"endpoint": {"headers": {"Authorization": f"Bearer {SECRET}"}}},
        {"endpoint": {"headers": {"x-api-key": SECRET}}},
        {"endpoint": {"headers": {"X-Team": SECRET}}},
        {"endpoint": {"url": f"http://user:{SECRET}@h/v1"}},
        {"endpoint": {"url": f"http://h/v1?api_key={SECRET}"}},
        {"endpoint": {"url": f"http://h/v1?sig={SECRET}"}},
        {"endpoint": {"url": f"http://h/v1?code={SECRET}"}},
        {"endpoint": {"api_key_env": SECRET}},
        {"endpoint": {"api_key_file": SECRET}},
        {"endpoint": {"api_key_command": f"echo {SECRET}"}},
        {"endpoint": {"headers_env": {"X-Team": SECRET}}},
        {"api_key": SECRET},
        {"model": {"api_key": SECRET}},
        {"model": {"extra": {"api_key": SECRET}}},
    ],
)
def test_obs_01_a_key_in_the_job_file_is_refused_and_never_repeated(sections: dict[str, Any]) -> None:
    error = refused(job(**sections))
    assert SECRET not in repr((str(error), error.key, error.found, error.allowed))
    assert "api_key_command" in str(error) or "environment variable" in str(error)


@pytest.mark.parametrize(
    "sections",
    [
        {"limits": {"drain": SECRET}},
        {"endpoint": {"api_key_env": [SECRET]}},
        {"endpoint": {"verify": [SECRET]}},
        {"endpoint": {"share": f"Bearer {SECRET}"}},
        {"endpoint": {SECRET: 1}},
        {"endpoint": {"concurrency": f"https://u:{SECRET}@h"}},
    ],
)
def test_obs_01_a_wrong_value_that_looks_like_a_secret_is_not_shown(sections: dict[str, Any]) -> None:
    error = refused(job(**sections))
    assert SECRET not in repr((str(error), error.key, error.found, error.allowed))


def test_names_that_only_resemble_keys_are_fine() -> None:
    for endpoint in (
        {"api_key_env": "HF_API_TOKEN"},
        {"api_key_env": "MY_COMPANY_PRODUCTION_OPENAI_KEY_2"},
        {"api_key_file": "sk-production-key.txt"},
        {"api_key_file": "/run/secrets/key-openai-2"},
        {"headers_env": {"Authorization": "GATEWAY_AUTH"}},
        {"headers": {"X-Request-Source": "nightly-batch-2026"}},
    ):
        assert job_from_dict(job(endpoint=endpoint), BASE).spec.endpoint


def test_a_plain_header_and_a_query_without_secrets_are_fine() -> None:
    spec = job_from_dict(job(endpoint={"url": "https://h/v1?api-version=1", "headers": {"X-Team": "blue"}}), BASE).spec
    assert spec.endpoint[0].headers == {"X-Team": "blue"}


@pytest.mark.parametrize(
    ("sections", "key"),
    [
        ({"model": {"route": "embeddings"}}, "model.route"),
        ({"prompt": {"input": "{{ text }}"}}, "prompt.input"),
    ],
)
def test_what_is_not_served_yet_is_refused_in_one_line(sections: dict[str, Any], key: str) -> None:
    error = refused(job(**sections))
    assert isinstance(error, NotYetError)
    assert error.key == key
    assert "not served by this release" in str(error)


def test_the_embedded_model_takes_weights_an_identity_and_a_number_in_flight() -> None:
    value = job(endpoint={"url": "local", "identity": "ours", "concurrency": 3}, model={"weights": "m.gguf"})
    spec = job_from_dict(value, BASE).spec
    assert (spec.model.weights, spec.endpoint[0].identity) == ("m.gguf", "ours")


def test_what_is_not_served_yet_may_stand_at_its_default() -> None:
    value = job(limits={"order": "input", "class": "batch"}, slice={"truncate": "2000 chars"}, endpoint={"share": "background"})
    assert job_from_dict(value, BASE).spec.limits.order == "input"


@pytest.mark.parametrize(
    ("sections", "key"),
    [
        ({"prompt": {"messages": [{"role": "user", "content": "x"}]}}, "prompt"),
        ({"prompt": {"user": None}}, "prompt"),
        ({"prompt": {"user": None, "messages": []}}, "prompt.messages"),
        ({"prompt": {"user": None, "messages": [{"role": "user"}]}}, "prompt.messages.0"),
        ({"prompt": {"user": None, "system": "s", "messages": [{"role": "user", "content": "x"}]}}, "prompt.system"),
        ({"prompt": {"user": None, "prompt": "x"}}, "prompt"),
        ({"model": {"route": "completions"}}, "prompt"),
        ({"model": {"route": "completions"}, "prompt": {"user": None, "prompt": "x", "system": "s"}}, "prompt.system"),
        ({"answer": {"schema": {}, "labels": ["a"]}}, "answer.labels"),
        ({"answer": {"field": "a"}}, "answer.field"),
        ({"answer": {"labels": ["a", "a "]}}, "answer.labels"),
        ({"answer": {"labels": ["a", " "]}}, "answer.labels"),
        ({"answer": {"labels": []}}, "answer.labels"),
        ({"answer": {"labels": ["a"], "on_truncated": "keep"}}, "answer.on_truncated"),
        ({"output": {"path": "out.txt"}}, "output.path"),
        ({"output": {"path": "./in.jsonl"}}, "output.path"),
        ({"input": {"path": "*.jsonl"}}, "output.path"),
        ({"endpoint": {"url": "ftp://h/v1"}}, "endpoint.url"),
        ({"endpoint": {"url": "http://"}}, "endpoint.url"),
        ({"endpoint": {"url": "http://h:99999/v1"}}, "endpoint.url"),
        ({"endpoint": {"url": "http://h/v 1"}}, "endpoint.url"),
        ({"endpoint": {"api_key_env": "A", "api_key_file": "b"}}, "endpoint.api_key_file"),
        ({"model": {"weights": "m.gguf"}}, "model.weights"),
        ({"endpoint": {"url": "local", "api_key_env": "A"}}, "endpoint.api_key_env"),
        ({"endpoint": {"url": "local", "api_key_file": "a"}}, "endpoint.api_key_file"),
        ({"endpoint": {"url": "local", "api_key_command": "a"}}, "endpoint.api_key_command"),
        ({"endpoint": {"url": "local", "headers": {"X-A": "b"}}}, "endpoint.headers"),
        ({"endpoint": {"url": "local", "headers_env": {"X-A": "B"}}}, "endpoint.headers_env"),
        ({"endpoint": {"url": "local", "verify": False}}, "endpoint.verify"),
        ({"endpoint": {"url": "local", "model": "other"}}, "endpoint.model"),
        ({"endpoint": {"url": "Local"}}, "endpoint.url"),
        ({"endpoint": [{"url": "http://h/v1"}, {"url": "Local"}]}, "endpoint.url"),
        ({"endpoint": [{"url": "local"}, {"url": "local"}]}, "endpoint.url"),
        ({"endpoint": [{"url": "http://h/v1"}, {"url": "http://i/v1"}], "model": {"weights": "m.gguf"}}, "model.weights"),
        ({"model": {"extra": {"a": float("nan")}}}, "model.extra.a"),
        ({"model": {"extra": {"a": [2**70]}}}, "model.extra.a"),
        ({"prompt": {"user": "\udcff"}}, "prompt.user"),
    ],
)
def test_keys_that_do_not_go_together_are_refused(sections: dict[str, Any], key: str) -> None:
    assert refused(job(**sections)).key == key


def test_a_prompt_file_and_a_schema_file_count_by_their_content(tmp_path: Path) -> None:
    value = job(prompt={"user": None, "user_file": "p.md"}, answer={"schema": "s.json"})
    (tmp_path / "p.md").write_text("one {{ text }}", encoding="utf-8")
    (tmp_path / "s.json").write_text('{"type": "object"}', encoding="utf-8-sig")
    first = job_from_dict(value, tmp_path).spec
    assert first.prompt.user == "one {{ text }}"
    assert first.answer.schema_ == {"type": "object"}
    (tmp_path / "p.md").write_text("two {{ text }}", encoding="utf-8")
    second = job_from_dict(value, tmp_path).spec
    (tmp_path / "s.json").write_text('{"type": "array"}', encoding="utf-8")
    third = job_from_dict(value, tmp_path).spec
    assert len({first.content_hash(), second.content_hash(), third.content_hash()}) == 3


def test_a_schema_file_that_is_no_schema_is_refused(tmp_path: Path) -> None:
    for text in ("[1]", "{"):
        (tmp_path / "s.json").write_text(text, encoding="utf-8")
        with pytest.raises(SpecError, match=r"answer\.schema"):
            job_from_dict(job(answer={"schema": "s.json"}), tmp_path)


def test_a_pydantic_model_is_a_schema() -> None:
    class Category(BaseModel):
        category: str

    spec = job_from_dict(job(answer={"schema": Category, "field": "category"}), BASE).spec
    assert isinstance(spec.answer.schema_, dict)
    assert spec.answer.schema_["properties"]["category"]["type"] == "string"


def test_null_means_the_default_but_not_inside_a_schema() -> None:
    schema = {"enum": ["a", None], "default": None}
    spec = job_from_dict(job(input={"limit": None, "dedupe": None}, answer={"schema": schema}, prices=None), BASE).spec
    assert spec.input.dedupe is True
    assert spec.answer.schema_ == schema


def test_overrides_are_toml_values_or_plain_text() -> None:
    spec = job_from_dict(
        JOB,
        BASE,
        [
            "input.limit=5",
            "input.dedupe=false",
            "endpoint.url=https://h/v1",
            "endpoint.0.headers.X-Team=blue",
            'answer.labels=["a", "b"]',
            "limits.drain=5s",
            'model.extra."a.b"=1',
            "prompt.version=2024-01-01",
        ],
    ).spec
    assert (spec.input.limit, spec.input.dedupe, spec.limits.drain) == (5, False, 5.0)
    assert (spec.endpoint[0].url, spec.endpoint[0].headers) == ("https://h/v1", {"X-Team": "blue"})
    assert (spec.answer.labels, spec.model.extra, spec.prompt.version) == (["a", "b"], {"a.b": 1}, "2024-01-01")


def test_overriding_one_way_to_say_it_replaces_the_other(tmp_path: Path) -> None:
    (tmp_path / "p.md").write_text("from the file", encoding="utf-8")
    value = job(answer={"schema": {}}, endpoint={"api_key_env": "A"})
    spec = job_from_dict(value, tmp_path, ["prompt.user_file=p.md", 'answer.labels=["a"]', "endpoint.api_key_file=k"]).spec
    assert spec.prompt.user == "from the file"
    assert (spec.answer.schema_, spec.endpoint[0].api_key_env) == (None, None)


def test_null_on_the_command_line_takes_a_key_away() -> None:
    assert job_from_dict(job(input={"limit": 3}), BASE, ["input.limit=null"]).spec.input.limit is None


@pytest.mark.parametrize(
    "override", ["", "x", "=1", "a b=1", "endpoint.1.url=http://h", "endpoint=3", "input.path.x=1", "a\nb=1"]
)
def test_an_override_that_fits_nothing_is_refused(override: str) -> None:
    refused(JOB, (override,))


def test_overrides_do_not_change_the_dict_they_start_from() -> None:
    before = copy.deepcopy(JOB)
    job_from_dict(JOB, BASE, ["endpoint.url=http://h/v1", "input.limit=1", "model.extra={a = 1}"])
    assert before == JOB


def test_a_dumped_spec_comes_back_as_the_same_spec() -> None:
    value = job(
        answer={"schema": {"type": "object"}, "field": "a"},
        limits={"run_deadline": "1h"},
        model={"temperature": 0, "extra": {"x": None}},
    )
    spec = job_from_dict(value, BASE).spec
    again = job_from_dict(spec.model_dump(mode="json", by_alias=True), BASE).spec
    assert again == spec
    assert again.content_hash() == spec.content_hash()


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(
    section=st.sampled_from([*JOB, "answer", "limits", "slice", "prices", "zz"]),
    name=st.sampled_from(
        ["path", "url", "schema", "labels", "class", "user", "extra", "headers", "messages", "concurrency", "q"]
    ),
    value=JSON_VALUES,
    whole=st.booleans(),
)
def test_whatever_stands_there_is_accepted_or_refused_as_ours(section: str, name: str, value: Any, whole: bool) -> None:
    tables = copy.deepcopy(JOB)
    tables[section] = (
        value if whole or not isinstance(tables.get(section, {}), dict) else {**tables.get(section, {}), name: value}
    )
    with contextlib.suppress(SpecError):
        job_from_dict(tables, BASE)


@pytest.mark.parametrize(
    "text",
    [
        "input: {path: in.jsonl, limits: 3}",
        "limit: 3",
        "input: {path: in.jsonl}\nprompt: {system: x}\nmodel: {name: m}\nendpoint: {url: http://h/v1}\noutput: {path: o.jsonl}",
        "endpoint: {concurrency: {start: three}}",
        "answer: {retry_invalid: many}",
    ],
)
def test_what_is_said_about_yaml_speaks_of_no_toml(tmp_path: Path, text: str) -> None:
    (tmp_path / "j.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(SpecError) as caught:
        load_job(tmp_path / "j.yaml")
    assert not re.search(r"\[[a-z]+\]|\w = ", str(caught.value)), str(caught.value)


def test_a_table_of_concurrency_has_its_numbers_in_order() -> None:
    assert job_from_dict(JOB, BASE, ["endpoint.concurrency={start = 4, max = 9}"]).spec.endpoint[
        0
    ].concurrency == ConcurrencySpec(start=4, min=1, max=9)
    with pytest.raises(SpecError) as caught:
        job_from_dict(JOB, BASE, ["endpoint.concurrency={start = 4, max = 3}"])
    assert str(caught.value) == "endpoint.concurrency: found min 1, start 4, max 3; allowed: min ≤ start ≤ max"


@pytest.mark.parametrize(
    ("split", "more", "key", "said"),
    [
        ({"size": "100 chars", "overlap": "51 chars"}, {}, "slice.split.overlap", "at most half of slice.split.size, 50 chars"),
        ({"size": "100 chars", "overlap": "10 tokens"}, {}, "slice.split.overlap", "write both in one unit"),
        ({"size": "100 chars", "join": {"prompt": " "}}, {}, "slice.split.join.prompt", "found an empty text"),
        ({"size": "100 chars", "join": "concat"}, {"labels": ["a", "b"]}, "slice.split.join", 'use "vote", "list"'),
        ({"size": "100 chars"}, {"schema": {"type": "object"}}, "slice.split.join", "answers here are object"),
        (
            {"size": "100 chars"}, {"schema": {"type": "object", "properties": {"n": {"type": "integer"}}}, "field": "n"},
            "slice.split.join", "answers here are integer",
        ),
        ({"size": "100 chars", "join": {"prompt": "{{ answers }}"}}, {"labels": ["a", "b"], "method": "score"}, "slice.split.join", "asks for one token"),
        ({"size": "0 chars"}, {}, "slice.split.size", "an amount such as"),
        ({"overlap": "1 chars"}, {}, "slice.split.size", ""),
        ({"size": "100 chars", "sized": 1}, {}, "slice.split.sized", ""),
    ],
)  # fmt: skip
def test_a_division_that_cannot_be_meant_is_refused_in_one_line(
    split: dict[str, Any], more: dict[str, Any], key: str, said: str
) -> None:
    error = refused(job(slice={"split": split}, answer=more))
    assert error.key == key
    assert said in str(error)
    assert "\n" not in str(error)


@pytest.mark.parametrize("schema", [{"type": "string"}, {"type": "array"}, {}])
def test_texts_lists_and_what_is_not_said_may_be_put_together(schema: dict[str, Any]) -> None:
    answer = {"schema": {"type": "object", "properties": {"x": schema}}, "field": "x"}
    assert job_from_dict(job(slice={"split": {"size": "100 chars"}}, answer=answer), BASE).spec.slice.split is not None
