"""What a request gets, decided when it arrives: the plan that the connection then carries out in time."""

from __future__ import annotations

import hmac
import math
from collections.abc import Callable
from typing import Any

import orjson

from headrace.testing.batching import Slots, batching_of
from headrace.testing.laws import Allowance, Fault, PrefixCache, fault, prefixes_of, service_s, tokens
from headrace.testing.load import Load, owner_of, page_of
from headrace.testing.others import Others
from headrace.testing.replies import Drawn, Prompt, UnansweredError, draw, likeliest
from headrace.testing.sim.asking import RefusedError, logprobs_of, longest_answer, parsed, priority_of, prompt_of, schema_of
from headrace.testing.sim.bodies import PAGE, Plan, completion, error_body
from headrace.testing.sim.options import SimOptions
from headrace.testing.sim.script import Rule, Script
from headrace.testing.sim.stats import Stats
from headrace.testing.sim.wire import HttpRequest
from headrace.values import Capacity, Gauges

ROUTES = {"/v1/chat/completions": True, "/v1/completions": False}
UNCOUNTED = frozenset({"/stats/reset", "/tokenize", "/detokenize"})  # POSTs that ask for no answer; no tokenizer is served


class Service:
    """The simulated endpoint without its sockets. `clock` gives seconds that only go forward."""

    def __init__(self, options: SimOptions, stats: Stats, clock: Callable[[], float]) -> None:
        self.options = options
        self.stats = stats
        self._clock = clock
        self._limited = bool(options.requests_per_minute or options.tokens_per_minute)
        self._authorization = f"Bearer {options.api_key}".encode() if options.api_key else None
        self._tokens_in_flight = 0
        self._tariff = options.tariff()
        self.slots = Slots(lambda: self.scaled(options.slots))
        self.batching = batching_of(options, self.scaled) if options.kv_tokens else None
        self.others = Others(options, self)
        self._load = Load(options, self.slots, self.batching, self.scaled)
        self._start()

    def restart(self) -> None:
        """Be as just started: counts, script, limits, cache and prompts seen. What is in flight stays so."""
        self.stats.reset()
        self._start()

    def _start(self) -> None:
        options = self.options
        self._script = Script(options.script) if options.script else None
        self._requests = Allowance(options.requests_per_minute)
        self._tokens = Allowance(options.tokens_per_minute)
        self._cache = PrefixCache(options.cache_blocks)
        self._first: float | None = None

    def scaled(self, bound: int) -> int:
        """A bound as the law of changing capacity has it now."""
        return self.options.scaled(bound, 0.0 if self._first is None else self._clock() - self._first)

    def plan(self, request: HttpRequest) -> Plan:
        """Decide what a POST gets, and count it. The caller has counted it as in flight already."""
        now = self._clock()
        if self._first is None:
            self._first = now
        self.others.start()
        self.stats.requests += 1
        key = request.headers.get(b"idempotency-key")
        if key:
            self.stats.keyed(key)
        plan = Plan(number=self.stats.requests)
        try:
            self._decide(plan, request, now - self._first)
        except RefusedError as refused:
            plan.drawn = None
            plan.status = refused.status
            plan.body = error_body(refused)
            if refused.status in (429, 503) and "retry-after" not in plan.headers and self.options.retry_after_s is not None:
                plan.headers["retry-after"] = f"{self.options.retry_after_s:g}"
        if self._limited:
            plan.headers.update(
                self._requests.headers(now - self._first, "requests") | self._tokens.headers(now - self._first, "tokens")
            )
        return plan

    def work(self, plan: Plan) -> tuple[int, float, float]:
        """What an answer takes, decided when its service begins: cached tokens, seconds of prefill and of decoding."""
        assert plan.prompt is not None
        assert plan.drawn is not None
        plan.prefixes = prefixes_of(plan.prompt.text)
        cached = min(self._cache.cached_tokens(plan.prefixes), plan.prompt.tokens)
        fresh = plan.prompt.tokens - cached
        prefill, decode = service_s(self.options, plan.prompt.key, fresh_tokens=fresh, answer_tokens=plan.drawn.tokens)
        plan.timing = (prefill, decode) if self.options.style == "llama.cpp" else None
        return cached, prefill, decode

    def computed(self, plan: Plan) -> None:
        """The prompt's prefill has ended: its prefixes are cached from now on."""
        self._cache.keep(plan.prefixes)

    def finish(self, plan: Plan, cached: int) -> None:
        """Write the answer's body and count its tokens."""
        assert plan.prompt is not None
        assert plan.drawn is not None
        self.stats.prompt_tokens += plan.prompt.tokens
        self.stats.completion_tokens += plan.drawn.tokens
        self.stats.cached_tokens += cached
        if self._tariff is not None:
            self.stats.bill += self._tariff.of(plan.prompt.tokens, plan.drawn.tokens, cached) or 0.0
        plan.body = completion(plan, cached)

    def enter(self, plan: Plan) -> None:
        """The request queues for a slot or is served: its prompt counts as in flight until `leave`."""
        assert plan.prompt is not None
        self._tokens_in_flight += plan.prompt.tokens

    def leave(self, plan: Plan) -> None:
        assert plan.prompt is not None
        self._tokens_in_flight -= plan.prompt.tokens

    def side(self, request: HttpRequest) -> tuple[int, bytes]:
        """Status and body of whatever is no inference request: /health, /stats, /v1/models, and what the style serves."""
        match request.method, request.path:
            case "GET", "/health":
                return 200, b'{"status":"ok"}'
            case "GET", "/stats":
                return 200, orjson.dumps(self.stats.document(prompts="prompts=1" in request.query.split("&")))
            case "POST", "/stats/reset":
                self.restart()
                return 200, b"{}"
            case "GET", "/v1/models":
                if not self._authorized(request):
                    return 401, error_body(RefusedError(401, "Incorrect API key provided.", "invalid_api_key"))
                return 200, self._models()
            case "GET", path if self.options.style != "none":
                page = page_of(path, self._capacity(), self._gauges())
                if page is not None and not self._authorized(request):
                    return 401, error_body(RefusedError(401, "Incorrect API key provided.", "invalid_api_key"))
                if page is not None:
                    return 200, page
        status = 405 if request.path in {*ROUTES, "/v1/models", "/stats", "/stats/reset", "/health"} else 404
        return status, error_body(RefusedError(status, f"{request.method} {request.path[:200]} is not served", "unknown_url"))

    def _authorized(self, request: HttpRequest) -> bool:
        given = request.headers.get(b"authorization", b"")
        return self._authorization is None or hmac.compare_digest(given, self._authorization)

    def _capacity(self) -> Capacity:
        return self._load.capacity((self.options.model or "sim",), self.options.context or None)

    def _gauges(self) -> Gauges | None:
        stats = self.stats
        return self._load.gauges(stats.in_flight, stats.prompt_tokens, stats.cached_tokens)

    def _models(self) -> bytes:
        owner = owner_of(self.options.style)
        entry: dict[str, Any] = {"id": self.options.model or "sim", "object": "model", "created": 0, "owned_by": owner}
        if self.options.context:
            entry["max_model_len"] = self.options.context
        tariff = self._tariff
        if tariff is not None:
            told = {"prompt": tariff.input, "completion": tariff.output, "input_cache_read": tariff.cached_input}
            entry["pricing"] = {name: f"{price:.12f}" for name, price in told.items() if price is not None}
        return orjson.dumps({"object": "list", "data": [entry]})

    def _decide(self, plan: Plan, request: HttpRequest, now: float) -> None:
        """`now` in seconds since the first request. Raises RefusedError."""
        options = self.options
        if not self._authorized(request):
            raise RefusedError(401, "Incorrect API key provided.", "invalid_api_key")
        chat = ROUTES.get(request.path)
        if chat is None:
            raise RefusedError(404, f"Unknown request URL: {request.method} {request.path[:200]}", "unknown_url")
        body = parsed(request.body)
        plan.chat = chat
        plan.model = str(body.get("model") or options.model or "sim")[:200]
        prompt = prompt_of(body, chat=chat)
        plan.prompt = prompt = prompt._replace(tokens=options.read(prompt.tokens))
        before = self.stats.came(prompt.key)
        rule = self._script.pick(plan.number, now, prompt.text) if self._script is not None else None
        if rule is not None:
            plan.delay_s, plan.action = rule.delay_s, rule.action
            plan.headers.update({name.lower(): value for name, value in rule.headers.items()})
            if self._obeyed(plan, rule):
                return
        limit = longest_answer(body, prompt, options)
        self.stats.ranked(priority_of(body, options))
        count = logprobs_of(body, options, chat=chat)
        try:
            plan.drawn = draw(options, prompt, schema_of(body, options), limit)
            if count:
                plan.likeliest = likeliest(options, prompt, count, spaced=not chat)
        except UnansweredError as error:
            raise RefusedError(400, f"Simulated endpoint: {error}", "unanswerable") from None
        if rule is not None:
            plan.drawn = _overruled(plan.drawn, rule)
        if body.get("stream") is True and plan.action is None:
            plan.action = "sse"
        self._admit(plan, prompt, now)
        self._chance(plan, prompt, before)

    def _obeyed(self, plan: Plan, rule: Rule) -> bool:
        """Whether the rule says the whole reply."""
        body = rule.body_bytes()
        if rule.action in ("reset", "hang", "close", "html", "empty"):
            plan.status = rule.status or 200
            plan.body = (body or PAGE) if rule.action == "html" else b""
            return True
        if body is not None:
            plan.status = rule.status or 200
            plan.body = body
            return True
        if rule.status not in (None, 200):
            assert rule.status is not None
            raise RefusedError(rule.status, f"Scripted error {rule.status}.", _CODES.get(rule.status))
        return False

    def _admit(self, plan: Plan, prompt: Prompt, now: float) -> None:
        options, stats = self.options, self.stats
        amount = prompt.tokens + (plan.drawn.tokens if plan.drawn is not None else 0)
        if self._limited:
            for allowance, what, much in ((self._requests, "requests", 1), (self._tokens, "tokens", amount)):
                wait = allowance.wait_s(now, much)
                if wait:
                    plan.headers["retry-after"] = f"{options.retry_after_s or min(3600, math.ceil(wait)):g}"
                    text = f"Rate limit reached for {what} per min. Limit: {allowance.per_minute:g} / min."
                    text += f" Please try again in {min(wait, 3600):.3f}s."
                    raise RefusedError(429, text, "rate_limit_exceeded")
        most, most_tokens = self.scaled(options.max_in_flight), self.scaled(options.max_in_flight_tokens)
        if (most and stats.in_flight > most) or (most_tokens and self._tokens_in_flight + prompt.tokens > most_tokens):
            raise RefusedError(options.overload_status, "The server is busy: too many requests at once.", "overloaded")
        if self._limited:
            self._requests.take(now, 1)
            self._tokens.take(now, amount)

    def _chance(self, plan: Plan, prompt: Prompt, before: int) -> None:
        chance = fault(self.options, prompt.key, before)
        if chance is None:
            return
        plan.delay_s += self.options.latency_ms / 1000
        if chance is Fault.ERROR:
            raise RefusedError(500, "The server had an error while processing your request.", "internal_error")
        if chance is Fault.OVERLOAD:
            raise RefusedError(503, "The engine is currently overloaded, please try again later.", "overloaded")
        plan.drawn = None
        plan.action = "hang" if chance is Fault.HANG else "reset"


_CODES = {400: "invalid_request_error", 401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}


def _overruled(drawn: Drawn, rule: Rule) -> Drawn:
    content, count = (drawn.content, drawn.tokens) if rule.content is None else (rule.content, tokens(rule.content))
    return Drawn(content, rule.finish or drawn.finish, count)
