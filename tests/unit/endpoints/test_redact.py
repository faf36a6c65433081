"""No secret survives in a text, and a text is one short line."""

from __future__ import annotations

import base64
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.endpoints.redact import LONGEST, Redactor, shown_url

SECRET = "SECRET-TEST-123"


@pytest.mark.parametrize(
    "text",
    [
        f"key {SECRET} refused",
        f"Authorization: Bearer {SECRET}",
        f"https://user:{SECRET}@host/v1",
        f"https://host/v1?key={SECRET}",
        base64.b64encode(SECRET.encode()).decode(),
        quote("a/" + SECRET, safe=""),
        "x" * (LONGEST - 5) + SECRET,
        "x" * 15_995 + SECRET,
        "x" * 3_990 + SECRET,
    ],
)
def test_obs_01_a_configured_secret_is_masked_before_the_text_is_shortened(text: str) -> None:
    shown = Redactor([SECRET])(text)
    assert SECRET not in shown
    assert SECRET[:6] not in shown
    assert len(shown) <= LONGEST


@pytest.mark.parametrize(
    "text",
    [
        "Authorization: Bearer abcdefghijkl",
        "authorization: Basic dXNlcjpwYXNz0000abcdefghijkl",
        '{"authorization": "Bearer abcdefghijkl"}',
        '{\\"x-api-key\\": \\"abcdefghijkl\\"}',
        "api_key=abcdefghijkl&x=1",
        "Cookie: session=abcdefghijkl",
        "Incorrect API key provided: sk-abcdefghijkl",
        "gsk_abcdefghijkl",
        "http://me:abcdefghijkl@host/v1",
        "see https://host/v1?token=abcdefghijkl for more",
        "Bearer abcdefghijkl",
    ],
)
def test_obs_01_what_looks_like_a_secret_is_masked_though_nobody_configured_it(text: str) -> None:
    assert "abcdefghijkl" not in Redactor()(text)


@pytest.mark.parametrize("position", range(1_100, 1_240, 7))
@pytest.mark.parametrize(
    "secret",
    [
        "https://user:abcdefghijklmnopqrstuvwxyz@host/v1",
        "sk-abcdefghijklmnopqrstuvwxyz",
        "Authorization: Bearer abcdefghijklmnopqrstuvwxyz",
        "AIzaabcdefghijklmnopqrstuvwxyz",
        "https://host/v1?abcdefghijklmnopqrstuvwxyz=1",
    ],
)
def test_obs_01_no_beginning_of_a_secret_shows_where_a_long_text_was_cut(secret: str, position: int) -> None:
    head = "Cookie: session="
    shown = Redactor()(f"{head}{'x' * (position - len(head))} {secret} and more {'y' * 2_000}")
    assert "abc" not in shown
    assert shown.startswith("Cookie:")


@pytest.mark.parametrize("between", ["", " ", "\n"])
def test_obs_01_a_long_secret_said_again_and_again_shows_no_beginning(between: str) -> None:
    secret = "".join(f"{number:04d}" for number in range(450))
    shown = Redactor([secret])(between.join([secret] * 12))
    assert "0000" not in shown
    assert shown.endswith("…")


@pytest.mark.parametrize("text", ["the authorization of this model is missing", "max_tokens must be 1", "no key-value pairs"])
def test_plain_words_stay(text: str) -> None:
    assert Redactor()(text) == text


def test_control_characters_cannot_reach_a_terminal() -> None:
    assert Redactor()("a\x1b[31mred\x00 \u202eback\nline\ttab \ud800") == "a\\u001b[31mred\\u0000 \\u202eback line tab \\ud800"


def test_the_repr_shows_nothing() -> None:
    assert SECRET not in repr(Redactor([SECRET]))


@given(st.text(max_size=400), st.text(max_size=400))
def test_a_secret_between_any_texts_is_masked(before: str, after: str) -> None:
    assert "Zq9#secret#9qZ" not in Redactor(["Zq9#secret#9qZ"])(f"{before}Zq9#secret#9qZ{after}")


def test_a_url_is_shown_without_credentials_and_query() -> None:
    assert shown_url("https://u:p@host:8443/v1?key=x#f") == "https://host:8443/v1"


def test_a_text_of_ten_megabytes_is_shortened() -> None:
    assert len(Redactor([SECRET])("Authorization: " * 700_000)) <= LONGEST
