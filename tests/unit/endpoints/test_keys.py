"""Where keys come from, and that nothing shows them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from headrace.endpoints.keys import Key
from headrace.errors import SpecError
from headrace.spec import EndpointSpec

SECRET = "SECRET-TEST-123"


def key(environ: dict[str, str] | None = None, base: Path = Path(), **spec: Any) -> Key:
    return Key(EndpointSpec(url="http://h/v1", **spec), base, environ or {})


def test_without_a_key_there_is_no_header() -> None:
    assert key().headers() == {}


def test_a_key_from_the_environment_is_a_bearer_token() -> None:
    found = key({"K": f" {SECRET}\n", "T": "team"}, api_key_env="K", headers_env={"X-Team": "T"})
    assert found.headers() == {"X-Team": "team", "Authorization": f"Bearer {SECRET}"}
    assert found.secrets() == [SECRET, "team"]
    assert SECRET not in repr(found)


def test_an_authorization_header_of_ones_own_is_kept() -> None:
    assert key({"K": SECRET, "A": "Token x"}, api_key_env="K", headers_env={"authorization": "A"}).headers() == {
        "authorization": "Token x"
    }


@pytest.mark.parametrize("environ", [{}, {"K": ""}])
def test_a_missing_variable_is_named(environ: dict[str, str]) -> None:
    with pytest.raises(SpecError, match="environment variable K is"):
        key(environ, api_key_env="K")
    if not environ:
        with pytest.raises(SpecError, match="environment variable K "):
            key(environ, headers_env={"X": "K"})


@pytest.mark.parametrize("value", [f"{SECRET}\nx", f"{SECRET}é", f"{SECRET}\x00", f"{SECRET}\u200b", "  "])
def test_a_key_that_no_header_can_carry_is_refused_unseen(value: str) -> None:
    with pytest.raises(SpecError) as caught:
        key({"K": value}, api_key_env="K")
    assert SECRET not in str(caught.value)


def test_of_requests_in_flight_with_one_key_one_reads_it_again() -> None:
    environ = {"K": "old"}
    found = key(environ, api_key_env="K")
    environ["K"] = "new"

    async def play() -> list[bool]:
        return await asyncio.gather(*(found.renew(0) for _ in range(5)))

    assert asyncio.run(play()) == [True] * 5
    assert (found.generation, found.secrets()) == (1, ["new"])


def test_an_unchanged_key_is_not_read_for_ever() -> None:
    environ = {"K": "old"}
    found = key(environ, api_key_env="K")
    assert asyncio.run(found.renew(0)) is False
    environ["K"] = "new"
    assert asyncio.run(found.renew(0)) is False
