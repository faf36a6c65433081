"""What `make mutants` undoes still stands in the code, and the tests that must notice it are still there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from soak.mutations import mutated, text_of
from soak.reverts import CASES, Revert

ROOT = Path(__file__).parents[2]
CONTRACTS = [
    node
    for path in sorted((ROOT / "src" / "headrace" / "testing" / "contracts").glob("*.py"))
    for node in ast.parse(path.read_text(encoding="utf-8")).body
    if isinstance(node, ast.ClassDef)
]


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


@pytest.mark.parametrize("revert", CASES, ids=lambda revert: revert.case)
def test_the_test_that_must_notice_is_still_there(revert: Revert) -> None:
    path, *inside = revert.test.partition("[")[0].split("::")
    text = (ROOT / path).read_text(encoding="utf-8")
    classes = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.ClassDef)}
    holders = (
        [classes[inside[0]], *CONTRACTS] if len(inside) > 1 else [ast.parse(text)]
    )  # a class may inherit it from its contract
    assert inside[-1] in {node.name for holder in holders for node in holder.body if isinstance(node, ast.FunctionDef)}
    assert revert.test.partition("[")[2].removesuffix("]") in text
