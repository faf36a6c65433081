"""A plugin of pytest that writes down how each test ended: its error's name, and whether it came from the test itself."""

from __future__ import annotations

import json
import os
from collections.abc import Generator
from pathlib import Path

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    error = None if call.excinfo is None else call.excinfo.typename
    if report.when == "call" or error is not None:
        line = json.dumps([item.nodeid, report.when, report.outcome, error])
        with Path(os.environ["HEADRACE_VERDICTS"]).open("a", encoding="utf-8") as file:
            file.write(line + "\n")
    return report
