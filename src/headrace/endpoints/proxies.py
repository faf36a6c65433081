"""Which proxy a URL is reached through: the usual environment variables, read once and alike for every transport."""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

from headrace.errors import SpecError


def proxy_for(url: str, environ: Mapping[str, str]) -> str | None:
    """The proxy's URL, or None. Loopback is always reached directly; lower-case variables win. Raises SpecError."""
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    if is_loopback(host) or _excluded(host, parts.port, _read(environ, "no_proxy")):
        return None
    proxy = _read(environ, f"{parts.scheme}_proxy") or _read(environ, "all_proxy")
    if not proxy:
        return None
    if "://" not in proxy:
        proxy = f"http://{proxy}"
    if urlsplit(proxy).scheme not in ("http", "https") or not urlsplit(proxy).hostname:
        raise SpecError(f"the proxy in {parts.scheme.upper()}_PROXY or ALL_PROXY is not an http:// URL; only those are served")
    return proxy


def is_loopback(host: str) -> bool:
    """True for localhost, *.localhost and loopback addresses."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _read(environ: Mapping[str, str], name: str) -> str:
    return (environ.get(name) or environ.get(name.upper()) or "").strip()


def _excluded(host: str, port: int | None, listed: str) -> bool:
    return any(_matches(host, port, entry.strip().lower()) for entry in listed.split(",") if entry.strip())


def _matches(host: str, port: int | None, entry: str) -> bool:
    if entry == "*":
        return True
    try:
        return ip_address(host) in ip_network(entry, strict=False)
    except ValueError:
        pass
    name, _, entry_port = entry.rpartition(":") if entry.count(":") == 1 else (entry, "", "")
    if entry_port and entry_port != str(port or ""):
        return False
    name = name.lstrip("*").lstrip(".")
    return bool(name) and (host == name or host.endswith(f".{name}"))
