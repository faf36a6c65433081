"""JSON text for any value at all."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.sinks.encoding import encode


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("\ud800", b'"\\ud800"'),
        (10**30, b"1" + b"0" * 30),
        ([2**64, "é"], rb'[18446744073709551616,"\u00e9"]'),
        (float("nan"), b"null"),
        ({1: "a", None: "b"}, b'{"1":"a","None":"b"}'),
        pytest.param(10**5000, b'"<int>"', id="more digits than Python prints"),
        ("a\u2028b\u2029", rb'"a\u2028b\u2029"'),
        ("\u2027", '"\u2027"'.encode()),
    ],
)
def test_a_value_and_its_text(value: Any, text: bytes) -> None:
    assert encode(value) == text


def test_deep_nesting_is_kept_as_far_as_python_goes() -> None:
    value: Any = []
    for _ in range(400):
        value = [value]
    assert json.loads(encode(value)) == value
    for _ in range(100_000):
        value = [value]
    assert isinstance(json.loads(encode(value)), str)
    while value:  # taken apart by hand, so that nothing has to recurse
        value = value[0]
