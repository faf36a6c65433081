from __future__ import annotations

import copy
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from headrace import spec
from headrace.spec import JobSpec, QualitySpec, ReduceSpec, SplitSpec

JOB: dict[str, Any] = {
    "input": {"path": "packages.jsonl"},
    "prompt": {"user": "{{ text }}"},
    "model": {"name": "m"},
    "endpoint": {"url": "http://127.0.0.1:9/v1"},
    "output": {"path": "labels.jsonl"},
}


def job(**sections: Any) -> JobSpec:
    """JOB with these keys put into its sections; what is no dict replaces a section."""
    value = copy.deepcopy(JOB)
    for name, section in sections.items():
        value[name] = {**value.get(name, {}), **section} if isinstance(section, dict) else section
    return JobSpec.model_validate(value)


@pytest.mark.parametrize(
    ("written", "size"),
    [
        ("10 MB", 10_000_000),
        ("4 MiB", 4 * 2**20),
        ("1.5kb", 1_500),
        (" 2 gb ", 2 * 10**9),
        ("1 GiB", 2**30),
        ("3 KiB", 3_072),
        ("512 b", 512),
        ("1.001 kb", 1_001),
        (7, 7),
    ],
)
def test_a_size(written: str | int, size: int) -> None:
    assert spec.parse_size(written) == size


@pytest.mark.parametrize(
    "written",
    ["", "10", "MB", "10 M", "1e5 MB", "-1 MB", "0 MB", "0.0001 kb", "1,5 MB", "10 MB!", "\u0661 MB", "9" * 400 + " GB", True, 1.0, 0, -5, None, []],
)  # fmt: skip
def test_what_is_no_size(written: Any) -> None:
    with pytest.raises(ValueError, match=r"a size such as"):
        spec.parse_size(written)


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("30m", 1_800.0),
        ("1h30m", 5_400.0),
        ("1h 30m", 5_400.0),
        ("45 s", 45.0),
        ("1 min", 60.0),
        ("1.5h", 5_400.0),
        ("250ms", 0.25),
        ("12h", 43_200.0),
        ("1d2h3m4s", 93_784.0),
        (45, 45.0),
        (0.5, 0.5),
    ],
)
def test_a_duration(written: str | float, seconds: float) -> None:
    parsed = spec.parse_duration(written)
    assert parsed == seconds
    assert type(parsed) is float


@pytest.mark.parametrize(
    "written",
    ["", "30", "s", "1x", "30m x", "x 30m", "-3s", "0s", "1m30", "1h,30m", "3.5.5m", "5m\x00", "\u0661s", "9" * 400 + "d",
     math.inf, math.nan, 10**400, 0, -1, True, None, [1]],
)  # fmt: skip
def test_what_is_no_duration(written: Any) -> None:
    with pytest.raises(ValueError, match=r"a duration such as"):
        spec.parse_duration(written)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("2000 chars", ("chars", 2_000)),
        ("800 tokens", ("tokens", 800)),
        ("1 char", ("chars", 1)),
        ("1token", ("tokens", 1)),
        ("1_000 chars", ("chars", 1_000)),
        (" 10 000 tokens ", ("tokens", 10_000)),
    ],
)
def test_an_amount(written: str, expected: tuple[str, int]) -> None:
    assert spec.parse_amount(written) == written
    assert spec.amount(written) == expected


@pytest.mark.parametrize(
    "written",
    [
        "",
        "2000",
        "chars",
        "0 chars",
        "_1 chars",
        "-1 chars",
        "1.5 chars",
        "10 Chars",
        "10 words",
        "\u0661 chars",
        "9" * 5_000 + " chars",
        "1000000000001 tokens",
        "99999999999999999999 chars",
        5,
        None,
    ],
)
def test_what_is_no_amount(written: Any) -> None:
    with pytest.raises(ValueError, match=r"an amount such as"):
        spec.parse_amount(written)


@pytest.mark.parametrize(("written", "expected"), [("auto", "auto"), (120, 120.0), ("2m", 120.0)])
def test_an_attempt_timeout(written: str | int, expected: float | str) -> None:
    assert spec.parse_attempt_timeout(written) == expected


@pytest.mark.parametrize("written", [0, -1, "never", None, math.inf, 10**400])
def test_NET_02_no_attempt_is_without_a_limit(written: Any) -> None:  # noqa: N802 - the case's id
    with pytest.raises(ValueError, match='"auto" or a number of seconds above 0'):
        spec.parse_attempt_timeout(written)


NUMBER_LIKE = st.from_regex(r"\A\s*[0-9_. ]{0,8}\s*(ms|min|s|m|h|d|b|kb|MB|GiB|chars?|tokens?|x)?\s*\Z")
ANYTHING = (
    NUMBER_LIKE
    | st.text(max_size=12)
    | st.integers()
    | st.integers(-(10**400), 10**400)
    | st.floats()
    | st.none()
    | st.booleans()
    | st.binary(max_size=3)
    | st.lists(st.integers(), max_size=2)
)


@pytest.mark.slow
@given(ANYTHING)
def test_whatever_is_written_is_a_value_or_a_value_error(written: Any) -> None:
    try:
        size = spec.parse_size(written)
    except ValueError:
        size = 1
    assert type(size) is int
    assert size > 0
    try:
        seconds = spec.parse_duration(written)
    except ValueError:
        seconds = 1.0
    assert type(seconds) is float
    assert 0 < seconds < math.inf
    try:
        unit, count = spec.amount(spec.parse_amount(written))
    except ValueError:
        unit, count = "chars", 1
    assert unit in {"chars", "tokens"}
    assert count > 0
    try:
        timeout = spec.parse_attempt_timeout(written)
    except ValueError:
        timeout = "auto"
    assert timeout == "auto" or 0 < timeout < math.inf


@pytest.mark.slow
@given(st.integers(1, 10**6), st.sampled_from(["B", "kB", "MB", "GB", "KiB", "MiB", "GiB"]))
def test_a_size_means_what_its_unit_says(number: int, unit: str) -> None:
    assert spec.parse_size(f"{number} {unit}") == number * spec.SIZE_UNITS[unit.lower()]


@pytest.mark.slow
@given(st.integers(0, 100), st.integers(0, 59), st.integers(1, 59))
def test_parts_of_a_duration_add_up(hours: int, minutes: int, seconds: int) -> None:
    assert spec.parse_duration(f"{hours}h{minutes}m{seconds}s") == hours * 3600 + minutes * 60 + seconds


def test_the_contracts_defaults() -> None:
    made = job()
    assert made.input.model_dump() == {
        "path": "packages.jsonl", "id": None, "limit": None, "where": None, "dedupe": True, "max_record": 10_000_000, "query": None,
    }  # fmt: skip
    assert made.slice.model_dump() == {"truncate": None, "split": None, "max_input": None}
    assert made.model.model_dump() == {
        "name": "m", "route": "chat", "temperature": None, "max_tokens": None, "extra": {}, "weights": None, "top_p": None,
        "seed": None, "stop": None,
    }  # fmt: skip
    assert made.endpoint[0].model_dump() == {
        "url": "http://127.0.0.1:9/v1", "api_key_env": None, "api_key_file": None, "api_key_command": None,
        "max_tokens_field": "auto", "share": "full", "identity": None, "headers": {}, "headers_env": {},
        "requests_per_minute": None, "tokens_per_minute": None, "concurrency": "auto", "verify": True, "priority": None,
            "model": None,
    }  # fmt: skip
    assert made.answer.model_dump(by_alias=True) == {
        "schema": None, "labels": None, "method": "generate", "calibrate": False, "retry_invalid": 1, "field": None,
        "on_truncated": "quarantine", "extract": "strict", "strip_think": True, "from_reasoning": "never",
    }  # fmt: skip
    assert made.output.model_dump() == {"path": "labels.jsonl", "overwrite": False, "details": False}
    assert made.limits.model_dump(by_alias=True) == {
        "class": "batch", "max_attempts": 6, "attempt_timeout": "auto", "unit_deadline": 3600.0, "run_deadline": None,
        "max_cost": None, "max_requests": None, "max_total_tokens": None, "give_up_after": 1800.0, "drain": 30.0,
        "retry_ambiguous": "always", "order": "auto",
    }  # fmt: skip
    assert (made.prices, made.quality.model_dump(exclude_defaults=True)) == (None, {})


def test_what_the_contract_shows_as_written_equals_its_default() -> None:
    shown = job(
        input={"dedupe": True, "max_record": "10 MB"},
        answer={"retry_invalid": 1, "on_truncated": "quarantine", "extract": "strict", "strip_think": True},
        output={"overwrite": False, "details": False},
        limits={
            "class": "batch", "max_attempts": 6, "attempt_timeout": "auto", "unit_deadline": "1h", "give_up_after": "30m",
            "drain": "30s", "retry_ambiguous": "always", "order": "auto",
        },
    )  # fmt: skip
    assert shown == job()


def test_the_whole_example_of_the_contract_is_understood() -> None:
    made = job(
        name="sort-packages",
        input={"id": "name", "limit": 1000, "where": "lang == 'en'"},
        slice={"truncate": "2000 chars", "max_input": "6000 tokens"},
        prompt={"system": "You sort Debian packages.", "version": "v3"},
        model={"temperature": 0, "max_tokens": 64, "extra": {"top_p": 1}},
        endpoint={"url": "local", "api_key_env": "OPENAI_API_KEY", "headers_env": {"X-Team": "TEAM_KEY"},
                  "concurrency": {"start": 6, "min": 1, "max": 256}},
        answer={"schema": "category.json", "field": "category"},
        limits={"run_deadline": "12h", "max_cost": 20.0},
        prices={"input_per_million": 0.15},
        quality={"sample": 0.05, "gate": {"min_score": 0.85}},
    )  # fmt: skip
    assert len(made.endpoint) == 1
    assert made.limits.run_deadline == 43_200.0
    assert made.answer.schema_ == "category.json"
    assert made.endpoint[0].concurrency == spec.ConcurrencySpec(start=6, min=1, max=256)


def test_keys_not_served_yet_are_keys_of_the_job_file() -> None:
    top = JobSpec.model_json_schema(by_alias=True)
    for key in spec.NOT_YET:
        section, _, name = key.partition(".")
        assert section in top["properties"]
        if name:
            definition = top["$defs"][f"{section.capitalize()}Spec"]
            assert name in definition["properties"], key


CONTENT: list[dict[str, Any]] = [
    {"input": {"path": "other.jsonl"}},
    {"input": {"id": "name"}},
    {"input": {"dedupe": False}},
    {"slice": {"truncate": "100 chars"}},
    {"prompt": {"user": "{{ other }}"}},
    {"prompt": {"version": "v3"}},
    {"model": {"name": "n"}},
    {"model": {"temperature": 0}},
    {"model": {"extra": {"top_k": 1}}},
    {"answer": {"schema": {"type": "string"}}},
    {"answer": {"labels": ["a", "b"]}},
    {"answer": {"strip_think": False}},
    {"answer": {"extract": "lenient"}},
]
OPERATING: list[dict[str, Any]] = [
    {"name": "other"},
    {"endpoint": {"url": "http://127.0.0.1:10/v1"}},
    {"endpoint": {"url": "http://127.0.0.1:9/v1", "api_key_env": "KEY"}},
    {"output": {"path": "other.csv"}},
    {"output": {"details": True}},
    {"limits": {"max_attempts": 2}},
    {"limits": {"unit_deadline": "2h"}},
    {"limits": {"max_cost": 2.0}},
    {"prices": {"input_per_million": 1, "output_per_million": 2}},
    {"prices": "endpoint"},
    {"answer": {"retry_invalid": 3}},
]


@pytest.mark.parametrize("changed", CONTENT, ids=str)
def test_keys_that_decide_answers_are_content(changed: dict[str, Any]) -> None:
    made = job(**changed)
    assert made.content() != job().content()
    assert made.content_hash() != job().content_hash()
    assert made.operating() == job().operating()


@pytest.mark.parametrize("changed", OPERATING, ids=str)
def test_all_other_keys_are_operating(changed: dict[str, Any]) -> None:
    made = job(**changed)
    assert made.operating() != job().operating()
    assert made.content() == job().content()
    assert made.content_hash() == job().content_hash()


def test_every_key_that_is_served_is_one_or_the_other() -> None:
    made = job()
    sections = {*made.content(), *made.operating()} - {"retry_invalid"}
    assert sections == set(JobSpec.model_fields)


def test_retry_invalid_alone_of_its_section_is_operating() -> None:
    assert "retry_invalid" not in job().content()["answer"]
    assert set(job().content()["answer"]) | {"retry_invalid"} == {
        "schema", "labels", "method", "calibrate", "retry_invalid", "field", "on_truncated", "extract", "strip_think", "from_reasoning",
    }  # fmt: skip


def test_the_contents_hash_does_not_depend_on_the_order_of_keys() -> None:
    one = job(model={"extra": {"a": 1, "b": {"c": 2, "d": 3}}})
    other = job(model={"extra": {"b": {"d": 3, "c": 2}, "a": 1}})
    assert one.content_hash() == other.content_hash()


def test_a_single_endpoint_is_a_list_of_one() -> None:
    assert job() == job(endpoint=[JOB["endpoint"]])
    value = copy.deepcopy(JOB)
    assert len(JobSpec.model_validate(value).endpoint) == 1
    assert value == JOB  # what was given is not changed


@pytest.mark.parametrize(
    "changed",
    [
        {"endpoint": []},
        {"input": {"limit": 0}},
        {"input": {"limit": "5"}},
        {"input": {"max_record": "9" * 400 + " GB"}},
        {"limits": {"unit_deadline": 10**400}},
        {"limits": {"attempt_timeout": 0}},
        {"limits": {"max_attempts": 0}},
        {"answer": {"labels": []}},
        {"answer": {"retry_invalid": 11}},
        {"model": {"temperature": -1}},
        {"model": {"nope": 1}},
        {"name": ""},
        {"output": None},
    ],
    ids=range(13),
)
def test_what_cannot_be_meant_is_refused(changed: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        job(**changed)


def test_what_was_parsed_cannot_be_changed() -> None:
    made = job()
    with pytest.raises(ValidationError, match="frozen"):
        made.limits.max_attempts = 1  # type: ignore[misc]  # what is tried here


def test_OBS_01_neither_repr_nor_a_refusal_shows_a_secret() -> None:  # noqa: N802 - the case's id
    secret = "sk-SECRET-TEST-123"
    made = job(
        endpoint={"url": "http://127.0.0.1:9/v1", "headers": {"X-Team": secret}, "api_key_command": ["echo", secret]},
    )
    assert secret not in repr(made)
    assert secret not in str(made)
    for endpoint in (
        {"url": "http://h/v1", "api_key": secret},
        {"url": "http://h/v1", "api_key_env": [secret]},
        {"url": secret, "headers": secret},
    ):
        with pytest.raises(ValidationError) as caught:
            job(endpoint=endpoint)
        assert secret not in str(caught.value)


def test_an_overlap_is_an_amount_or_none_at_all() -> None:
    assert SplitSpec(size="100 chars", overlap="0 chars").overlap == "0 chars"
    assert spec.amount(spec.parse_overlap("0" * 30 + "7 chars")) == ("chars", 7)
    with pytest.raises(ValueError, match="an amount such as"):
        spec.parse_overlap("99999999999999999999 chars")
    assert SplitSpec(size="100 tokens", overlap="10 tokens").join == "concat"
    for wrong in ("ten chars", 10, "10", "10 words"):
        with pytest.raises(ValidationError):
            SplitSpec.model_validate({"size": "100 chars", "overlap": wrong})


def test_a_join_is_a_word_or_a_prompt() -> None:
    assert SplitSpec.model_validate({"size": "100 chars", "join": {"prompt": "{{ answers }}"}}).join == ReduceSpec(
        prompt="{{ answers }}"
    )
    for wrong in ("most", {"prompts": "x"}, None):
        with pytest.raises(ValidationError):
            SplitSpec.model_validate({"size": "100 chars", "join": wrong})


@pytest.mark.parametrize("name", ["exact", "judge", "python:mine:f", "python:a.b:f"])
def test_a_scorer_that_there_is(name: str) -> None:
    assert QualitySpec(scorer=name).scorer == name


@pytest.mark.parametrize("name", ["fuzzy", "python:mine", "python:m:f()", "Exact", ""])
def test_a_scorer_that_there_is_not_names_those_that_there_are(name: str) -> None:
    with pytest.raises(ValidationError, match=r"exact, field, numeric, .* or python:module:function"):
        QualitySpec(scorer=name)
