"""The page that Prometheus scrapes while a run runs. Imports prometheus_client, so it is loaded only when it is asked for."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from itertools import accumulate

from headrace.errors import SpecError
from headrace.events import Progress
from headrace.observe.counts import SECONDS, Counts

try:
    from prometheus_client import CollectorRegistry, start_http_server
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, InfoMetricFamily, Metric
    from prometheus_client.registry import Collector
except ImportError as error:
    raise SpecError(
        "--metrics-port needs prometheus-client: pip install '.[metrics]'", key="--metrics-port", allowed="that package"
    ) from error

LOOPBACK = "127.0.0.1"
_BOUNDS = [*(str(bound) for bound in SECONDS), "+Inf"]


def address(text: str) -> tuple[str, int]:
    """Host and port of PORT or HOST:PORT, on loopback where no host is named. 0 is a free port. Raises SpecError."""
    host, colon, port = text.strip().rpartition(":")
    host = host.removeprefix("[").removesuffix("]") if colon else LOOPBACK
    if not host or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise SpecError(
            f"--metrics-port: found {text[:60]!a}; allowed: a port from 0 to 65535, or HOST:PORT",
            key="--metrics-port", found=f"{text[:60]!a}", allowed="0 to 65535, or HOST:PORT",
        )  # fmt: skip
    return host, int(port)


@contextlib.contextmanager
def served(counts: Counts, version: str, host: str, port: int) -> Iterator[str]:
    """Serve `counts` until left; yields the page's URL. Threads of its own answer. Raises SpecError where it cannot listen."""
    registry = CollectorRegistry()
    registry.register(Figures(counts, version))
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
    except OSError as error:
        why = error.strerror or str(error)
        raise SpecError(
            f"--metrics-port: {host}:{port} cannot be listened on ({why}); name another port, or 0 for a free one",
            key="--metrics-port", found=str(port), allowed="a free port",
        ) from error  # fmt: skip
    try:
        shown = f"[{host}]" if ":" in host else host
        yield f"http://{shown}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Figures(Collector):
    """The counts as metric families, made when somebody asks."""

    def __init__(self, counts: Counts, version: str) -> None:
        self._counts = counts
        self._version = version

    def collect(self) -> Iterable[Metric]:
        yield InfoMetricFamily("headrace", "The program that serves this page.", {"version": self._version})
        yield from self._requests()
        yield from self._endpoints()
        if self._counts.progress is not None:
            yield from _now(self._counts.progress)

    def _requests(self) -> Iterator[Metric]:
        requests = CounterMetricFamily(
            "headrace_requests", "Requests that came back or were given up; kind ok: the answer was accepted.",
            labels=["endpoint", "kind"],
        )  # fmt: skip
        retries = CounterMetricFamily("headrace_retries", "Requests whose unit is sent again.", labels=["endpoint"])
        tokens = CounterMetricFamily("headrace_tokens", "Tokens as the server counted them.", labels=["endpoint", "direction"])
        cached = CounterMetricFamily(
            "headrace_cached_tokens", "Input tokens that the server had in its prefix cache.", labels=["endpoint"]
        )
        seconds = HistogramMetricFamily(
            "headrace_request_duration_seconds", "From send to reply, failed requests too.", labels=["endpoint"]
        )
        for endpoint, counted in list(self._counts.requests.items()):
            for kind, count in list(counted.kinds.items()):
                requests.add_metric([endpoint, kind], count)
            retries.add_metric([endpoint], counted.retries)
            tokens.add_metric([endpoint, "input"], counted.prompt)
            tokens.add_metric([endpoint, "output"], counted.completion)
            cached.add_metric([endpoint], counted.cached)
            below = accumulate(list(counted.buckets))
            seconds.add_metric([endpoint], list(zip(_BOUNDS, map(float, below), strict=True)), counted.seconds)
        return iter((requests, retries, tokens, cached, seconds))

    def _endpoints(self) -> Iterator[Metric]:
        pauses = CounterMetricFamily("headrace_endpoint_pauses", "Pauses of an endpoint as a whole.", labels=["endpoint"])
        for endpoint, count in list(self._counts.pauses.items()):
            pauses.add_metric([endpoint], count)
        up = GaugeMetricFamily("headrace_endpoint_up", "0: held to be down, or not asked any more.", labels=["endpoint"])
        for endpoint, is_up in list(self._counts.is_up.items()):
            up.add_metric([endpoint], float(is_up))
        return iter((pauses, up))


def _now(progress: Progress) -> Iterator[Metric]:
    """The newest snapshot, of the whole run and not of this process alone where it speaks of units and of cost."""
    units = GaugeMetricFamily("headrace_units", "Distinct requests and rejected records by status.", labels=["status"])
    by_status = {
        "done": progress.done, "failed": progress.failed, "quarantined": progress.quarantined, "rejected": progress.rejected
    }  # fmt: skip
    for status, count in {**by_status, "open": max(progress.total - sum(by_status.values()), 0)}.items():
        units.add_metric([status], count)
    yield units
    gauges = [
        ("headrace_in_flight", "Requests in flight.", progress.in_flight),
        ("headrace_window", "Requests that may be in flight, all endpoints together.", progress.window),
        ("headrace_waiting", "Units that wait for their next try.", progress.waiting),
        ("headrace_oldest_in_flight_seconds", "Age of the oldest request in flight.", progress.oldest_in_flight_s),
        ("headrace_reading", "1 while the input is still read, and open units may grow.", int(progress.reading)),
        ("headrace_paused", "1 while no endpoint is asked.", int(progress.paused_for_s is not None)),
    ]
    if progress.spent is not None:
        gauges.append(("headrace_cost_usd", "Money spent by the whole run, as far as it is known.", progress.spent))
    for name, about, value in gauges:
        yield GaugeMetricFamily(name, about, value=value)
