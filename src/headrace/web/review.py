"""The page of `headrace review`: one item at a time, on loopback, behind a token."""

from __future__ import annotations

import secrets
from importlib.resources import files
from typing import Any

from aiohttp import web

from headrace import canon
from headrace.clock import WallClock
from headrace.errors import HeadraceError
from headrace.quality.reviews import ReviewStore
from headrace.quality.spotcheck import outcome
from headrace.runs.reviewing import Reviewing

HOST = "127.0.0.1"
_NAMES = ("127.0.0.1", "localhost")
_FILES = {"": "review.html", "review.js": "review.js", "review.css": "review.css"}
_KINDS = {"html": "text/html", "js": "text/javascript", "css": "text/css"}
_FOREIGN = "this page is served to its own address alone\n"
_NAMELESS = "the address lacks its token: take the whole line that headrace review printed\n"
_MOST_BYTES = 4_000_000
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
}


class ReviewPage:
    """Serves one run's spot check. Every verdict is on disk before its reply leaves."""

    def __init__(self, reviewing: Reviewing, store: ReviewStore) -> None:
        self._reviewing = reviewing
        self._store = store
        self._clock = WallClock()
        self.token = secrets.token_urlsafe(16)
        self.port = 0

    def application(self) -> web.Application:
        app = web.Application(client_max_size=_MOST_BYTES, middlewares=[self._guarded])
        app.router.add_get("/{token}/{name:(?:review\\.js|review\\.css)?}", self._file)
        app.router.add_get("/{token}/api/next", self._next)
        app.router.add_get("/{token}/api/item", self._item)
        app.router.add_get("/{token}/api/failed", self._failed)
        app.router.add_get("/{token}/api/outcome", self._outcome)
        app.router.add_post("/{token}/api/verdict", self._verdict)
        app.router.add_post("/{token}/api/undo", self._undo)
        return app

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Any) -> web.StreamResponse:
        """Only who has the token, and only pages of ours: a foreign one may send what it likes to loopback."""
        try:
            allowed = {f"{name}:{self.port}" for name in _NAMES}
            origin = request.headers.get("origin")
            token = request.match_info.get("token", "")
            is_ours = origin is None or origin.removeprefix("http://") in allowed
            response: web.StreamResponse
            if request.headers.get("host") not in allowed or not is_ours:
                response = web.Response(status=403, text=_FOREIGN)
            elif not secrets.compare_digest(token.encode(), self.token.encode()):
                response = web.Response(status=403, text=_NAMELESS)
            else:
                response = await handler(request)
        except web.HTTPException as error:
            response = web.Response(status=error.status, text=f"{error.reason}\n")
        except HeadraceError as error:
            response = _json({"error": str(error)}, 400)
        response.headers.update(_HEADERS)
        return response

    async def _file(self, request: web.Request) -> web.Response:
        name = _FILES[request.match_info["name"]]
        kind = _KINDS[name.rpartition(".")[2]]
        return web.Response(body=files("headrace.web").joinpath(name).read_bytes(), content_type=kind, charset="utf-8")

    async def _next(self, request: web.Request) -> web.Response:
        return self._following(request.query.get("reviewer", ""))

    def _following(self, reviewer: str) -> web.Response:
        reviewing, store = self._reviewing, self._store
        item = reviewing.next_for(reviewer, store)
        return _json({"next": None if item is None else reviewing.item(item), "progress": reviewing.progress(reviewer, store)})

    async def _item(self, request: web.Request) -> web.Response:
        try:
            item = int(request.query.get("item", ""))
        except ValueError:
            return _json({"error": "item is a number"}, 400)
        if item not in self._reviewing.sample.strata and item not in self._reviewing.failed:
            return _json({"error": "no such item in the sample"}, 404)
        return _json({"next": self._reviewing.item(item)})

    async def _failed(self, _: web.Request) -> web.Response:
        return _json({"items": self._reviewing.failed})

    async def _outcome(self, _: web.Request) -> web.Response:
        return _json(outcome(self._store.all(), self._reviewing.sample.sizes))

    async def _verdict(self, request: web.Request) -> web.Response:
        given = await _object(request)
        if given is None:
            return _json({"error": "a JSON object is needed"}, 400)
        review = self._reviewing.judged(given)
        self._store.add(review, self._clock.now())
        return self._following(review.reviewer)

    async def _undo(self, request: web.Request) -> web.Response:
        given = await _object(request) or {}
        reviewer = str(given.get("reviewer", ""))
        review = self._store.undo(reviewer)
        if review is None or review.item not in self._reviewing.sample.strata:
            return self._following(reviewer)
        item = self._reviewing.item(review.item)
        written = {"note": review.note, "correction": None if review.correction is None else canon.decode(review.correction)}
        return _json({"next": item, "progress": self._reviewing.progress(reviewer, self._store), "written": written})


async def _object(request: web.Request) -> dict[str, Any] | None:
    if request.content_type != "application/json":
        return None
    try:
        value = canon.decode(await request.read())
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _json(value: Any, status: int = 200) -> web.Response:
    return web.Response(status=status, body=canon.encode(value), content_type="application/json", charset="utf-8")


async def serve(page: ReviewPage, port: int) -> tuple[web.AppRunner, str]:
    """Listen on loopback; returns what to clean up in the end, and the address with its token. Raises OSError."""
    runner = web.AppRunner(page.application(), access_log=None, handle_signals=False)
    await runner.setup()
    site = web.TCPSite(runner, HOST, port)
    await site.start()
    page.port = runner.addresses[0][1]
    return runner, f"http://{HOST}:{page.port}/{page.token}/"
