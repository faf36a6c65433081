"""Every endpoint against the one contract."""

from __future__ import annotations

from headrace.protocols import Endpoint
from headrace.testing import FakeEndpoint, Laws
from headrace.testing.contracts.endpoint import EndpointContract, ScriptedTransport, open_scripted, response
from headrace.values import Failure, Kind


class TestHttp(EndpointContract):
    def answering(self) -> Endpoint:
        return open_scripted(ScriptedTransport(response()))

    def failing(self) -> Endpoint:
        return open_scripted(ScriptedTransport(response(500, b"<html>\n" + b"x" * 5_000)))

    def hanging(self) -> Endpoint:
        return open_scripted(ScriptedTransport(None))


class TestFake(EndpointContract):
    def answering(self) -> Endpoint:
        return FakeEndpoint()

    def failing(self) -> Endpoint:
        return FakeEndpoint(script=lambda _request, _n: Failure(Kind.SERVER_ERROR, "down"))

    def hanging(self) -> Endpoint:
        return FakeEndpoint(Laws(hang_rate=1.0))
