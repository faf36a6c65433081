"""Which pages are asked for, of whom, how often; and whatever goes wrong is no error."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from tests.unit.endpoints import server_pages as pages

from headrace.endpoints.survey import LARGEST_PAGE, Page, Site, Survey
from headrace.endpoints.transport import Reason, Response, TransportError
from headrace.testing.contracts.endpoint import ScriptedTransport, job, open_scripted
from headrace.values import Capacity, Gauges, Sent

URL = "http://h:8000/v1/chat/completions"
CHAT = "/chat/completions"


class Server:
    """Pages by path; anything else is a 404, and nobody answers while `is_down`."""

    def __init__(self, served: Mapping[str, bytes], url: str = URL, status: int = 404) -> None:
        self.served = {**served}
        self.asked: list[str] = []
        self.is_down = False
        self.status = status
        self.survey = Survey(Site(url, CHAT, "m"), self.get)
        self.root = url.partition("/v1")[0]

    async def get(self, url: str, seconds: float) -> Page | None:
        assert 0 < seconds < 10
        assert url.startswith(self.root)
        path = url.removeprefix(self.root)
        self.asked.append(path)
        if self.is_down:
            return None
        return (200, self.served[path]) if path in self.served else (self.status, b"<html>not here</html>")

    def capacity(self) -> Capacity | None:
        return asyncio.run(self.survey.capacity())

    def gauges(self) -> Gauges | None:
        return asyncio.run(self.survey.gauges())


def known(served: Mapping[str, bytes]) -> tuple[str, int | None, int | None, tuple[str, ...]]:
    capacity = Server(served).capacity()
    assert capacity is not None
    return capacity.server, capacity.requests, capacity.tokens, capacity.gauges


def test_llama_cpp() -> None:
    served = {
        "/v1/models": pages.LLAMA_MODELS,
        "/metrics": pages.LLAMA_METRICS,
        "/props": pages.LLAMA_PROPS,
        "/slots": pages.LLAMA_SLOTS,
    }
    assert known(served) == ("llama.cpp", 8, 32_768, ("running", "waiting"))


def test_llama_cpp_without_metrics_tells_its_slots() -> None:
    served = {"/v1/models": pages.LLAMA_MODELS, "/props": pages.LLAMA_PROPS, "/slots": pages.LLAMA_SLOTS}
    server = Server(served)
    capacity = server.capacity()
    assert capacity is not None
    assert capacity.gauges == ("running",)
    server.asked.clear()
    assert server.gauges() == Gauges(running=1)
    assert server.asked == ["/slots"]


def test_vllm_is_asked_for_two_pages_in_all() -> None:
    server = Server({"/v1/models": pages.VLLM_MODELS, "/metrics": pages.VLLM_METRICS})
    capacity = server.capacity()
    assert capacity is not None
    assert (capacity.server, capacity.tokens, capacity.context) == ("vllm", 204_800, 8192)
    assert sorted(server.asked) == ["/metrics", "/v1/models"]
    gauges = server.gauges()
    assert gauges is not None
    assert gauges.preemptions == 8


def test_sglang_with_metrics_and_without() -> None:
    served = {"/v1/models": pages.SGLANG_MODELS, "/server_info": pages.SGLANG_INFO, "/v1/loads?include=core": pages.SGLANG_LOADS}
    assert known(served) == ("sglang", 256, 40_480, ("running", "waiting"))
    with_metrics = known({**served, "/metrics": pages.SGLANG_METRICS})
    assert with_metrics[3] == ("running", "waiting", "kv_used", "preemptions", "prefix_hits", "prefix_queries")


def test_an_older_sglang_serves_its_info_and_its_load_elsewhere() -> None:
    served = {"/v1/models": pages.SGLANG_MODELS, "/get_server_info": pages.SGLANG_INFO, "/get_load": pages.SGLANG_OLD_LOADS}
    assert known(served) == ("sglang", 256, 40_480, ("running", "waiting"))


def test_the_others() -> None:
    assert known({"/metrics": pages.TGI_METRICS, "/info": pages.TGI_INFO}) == ("tgi", 128, 16_000, ("running", "waiting"))
    assert known({"/info": pages.TGI_INFO}) == ("tgi", 128, None, ())
    assert known({"/metrics": pages.TEI_METRICS, "/info": pages.TEI_INFO}) == ("tei", 512, None, ("waiting",))
    trtllm = {
        "/v1/models": pages.TRTLLM_MODELS,
        "/metrics": pages.TRTLLM_JSON_METRICS,
        "/prometheus/metrics": pages.TRTLLM_METRICS,
    }
    assert known(trtllm) == ("tensorrt-llm", None, None, ("running", "waiting", "kv_used"))
    assert known({"/metrics": pages.TRTLLM_METRICS})[0] == "tensorrt-llm"
    assert known({"/v1/models": pages.OLLAMA_MODELS}) == ("ollama", None, None, ())
    assert known({"/api/version": b'{"version":"0.20.1"}'})[0] == "ollama"
    assert known({"/v1/models": pages.OPENAI_MODELS}) == ("openai", None, None, ())
    assert known({"/props": pages.LLAMA_PROPS})[0] == "llama.cpp"
    assert known({"/server_info": pages.SGLANG_INFO})[0] == "sglang"
    assert known({"/v1/models": b'{"data":[{"id":"x","owned_by":"me"}]}'}) == ("unknown", None, None, ())


def test_a_server_that_says_nothing_is_asked_for_its_load_no_more() -> None:
    server = Server({})
    capacity = server.capacity()
    assert capacity is not None
    assert capacity.server == "unknown"
    server.asked.clear()
    assert server.gauges() is None
    assert server.capacity() is capacity
    assert server.asked == []


def test_before_anybody_has_answered_it_is_asked_again() -> None:
    server = Server({"/v1/models": pages.VLLM_MODELS, "/metrics": pages.VLLM_METRICS})
    server.is_down = True
    assert server.capacity() is None
    server.is_down = False
    assert server.capacity() is not None


def test_a_server_that_is_still_loading_is_asked_again() -> None:
    server = Server({}, status=503)
    assert server.capacity() is None
    server.served = {"/v1/models": pages.VLLM_MODELS}
    assert server.capacity() == Capacity("vllm", context=8192, models=("m",))


def test_somebodys_service_on_the_internet_is_asked_once() -> None:
    server = Server({}, url="https://api.example.com/v1/chat/completions", status=500)
    server.capacity()
    asked = len(server.asked)
    assert len(set(server.asked)) == asked
    server.capacity()
    assert len(server.asked) == asked


@pytest.mark.parametrize(
    ("url", "public"),
    [
        ("https://api.example.com/v1", True),
        ("https://8.8.8.8/v1", True),
        ("https://[2606:4700::1111]/v1", True),
        ("http://10.1.2.3:8000/v1", False),
        ("http://[fd00::1]:8000/v1", False),
        ("http://127.0.0.1:1/v1", False),
        ("http://localhost:1/v1", False),
        ("http://gpu7:8000/v1", False),
        ("http://vllm.models.svc:8000/v1", False),
        ("http://[::1]:1/v1", False),
    ],
)
def test_who_is_public(url: str, public: bool) -> None:
    assert Site(url + CHAT, CHAT, "m").is_public is public


def test_a_page_that_fails_says_nothing_and_the_next_one_may() -> None:
    server = Server({"/v1/models": pages.VLLM_MODELS, "/metrics": pages.VLLM_METRICS})
    server.capacity()
    for page in (b"", b"x" * (LARGEST_PAGE + 1), b"<html>"):
        server.served["/metrics"] = page
        assert server.gauges() is None
    server.is_down = True
    assert server.gauges() is None
    server.is_down = False
    server.served["/metrics"] = pages.VLLM_METRICS
    assert server.gauges() is not None


def test_after_its_load_was_not_said_a_server_is_asked_anew_what_it_holds() -> None:
    server = Server({"/v1/models": pages.LLAMA_MODELS, "/metrics": pages.LLAMA_METRICS, "/props": pages.LLAMA_PROPS})
    server.capacity()
    served, server.served = server.served, {}
    assert server.gauges() is None
    server.served = {**served, "/props": pages.LLAMA_PROPS.replace(b'"total_slots":8', b'"total_slots":2')}
    capacity = server.capacity()
    assert capacity is not None
    assert capacity.requests == 2
    asked = len(server.asked)
    assert server.capacity() is capacity
    assert len(server.asked) == asked


def test_pages_stand_beside_v1_and_carry_the_query() -> None:
    site = Site("https://h/a/v1/chat/completions?key=x", CHAT, "m")
    assert site.page("/metrics") == "https://h/a/metrics?key=x"
    assert site.page("/v1/loads?include=core") == "https://h/a/v1/loads?include=core&key=x"
    assert site.models == "https://h/a/v1/models?key=x"
    assert Site("http://h/chat/completions", CHAT, "m").page("/metrics") == "http://h/metrics"


# Through the endpoint


class Asked(ScriptedTransport):
    """Answers GET by path, and remembers the headers."""

    def __init__(self, served: Mapping[str, bytes]) -> None:
        super().__init__()
        self.served = served
        self.gets: list[tuple[str, str | None]] = []

    async def request(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes, total_s: float, idempotency_key: str | None
    ) -> Response:
        assert (method, body, idempotency_key) == ("GET", b"", None)
        self.gets.append((url, headers.get("Authorization")))
        if not self.served:
            raise TransportError(Reason.REFUSED, Sent.NO, "connection refused")
        path = url.removeprefix("http://127.0.0.1:9")
        found = self.served.get(path)
        return Response(200 if found is not None else 404, found or b"", {}.get)


def test_the_endpoint_asks_with_its_key_and_nothing_of_it_counts_as_a_success() -> None:
    transport = Asked({"/v1/models": pages.VLLM_MODELS, "/metrics": pages.VLLM_METRICS})
    endpoint = open_scripted(transport, job(api_key_env="K"), environ={"K": "SECRET-TEST-123"})

    async def both() -> tuple[Capacity | None, Gauges | None]:
        return await endpoint.capacity(), await endpoint.gauges()

    capacity, gauges = asyncio.run(both())
    assert capacity is not None
    assert gauges is not None
    assert (capacity.tokens, gauges.running) == (204_800, 23)
    assert {key for _, key in transport.gets} == {"Bearer SECRET-TEST-123"}
    assert not endpoint.succeeded


def test_an_endpoint_that_nobody_serves_says_nothing() -> None:
    endpoint = open_scripted(Asked({}))
    assert asyncio.run(endpoint.capacity()) is None
    assert asyncio.run(endpoint.gauges()) is None
