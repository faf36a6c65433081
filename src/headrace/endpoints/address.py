"""Where requests go: the route joined to the endpoint's URL, and what of it may be shown."""

from __future__ import annotations

from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from msgspec import Struct

from headrace.endpoints.redact import shown_url
from headrace.errors import SpecError

ROUTES = {"chat": "/chat/completions", "completions": "/completions"}


class Address(Struct, frozen=True):
    """Where requests go. `url` holds query values and is never shown; `shown` may be."""

    url: str
    shown: str
    host: str
    place: str
    userinfo: str | None
    query: str
    suffix: str  # the route's path at the end of `url`'s


def read_address(url: str, route: str) -> Address:
    """Join the route to `endpoint.url`. Raises SpecError."""
    parts = split_address(url)
    if parts is None:
        wrong = 'endpoint.url must be "http://host/v1" or "https://host/v1"'
        raise SpecError(wrong, key="endpoint.url", allowed="http(s)://host/v1")
    path = parts.path.rstrip("/")
    for suffix in ROUTES.values():
        if path.endswith(suffix):
            raise SpecError(f"endpoint.url: leave out {suffix}; headrace adds it", key="endpoint.url", found=shown_url(url))
    if route not in ROUTES:
        raise SpecError(f'model.route = "{route}" is not served by an http endpoint', key="model.route")
    userinfo, _, netloc = parts.netloc.rpartition("@")
    full = urlunsplit((parts.scheme, netloc, path + ROUTES[route], parts.query, ""))
    shown = f"{parts.scheme}://{netloc}{path}"
    host = (parts.hostname or "").lower()
    return Address(full, shown, host, f"{netloc.lower()}{path}", unquote(userinfo) or None, parts.query, ROUTES[route])


def split_address(url: str) -> SplitResult | None:
    """The parts of an http(s) address; None where it is none that can be asked."""
    try:
        parts = urlsplit(url.strip())
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if usable and url.isprintable() and " " not in url.strip() else None
