"""The endpoint behind HTTP: one send is one POST, and whatever comes of it is a Reply or a Failure."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec.structs import replace

from headrace.endpoints import mapping, retry_after
from headrace.endpoints.address import Address
from headrace.endpoints.envelopes import ServerError, read_error
from headrace.endpoints.keys import Key
from headrace.endpoints.likeliest import read_likeliest
from headrace.endpoints.priority import priority_field, scheduling_of, unsent
from headrace.endpoints.ratelimits import LimitHeaders
from headrace.endpoints.redact import Redactor, shown_url
from headrace.endpoints.replies import Broken, read_reply
from headrace.endpoints.survey import LARGEST_PAGE, Page, Site, Survey
from headrace.endpoints.tokens import ask_beginnings, tokenizer_urls
from headrace.endpoints.transport import ENCODINGS, IDENTITY, Response, Transport, TransportError
from headrace.endpoints.wire import Change, Form, SchemaForm, Wire
from headrace.errors import SpecError
from headrace.values import TRANSIENT, Capacity, Failure, Gauges, Kind, Reply, Request, Sent

NO_KEY = "no key was sent: endpoint.api_key_env, api_key_file or api_key_command names one"
_TOKENIZE_S = 10.0
_TOKENIZE_ALL_S = 30.0
_MODELS_S = 10.0
NO_LOGPROBS = (
    'this endpoint cannot serve answer.method = "score"; use answer.method = "generate", or a server or model that gives '
    "log-probabilities"
)


class _Listed(msgspec.Struct):
    data: list[Any]


class HttpEndpoint:
    """Implements Endpoint. Built by `open_endpoint`.

    `succeeded` becomes true with the first well-formed reply; until then faults of the address are BAD_ENDPOINT.
    What a server refuses of our fields is learnt once and holds for all later requests.
    """

    def __init__(self, address: Address, identity: str | None, key: Key, wire: Wire, transport: Transport) -> None:
        self._address = address
        self._identity = identity or address.place
        self._key = key
        self._wire = wire
        self._transport = transport
        self._encodings = ENCODINGS
        self._fixed: dict[str, str] = {}
        self._headers: dict[str, str] = {}
        self._redact = Redactor()
        self._now: Callable[[], float] | None = None
        self._limits = LimitHeaders()
        self._survey = Survey(Site(address.url, address.suffix, wire.model), self._page)
        self.succeeded = False

    @property
    def name(self) -> str:
        """For people: scheme, host and path."""
        return self._address.shown

    @property
    def identity(self) -> str:
        """Who answers: `endpoint.identity`, else host and path."""
        return self._identity

    @property
    def asks_for_schema(self) -> bool:
        """Whether requests carry a response_format: one that was given, and that the server has not refused as a field."""
        return self._wire.form.schema is not SchemaForm.NONE

    def __repr__(self) -> str:
        return f"HttpEndpoint({self.name!r})"

    def prepare(self, headers: Mapping[str, str], now: Callable[[], float] | None, proxy: str | None) -> None:
        """Set the headers that never change and the wall clock; called once, before the first send."""
        self._fixed = dict(headers)
        self._now = now
        self._redact.add([*headers.values(), *self._address_secrets(), (urlsplit(proxy or "").password or "")])
        self._write_headers()

    async def send(self, request: Request) -> Reply | Failure:
        """Send once. Never raises but for cancellation."""
        wire = self._wire
        form, headers, generation = wire.plain_form if request.plain else wire.form, self._headers, self._key.generation
        body = b"".join((form.head, request.payload, b"}"))
        try:
            response = await self._transport.request(
                "POST", self._address.url, headers, body, request.timeout_s, request.idempotency_key
            )
        except TransportError as error:
            return self._shown(mapping.lost(error, self.name, fresh=not self.succeeded))
        if 200 <= response.status < 300:
            read = read_reply(response.body)
            result = read if type(read) is Reply else self._without_reply(response, headers)
            if form.likeliest is not None and isinstance(result, Reply):
                result = self._with_likeliest(result, response)
            if isinstance(result, Failure):
                return self._shown(result)
            self.succeeded = True
            limits = self._limits.glance(response.header, self._now)
            return result if limits is None else replace(result, limits=limits)
        failure = self._shown(await self._refused(response, form, headers, generation))
        limits = self._limits.read(response.header, self._now() if self._now is not None else None)
        return failure if limits is None else replace(failure, limits=limits)

    async def ask_beginnings(self, labels: Sequence[str]) -> dict[str, list[str]] | None:
        """The tokens that can begin each label, by the server's own tokenizer; None where it serves none.

        Costs nothing: nothing is generated. Also learns how many likeliest tokens the server gives. Never raises.
        """

        async def post(url: str, body: bytes) -> Response:
            return await self._transport.request("POST", url, self._headers, body, _TOKENIZE_S, None)

        urls = tokenizer_urls(self._address.url, self._address.suffix)
        try:
            async with asyncio.timeout(_TOKENIZE_ALL_S):
                found = await ask_beginnings(labels, self._wire.model, urls, post)
        except (TransportError, TimeoutError):
            found = None  # whoever sends next finds out more
        if found is None:
            return None
        self._wire.ask_for(found.most)
        return found.tokens

    async def capacity(self) -> Capacity | None:
        """What the server says that it is and holds; None where nobody answers yet. Takes a few seconds at most. Never raises."""
        return await self._survey.capacity()

    async def gauges(self) -> Gauges | None:
        """How the server is loaded now, where `capacity` has found a page that says it. Takes 3 s at most. Never raises."""
        return await self._survey.gauges()

    async def models(self) -> list[Any] | str:
        """The entries of the server's own list of models, asked for once; why none came, in a few words. Never raises."""
        page = await self._page(self._survey.site.models, _MODELS_S)
        if page is None:
            return "the endpoint does not answer"
        status, body = page
        if status in {404, 405}:
            return "the endpoint serves no list of its models"
        if status != 200:
            return f"the endpoint answers with HTTP {status} where its list of models is asked for"
        if len(body) > LARGEST_PAGE:
            return f"the endpoint's list of models is longer than {LARGEST_PAGE >> 20} MiB"
        try:
            return msgspec.json.decode(body, type=_Listed).data
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return "the endpoint sends no list of its models where it is asked for one"

    async def settle_priority(self, level: str | int | None) -> str | None:
        """Send `endpoint.priority` with the sign that this server wants, which it is asked for where a word is written.

        Returns a line for people where it cannot be sent. Never raises.
        """
        if level is None or isinstance(level, int):
            return None

        capacity = await self._survey.capacity()
        scheduling = scheduling_of(capacity.server if capacity is not None else "unknown", self._survey.sglang)
        for priority in priority_field(level, scheduling).values():
            self._wire.prioritise(priority)
        return unsent(self.name, level, scheduling)

    async def close(self) -> None:
        await self._transport.close()

    async def _page(self, url: str, seconds: float) -> Page | None:
        """Status and body of one of the server's own pages, asked for as requests are; None where none came."""
        try:
            async with asyncio.timeout(seconds + 1.0):
                response = await self._transport.request("GET", url, self._headers, b"", seconds, None)
        except (TransportError, TimeoutError):
            return None
        return response.status, response.body[: LARGEST_PAGE + 1]

    def _with_likeliest(self, reply: Reply, response: Response) -> Reply | Failure:
        likeliest = read_likeliest(response.body)
        if likeliest is not None:
            return replace(reply, likeliest=likeliest)
        if _says_no_token(reply):
            return reply
        kind = Kind.PROTOCOL if self.succeeded else Kind.MISCONFIGURED
        return Failure(kind, f"the reply holds no log-probabilities; {NO_LOGPROBS}", status=response.status, usage=reply.usage)

    def _without_reply(self, response: Response, headers: Mapping[str, str]) -> Reply | Failure:
        encoding = self._foreign_encoding(response)
        if encoding is not None:
            return self._other_encoding(response, encoding, headers)
        result = read_reply(response.body, response.header("content-type"))
        if isinstance(result, Reply):
            return result
        if isinstance(result, ServerError):
            return self._failure(response, mapping.inner_status(result), result)
        if result.html:
            said = read_error(response.body).message
            if self.succeeded:
                return Failure(Kind.PROTOCOL, f"{result.message}: {said}", status=response.status)
            message = mapping.in_doubt(f"{result.message} from {self.name}", said)
            return Failure(Kind.BAD_ENDPOINT, message, status=response.status)
        return self._broken(response, result)

    @staticmethod
    def _broken(response: Response, result: Broken) -> Failure:
        kind, sent = (Kind.CONNECTION, Sent.MAYBE) if result.cut else (Kind.PROTOCOL, Sent.YES)
        return Failure(kind, result.message, sent, response.status)

    async def _refused(self, response: Response, form: Form, headers: Mapping[str, str], generation: int) -> Failure:
        encoding = self._foreign_encoding(response)
        if encoding is not None:
            return self._other_encoding(response, encoding, headers)
        error = read_error(response.body)
        if 300 <= response.status < 400:
            error = ServerError(f"it redirects to {shown_url(response.header('location') or '')}")
        failure = self._failure(response, response.status, error)
        if response.status in (400, 422):
            before = self._wire.form
            change = self._wire.learn(form, error)
            if change is Change.MENDED:
                return replace(failure, kind=Kind.BAD_REQUEST, mended=True, learnt=self._wire.learnt(before))
            if change is Change.SCHEMA_REFUSED:
                message = f"{failure.message.rstrip('. ')}{self._wire.objections}"
                return replace(failure, kind=Kind.SCHEMA_REFUSED, message=message)
            if change is Change.LOGPROBS_REFUSED:
                return replace(failure, kind=Kind.MISCONFIGURED, message=f"{failure.message.rstrip('. ')}; {NO_LOGPROBS}")
        if response.status == 503 and self._wire.drops_priority(form, error):  # SGLang's way to say it
            return replace(failure, kind=Kind.BAD_REQUEST, wait_s=None, mended=True)
        if response.status == 401:
            if not self._key.headers() and not self._fixed:
                failure = replace(failure, message=f"{failure.message}; {NO_KEY}")
            return await self._renewed(failure, generation)
        return failure

    async def _renewed(self, failure: Failure, generation: int) -> Failure:
        try:
            changed = await self._key.renew(generation)
        except SpecError as error:
            return replace(failure, message=f"{failure.message}; and {error}")
        if changed:
            self._redact.add(self._key.secrets())
            self._write_headers()
        return replace(failure, mended=changed)

    def _failure(self, response: Response, status: int, error: ServerError) -> Failure:
        now = None if self._now is None else self._now()
        wait_s = retry_after.named_wait(response.header, error.raw, error.message, now)
        if wait_s is None and status == 429 and response.header("retry-after") is None:
            wait_s = retry_after.empty_bucket(response.header, now)
        at = mapping.Circumstances(self._address.host, self._wire.model, fresh=not self.succeeded)
        kind = mapping.kind_of(status, error, at, wait_s)
        return Failure(
            kind,
            mapping.describe(response.status, error, self.name, kind),
            mapping.sent_of(status),
            response.status,
            error.code or error.type,
            wait_s if kind in TRANSIENT else None,
        )

    @staticmethod
    def _foreign_encoding(response: Response) -> str | None:
        named = (response.header("content-encoding") or "").strip().lower()
        return None if named in ("", IDENTITY, "gzip", "x-gzip", "deflate") else named

    def _other_encoding(self, response: Response, encoding: str, headers: Mapping[str, str]) -> Failure:
        """Not asked for and not decoded: from now on none is asked for, and this one is sent again once."""
        asked = headers.get("Accept-Encoding")
        if self._encodings != IDENTITY:
            self._encodings = IDENTITY
            self._write_headers()
        message = f"HTTP {response.status} with a body in the encoding {encoding}, which was not asked for"
        return Failure(Kind.PROTOCOL, message, status=response.status, mended=asked != IDENTITY)

    def _write_headers(self) -> None:
        # A new mapping each time: transports keep the old one by identity.
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "User-Agent": "headrace",
            **self._fixed,
            **self._key.headers(),
            "Accept-Encoding": self._encodings,
        }

    def _shown(self, failure: Failure) -> Failure:
        """The failure with nothing in it that is secret. The server's code is its own text, so it is treated alike."""
        code = None if failure.code is None else self._redact(failure.code)
        return replace(failure, message=self._redact(failure.message), code=code)

    def _address_secrets(self) -> list[str]:
        secrets = self._key.secrets()
        for pair in self._address.query.split("&"):
            value = pair.partition("=")[2]
            secrets += [value, unquote(value)]
        if self._address.userinfo is not None:
            secrets += [self._address.userinfo, *self._address.userinfo.split(":", 1)]
        return secrets


def _says_no_token(reply: Reply) -> bool:
    """A reply that has no log-probabilities because it has no token of its own, which says nothing about the endpoint.

    It was filtered, refused or is empty; or its token is half a character (llama.cpp keeps none of such a token).
    """
    filtered = (reply.finish or "").lower().startswith("content_filter")
    return filtered or bool(reply.refusal) or not reply.content or "\ufffd" in reply.content
