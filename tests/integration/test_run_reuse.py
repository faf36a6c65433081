"""Which run a command means, and what is taken over from another: nothing is paid for twice, nothing is mixed silently."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.errors import LockedError, RunNotFoundError, SpecError
from headrace.ledger.lock import RunLock
from headrace.runs.pipeline import RunOptions
from headrace.testing.sim import Rule

URL = "http://127.0.0.1:9/v1"
QUOTA = {"error": {"message": "You exceeded your current quota.", "type": "insufficient_quota"}}
LAST = RunOptions(reuse="last")
NEW = RunOptions(new=True)


def stopped(mill: Any, *, after: int = 4, **sections: Any) -> Any:
    """An unfinished run with `after` answers."""
    mill.put_job(URL, endpoint={"concurrency": 1, "identity": "prod"}, **sections)
    ended = mill.rehearse(Rule(after=after, status=429, body=QUOTA))
    assert ended.result.exit_code == 4
    assert ended.items["done"] == after
    return ended


def test_rule_1_an_unfinished_equal_run_goes_on(mill):
    mill.put_texts(10)
    first = stopped(mill)
    second = mill.rehearse()
    assert second.result.run == first.result.run
    assert (second.result.exit_code, second.seen["requests"]) == (0, 6)


def test_rule_1_operating_keys_change_nothing(mill):
    mill.put_texts(10)
    first = stopped(mill)
    changes = [
        "limits.max_attempts=2",
        "endpoint.concurrency=5",
        "output.path=elsewhere.jsonl",
        "answer.retry_invalid=0",
        "name=x",
    ]
    second = mill.rehearse(overrides=changes)
    assert second.result.run == first.result.run
    assert second.seen["requests"] == 6
    assert mill.answers(mill.folder / "elsewhere.jsonl") == [f"row {n}." for n in range(10)]


def test_rule_2_a_finished_equal_run_sends_nothing_and_ends_as_before(mill):
    mill.put_texts(10)
    mill.put_job(URL)
    first = mill.rehearse(Rule(match="row 3.", status=400, body={"error": {"message": "no"}}))
    written = mill.output.read_bytes()
    second = mill.rehearse()
    assert (second.result.run, second.result.exit_code) == (first.result.run, 3)
    assert second.seen["sockets"]["total"] == 0
    assert mill.output.read_bytes() == written


def test_per_08_a_missing_output_is_written_again_without_a_connection(mill):
    mill.put_texts(10)
    mill.put_job(URL)
    mill.rehearse()
    written = mill.output.read_bytes()
    mill.output.unlink()
    again = mill.rehearse(overrides=["endpoint.url=http://127.0.0.1:9/v1"])
    assert again.result.exit_code == 0
    assert mill.output.read_bytes() == written


def test_rule_3_a_changed_job_is_refused_with_what_changed(mill):
    mill.put_texts(10)
    stopped(mill)
    with pytest.raises(SpecError) as refused:
        mill.rehearse(overrides=["model.temperature=0.5", "prompt.user=Sort {{ text }}"])
    message = str(refused.value)
    assert refused.value.exit_code == 2
    assert all(word in message for word in ("model.temperature", "prompt.user", "--new", "--reuse"))
    assert "\n" not in message


@pytest.mark.parametrize(
    ("edit", "counts"),
    [
        (lambda rows: [*rows, {"id": "x", "text": "x"}, {"id": "y", "text": "y"}], "2 records added, 0 removed, 0 changed"),
        (lambda rows: rows[:-1], "0 records added, 1 removed, 0 changed"),
        (
            lambda rows: [{"id": "r0", "text": "new"}, *rows[1:-2], {"id": "z", "text": "z"}],
            "1 record added, 2 removed, 1 changed",
        ),
    ],
    ids=["added", "removed", "all three"],
)
def test_rule_3_a_changed_input_is_refused_with_its_counts(mill, edit: Any, counts: str):
    mill.put_texts(10)
    stopped(mill, input={"id": "id"})
    mill.put_rows(edit([{"id": f"r{n}", "text": f"row {n}."} for n in range(10)]))
    with pytest.raises(SpecError) as refused:
        mill.rehearse()
    assert counts in str(refused.value)
    assert "the input" in str(refused.value)


def test_rule_3_does_not_hold_for_a_run_without_an_answer(mill):
    mill.put_texts(10)
    mill.put_job(URL)
    first = mill.rehearse(Rule(status=429, body=QUOTA))
    assert first.items == {"pending": 10}
    second = mill.rehearse(overrides=["model.temperature=0.5"])
    assert second.result.exit_code == 0
    assert second.result.run != first.result.run


def test_rule_4_a_changed_job_after_a_finished_run_is_a_new_run(mill):
    mill.put_texts(10)
    mill.put_job(URL)
    first = mill.rehearse()
    second = mill.rehearse(overrides=["model.temperature=0.5"])
    assert second.result.run != first.result.run
    assert second.seen["requests"] == 10
    back = mill.rehearse()
    assert (back.result.run, back.seen["requests"]) == (first.result.run, 0)


def test_new_begins_anew_whatever_there_is(mill):
    mill.put_texts(10)
    first = stopped(mill)
    second = mill.rehearse(options=NEW)
    assert second.result.run != first.result.run
    assert second.seen["requests"] == 10


@pytest.mark.parametrize(
    "change",
    [
        "model.temperature=0.5", "prompt.system=Be brief.", 'answer.schema={type = "object"}', "model.name=other", "model.seed=7",
        "model.extra.top_k=5", "prompt.user={{ text }}!",
    ],
)  # fmt: skip
def test_dup_01_whatever_changes_the_request_is_asked_again(mill, change: str):
    mill.put_texts(5)
    mill.put_job(URL, endpoint={"identity": "prod"})
    mill.rehearse()
    mill.output.unlink()
    done = mill.rehearse(options=LAST, overrides=[change], answer="json" if "schema" in change else "echo")
    assert done.seen["requests"] == 5
    assert done.result.status["requests"]["reused"] == 0


@pytest.mark.parametrize("change", ["answer.on_truncated=keep", "model.max_tokens=500", "answer.strip_think=false"])
def test_dup_01_what_does_not_change_the_request_costs_nothing(mill, change: str):
    mill.put_texts(5)
    mill.put_job(URL, endpoint={"identity": "prod"})
    mill.rehearse()
    done = mill.rehearse(options=LAST, overrides=[change])
    assert (done.seen["requests"], done.items) == (0, {"done": 5})
    assert (done.result.status["requests"]["sent"], done.result.status["requests"]["reused"]) == (0, 5)
    assert mill.answers() == [f"row {n}." for n in range(5)]


def test_dup_01_another_endpoint_is_another_witness_for_reuse_alone(mill):
    mill.put_texts(5)
    mill.put_job(URL, endpoint={"identity": "prod"})
    first = mill.rehearse()
    moved = mill.rehearse(overrides=["endpoint.identity=elsewhere"])
    assert (moved.result.run, moved.seen["requests"]) == (first.result.run, 0)
    reused = mill.rehearse(options=LAST, overrides=["endpoint.identity=elsewhere", "answer.strip_think=false"])
    assert reused.seen["requests"] == 5


def test_dup_01_an_answer_that_was_cut_is_asked_again_under_another_limit(mill):
    mill.put_rows([{"text": "x" * 100}, {"text": "short"}])
    mill.put_job(URL, endpoint={"identity": "prod"}, model={"max_tokens": 5}, answer={"on_truncated": "keep"})
    mill.rehearse()
    done = mill.rehearse(options=LAST, overrides=["model.max_tokens=50"])
    assert done.seen["requests"] == 1
    assert mill.answers() == ["x" * 100, "short"]


def test_dup_01_the_order_of_keys_is_nothing(mill):
    mill.put_texts(5)
    job = mill.put_job(URL, model={"extra": {"b": 1, "a": {"d": 1, "c": 2}}})
    first = mill.rehearse()
    mill.put_job(URL, model={"extra": {"a": {"c": 2, "d": 1}, "b": 1}})
    assert job.exists()
    second = mill.rehearse()
    assert (second.result.run, second.seen["requests"]) == (first.result.run, 0)


def test_dup_03_answers_are_found_by_what_was_asked_not_by_place(mill):
    rows = [{"id": f"r{n}", "text": f"row {n}."} for n in range(100)]
    mill.put_rows(rows)
    mill.put_job(URL, endpoint={"identity": "prod", "concurrency": 9})
    mill.rehearse()
    shuffled = rows[50:] + rows[:50][::-1]
    mill.put_rows([{**row, "more": n} for n, row in enumerate(shuffled)])
    done = mill.rehearse(options=LAST, overrides=["endpoint.concurrency=1"])
    assert (done.seen["requests"], done.items) == (0, {"done": 100})
    assert mill.answers() == [row["text"] for row in shuffled]
    assert [row["more"] for row in mill.rows()] == list(range(100))


def test_reuse_takes_over_an_unfinished_run_and_asks_for_the_rest(mill):
    mill.put_texts(10)
    stopped(mill)
    mill.put_rows([{"id": f"r{n}", "text": f"row {n}."} for n in range(12)])
    done = mill.rehearse(options=LAST)
    assert (done.seen["requests"], done.items) == (8, {"done": 12})


def test_reuse_judges_again_under_the_new_rules(mill):
    mill.put_texts(4)
    schema = {"type": "object"}
    mill.put_job(URL, endpoint={"identity": "prod"}, answer={"schema": schema})
    rules = [Rule(match="row 0.", content='{"a": 1}'), Rule(content='{"a": "x"}')]
    mill.rehearse(*rules)
    mill.output.unlink()
    # The schema is part of what is asked; `extract` and `field` only of how the reply is judged.
    done = mill.rehearse(*rules, options=LAST, overrides=["answer.field=a"])
    assert (done.seen["requests"], mill.answers()) == (0, [1, "x", "x", "x"])
    mill.output.unlink()
    fails = mill.rehearse(Rule(content='{"b": 2}'), options=LAST, overrides=["answer.field=b"])
    assert (fails.seen["requests"], mill.answers()) == (4, [2, 2, 2, 2])


def test_reuse_last_without_an_earlier_run_is_an_ordinary_first_run(mill):
    mill.put_texts(3)
    mill.put_job(URL)
    assert mill.rehearse(options=LAST).items == {"done": 3}


def test_reuse_of_a_run_that_is_not_there_is_refused(mill):
    mill.put_texts(3)
    mill.put_job(URL)
    with pytest.raises(RunNotFoundError):
        mill.rehearse(options=RunOptions(reuse="nope"))


def test_a_moved_job_file_is_another_job_and_a_run_dir_is_another_place(mill):
    mill.put_texts(3)
    mill.put_job(URL)
    mill.rehearse()
    elsewhere = mill.rehearse(options=RunOptions(run_dir=mill.folder / "elsewhere"), overrides=["output.path=second.jsonl"])
    assert elsewhere.seen["requests"] == 3
    assert elsewhere.result.folder.parent == mill.folder / "elsewhere"
    again = mill.rehearse(options=RunOptions(run_dir=mill.folder / "elsewhere"), overrides=["output.path=second.jsonl"])
    assert (again.seen["requests"], again.result.run) == (0, elsewhere.result.run)


def test_a_run_that_another_process_holds_is_left_alone(mill):
    mill.put_texts(10)
    first = stopped(mill)
    with RunLock(first.result.folder / "run.lock"), pytest.raises(LockedError) as refused:
        mill.rehearse()
    assert refused.value.exit_code == 7
    assert mill.rehearse().items == {"done": 10}


def test_a_run_that_reads_on_where_it_stopped_reads_nothing_twice(mill):
    mill.put_texts(3000)
    mill.put_job(URL, endpoint={"concurrency": 16}, limits={"run_deadline": "0.4s"})
    first = mill.rehearse(latency_ms=20)
    assert first.result.exit_code == 5
    assert first.result.status["input_complete"] is True
    second = mill.rehearse(overrides=["limits.run_deadline=1h"])
    assert second.items == {"done": 3000}
    assert first.result.status["requests"]["sent"] + second.seen["requests"] == 3000
    assert [json.loads(line)["id"] for line in mill.output.read_bytes().splitlines()] == [f"r{n}" for n in range(3000)]
