"""Whatever stands in a job file or on the command line: a job, or one line of ours that shows no secret."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headrace.errors import SpecError
from headrace.runs.jobfile import job_from_dict, load_job
from headrace.runs.jobyaml import parse_yaml
from headrace.runs.making import making_of
from headrace.spec import JobSpec

BASE = Path("/nowhere")
JOB: dict[str, Any] = {
    "name": "sort",
    "input": {"path": "in.jsonl"},
    "prompt": {"user": "{{ text }}"},
    "model": {"name": "m"},
    "endpoint": {"url": "http://127.0.0.1:9/v1"},
    "output": {"path": "out.jsonl"},
}
SECRET = "sk-proj-abcdef0123456789"
LINES_MOST = 1_000  # characters of a message: whatever was written there may be megabytes


def _keys() -> list[tuple[str, str | None]]:
    """Every section of a job file, and every key of each."""
    schema = JobSpec.model_json_schema(by_alias=True)
    found: list[tuple[str, str | None]] = []
    for section in schema["properties"]:
        keys = schema["$defs"].get(f"{section.capitalize()}Spec", {"properties": {}})["properties"]
        found += [(section, None), *((section, key) for key in keys)]
    return found


KEYS = _keys()
ODD = ["{{", "{% for x in y %}", "{{ a | nope }}", "a\0b", "x" * 5_000, "*.jsonl", "[", "~", "/", "..", "a" * 300 + "/b", "²"]
WORDS = ["sqlite:///x", "sqlite:", "http://[", "http://h:0", "local", "auto", "2000 chars", "30s", "1 MB", "\udcff"]
TEXTS = st.text(max_size=6) | st.text(alphabet="a.\n\r\t\x1b\u2028 {}%\\\"'", max_size=6) | st.sampled_from([*ODD, *WORDS])
NAMES = TEXTS | st.sampled_from(
    ["type", "properties", "$ref", "enum", "pattern", "role", "content", "text", "start", "items", "required", "api_key", "a.b"]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.integers(-(10**30), 10**30) | st.floats() | st.dates() | TEXTS
VALUES = st.recursive(
    SCALARS | st.binary(max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3) | st.tuples(inner),
    max_leaves=6,
)


def put(tables: dict[str, Any], section: str, key: str | None, value: Any) -> None:
    if key is None:
        tables[section] = value
    elif isinstance(tables.setdefault(section, {}), dict):
        tables[section][key] = value


def told(tables: dict[str, Any], overrides: Sequence[str] = ()) -> str:
    """All that is said when a job of these tables is refused; nothing else may be raised."""
    try:
        making_of(job_from_dict(tables, BASE, overrides).spec)
    except SpecError as error:
        check(error)
        return repr((str(error), error.key, error.found, error.allowed))
    return ""


def check(error: SpecError) -> None:
    assert str(error)
    assert str(error).isprintable()
    assert len(str(error)) <= LINES_MOST


@pytest.mark.slow
@example([(("answer", "schema"), {"": b""})])
@given(st.lists(st.tuples(st.sampled_from(KEYS), VALUES), min_size=1, max_size=3))
def test_any_tables_are_a_job_or_one_line(changes: list[tuple[tuple[str, str | None], Any]]) -> None:
    tables = copy.deepcopy(JOB)
    for (section, key), value in changes:
        put(tables, section, key, value)
    told(tables)


PARTS = st.sampled_from(["endpoint", "model", "extra", "prompt", "user", "user_file", "0", "1", "²", "9" * 5_000, "a b", "url", "api_key_env"])  # fmt: skip
OVERRIDES = st.builds(
    lambda parts, value: ".".join(f'"{part}"' if not part.isidentifier() and part.isprintable() else part for part in parts) + f"={value}",
    st.lists(PARTS | TEXTS, min_size=1, max_size=4),
    TEXTS | st.sampled_from(["[1, 2]", "{a = 1}", "2024-99-99", "2024-01-01", "nan", "1e999", "9" * 5_000, "0x" + "f" * 100, "[" * 5_000]),
)  # fmt: skip


@pytest.mark.slow
@given(st.lists(OVERRIDES | TEXTS, min_size=1, max_size=3), st.booleans())
def test_any_overrides_make_a_job_or_one_line(overrides: list[str], listed: bool) -> None:
    tables = copy.deepcopy(JOB)
    if listed:
        tables["endpoint"] = [tables["endpoint"]]
    told(tables, overrides)


TOML = st.lists(
    st.sampled_from(["[input]\n", "path = ", '"in.jsonl"\n', "[[endpoint]]\n", "[model.extra]\n", "a.b = ", "1\n", "9" * 5_000, "[[", "]]", "{", "}", "=", "'''", "2024-13-01\n", "nan\n", "\ufeff", "# x\n"])
    | TEXTS, max_size=8,
).map("".join)  # fmt: skip
YAML = st.lists(
    st.sampled_from(["input: ", "{path: x}\n", "- ", "\n", "  ", "&a ", "*a ", "<<: ", "!!python/none ", "!!int x\n", "? ", ": ", "|\n", "1e3\n", "9" * 5_000, "---\n", "%YAML 1.2\n", "'", '"', "\\x"])
    | TEXTS, max_size=8,
).map("".join)  # fmt: skip


@pytest.mark.slow
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(TOML, YAML)
def test_any_text_of_a_job_file_is_a_job_or_one_line(tmp_path: Path, toml: str, yaml: str) -> None:
    for name, text in (("j.toml", toml), ("j.yaml", yaml)):
        (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape" if "\udcff" in text else "strict"))
        try:
            load_job(tmp_path / name)
        except SpecError as error:
            check(error)


@given(YAML)
def test_no_text_of_yaml_raises_anything_else(text: str) -> None:
    with contextlib.suppress(SpecError):
        parse_yaml(text, "j.yaml")


@pytest.mark.parametrize("without", [None, ("prompt", "user"), ("model", "name"), ("endpoint", "url")], ids=str)
@pytest.mark.parametrize(("section", "key"), KEYS, ids=lambda part: part or "whole")
def test_obs_01_whatever_is_wrong_nothing_that_looks_like_a_secret_is_shown(
    section: str, key: str | None, without: tuple[str, str] | None
) -> None:
    forms: list[Any] = [
        SECRET, f"Bearer {SECRET}", f"https://u:{SECRET}@h/v1", f"http://h/v1?api_key={SECRET}", f"{SECRET}.jsonl", f"{{{{ {SECRET} }}}}",
        [SECRET], {SECRET: 1}, {"x": SECRET}, {"x": {"y": [SECRET]}}, {SECRET: float("nan")}, {"a": {SECRET: 10**40}},
        {SECRET: {1: 2}}, [{"role": SECRET}], [{"role": "user", "content": [{"type": "text", SECRET: "x"}]}],
    ]  # fmt: skip
    for form in forms:
        tables = copy.deepcopy(JOB)
        if without is not None:
            tables[without[0]].pop(without[1])
        put(tables, section, key, form)
        assert SECRET not in told(tables)


# What such trials have found.


@pytest.mark.parametrize(
    ("key", "value"),
    [("url", SECRET), ("headers", {SECRET: 1}), ("headers_env", {SECRET: 1})],
)
def test_obs_01_a_key_in_a_wrong_place_of_the_endpoint_is_refused_and_not_repeated(key: str, value: Any) -> None:
    tables = copy.deepcopy(JOB)
    put(tables, "endpoint", key, value)
    assert f"endpoint.{key}" in told(tables)
    assert SECRET not in told(tables)


def test_a_name_of_thousands_of_characters_is_cut_in_messages() -> None:
    for section, value in (("endpoint", {"headers": {"x" * 5_000: 1}}), ("model", {"extra": {"x" * 5_000: float("nan")}})):
        assert "x" * 61 not in told({**JOB, section: {**JOB[section], **value}})


def test_a_name_with_a_line_end_breaks_no_message() -> None:
    assert "a\\\\nb" in told({**JOB, "model": {"name": "m", "extra": {"a\nb": float("nan")}}})


@pytest.mark.parametrize(
    "override", ['endpoint."²".url=http://h/v1', f'endpoint."{"9" * 5_000}".url=x', 'endpoint."²".api_key_env=A']
)
def test_what_only_looks_like_a_number_numbers_no_endpoint(override: str) -> None:
    for endpoint in (JOB["endpoint"], [JOB["endpoint"]]):
        assert told({**JOB, "endpoint": endpoint}, [override])


def test_an_integer_of_thousands_of_digits_is_refused_in_one_line(tmp_path: Path) -> None:
    assert "model.seed" in told(JOB, [f"model.seed={'9' * 5_000}"])
    (tmp_path / "j.toml").write_text(f"[model]\nseed = {'9' * 5_000}\n", encoding="utf-8")
    with pytest.raises(SpecError, match="beyond 64 bits"):
        load_job(tmp_path / "j.toml")
