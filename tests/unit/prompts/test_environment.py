"""What templates may do, and what their failures say."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.errors import RecordError, SpecError
from headrace.prompts.environment import TextTemplate, printed

KEY = "prompt.user"


def render(source: str, **fields: Any) -> str:
    return TextTemplate(source, KEY).render(fields)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (10**30, str(10**30)),
        (1.5, "1.5"),
        ([1, "ä", None], '[1,"ä",null]'),
        ({"a": {"b": True}}, '{"a":{"b":true}}'),
        ("<b>&", "<b>&"),
        ("", ""),
    ],
)
@pytest.mark.parametrize("source", ["{{ x }}", "{{ record.x }}", "{% if true %}{{ x }}{% endif %}", "{{ '' ~ x }}"])
def test_inp_11_values_print_as_json_and_text_as_it_is(source: str, value: Any, text: str) -> None:
    assert render(source, x=value) == text


@pytest.mark.parametrize("source", ["{{ x }}", "a {{ x | first }}", "{{ 'a' ~ x }}", "{{ record['x'] }}"])
def test_inp_11_printing_null_rejects_the_record(source: str) -> None:
    with pytest.raises(RecordError, match="printed null"):
        render(source, x=[None] if "first" in source else None)


def test_a_null_that_is_printed_is_named() -> None:
    with pytest.raises(RecordError, match=r"printed null \(null in the record: 'body'\)$"):
        render("{{ title }}{{ body }}", title="t", body=None, other=None)


def test_inp_11_a_missing_field_names_itself_and_what_the_record_has() -> None:
    with pytest.raises(RecordError, match=r"^'text' is undefined; the record has 'body', 'i\\x1bd'$"):
        render("{{ text }}", **{"body": "", "i\x1bd": 1})


def test_a_missing_field_in_an_empty_record_is_told() -> None:
    with pytest.raises(RecordError, match="the record has no fields"):
        render("{{ text }}")


def test_a_record_of_many_fields_gives_a_short_message() -> None:
    with pytest.raises(RecordError) as caught:
        render("{{ nope }}", **{f"field {'x' * 100} {n}": n for n in range(1000)})
    assert len(str(caught.value)) <= 300


@pytest.mark.parametrize(
    "source",
    [
        "{{ x.nope }}",
        "{{ x.nope.deeper }}",
        "{{ [] | first }}",
        "{{ 1 / 0 }}",
        "{{ x + 1 }}",
        "{{ x() }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ range(10 ** 9) | list }}",
        "{{ range }}",
        "{{ x | map('upper') }}",
        "{% for i in 5 %}{% endfor %}",
        "{{ record.update({'a': 1}) }}",
        "{% if nope %}a{% endif %}",
        "{{ 'a\n' * nope }}",
    ],
)
def test_whatever_a_template_raises_is_a_one_line_record_error(source: str) -> None:
    with pytest.raises(RecordError) as caught:
        render(source, x="text")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) <= 300


def test_a_number_that_json_cannot_hold_rejects_the_record() -> None:
    with pytest.raises(RecordError, match="float that JSON cannot hold"):
        render("{{ x }}", x=float("nan"))


@pytest.mark.parametrize(
    ("source", "line"),
    [("a\n\n{{ x", 3), ("{% if %}", 1), ("\n{{ x | nofilter }}", 2), ("{% include 'x' %}", 1), ("{% for %}", 1)],
)
def test_a_template_that_cannot_be_compiled_is_refused_with_its_line(source: str, line: int) -> None:
    with pytest.raises(SpecError, match=f"^prompt.user, line {line}") as caught:
        TextTemplate(source, KEY)
    assert caught.value.key == KEY


def test_a_chance_filter_does_not_exist_because_equal_records_ask_equal_things() -> None:
    with pytest.raises(SpecError, match="random"):
        TextTemplate("{{ x | random }}", KEY)


def test_values_of_records_are_never_compiled() -> None:
    assert render("{{ x }}", x="{{ 7 * 7 }}{% raw %}") == "{{ 7 * 7 }}{% raw %}"
    assert render("{{ x | trim }}", x=" {{ 7 * 7 }} ") == "{{ 7 * 7 }}"


@pytest.mark.parametrize("name", ["range", "dict", "record", "namespace", "items", "fields", "context", "environment", "result"])
def test_a_field_wins_over_whatever_else_has_its_name(name: str) -> None:
    assert render("{{ " + name + " }}", **{name: "data"}) == "data"
    assert render("{{ " + name + " | upper }}", **{name: "data"}) == "DATA"


def test_a_key_wins_over_a_method_and_methods_still_work() -> None:
    assert render("{{ x.items }}{{ record.keys }}", x={"items": [1]}, keys="k") == "[1]k"
    assert render("{% for k, v in x.items() %}{{ k }}={{ v }} {% endfor %}", x={"a": 1}) == "a=1 "


def test_odd_names_are_reached_through_the_record() -> None:
    assert render('{{ record["odd name"] }}', **{"odd name": 1}) == "1"


@pytest.mark.parametrize("end", ["\n", "\n\n", "", " \n "])
def test_the_end_of_a_template_stays_as_written(end: str) -> None:
    assert render("{{ x }}" + end, x="a") == "a" + end


def test_tojson_writes_plain_json() -> None:
    assert render("{{ x | tojson }}", x="<ä'>") == '"<ä\'>"'
    assert render("{{ x | tojson }}", x=None) == "null"
    assert render("{{ x | tojson(indent=1) }}", x=[1]) == "[\n 1\n]"


@pytest.mark.parametrize(
    ("source", "fields"),
    [
        ("{{ a }} {{ b.c }}", {"a", "b"}),
        ("{% for x in xs %}{{ x }}{% endfor %}", {"xs"}),
        ("{{ record.a }}{{ record['b c'] }}{{ d }}", {"a", "b c", "d"}),
        ("{% set y = a %}{{ y }}", {"a"}),
        ("{# nothing #}", set()),
        ("{{ record }}", None),
        ("{{ record[key] }}", None),
        ("{{ record.a }}{{ record | length }}", None),
    ],
)
def test_fields_are_those_that_the_template_reads(source: str, fields: set[str] | None) -> None:
    assert TextTemplate(source, KEY).fields == fields


def test_printed_refuses_what_is_no_data() -> None:
    with pytest.raises(RecordError, match="object, which is no data"):
        printed(object())
