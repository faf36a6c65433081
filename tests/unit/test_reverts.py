"""What `make mutants` undoes still stands in the code, and the tests that must notice it are still there."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from soak.mutations import mutated, text_of
from soak.reverts import CASES, Revert

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("revert", CASES, ids=lambda revert: revert.case)
def test_a_fix_still_stands_where_it_is_undone(revert: Revert) -> None:
    compile(mutated(revert.mutation, text_of(revert.mutation.module)), revert.mutation.module, "exec")


@pytest.mark.parametrize("revert", CASES, ids=lambda revert: revert.case)
def test_the_test_that_must_notice_carries_the_cases_id(revert: Revert) -> None:
    assert revert.case.replace("-", "_").lower() in revert.test.replace("-", "_").lower()


def test_each_case_is_undone_once_and_there_are_twenty_from_many_areas() -> None:
    cases = [revert.case for revert in CASES]
    assert len(set(cases)) == len(cases) >= 20
    assert {case.partition("-")[0] for case in cases} >= {
        "INP",
        "REQ",
        "RTL",
        "NET",
        "RSP",
        "JSN",
        "RSN",
        "CTX",
        "PER",
        "DUP",
        "OUT",
        "OBS",
    }


@pytest.mark.slow
def test_every_test_that_must_notice_can_be_run() -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "--collect-only",
        "-qq",
        "-p",
        "no:cacheprovider",
        *(revert.test for revert in CASES),
    ]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout[-2000:] + found.stderr[-2000:]
