"""Spans and metrics as a collector gets them, over real HTTP; and one that is not there."""

from __future__ import annotations

import gzip
import http.server
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

LOADED = """
import sys
from headrace.cli.app import invoke
code = invoke(["run", "job.toml", "--quiet"])
print(code, any(name.startswith("opentelemetry") for name in sys.modules))
"""


class Collector(http.server.BaseHTTPRequestHandler):
    got: list[tuple[str, bytes]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.got.append((self.path, gzip.decompress(body) if self.headers.get("content-encoding") == "gzip" else body))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """A test says nothing."""


@contextmanager
def collector() -> Iterator[tuple[str, list[tuple[str, bytes]]]]:
    """Its address, and what it gets."""
    got: list[tuple[str, bytes]] = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Collector,), {"got": got}))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def values(attributes: Any) -> dict[str, Any]:
    return {one.key: getattr(one.value, one.value.WhichOneof("value")) for one in attributes}


@pytest.mark.slow
def test_each_request_is_a_span_and_is_measured(mill):
    mill.put_texts(40)
    script = [{"match": "row 1.", "times": 1, "status": 500, "body": {"error": {"message": "no"}}}]
    with mill.sim(script=script) as sim, collector() as (address, got):
        mill.put_job(sim.url, model={"name": "sim"})
        assert mill.run("--otel", env={"OTEL_EXPORTER_OTLP_ENDPOINT": address}).code == 0
        port = int(sim.url.rpartition(":")[2].partition("/")[0])
    spans = []
    for path, body in got:
        if path == "/v1/traces":
            request = ExportTraceServiceRequest.FromString(body)
            spans += [span for of in request.resource_spans for scope in of.scope_spans for span in scope.spans]
            assert values(request.resource_spans[0].resource.attributes)["service.name"] == "headrace"
    assert Counter(span.name for span in spans) == {"chat sim": 41}
    assert len({span.span_id for span in spans}) == 41
    assert all(0 <= span.end_time_unix_nano - span.start_time_unix_nano < 60e9 for span in spans)
    (failed,) = [values(span.attributes) for span in spans if span.status.code == 2]
    assert failed.items() >= {"error.type": "server_error", "headrace.sent_again": True}.items()
    done = values(next(span for span in spans if span.status.code == 0).attributes)
    assert done.items() >= {
        "gen_ai.operation.name": "chat", "gen_ai.request.model": "sim", "server.address": "127.0.0.1", "server.port": port
    }.items()  # fmt: skip
    assert done["gen_ai.usage.input_tokens"] > 0
    assert not any("row" in str(span) for span in spans)
    counts: Counter[str] = Counter()
    for path, body in got:
        if path == "/v1/metrics":
            for of in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                for metric in (one for scope in of.scope_metrics for one in scope.metrics):
                    counts[metric.name] = max(counts[metric.name], sum(point.count for point in metric.histogram.data_points))
    assert counts == {"gen_ai.client.operation.duration": 41, "gen_ai.client.token.usage": 80}


@pytest.mark.slow
def test_a_collector_that_is_not_there_costs_a_run_nothing_but_its_figures(mill):
    mill.put_texts(10)
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        gone = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{nobody.getsockname()[1]}"}
        with mill.sim() as sim:
            mill.put_job(sim.url, model={"name": "sim"})
            told = mill.run("--otel", env=gone)
    assert told.code == 0
    assert "Traceback" not in told.err
    assert "opentelemetry" not in told.err.lower()
    assert told.err.count("warning: --otel: not all could be delivered (") == 1


def test_without_the_flag_nothing_of_it_is_loaded(mill):
    mill.put_texts(1)
    with mill.sim() as sim:
        mill.put_job(sim.url, model={"name": "sim"})
        ran = subprocess.run(
            [sys.executable, "-c", LOADED], cwd=mill.folder, env=mill.env, capture_output=True, text=True, check=True
        )
    assert ran.stdout == "0 False\n"
