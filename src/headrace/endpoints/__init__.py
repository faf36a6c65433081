"""Who answers: OpenAI-compatible servers behind HTTP."""

from __future__ import annotations

from headrace.endpoints.http import HttpEndpoint
from headrace.endpoints.open import open_endpoint
from headrace.endpoints.redact import Redactor, shown_url
from headrace.endpoints.transport import Limits, Peer, Reason, Response, Transport, TransportError, open_transport

__all__ = [
    "HttpEndpoint",
    "Limits",
    "Peer",
    "Reason",
    "Redactor",
    "Response",
    "Transport",
    "TransportError",
    "open_endpoint",
    "open_transport",
    "shown_url",
]
