"""`input.where`."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.errors import RecordError, SpecError
from headrace.prompts.where import compile_where


@pytest.mark.parametrize(
    ("expression", "passes"),
    [
        ("lang == 'en'", True),
        ("lang != 'en'", False),
        ("n > 3 and record['odd name']", True),
        ("nothing", False),
        ("text is defined and text", False),
        ("result == 1", True),
        ("tags | length == 2", True),
        ("'a' in tags", True),
    ],
)
def test_where_is_an_expression_over_the_record(expression: str, passes: bool) -> None:
    fields = {"lang": "en", "n": 4, "odd name": "x", "nothing": None, "result": 1, "tags": ["a", "b"]}
    assert compile_where(expression)(fields) is passes


@pytest.mark.parametrize("expression", ["nope == 1", "nope", "not nope", "lang > 1", "lang.x.y", "1 / 0", "lang.__class__"])
def test_a_record_on_which_where_fails_is_rejected(expression: str) -> None:
    with pytest.raises(RecordError) as caught:
        compile_where(expression)({"lang": "en"})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("expression", ["", "lang = 'en'", "lang ==", "{{ lang }}", "lang | nofilter"])
def test_an_expression_that_is_none_is_refused(expression: str) -> None:
    with pytest.raises(SpecError) as caught:
        compile_where(expression)
    assert caught.value.key == "input.where"


def test_where_keeps_nothing_between_records() -> None:
    test = compile_where("x")
    records: list[dict[str, Any]] = [{"x": 1}, {"x": 0}, {"x": "a"}]
    assert [test(fields) for fields in records] == [True, False, True]
    with pytest.raises(RecordError):
        test({})


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("lang = 'en'", "== compares"),
        ("lang === 'en'", "== compares"),
        ("{{ lang == 'en' }}", "without braces"),
        ("lang == 'en", "a quote is not closed"),
        ("lang == 'en' && done", "and, or, not"),
        ("!done", "and, or, not"),
        ("lang <> 'en'", "!="),
        ("my field == 1", "record['my field']"),
        ("lang == 'en' or", "text in quotes"),
        ("", "fields by their names"),
        ("lang in ['=', '&&'", "allowed: fields"),
    ],
)
def test_an_expression_that_cannot_be_used_comes_with_what_is_allowed(expression: str, hint: str) -> None:
    with pytest.raises(SpecError) as caught:
        compile_where(expression)
    assert hint in str(caught.value)
    assert caught.value.allowed
    assert "\n" not in str(caught.value)


def test_a_name_that_no_record_has_comes_with_how_text_and_fields_are_written() -> None:
    with pytest.raises(RecordError, match=r"'en' is undefined \(text stands in quotes.*; the record has 'lang'"):
        compile_where("lang == en")({"lang": "en"})
    with pytest.raises(RecordError, match="has no attribute 'length'; the record has"):
        compile_where("lang.length > 1")({"lang": "en"})
