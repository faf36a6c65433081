"""The public test kit: doubles, virtual time and contract suites for whatever is built on headrace's seams."""

from __future__ import annotations

from headrace.testing.fake_endpoint import NEVER, FakeEndpoint, by_unit, fails_first
from headrace.testing.laws import Laws
from headrace.testing.virtual_loop import Deadlock, RunawayError, ThreadRefusedError, VirtualLoop, run_virtual

__all__ = [
    "NEVER",
    "Deadlock",
    "FakeEndpoint",
    "Laws",
    "RunawayError",
    "ThreadRefusedError",
    "VirtualLoop",
    "by_unit",
    "fails_first",
    "run_virtual",
]
