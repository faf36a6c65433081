"""Metrics and a span for each request, sent to an OpenTelemetry collector. Loaded only when it is asked for.

Names are those of the semantic conventions for generative AI clients. Where the collector is, the standard variables say
(OTEL_EXPORTER_OTLP_ENDPOINT and its kin; by default http://localhost:4318). What prompts and answers hold is not sent.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping
from urllib.parse import urlsplit

from msgspec import Struct

from headrace.errors import SpecError
from headrace.events import Event, Tried
from headrace.observe.text import printable

try:
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.trace import SpanKind, Status, StatusCode
except ImportError as error:
    raise SpecError("--otel needs OpenTelemetry: pip install '.[otel]'", key="--otel", allowed="that package") from error

OPERATIONS = {"chat": "chat", "completions": "text_completion"}
# As the conventions advise for seconds of an operation and tokens of one.
_SECONDS = [0.01 * 2**power for power in range(14)]
_TOKENS = [4.0**power for power in range(14)]
_EVERY_MS = 10_000
_TIMEOUT_S = 3  # of one export: a collector that is gone must not keep a run from ending
_FLUSH_MS = 3_000
_COMPLAINT = 160


class Asked(Struct, frozen=True):
    """What a run asks for, the same in all of its requests."""

    model: str
    route: str


@contextlib.contextmanager
def exported(
    asked: Asked, version: str, wall_now: Callable[[], float], on_lost: Callable[[str], None]
) -> Iterator[Spans]:  # fmt: skip
    """Send what an observer is told until left, then what is left of it, for a few seconds at most. Never raises for a collector
    that is not there: what cannot be sent is lost, and `on_lost` is told so in the end.
    """
    complaints = _Complaints()
    _listen_to_exporters(complaints)
    resource = Resource.create({"service.name": "headrace", "service.version": version})
    tracing = TracerProvider(resource=resource, shutdown_on_exit=False)
    tracing.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(timeout=_TIMEOUT_S)))
    reader = PeriodicExportingMetricReader(
        OTLPMetricExporter(timeout=_TIMEOUT_S), export_interval_millis=_EVERY_MS, export_timeout_millis=1000 * _TIMEOUT_S
    )
    metering = MeterProvider(resource=resource, metric_readers=[reader], shutdown_on_exit=False)
    try:
        yield Spans(asked, tracing, metering, wall_now)
    finally:
        # Not shut down: that would wait for whatever an exporter still tries. Its threads are daemons.
        tracing.force_flush(_FLUSH_MS)
        metering.force_flush(_FLUSH_MS)
        if complaints.first is not None:
            on_lost(f"--otel: not all could be delivered ({printable(complaints.first, _COMPLAINT)}).")


class _Complaints(logging.Handler):
    """Keeps the first thing that the exporters complain of."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.first: str | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if self.first is None:
            self.first = record.getMessage()


def _listen_to_exporters(complaints: _Complaints) -> None:
    """Of a collector that is not there the exporters log a traceback with each try: nobody shall see those."""
    log = logging.getLogger("opentelemetry")
    log.propagate = False
    log.handlers = [complaints]


class Spans:
    """An Observer: a span and two measurements for each request that came back or was given up."""

    def __init__(
        self, asked: Asked, tracing: TracerProvider, metering: MeterProvider, wall_now: Callable[[], float]
    ) -> None:  # fmt: skip
        self._tracer = tracing.get_tracer("headrace")
        meter = metering.get_meter("headrace")
        self._duration = meter.create_histogram(
            "gen_ai.client.operation.duration", "s", "From send to reply.", explicit_bucket_boundaries_advisory=_SECONDS
        )
        self._usage = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Tokens as the server counted them.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        operation = OPERATIONS.get(asked.route, asked.route)
        self._name = f"{operation} {asked.model}"
        self._common = {"gen_ai.operation.name": operation, "gen_ai.provider.name": "openai", "gen_ai.request.model": asked.model}
        self._of_endpoint: dict[str, dict[str, str | int]] = {}
        self._wall_now = wall_now

    def __call__(self, event: Event) -> None:
        if not isinstance(event, Tried):
            return
        attributes = self._of_endpoint.get(event.endpoint)
        if attributes is None:
            attributes = self._of_endpoint[event.endpoint] = {**self._common, **_server(event.endpoint)}
        if event.kind is not None:
            attributes = {**attributes, "error.type": str(event.kind)}
        self._duration.record(event.seconds, attributes)
        for direction, count in (("input", event.prompt), ("output", event.completion)):
            if count:
                self._usage.record(count, {**attributes, "gen_ai.token.type": direction})
        self._trace(event, attributes)

    def _trace(self, event: Tried, attributes: Mapping[str, str | int]) -> None:
        ended_ns = int(self._wall_now() * 1e9)
        span = self._tracer.start_span(
            self._name, kind=SpanKind.CLIENT, start_time=ended_ns - int(event.seconds * 1e9),
            attributes={
                **attributes, "gen_ai.usage.input_tokens": event.prompt, "gen_ai.usage.output_tokens": event.completion,
                "headrace.sent_again": event.goes_on,
            },
        )  # fmt: skip
        if event.kind is not None:
            span.set_status(Status(StatusCode.ERROR))
        span.end(ended_ns)


def _server(endpoint: str) -> dict[str, str | int]:
    """Host and port of an endpoint's name, where it is an address."""
    try:
        parts = urlsplit(endpoint)
        host, port = parts.hostname, parts.port
    except ValueError:
        return {}
    if host is None:
        return {}
    return {"server.address": host, "server.port": port or (443 if parts.scheme == "https" else 80)}
