"""The one verb that the endpoint needs of a network, what it may raise, and who serves it."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from enum import StrEnum
from importlib import import_module
from typing import Protocol

from msgspec import Struct

from headrace.errors import HeadraceError, SpecError
from headrace.values import Sent

ENCODINGS = "gzip, deflate"  # what all transports decode, and all that is advertised
IDENTITY = "identity"
_NEEDS = {"plain": "httptools", "pyreqwest": "pyreqwest", "aiohttp": "aiohttp"}  # transports and what each stands on, best first
LONGEST_S = 86_400.0  # no request lasts longer, whatever its caller asks for


class Reason(StrEnum):
    """Why no complete reply came."""

    TIMEOUT = "timeout"  # connected (or still connecting), and the limit passed
    REFUSED = "refused"  # nobody listens
    DNS = "dns"  # the name does not resolve
    CERTIFICATE = "certificate"  # the server's certificate is refused
    CONNECTION = "connection"  # could not connect, or the connection was lost
    SHORT_BODY = "short_body"  # the connection was lost inside the body
    PROTOCOL = "protocol"  # what came is no HTTP, or its body cannot be decoded
    TOO_LARGE = "too_large"  # the body exceeds `Limits.max_body`


class TransportError(HeadraceError):
    """No complete reply came. `sent` is NO only where the connection itself failed. The message is not redacted yet."""

    def __init__(self, reason: Reason, sent: Sent, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.sent = sent


def unresolved(cause: str) -> TransportError:
    """The host's name does not resolve. Systems say that in several ways; only that it may pass is news."""
    passing = " just now (a temporary failure)" if "temporary" in cause.lower() else ""
    return TransportError(Reason.DNS, Sent.NO, f"the name does not resolve{passing}")


def too_large(limit: int) -> TransportError:
    return TransportError(Reason.TOO_LARGE, Sent.MAYBE, f"the reply is larger than {limit} bytes")


class Response(Struct, frozen=True):
    """A complete reply, decompressed. `header` looks one up by its lower-case name.

    A body in an encoding that was not asked for is passed on as it came; `header("content-encoding")` then names it.
    """

    status: int
    body: bytes
    header: Callable[[str], str | None]


class Limits(Struct, frozen=True):
    """Seconds and bytes, all finite. The total limit of a request comes with it and holds for its first byte too."""

    connect_s: float = 10.0
    silence_s: float = 3600.0  # no byte for so long, before the first or between two
    # Common servers drop idle connections after 5 s; ours go first, so that none is reused while it dies.
    idle_s: float = 4.0
    max_body: int = 64 * 2**20

    def __post_init__(self) -> None:
        for value in (self.connect_s, self.silence_s, self.idle_s, self.max_body):
            if not (math.isfinite(value) and value > 0):
                raise ValueError("every limit is above 0 and finite")


class Peer(Struct, frozen=True):
    """Whom a transport speaks to. `verify` True: the system's roots; a path: that PEM bundle too; False: anyone.

    `proxy` is the proxy's URL, chosen by `headrace.endpoints.proxies`; a transport reads no environment.
    """

    verify: bool | str = True
    proxy: str | None = None
    limits: Limits = Limits()


class Transport(Protocol):
    """Sends one request and reads its whole reply.

    It never retries, follows no redirect, keeps no cookie, never waits for a free connection and has no cap of its own
    on connections. Every limit is finite. Raises TransportError, and CancelledError when the caller is cancelled.
    Lag of the caller's event loop alone does not make a request time out. `headers` is kept by identity: the same
    mapping is passed again and again and is not changed after its first use.
    """

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, total_s: float, idempotency_key: str | None
    ) -> Response: ...

    async def close(self) -> None:
        """Give back idle connections. Requests in flight end as lost."""
        ...


def open_transport(peer: Peer, url: str, name: str = "auto") -> Transport:
    """The transport `name` for requests to `url`. Raises SpecError, also for a bad CA bundle.

    `auto` is plain for http:// without a proxy, else pyreqwest, else aiohttp: the first that serves the address and can
    be imported.
    """
    if name not in ("auto", *_NEEDS):
        raise SpecError(f'unknown transport "{name}"; one of auto, {", ".join(_NEEDS)}')
    if name == "plain" and not _is_plain(peer, url):
        raise SpecError("HEADRACE_TRANSPORT=plain serves http:// addresses alone, in ASCII and without a proxy")
    if name == "auto":
        name = next(name for name in _NEEDS if (name != "plain" or _is_plain(peer, url)) and _can_be_imported(_NEEDS[name]))
    # Imported by name: the one that is not used is not loaded, and pyreqwest has no wheel on some platforms.
    opened: Transport = import_module(f"headrace.endpoints.{name}").open_client(peer)
    return opened


def _is_plain(peer: Peer, url: str) -> bool:
    """Names that are not ASCII are left to clients that know the newest rules for them: they decide who gets the key."""
    return peer.proxy is None and url.isascii() and url[:7].lower() == "http://"


def _can_be_imported(module: str) -> bool:
    try:
        import_module(module)
    except ImportError:
        return False
    return True


def checked_total(total_s: float) -> float:
    """The total limit, which is never absent: what is not finite or not positive becomes LONGEST_S."""
    return total_s if 0.0 < total_s < LONGEST_S else LONGEST_S
