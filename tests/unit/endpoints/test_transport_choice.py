"""Which transport is opened, and that no limit can be absent."""

from __future__ import annotations

import sys

import pytest

from headrace.endpoints.aiohttp import AiohttpTransport
from headrace.endpoints.pyreqwest import PyreqwestTransport
from headrace.endpoints.transport import LONGEST_S, Limits, Peer, checked_total, open_transport
from headrace.errors import SpecError


def test_the_fast_client_is_the_default() -> None:
    assert isinstance(open_transport(Peer()), PyreqwestTransport)


def test_where_it_cannot_be_imported_the_other_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyreqwest", None)
    assert isinstance(open_transport(Peer()), AiohttpTransport)


def test_either_can_be_asked_for() -> None:
    assert isinstance(open_transport(Peer(), "aiohttp"), AiohttpTransport)
    assert isinstance(open_transport(Peer(), "pyreqwest"), PyreqwestTransport)


def test_another_name_is_refused() -> None:
    with pytest.raises(SpecError, match="curl"):
        open_transport(Peer(), "curl")


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
