"""Which transport is opened, and that no limit can be absent."""

from __future__ import annotations

import sys

import pytest

from headrace.endpoints.aiohttp import AiohttpTransport
from headrace.endpoints.plain import PlainTransport
from headrace.endpoints.pyreqwest import PyreqwestTransport
from headrace.endpoints.transport import LONGEST_S, Limits, Peer, checked_total, open_transport
from headrace.errors import SpecError

HTTP = "http://127.0.0.1:8000/v1/chat/completions"
HTTPS = "https://api.example.com/v1/chat/completions"


@pytest.mark.parametrize("url", [HTTP, "HTTP://gpu-box/v1", "http://[::1]:8000/v1"])
def test_a_plain_address_is_spoken_to_on_the_event_loop(url: str) -> None:
    assert isinstance(open_transport(Peer(), url), PlainTransport)


@pytest.mark.parametrize(
    ("peer", "url"), [(Peer(), HTTPS), (Peer(proxy="http://127.0.0.1:3128"), HTTP), (Peer(), "http://bücher.example/v1")]
)
def test_tls_proxies_and_names_beyond_ascii_are_left_to_the_fast_client(peer: Peer, url: str) -> None:
    assert isinstance(open_transport(peer, url), PyreqwestTransport)
    with pytest.raises(SpecError, match="plain"):
        open_transport(peer, url, "plain")


def test_where_one_cannot_be_imported_the_next_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httptools", None)
    assert isinstance(open_transport(Peer(), HTTP), PyreqwestTransport)
    monkeypatch.setitem(sys.modules, "pyreqwest", None)
    assert isinstance(open_transport(Peer(), HTTP), AiohttpTransport)


def test_each_can_be_asked_for() -> None:
    assert isinstance(open_transport(Peer(), HTTP, "plain"), PlainTransport)
    assert isinstance(open_transport(Peer(), HTTP, "aiohttp"), AiohttpTransport)
    assert isinstance(open_transport(Peer(), HTTP, "pyreqwest"), PyreqwestTransport)


def test_another_name_is_refused() -> None:
    with pytest.raises(SpecError, match="curl"):
        open_transport(Peer(), HTTP, "curl")


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
@pytest.mark.parametrize("name", ["connect_s", "silence_s", "idle_s"])
def test_net_02_a_limit_is_above_zero_and_finite(name: str, value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        Limits(**{name: value})


@pytest.mark.parametrize(
    ("asked", "kept"), [(1.5, 1.5), (0.0, LONGEST_S), (-1.0, LONGEST_S), (float("inf"), LONGEST_S), (float("nan"), LONGEST_S)]
)
def test_net_02_a_total_limit_is_never_absent(asked: float, kept: float) -> None:
    assert checked_total(asked) == kept
