from __future__ import annotations

import hashlib
import json
import random
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from headrace import canon

# Any code point, lone surrogates too; a pair of them is one character once it has been JSON.
TEXT = st.text(st.characters(exclude_categories=[]), max_size=8).map(
    lambda text: text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass") if _pairs(text) else text
)
NUMBERS = st.integers() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
NON_FINITE = st.sampled_from([float("nan"), float("inf"), float("-inf")])


def _pairs(text: str) -> bool:
    return any("\ud800" <= a <= "\udbff" and "\udc00" <= b <= "\udfff" for a, b in pairwise(text))


def nested(levels: int, core: Any = 1) -> Any:
    for _ in range(levels):
        core = [core]
    return core


@pytest.mark.slow
@given(VALUES)
def test_what_is_encoded_is_decoded_to_the_same(value: Any) -> None:
    back = canon.decode(canon.encode(value))
    assert back == value
    assert repr(back) == repr(value)  # 1 is not 1.0 and not true, and -0.0 not 0.0


@pytest.mark.slow
@given(VALUES)
def test_text_and_bytes_are_decoded_alike_and_as_the_standard_library_does(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False)
    assert repr(canon.decode(text)) == repr(json.loads(text))
    assert repr(canon.decode(json.dumps(value).encode())) == repr(json.loads(json.dumps(value)))


@pytest.mark.slow
@given(VALUES, st.integers())
def test_the_canonical_form_does_not_depend_on_the_order_of_keys(value: Any, seed: int) -> None:
    rng = random.Random(seed)

    def shuffled(inner: Any) -> Any:
        if isinstance(inner, dict):
            return {key: shuffled(inner[key]) for key in rng.sample(list(inner), len(inner))}
        return [shuffled(one) for one in inner] if isinstance(inner, list) else inner

    turned = shuffled(value)
    assert canon.canonical(turned) == canon.canonical(value)
    assert canon.digest(turned) == canon.digest(value)


@pytest.mark.slow
@given(VALUES, VALUES)
def test_different_values_have_different_canonical_forms(a: Any, b: Any) -> None:
    assume(json.dumps(a, sort_keys=True) != json.dumps(b, sort_keys=True))
    assert canon.canonical(a) != canon.canonical(b)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [True, None, 0.5]}, b'{"b":1,"a":[true,null,0.5]}'),
        ("caf\u00e9 \u2028", '"caf\u00e9 \u2028"'.encode()),
        ((1, (2,)), b"[1,[2]]"),
        (2**64, b"18446744073709551616"),
        ([-(2**70)], b"[-1180591620717411303424]"),
        ("\ud800", b'"\\ud800"'),
        ({"\udfff": "\u00e9"}, b'{"\\udfff":"\\u00e9"}'),
        ({1: 2, None: 3}, b'{"1":2,"null":3}'),
        ("null", b'"null"'),
        ({"a": {"b": None}}, b'{"a":{"b":null}}'),
        ([None, (1.5, "null")], b'[null,[1.5,"null"]]'),
    ],
    ids=range(11),
)
def test_encoding(value: Any, text: bytes) -> None:
    assert canon.encode(value) == text


@pytest.mark.slow
@given(VALUES, NON_FINITE)
def test_a_number_that_is_no_json_is_refused_wherever_it_stands(other: Any, bad: float) -> None:
    for value in (bad, [bad], [other, bad], (other, [bad]), {"a": other, "b": bad}, {"a": None, "b": {"c": [other, (bad,)]}}):
        with pytest.raises(ValueError):
            canon.encode(value)
        with pytest.raises(ValueError):
            canon.canonical(value)


def test_what_is_no_value_is_refused_as_a_type() -> None:
    with pytest.raises(TypeError):
        canon.encode({"a": {1, 2}})
    with pytest.raises(TypeError):
        canon.canonical(object())


def test_a_plain_text_is_not_looked_at_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canon, "_holds_non_finite", None)
    assert canon.encode("null and void") == b'"null and void"'
    assert canon.encode({"a": "null", "b": None}) == b'{"a":"null","b":null}'


@pytest.mark.parametrize("levels", [100, 254, 255, 500])
def test_hundreds_of_levels_come_back(levels: int) -> None:
    assert canon.decode(canon.encode(nested(levels))) == nested(levels)
    assert canon.canonical(nested(levels)) == canon.encode(nested(levels))


@pytest.mark.parametrize("levels", [5_000, 100_000])
def test_a_value_too_deep_is_refused_with_that_word(levels: int) -> None:
    value = nested(levels)
    for refusing in (canon.encode, canon.canonical, canon.digest):
        with pytest.raises(ValueError, match=r"\Anested too deeply\Z"):
            refusing(value)


@pytest.mark.parametrize("core", [1, 1.5, None, float("nan"), "x"])
def test_no_depth_raises_anything_but_value_error(core: Any) -> None:
    for levels in (*range(250, 260), *range(900, 1100, 7)):
        value = nested(levels, core)
        try:
            canon.encode(value)
        except ValueError:
            continue


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[" * 1023 + "18446744073709551616" + "]" * 1023])
def test_a_text_too_deep_is_refused_with_that_word(text: str) -> None:
    for raw in (text, text.encode()):
        with pytest.raises(ValueError, match=r"\Anested too deeply\Z"):
            canon.decode(raw)


def test_a_thousand_levels_of_what_is_exact_are_decoded() -> None:
    value = canon.decode("[" * 1_000 + "0.5" + "]" * 1_000)
    for _ in range(1_000):
        [value] = value
    assert value == 0.5


def test_a_cycle_is_refused() -> None:
    value: list[Any] = [1]
    value.append(value)
    with pytest.raises(ValueError):
        canon.encode(value)


@pytest.mark.parametrize(
    "text", ["1e400", "-1e400", '{"a":[1E999]}', "9" * 400 + ".5", '{"a":1,"b":0.1e310}', "[18446744073709551616,1e309]"]
)
def test_a_number_too_large_for_a_float_is_refused(text: str) -> None:
    for raw in (text, text.encode()):
        with pytest.raises(ValueError, match=r"\Aa number too large for a float\Z"):
            canon.decode(raw)


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a":-Infinity}', "[18446744073709551616, NaN]"])
def test_constants_that_are_no_json_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not JSON"):
        canon.decode(text)


@pytest.mark.parametrize("raw", ["", "1 2", '{"a":', "'a'", '"\x01"', "\x00", "1\x0c", "01", b"\xef\xbb\xbf1", "9" * 5_000])
def test_what_is_no_json_is_refused(raw: str | bytes) -> None:
    with pytest.raises(ValueError):
        canon.decode(raw)


def test_bytes_that_are_not_utf_8_are_refused_with_their_place() -> None:
    with pytest.raises(UnicodeDecodeError) as caught:
        canon.decode(b'{"a": "\xff"}')
    assert caught.value.start == 7


INTEGERS = [2**53 + 1, 2**63, 2**64 - 1, 2**64, -(2**63) - 1, 10**18, 10**19, 10**19 + 1, 10**40 + 7, -(10**300)]
FORMS = [
    "{}",
    "[{}]",
    '{{"a":{}}}',
    '{{"a":[1,{{"b":{}}}]}}',
    "[[[[{}]]]]",
    "[" + "0.5," * 300 + "{}]",
    '[["' + "x" * 3_000 + '"],{}]',
    '[{{"a":1}},' + "[0.5]," * 300 + "{}]",
]


@pytest.mark.parametrize("form", FORMS, ids=range(len(FORMS)))
@pytest.mark.parametrize("number", INTEGERS)
def test_integers_stay_exact_wherever_they_stand(form: str, number: int) -> None:
    text = form.format(number)
    for raw in (text, text.encode()):
        assert repr(canon.decode(raw)) == repr(json.loads(text))


def test_a_large_float_stays_a_float() -> None:
    assert repr(canon.decode("[1e22, 123456789012345678901.0]")) == "[1e+22, 1.2345678901234568e+20]"


def test_long_digits_in_a_text_change_nothing() -> None:
    text = '["' + "7" * 40 + '",' + "[0.5]," * 50 + "1]"
    assert canon.decode(text) == json.loads(text)


@pytest.mark.parametrize("raw", ['["\ud800", [0.5], [0.5], [0.5]]', '{"a": "\udfff", "b": [{"c": [1.5]}]}'])
def test_a_lone_surrogate_in_text_is_kept(raw: str) -> None:
    assert canon.decode(raw) == json.loads(raw)


def test_the_common_record_is_parsed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canon, "_decode_slowly", None)
    raw = b'{"id": 9007199254740993, "text": "' + b"7" * 30 + b'", "score": 0.25, "tags": ["a", {"b": [1, 2.5]}], "none": null}'
    assert canon.decode(raw) == orjson.loads(raw)


@given(st.dictionaries(TEXT, SCALARS, max_size=4), st.binary(max_size=20))
def test_a_units_hash_is_the_sha256_of_constants_and_payload(constants: dict[str, Any], payload: bytes) -> None:
    hasher = canon.UnitHasher(constants)
    expected = hashlib.sha256(canon.canonical(constants) + payload).digest()[: canon.HASH_BYTES]
    assert hasher(payload) == expected
    assert hasher(payload) == expected  # the kept state is not used up
    assert canon.UnitHasher(dict(reversed(constants.items())))(payload) == expected


@pytest.mark.parametrize("length", [0, 1, 2_046, 2_047, 2_048, 4_094, 4_095, 32_767, 32_768, 32_769, 1_000_000])
def test_a_units_hash_does_not_depend_on_how_a_long_payload_is_fed(length: int) -> None:
    payload = random.Random(length).randbytes(length)
    for salt, more in ((b"", b""), (b"7", b"\x007")):
        expected = hashlib.sha256(canon.canonical({"model": "m"}) + payload + more).digest()[: canon.HASH_BYTES]
        assert canon.UnitHasher({"model": "m"})(payload, salt) == expected


def test_a_units_hash_is_the_same_in_every_release() -> None:
    hasher = canon.UnitHasher({"route": "chat", "model": "m", "schema": None})
    assert hasher(b'[{"role":"user","content":"x"}]').hex() == "ed2ca4d390acfb5067babeca5de25897"
    assert hasher(b'[{"role":"user","content":"x"}]', b"7").hex() == "4b13ca0b2d5685c2daab7d1d533097e6"


@given(st.binary(max_size=20), st.binary(min_size=1, max_size=8), st.binary(min_size=1, max_size=8))
def test_a_salt_keeps_equal_payloads_apart(payload: bytes, one: bytes, other: bytes) -> None:
    assume(one != other)
    hasher = canon.UnitHasher({})
    assert len({hasher(payload), hasher(payload, one), hasher(payload, other)}) == 3
    assert hasher(payload, one) == hasher(payload, one)


def test_other_constants_make_other_hashes() -> None:
    assert canon.UnitHasher({"model": "a"})(b"x") != canon.UnitHasher({"model": "b"})(b"x")
