"""Content text to one JSON value."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.answers.extract import Extracted, Fault, extract, parse

ANY_TEXT = st.text(alphabet=st.characters(codec=None))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=12,
)
PIECES = st.sampled_from(
    [
        "{",
        "}",
        "[",
        "]",
        '"',
        "\\",
        ":",
        ",",
        "1",
        "1e999",
        "NaN",
        "null",
        "```",
        "```json\n",
        "~~~",
        "\n",
        "<think>",
        "</think>",
        " ",
        "\x00",
        "�",
        "\\ud800",
        "\ud800",
        "\\u003a",
        '{"a":1}',
        "text",
    ]
)


def value(text: str, **options: bool) -> Any:
    found = extract(text, **options)
    assert isinstance(found, Extracted), found
    return found.value


def fault(text: str, **options: bool) -> str:
    found = extract(text, **options)
    assert isinstance(found, Fault), found
    return found.message


@given(JSON_VALUES, st.booleans(), st.sampled_from([None, 1]))
def test_any_json_value_comes_back_exactly(whole: Any, ascii_only: bool, indent: int | None) -> None:
    found = parse(json.dumps(whole, ensure_ascii=ascii_only, indent=indent))
    assert isinstance(found, Extracted)
    assert repr(found.value) == repr(json.loads(json.dumps(whole)))
    assert repr(json.loads(found.text)) == repr(found.value)
    assert not found.repaired


@given(
    JSON_VALUES,
    st.sampled_from(["```json\n%s\n```", "```\r\n%s\r\n```\n", " ~~~~ JSON\n%s\n~~~~ ", "```json%s```", "````\n%s````"]),
)
def test_jsn_01_one_fence_around_the_whole_is_taken_off(whole: Any, fence: str) -> None:
    if not isinstance(whole, dict | list):
        whole = [whole]
    found = extract(fence.replace("%s", json.dumps(whole)))
    assert isinstance(found, Extracted)
    assert found.repaired
    assert repr(found.value) == repr(json.loads(json.dumps(whole)))


@given(JSON_VALUES, st.text().filter(lambda text: "<" not in text), st.booleans())
def test_rsn_03_a_think_block_before_the_answer_is_not_looked_into(whole: Any, thought: str, lenient: bool) -> None:
    for text in (f'<think>{thought} {{"draft":true}}</think>\n', f'maybe {{"draft":true}}\n{thought}</think>'):
        found = extract(text + json.dumps(whole), lenient=lenient)
        assert isinstance(found, Extracted)
        assert repr(found.value) == repr(json.loads(json.dumps(whole)))
        assert not found.repaired


def test_rsn_03_a_string_that_holds_the_tag_stays_untouched() -> None:
    assert value('{"x":"a <think>b</think>"}') == {"x": "a <think>b</think>"}
    assert value('<think>hm</think>{"x":"a <think>b"}'.replace("<think>b", "b")) == {"x": "a b"}


def test_think_blocks_stay_where_they_are_not_to_be_stripped() -> None:
    assert fault("<think>x</think>{}", strip_think=False)


@pytest.mark.parametrize(
    "text",
    ['<think>x</think>\n```json\n{"a":1}\n```', '```json\n<think>x</think>{"a":1}\n```', '<think>{"a":2}</think>```{"a":1}```'],
)
def test_think_and_fence_together(text: str) -> None:
    assert extract(text) == Extracted({"a": 1}, '{"a":1}', repaired=True)


def test_jsn_02_good_json_with_backticks_is_not_touched() -> None:
    text = '{"md":"use ```bash ls``` here"}'
    assert extract(text) == Extracted({"md": "use ```bash ls``` here"}, text)


def test_jsn_02_a_bash_block_is_never_taken_for_the_json_block() -> None:
    text = '```bash\necho {"b":2} [1]\n```\nand\n```json\n{"a":1}\n```'
    assert fault(text)
    assert value(text, lenient=True) == {"a": 1}
    assert fault("Run\n```bash\n[1]\n```", lenient=True)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no text"),
        ("  ", "no text"),
        ("NaN", "NaN is no JSON"),
        ("[-Infinity]", "-Infinity is no JSON"),
        ('{"a":Infinity}', "Infinity is no JSON"),
        ("1e999", "not JSON compliant"),
        ('[null,"\x01",1e999]', "not JSON compliant"),
        ("-" + "9" * 400 + ".5", "not JSON compliant"),
        ("1" * 5000, "limit"),
        ('{"a":1,"a":1}', "duplicate key 'a'"),
        ('[{"x":{"b":1,"b":2}}]', "duplicate key 'b'"),
        ('{"a":1,"a":"\\u003a"}', "duplicate key 'a'"),
        ('{"\\u0061":1,"a":2}', "duplicate key 'a'"),
        ('{"a":"\x01","a":2}', "duplicate key 'a'"),
        ('{"a":1} x', "Extra data at character 9"),
        ('x {"a":1}', "Expecting value at character 1"),
        ('{"a":1', "at character 7"),
        ("{'a':1}", "Expecting property name"),
        ("[1,]", "Expecting value"),
        ("\\u003a", "Expecting value"),
    ],
)
def test_what_is_no_json_text_is_told(text: str, message: str) -> None:
    assert message in fault(text)


@pytest.mark.parametrize(
    "text", ['{"a":":::"}', '{":":":"}', '{"a":"\\u003a"}', '{"a":"\\\\u003a:"}', '{"a":1,"b":{"a":1}}', '{"A":1,"a":2}']
)
def test_colons_and_equal_keys_at_other_places_are_no_duplicates(text: str) -> None:
    assert value(text) == json.loads(text)


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", ":", "\\u003a", "\\\\u003a"]), st.sampled_from(["1", '":"', '"\\u003A"', "{}"]))
    )
)
def test_duplicate_keys_are_found_exactly(pairs: list[tuple[str, str]]) -> None:
    text = "{" + ",".join(f'"{name}":{part}' for name, part in pairs) + "}"
    names = [json.loads(f'"{name}"') for name, _ in pairs]
    assert isinstance(parse(text), Fault if len(set(names)) < len(names) else Extracted)


def test_raw_control_characters_and_surrogates_survive() -> None:
    assert value('{"a":"x\ny\t\x00"}') == {"a": "x\ny\t\x00"}
    assert value('"\\u0000"') == "\x00"
    assert value('["\\ud800","\udfff"]') == ["\ud800", "\udfff"]


def test_integers_keep_all_digits() -> None:
    digits = "1234567890" * 5
    assert extract(f'{{"n": {digits}}}') == Extracted({"n": int(digits)}, f'{{"n":{digits}}}')


@pytest.mark.parametrize("lenient", [False, True])
@pytest.mark.parametrize(("open_", "close"), [("[", "]"), ('{"a":', "}")])
def test_depth_is_bounded_and_never_crashes(open_: str, close: str, lenient: bool) -> None:
    core = "1"
    assert extract(open_ * 240 + core + close * 240, lenient=lenient)
    assert isinstance(extract(open_ * 300 + core + close * 300, lenient=lenient), Extracted)
    for levels in (501, 1001, 100_000):
        assert fault(open_ * levels + core + close * levels, lenient=lenient) == "nested too deeply"
        assert fault(open_ * levels, lenient=lenient)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('Here you are: {"a":1}. Enjoy!', {"a": 1}),
        ('I say "so": {"a":1}', {"a": 1}),
        ("[1,2] is it", [1, 2]),
        ('{"a":1} or, again, {"a": 1}', {"a": 1}),
        ('a {b} [c] {"a":[{}]}', {"a": [{}]}),
        ('```json\n{"a":1}\n```\nThat is all.', {"a": 1}),
        ('Text\n```\n{"a":1}\n```', {"a": 1}),
        ('Text\n```json\n{"a":1}', {"a": 1}),
        ('Text\n~~~json\n{"a":"```"}\n~~~\n', {"a": "```"}),
        ('Text {"a":"x\ny"}', {"a": "x\ny"}),
    ],
)
def test_lenient_takes_the_one_value_out_of_prose(text: str, expected: Any) -> None:
    assert fault(text)
    found = extract(text, lenient=True)
    assert isinstance(found, Extracted)
    assert (found.value, found.repaired) == (expected, True)


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1} or {"a":2}',
        'first {"a":1} then\n```json\n{"b":1}\n```',
        "no value at all 42",
        'cut {"a": {"b":1}, "c": ',
        'bad {"a":1,"a":2}',
        'bad {"a":NaN}',
        'bad {"a":1e999}',
        '<think>{"a":1}</think> none',
        "<think>never ends {}",
        'See\n```python\n{"a":1}\n```',
    ],
)
def test_lenient_takes_nothing_where_it_would_have_to_guess(text: str) -> None:
    assert fault(text, lenient=True)


def test_a_part_of_a_broken_value_is_no_answer() -> None:
    assert fault('{"answer": {"a":1}, broken', lenient=True)


@pytest.mark.parametrize(
    "unit", ["{", "[", "{}", '{"', '{"a":', '{"a":1} ', "```\n", "`", '"', "\\", "<think>", "</think>", "[1 ", "{ ", "\n"]
)
def test_long_hostile_text_gives_a_verdict(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    for lenient in (False, True):
        assert isinstance(extract(text, lenient=lenient), Fault | Extracted)


HEADS = ["", "```", "~~~ ", "{", '{"', "[", "<think>", "x\n   ", "</think>"]
TAILS = ["", "`", "}", '"', "x\n", "```"]
UNITS = ["a", " ", "\n", "`", "~", "{", "}", "[", "]", '"', "\\", ":", ",", "<", "<think>", "</think>", "```\n", "```json\n{}\n",
         '{"a":', "{} ", "1", "é", "\ud800", "\\u003a", "- "]  # fmt: skip


@pytest.mark.slow
@pytest.mark.usefixtures("linear")
@pytest.mark.parametrize("unit", UNITS, ids=ascii)
def test_the_work_on_a_long_text_grows_with_its_length(unit: str) -> None:
    for head, tail, lenient in itertools.product(HEADS, TAILS, (False, True)):
        extract(head + unit * (60_000 // len(unit)) + tail, lenient=lenient)


@pytest.mark.slow
@pytest.mark.usefixtures("linear")
@pytest.mark.parametrize(
    "text", ["```" + "a" * 10_000_000 + "`", "```" + " " * 10_000_000 + "`x", '{"a": "' + "{" * 10_000_000], ids=range(3)
)
def test_ten_megabytes_of_what_never_ends_are_given_up(text: str) -> None:
    assert fault(f"Here you are:\n{text}", lenient=True)


RUNS = st.builds(lambda piece, times: piece * times, PIECES, st.integers(1, 300))


@given(st.lists(PIECES | RUNS | st.text(max_size=5), max_size=30).map("".join) | ANY_TEXT, st.booleans(), st.booleans())
def test_no_text_raises_and_what_is_taken_is_json(text: str, lenient: bool, strip_think: bool) -> None:
    found = extract(text, lenient=lenient, strip_think=strip_think)
    if isinstance(found, Extracted):
        assert repr(json.loads(found.text)) == repr(found.value)
        assert not re.search("NaN|Infinity", re.sub('"[^"]*"', "", found.text))
    else:
        assert found.message
