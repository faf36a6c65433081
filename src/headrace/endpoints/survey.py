"""Asks a server for its own pages: once what it is, and again and again how it is loaded. What goes wrong says nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from ipaddress import ip_address
from urllib.parse import urlsplit, urlunsplit

from msgspec import Struct
from msgspec.structs import replace

from headrace.endpoints.gauges import read_gauges, read_loads, read_slots, server_of, told
from headrace.endpoints.proxies import is_loopback
from headrace.endpoints.serverinfo import Models, read_capacity, read_models, server_of_info
from headrace.values import Capacity, Gauges

LARGEST_PAGE = 4 * 2**20
PAGE_S = 3.0  # for each page; pages are asked for in two rounds
# What each server serves beside /v1, by the name of the page here.
_PAGES = {
    "metrics": "/metrics",
    "info": "/info",
    "props": "/props",
    "slots": "/slots",
    "server_info": "/server_info",
    "old_server_info": "/get_server_info",
    "loads": "/v1/loads?include=core",
    "old_loads": "/get_load",
    "trtllm_metrics": "/prometheus/metrics",
    "ollama": "/api/version",
}
_SECOND = {
    "vllm": (),
    "openai": (),
    "ollama": (),
    "sglang": ("server_info", "old_server_info", "loads", "old_loads"),
    "llama.cpp": ("props", "slots"),
    "tgi": ("info",),
    "tei": ("info",),
    "tensorrt-llm": (),
}
_SECOND_IF_UNKNOWN = ("info", "props", "server_info", "trtllm_metrics", "ollama")
# Where a server's load is read: the page, and by what. The first that says something is asked from then on.
_LOADS = {
    "vllm": ("metrics",),
    "sglang": ("metrics", "loads", "old_loads"),
    "llama.cpp": ("metrics", "slots"),
    "tgi": ("metrics",),
    "tei": ("metrics",),
    "tensorrt-llm": ("trtllm_metrics", "metrics"),
}
_PRIVATE_ENDS = (".local", ".internal", ".lan", ".home", ".svc", ".test")

Page = tuple[int, bytes]
Get = Callable[[str, float], Awaitable[Page | None]]


class Site(Struct, frozen=True):
    """Whose pages: the URL that requests go to, with the route's path at its end, and the model that is asked."""

    url: str
    suffix: str
    model: str

    def page(self, path: str) -> str:
        """The URL of a page beside /v1, of the same origin, with the query that requests carry."""
        parts = urlsplit(self.url)
        root = parts.path.removesuffix(self.suffix).rstrip("/").removesuffix("/v1")
        path, _, query = path.partition("?")
        return urlunsplit((parts.scheme, parts.netloc, root + path, "&".join(filter(None, (query, parts.query))), ""))

    @property
    def models(self) -> str:
        parts = urlsplit(self.url)
        return urlunsplit((parts.scheme, parts.netloc, parts.path.removesuffix(self.suffix) + "/models", parts.query, ""))

    @property
    def is_public(self) -> bool:
        """Somebody's service on the internet, which is not asked twice for what it does not have."""
        parts = urlsplit(self.url)
        host = (parts.hostname or "").lower()
        if is_loopback(host) or "." not in host.strip(".") or host.endswith(_PRIVATE_ENDS):
            return ":" in host and not _is_private(host)
        return not _is_private(host)


class Survey:
    """What one server says of itself. `get(url, seconds)` gives status and body, or None where none came."""

    def __init__(self, site: Site, get: Get) -> None:
        self.site = site
        self._get = get
        self._capacity: Capacity | None = None
        self._load_page: str | None = None
        self._is_asked = self._is_stale = False

    async def capacity(self) -> Capacity | None:
        """What the server is and holds; None where nobody has answered. What has been said is asked for again only after
        the server did not answer for its load: it may have been started anew.
        """
        if (self._capacity is not None and not self._is_stale) or (self._is_asked and self.site.is_public):
            return self._capacity
        self._is_stale = False
        self._is_asked = True
        models_page, metrics = await asyncio.gather(self._ask(self.site.models), self._ask(self.site.page(_PAGES["metrics"])))
        if models_page is None and metrics is None:
            return None
        pages = {"metrics": metrics[1]} if metrics is not None and metrics[0] == 200 else {}
        models = read_models(_body(models_page), self.site.model)
        server = server_of(pages.get("metrics", b"")) or models.server
        pages |= await self._ask_all(_SECOND_IF_UNKNOWN if server is None else _SECOND[server])
        if "server_info" not in pages and "old_server_info" in pages:
            pages["server_info"] = pages["old_server_info"]
        server = server or _recognised(pages)
        if server is None and not pages and models == Models() and _is_not_yet(models_page):
            return None  # a gateway, or a server that is still loading
        self._capacity = self._read(server or "unknown", pages, models)
        return self._capacity

    async def gauges(self) -> Gauges | None:
        """How the server is loaded now; None where it does not say. Asks nothing of a server that has no such page."""
        if self._load_page is None:
            return None
        page = _body(await self._ask(self.site.page(_PAGES[self._load_page])))
        if page is None or self._capacity is None:
            self._is_stale = True
            return None
        return _read_load(self._capacity.server, self._load_page, page)

    def _read(self, server: str, pages: dict[str, bytes], models: Models) -> Capacity:
        capacity = read_capacity(server, pages, models)
        for name in _LOADS.get(server, ()):
            gauges = _read_load(server, name, pages[name]) if name in pages else None
            if gauges is not None:
                self._load_page = name
                return replace(capacity, gauges=told(gauges))
        return capacity

    async def _ask_all(self, names: tuple[str, ...]) -> dict[str, bytes]:
        came = await asyncio.gather(*(self._ask(self.site.page(_PAGES[name])) for name in names))
        return {name: body for name, page in zip(names, came, strict=True) if (body := _body(page)) is not None}

    async def _ask(self, url: str) -> Page | None:
        return await self._get(url, PAGE_S)


def _body(page: Page | None) -> bytes | None:
    return page[1] if page is not None and page[0] == 200 and len(page[1]) <= LARGEST_PAGE else None


def _is_not_yet(page: Page | None) -> bool:
    """The server, or who stands before it, says that it is not ready: it may be asked again."""
    return page is None or page[0] >= 500


def _recognised(pages: dict[str, bytes]) -> str | None:
    """Who serves these pages, where neither names of metrics nor owners of models said it."""
    if "trtllm_metrics" in pages and server_of(pages["trtllm_metrics"]) == "tensorrt-llm":
        return "tensorrt-llm"
    if read_capacity("llama.cpp", pages, Models()).requests is not None:
        return "llama.cpp"
    if read_capacity("sglang", pages, Models()).tokens is not None:
        return "sglang"
    found = server_of_info(pages.get("info"))
    if found is None and pages.get("ollama", b"").lstrip().startswith(b'{"version"'):
        return "ollama"
    return found


def _read_load(server: str, name: str, page: bytes) -> Gauges | None:
    if name == "slots":
        return read_slots(page)
    if name in ("loads", "old_loads"):
        return read_loads(page)
    return read_gauges(server, page)


def _is_private(host: str) -> bool:
    try:
        return not ip_address(host).is_global
    except ValueError:
        return False
