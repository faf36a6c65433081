"""One line of JSON Lines: what comes in goes out byte for byte, with our fields behind it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.sinks.encoding import encoded_answers
from headrace.sinks.jsonl import line
from headrace.sinks.row import OutputRow

OURS = b'"answer":"x"}\n'


def spliced(raw: bytes | None, answers: dict[str, Any] | None = None, answer_json: bytes | None = None) -> bytes:
    return line(OutputRow(raw, {"answer": "x"} if answers is None else answers, answer_json))


@pytest.mark.parametrize(
    "raw",
    [
        b'{"n":1.00,"big":123456789012345678901234567890,"e":1E+05,"z":-0}',
        b'{"b":1,"a":2,"b":3}',
        rb'{"t":"\u00e9\/\ud800","u":"' + "é\u2028".encode() + b'"}',
        b'{ "spaced" : [ 1 , 2 ] }',
        b'{"s":"ends with {"}',
    ],
)
def test_the_input_passes_through_byte_for_byte(raw: bytes) -> None:
    assert spliced(raw) == raw[:-1].rstrip() + b"," + OURS


@pytest.mark.parametrize("raw", [b"{}", b"{ }", b" {\t} \r", b"{\n}"])
def test_an_empty_object_gets_no_comma(raw: bytes) -> None:
    assert json.loads(spliced(raw)) == {"answer": "x"}
    assert spliced(raw).endswith(OURS)


@pytest.mark.parametrize("raw", [b'  {"a":1}\r', b'\xef\xbb\xbf{"a":1}', b'{"a":1} \t'])
def test_what_stands_around_the_object_is_left_out(raw: bytes) -> None:
    assert spliced(raw) == b'{"a":1,' + OURS


@pytest.mark.parametrize("raw", [None, b"", b"[1]", b"{", b"}", b'"text"'])
def test_a_record_that_is_no_object_has_our_fields_only(raw: bytes | None) -> None:
    assert spliced(raw) == b"{" + OURS


def test_line_ends_between_tokens_become_spaces() -> None:
    assert spliced(b'{\n "a": 1.0,\r\n "b": 2\n}') == b'{  "a": 1.0,   "b": 2,' + OURS


def test_without_fields_of_ours_the_record_stays() -> None:
    assert spliced(b'{"a":1}', {}) == b'{"a":1}\n'
    assert spliced(b'{"a":1}', {}, b"1") == b'{"a":1}\n'


def test_an_answer_given_as_json_text_stands_first_and_verbatim() -> None:
    answers = {"answer_": None, "answer_status": "done"}
    assert spliced(b'{"a":1}', answers, b'{"n": 1.00}') == b'{"a":1,"answer_":{"n": 1.00},"answer_status":"done"}\n'
    assert answers["answer_"] is None


def test_a_bad_field_beside_an_answer_given_as_json_text_costs_only_itself() -> None:
    found = spliced(None, {"answer": None, "answer_error": "\ud800", "n": 10**30}, b'{"n": 1.00}')
    assert found == b'{"answer":{"n": 1.00},"answer_error":"\\ud800","n":1000000000000000000000000000000}\n'


@pytest.mark.parametrize("text", [b'"\xed\x95\x9c"', '"\u6f22\u2027"'.encode(), b'{"a":"\xc3\xa9"}'])
def test_an_answer_in_any_script_stays_byte_for_byte(text: bytes) -> None:
    assert spliced(None, {"answer": None}, text) == b'{"answer":' + text + b"}\n"
    assert encoded_answers([text, b"1"]) == [text, b"1"]


def test_a_stored_lone_surrogate_is_escaped() -> None:
    text = '{"a":"\ud800 \ud55c"}'.encode("utf-8", "surrogatepass")
    found = spliced(None, {"answer": None}, text)
    assert found.decode("utf-8") == '{"answer":{"a":"\\ud800 \ud55c"}}\n'


@pytest.mark.parametrize("clean", [True, False])
def test_many_answers_are_encoded_as_one_is(clean: bool) -> None:
    texts = [b"{}", b"1"] if clean else [b"{\n}", b"1\r", '"\u2028"'.encode(), '"\udfff"'.encode("utf-8", "surrogatepass"), b"2"]
    alone = [spliced(None, {"answer": None}, text) for text in texts]
    assert [b'{"answer":%b}\n' % text for text in encoded_answers(texts)] == alone


def test_INP_03_our_fields_hold_no_raw_line_separator() -> None:  # noqa: N802 - a case's id
    text = "a\u2028b\u2029c\u0085d\x0ce\nf\rg"
    for found in (
        spliced(b"{}", {"answer": text}),
        spliced(b"{}", {"answer": None}, json.dumps(text, ensure_ascii=False).encode()),
    ):
        assert "\u2028" not in found.decode()
        assert "\u2029" not in found.decode()
        assert found.count(b"\n") == 1
        assert json.loads(found) == {"answer": text}


def test_INP_05_what_is_written_is_utf8() -> None:  # noqa: N802 - a case's id
    assert spliced(b"{}", {"answer": "é 🙂"}) == '{"answer":"é 🙂"}\n'.encode()


def test_INP_08_an_identifier_beyond_a_double_stays_exact() -> None:  # noqa: N802 - a case's id
    assert spliced(b'{"id":9007199254740993}') == b'{"id":9007199254740993,' + OURS


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec=None)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.slow
@given(fields=st.dictionaries(st.text(), json_values, max_size=5), value=json_values, indent=st.sampled_from([None, 2]))
def test_a_line_reads_back_as_the_record_and_our_fields(fields: dict[str, Any], value: Any, indent: int | None) -> None:
    fields.pop("answer", None)
    found = line(OutputRow(json.dumps(fields, indent=indent).encode(), {"answer": value}))
    assert found.count(b"\n") == 1
    assert b"\r" not in found
    assert json.loads(found) == {**fields, "answer": value}
