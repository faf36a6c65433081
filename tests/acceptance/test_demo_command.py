"""`headrace demo` with the embedded model: what it prints, and that a kill costs nothing twice."""

from __future__ import annotations

import subprocess

import pytest

pytestmark = pytest.mark.slow
CALIBRATION = 3  # requests without content, asked before all others


def test_the_demo_sorts_real_records_and_says_what_its_answers_are_worth(mill):
    told = mill.command("demo", "--limit", "6", "--json")
    assert told.code == 0, told.err
    figures, status = told.document["figures"], told.document["status"]
    assert (figures["n_total"], figures["n_scored"]) == (6, 6)
    assert figures["interval"][0] <= figures["score"] <= figures["interval"][1]
    assert sum(one["n"] for one in figures["per_class"].values()) == 6
    assert status["requests"]["sent"] == 6 + CALIBRATION
    assert status["tokens"]["cached"] > 0.5 * status["tokens"]["prompt"]
    rows = mill.rows(mill.folder / "headrace-demo" / "answers.jsonl")
    assert all(0 < row["answer_confidence"] <= 1 for row in rows)
    again = mill.command("demo", "--limit", "6")
    assert again.code == 0, again.err
    assert "nothing is sent" in again.err
    assert "95 % Wilson interval" in again.out
    more = mill.command("demo", "--limit", "7", "--json")
    assert more.document["status"]["requests"]["sent"] == 1  # the six and the calibration are taken over


def test_a_killed_demo_leaves_no_child_and_pays_nothing_twice(mill, until):
    process = mill.start("demo", "--limit", "60", "--quiet")
    ledgers = mill.folder.glob
    until(lambda: process.poll() is not None or (any(ledgers("*/.headrace/runs/*/ledger.db")) and done_so_far(mill) >= 5))
    assert process.poll() is None
    children = children_of(process.pid)
    assert children
    process.kill()
    mill.told(process)
    before = mill.status()
    assert before["state"] == "interrupted"
    assert before["items"]["pending"] > 0
    until(lambda: not any(alive(child) for child in children))
    told = mill.command("demo", "--limit", "60", "--json")
    assert told.code == 0, told.err
    status = told.document["status"]
    assert status["run"] == before["run"]
    assert status["items"]["done"] == 60
    assert status["requests"]["sent"] - status["requests"]["possibly_sent"] == 60 + CALIBRATION


def done_so_far(mill) -> int:
    told = mill.command("status", "--json")  # a run that has just begun cannot be read yet
    return told.document["items"]["done"] if told.code == 0 else 0


def children_of(parent: int) -> list[int]:
    return [pid for pid, (of, _) in processes().items() if of == parent]


def alive(pid: int) -> bool:
    """A zombie that nobody has waited for yet is not."""
    return processes().get(pid, (0, "Z"))[1][0] != "Z"


def processes() -> dict[int, tuple[int, str]]:
    """Parent and state of all processes, as `ps` knows them on Linux and macOS."""
    listed = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,state="], check=True, capture_output=True, text=True).stdout
    fields = [line.split() for line in listed.splitlines()]
    return {int(pid): (int(parent), state) for pid, parent, state in fields}
