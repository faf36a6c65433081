"""Runs tests in a process of their own, as the code is or with a fix undone in it from the first import on."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from soak.reverts import Revert

ROOT = Path(__file__).resolve().parent.parent
PATIENCE_S = 300
ASSERTIONS = frozenset({"AssertionError", "Failed"})  # the second is what pytest raises where an error was expected and none came


class Ended(NamedTuple):
    """How a test ended: `when` is the phase, `error` the error's name."""

    node: str
    when: str
    outcome: str
    error: str | None


def passing(tests: Sequence[str]) -> dict[str, str]:
    """What is wrong with those of these tests that do not pass as the code is."""
    ended = _run(tests, None)
    wrong: dict[str, str] = {}
    for test in tests:
        own = [end for end in ended if end.node == test or end.node.startswith(f"{test}[")]
        bad = next((end for end in own if end.outcome != "passed"), None)
        if bad is not None or not own:
            wrong[test] = "it did not run" if bad is None else f"{bad.outcome} with {bad.error} in its {bad.when}"
    return wrong


def notices(revert: Revert) -> tuple[bool, str]:
    """Whether the case's test fails by an assertion of its own once the fix is undone; and what became of it."""
    bad = next((end for end in _run([revert.test], revert.case) if end.outcome != "passed"), None)
    if bad is None:
        return False, "its test passes or cannot be run"
    return bad.when == "call" and bad.error in ASSERTIONS, f"{bad.error} in the {bad.when} of {bad.node}"


def _run(tests: Sequence[str], case: str | None) -> list[Ended]:
    with tempfile.TemporaryDirectory() as folder:
        verdicts = Path(folder) / "verdicts"
        path = os.pathsep.join([str(ROOT / "soak" / "hook"), str(ROOT)])
        env = {**os.environ, "PYTHONPATH": path, "HEADRACE_VERDICTS": str(verdicts), "HEADRACE_REVERTED_CASE": case or ""}
        more = [f"--basetemp={folder}/tmp", "-x"] if case is not None else [f"--basetemp={folder}/tmp"]
        plugins = ["-p", "soak.verdicts", "-p", "no:randomly", "-p", "no:cacheprovider", "-p", "no:xdist"]
        command = [sys.executable, "-m", "pytest", "-q", "--tb=no", *plugins, *more, *tests]
        with contextlib.suppress(subprocess.TimeoutExpired):  # what ended until then is told
            subprocess.run(command, cwd=ROOT, env=env, capture_output=True, timeout=PATIENCE_S, check=False)
        lines = verdicts.read_text(encoding="utf-8").splitlines() if verdicts.exists() else []
    return [Ended(*json.loads(line)) for line in lines]
