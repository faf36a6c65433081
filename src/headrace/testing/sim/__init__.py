"""The simulated endpoint: a real HTTP server on loopback that obeys laws, for tests and for rehearsals."""

from __future__ import annotations

from headrace.testing.sim.options import SimOptions
from headrace.testing.sim.script import Rule, read_script, read_table
from headrace.testing.sim.server import SimServer, run_sim

__all__ = ["Rule", "SimOptions", "SimServer", "read_script", "read_table", "run_sim"]
