"""All transports against the one contract."""

from __future__ import annotations

import ssl
from pathlib import Path

import aiohttp
import pyreqwest.exceptions
import pytest
import uvloop

from headrace.endpoints.aiohttp import open_client as open_aiohttp
from headrace.endpoints.plain import open_client as open_plain
from headrace.endpoints.pyreqwest import open_client as open_pyreqwest
from headrace.endpoints.transport import Peer, Reason, Transport, TransportError
from headrace.errors import SpecError
from headrace.testing.contracts.hostile_server import HostileServerContract
from headrace.testing.contracts.raw_server import RawServer, keep_replying
from headrace.testing.contracts.transport import TransportContract
from headrace.testing.contracts.transport_scenes import post
from headrace.values import Sent

TLS = Path(__file__).parent.parent / "integration" / "data" / "tls"


class WithTls(TransportContract, HostileServerContract):
    """The same over TLS: a root of our own, and a certificate for localhost and 127.0.0.1."""

    def over_tls(self, verify: bool | str) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(TLS / "localhost.pem", TLS / "localhost.key")

        async def scene(transport: Transport) -> None:
            async with RawServer(keep_replying(), ssl=context) as server:
                assert (await post(transport, server.url.replace("http:", "https:"))).status == 200

        self.run(scene, Peer(verify=verify))

    def test_an_unknown_certificate_is_refused_before_anything_is_sent(self) -> None:
        with pytest.raises(TransportError) as caught:
            self.over_tls(verify=True)
        assert (caught.value.reason, caught.value.sent) == (Reason.CERTIFICATE, Sent.NO)

    def test_a_bundle_that_holds_the_root_is_trusted(self) -> None:
        self.over_tls(verify=str(TLS / "ca.pem"))

    def test_verify_false_accepts_any_certificate(self) -> None:
        self.over_tls(verify=False)

    @pytest.mark.parametrize("bundle", ["absent.pem", "localhost.key"])
    def test_a_bundle_that_cannot_be_used_is_said_before_anything_is_sent(self, bundle: str) -> None:
        with pytest.raises(SpecError, match=r"endpoint\.verify"):
            self.open(Peer(verify=str(TLS / bundle)))

    def test_plain_http_where_tls_is_expected_was_not_sent(self) -> None:
        async def scene(transport: Transport) -> None:
            async def serve(connection: object) -> None:
                await connection.raw(b"HTTP/1.1 400 Bad Request\r\n\r\n")  # type: ignore[attr-defined]  # a Connection

            async with RawServer(serve) as server:
                with pytest.raises(TransportError) as caught:
                    await post(transport, server.url.replace("http:", "https:"))
                assert (caught.value.reason, caught.value.sent) == (Reason.CONNECTION, Sent.NO)

        self.run(scene)


class TestPyreqwest(WithTls):
    aborts = False  # the client offers no way: the socket is freed when the total limit passes
    hears_while_it_sends = False  # nor here: what the server said before it closed is lost in half of all cases

    def open(self, peer: Peer) -> Transport:
        return open_pyreqwest(peer)


class TestPlain(TransportContract, HostileServerContract):
    serves_proxies = False

    def open(self, peer: Peer) -> Transport:
        return open_plain(peer)


class TestPlainOverUvloop(TestPlain):
    new_loop = staticmethod(uvloop.new_event_loop)


class TestAiohttp(WithTls):
    def open(self, peer: Peer) -> Transport:
        return open_aiohttp(peer)


def test_every_error_of_pyreqwest_has_the_base_that_is_mapped() -> None:
    errors = [value for value in vars(pyreqwest.exceptions).values() if isinstance(value, type) and issubclass(value, Exception)]
    ours = [value for value in errors if value.__module__.startswith("pyreqwest")]
    assert ours
    assert all(issubclass(error, pyreqwest.exceptions.PyreqwestError) for error in ours)


def test_every_error_of_aiohttp_has_a_base_that_is_mapped() -> None:
    errors = [value for value in vars(aiohttp).values() if isinstance(value, type) and issubclass(value, Exception)]
    assert errors
    client = [error for error in errors if error.__module__ == "aiohttp.client_exceptions" and "WS" not in error.__name__]
    assert all(issubclass(error, aiohttp.ClientError | TimeoutError | OSError | ValueError) for error in client)
