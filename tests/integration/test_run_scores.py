"""Whole runs whose labels are chosen by log-probability, with the prompt without content asked first and without it."""

from __future__ import annotations

import asyncio
import csv
import math
import signal
from typing import Any

import pyarrow.parquet as pq
import pytest

import headrace
from headrace.errors import SpecError
from headrace.ledger.reader import LedgerReader
from headrace.runs.failures import failures
from headrace.runs.pipeline import RunOptions
from headrace.runs.registry import RunFolder
from headrace.runs.retry import retry
from headrace.testing.laws import Laws
from headrace.testing.replies import Prompt, likeliest
from headrace.testing.sim import Rule, SimOptions, SimServer
from headrace.values import UnitKind

URL = "http://127.0.0.1:9/v1"
LABELS = ["red", "green", "blue"]
LAWS: dict[str, Any] = {"answer": "label", "labels": tuple(LABELS)}
ARGUMENTS = ("--answer", "label", "--labels", ",".join(LABELS))
QUOTA = {"error": {"message": "You exceeded your current quota.", "type": "insufficient_quota"}}
LAST = RunOptions(reuse="last")
ITEMS = 12
ASKED_FIRST = 3


def put(mill: Any, count: int = ITEMS, /, *, url: str = URL, calibrate: bool = True, **sections: dict[str, Any]) -> None:
    mill.put_texts(count)
    answer = {"labels": LABELS, "method": "score", "calibrate": calibrate, **sections.pop("answer", {})}
    endpoint = {"identity": "prod", "concurrency": 1, **sections.pop("endpoint", {})}
    mill.put_job(url, answer=answer, endpoint=endpoint, **sections)


def said(*tokens: tuple[str, float], content: str | None = "x") -> dict[str, Any]:
    """The body of a chat's reply with these tokens and their probabilities; none: without log-probabilities."""
    top = [{"token": token, "logprob": math.log(share)} for token, share in tokens]
    held = {"content": [{**top[0], "top_logprobs": top}]} if top else None
    return {
        "choices": [{"message": {"content": content}, "finish_reason": "length", "logprobs": held}],
        "usage": {"prompt_tokens": 5},
    }


def expected(text: str, *, calibrated: bool) -> tuple[str, float]:
    """Label and confidence by the formula, from what the simulated endpoint's laws give."""

    def shares(prompt: str) -> list[float]:
        found = dict(likeliest(Laws(**LAWS), Prompt.of_text(prompt), 20, spaced=False))
        return [math.exp(found[label]) for label in LABELS]

    parts = shares(text)
    if calibrated:
        empty = [shares(filling) for filling in ("N/A", "[MASK]", "")]
        prior = [sum(one[place] / sum(one) for one in empty) / 3 for place in range(3)]
        parts = [part / one for part, one in zip(parts, prior, strict=True)]
    best = max(parts)
    return LABELS[parts.index(best)], best / sum(parts)


# -- answers


@pytest.mark.parametrize("calibrate", [False, True])
def test_a_chat_is_scored_by_the_formula(mill: Any, calibrate: bool):
    put(mill, 20, calibrate=calibrate)
    done = mill.rehearse(**LAWS)
    assert (done.result.exit_code, done.items) == (0, {"done": 20})
    for row in mill.rows():
        label, confidence = expected(row["text"], calibrated=calibrate)
        assert row["answer"] == label
        assert row["answer_confidence"] == pytest.approx(confidence, abs=2e-6)
        assert row["answer_notes"] == []


def test_completions_are_scored_by_tokens_behind_a_space(mill: Any):
    put(mill, model={"route": "completions"}, prompt={"user": None, "prompt": "{{ text }} It is"})
    done = mill.rehearse(**LAWS)
    assert (done.items, done.seen["requests"]) == ({"done": ITEMS}, ITEMS + ASKED_FIRST)
    assert {row["answer"] for row in mill.rows()} <= set(LABELS)
    assert done.seen["tokens"]["completion"] == ITEMS + ASKED_FIRST


@pytest.mark.parametrize("dedupe", [True, False])
def test_calibration_is_three_requests_and_no_part_of_the_records(mill: Any, dedupe: bool):
    put(mill, input={"dedupe": dedupe})
    mill.put_rows([{"text": text} for text in ("N/A", "N/A", "", "row 1.", "row 2.")])
    done = mill.rehearse(**LAWS)
    units = 4 if dedupe else 5
    status = done.result.status
    assert done.seen["requests"] == status["requests"]["sent"] == units + ASKED_FIRST
    assert status["units"] == {"total": units, "done": units, "duplicates_saved": 5 - units}
    assert status["items"] | {"total": 5, "done": 5, "pending": 0} == status["items"]
    assert status["configurations"] == [{"config": 1, "done": units}]
    assert mill.rehearse(**LAWS).seen["requests"] == 0


def test_one_token_is_asked_whatever_the_job_allows(mill: Any):
    put(mill, model={"max_tokens": 500})
    done = mill.rehearse(**LAWS)
    assert done.seen["tokens"]["completion"] == ITEMS + ASKED_FIRST
    assert done.result.status["tokens"]["completion"] == ITEMS + ASKED_FIRST


def test_a_field_that_only_the_model_knows_how_to_name_is_learnt_once(mill: Any):
    put(mill)
    done = mill.rehearse(max_tokens_field="max_completion_tokens", **LAWS)
    assert (done.items, done.seen["requests"]) == ({"done": ITEMS}, ITEMS + ASKED_FIRST + 1)


def test_labels_of_several_words_are_told_by_their_first(mill: Any):
    labels = ["new york", "los angeles", "São Paulo", "🎮 games"]
    put(mill, answer={"labels": labels})
    done = mill.rehearse(answer="label", labels=tuple(labels))
    assert done.items == {"done": ITEMS}
    assert set(mill.answers()) <= set(labels)


def test_sixty_labels_of_which_twenty_are_seen(mill: Any):
    labels = [f"{chr(97 + n // 26)}{chr(97 + n % 26)}x" for n in range(60)]
    put(mill, answer={"labels": labels})
    done = mill.rehearse(answer="label", labels=tuple(labels))
    assert done.items == {"done": ITEMS}
    assert all(0 < row["answer_confidence"] <= 1 for row in mill.rows())


# -- what is written


@pytest.mark.parametrize("suffix", ["jsonl", "csv", "parquet"])
def test_the_confidence_is_a_number_and_null_where_there_is_no_answer(mill: Any, suffix: str):
    put(mill, 3, calibrate=False, output={"path": f"out.{suffix}"})
    done = mill.rehearse(Rule(match="row 1.", body=said(("The", 0.9))), **LAWS)
    assert (done.result.exit_code, done.items) == (3, {"done": 2, "quarantined": 1})
    path = mill.folder / f"out.{suffix}"
    if suffix == "jsonl":
        found = [row["answer_confidence"] for row in mill.rows(path)]
    elif suffix == "csv":
        with path.open(newline="", encoding="utf-8") as file:
            found = [float(row["answer_confidence"]) if row["answer_confidence"] else None for row in csv.DictReader(file)]
    else:
        column = pq.read_table(path).column("answer_confidence")
        assert str(column.type) == "double"
        found = column.to_pylist()
    assert found[1] is None
    assert [found[0], found[2]] == [pytest.approx(expected(f"row {n}.", calibrated=False)[1], abs=2e-6) for n in (0, 2)]


def test_a_column_of_confidences_is_of_numbers_even_where_there_is_none(mill: Any):
    put(mill, 2, calibrate=False, output={"path": "out.parquet"})
    mill.rehearse(Rule(body=said(("The", 0.9))), **LAWS)
    assert str(pq.read_table(mill.folder / "out.parquet").schema.field("answer_confidence").type) == "double"


def test_a_field_of_the_same_name_keeps_it(mill: Any):
    put(mill, calibrate=False)
    mill.put_rows([{"text": "row 1.", "answer_confidence": "mine"}])
    mill.rehearse(**LAWS)
    (row,) = mill.rows()
    assert row["answer_confidence"] == "mine"
    assert row["answer_confidence_"] == pytest.approx(expected("row 1.", calibrated=False)[1], abs=2e-6)


def test_a_job_that_generates_has_no_such_field(mill: Any):
    put(mill, calibrate=False, answer={"method": "generate"})
    mill.rehearse(**LAWS)
    assert "answer_confidence" not in mill.rows()[0]


def test_the_result_in_python_has_it_too(mill: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(mill.state))
    put(mill, 3)

    async def main() -> list[dict[str, Any]]:
        async with SimServer(SimOptions(**LAWS)) as sim:
            return list(await headrace.arun(mill.folder / "job.toml", overrides=[f"endpoint.url={sim.url}"]))

    rows = asyncio.run(main())
    assert [(row["answer"], row["answer_confidence"]) for row in rows] == [
        (row["answer"], row["answer_confidence"]) for row in mill.rows()
    ]


def test_what_was_asked_and_found_is_kept(mill: Any):
    put(mill, 2)
    done = mill.rehearse(**LAWS)
    reader = LedgerReader(done.result.folder / "ledger.db")
    kept = reader.of_kind(UnitKind.CALIBRATE)
    asked = reader.of_kind(UnitKind.ASK)
    reader.close()
    assert [unit.likeliest for unit in kept] == [
        likeliest(Laws(**LAWS), Prompt.of_text(filling), 20, spaced=False) for filling in ("N/A", "[MASK]", "")
    ]
    assert [unit.likeliest for unit in asked] == [
        likeliest(Laws(**LAWS), Prompt.of_text(f"row {n}."), 20, spaced=False) for n in range(2)
    ]


# -- what is no answer


def test_no_label_among_the_tokens_is_quarantined_and_not_asked_again(mill: Any):
    put(mill, 4, calibrate=False, answer={"retry_invalid": 3}, output={"details": True})
    done = mill.rehearse(Rule(match="row 2.", body=said(("The", 0.5), (" a", 0.2), content="The")), **LAWS)
    assert (done.items, done.seen["requests"]) == ({"done": 3, "quarantined": 1}, 4)
    row = mill.rows()[2]
    assert row["answer_error"] == "schema_mismatch: none of the labels is among the 2 likeliest tokens; the likeliest is 'The'"
    assert (row["answer"], row["answer_raw"], row["answer_confidence"]) == (None, "The", None)


def test_retry_sends_what_was_quarantined_and_no_calibration(mill: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(mill.state))
    put(mill)
    first = mill.rehearse(Rule(match="row 2.", body=said(("The", 0.5))), **LAWS)

    async def again() -> tuple[int, int]:
        async with SimServer(SimOptions(**LAWS)) as sim:
            ended = await retry(RunFolder(first.result.folder), None, [f"endpoint.url={sim.url}"])
            return ended.exit_code, sim.stats.requests

    assert asyncio.run(again()) == (0, 1)
    assert mill.rows()[2]["answer"] == expected("row 2.", calibrated=True)[0]


def test_one_record_that_cannot_be_told_does_not_end_the_run(mill: Any):
    labels = ["science", "scientific", "blue"]
    put(mill, answer={"labels": labels})
    clash = Rule(match="row 0.", body=said(("sci", 0.9), ("blue", 0.05)))
    done = mill.rehearse(clash, answer="label", labels=tuple(labels))
    assert done.items == {"done": ITEMS - 1, "quarantined": 1}
    assert "labels must begin with different tokens" in mill.rows()[0]["answer_error"]


def test_labels_that_no_record_can_tell_end_the_run(mill: Any):
    put(mill, 50, calibrate=False, answer={"labels": ["science", "scientific"]})
    done = mill.rehearse(Rule(body=said(("sci", 0.9), ("x", 0.05))))
    assert (done.result.exit_code, done.result.reason) == (4, "misconfigured")
    assert "labels must begin with different tokens" in done.result.message
    assert done.seen["requests"] == 10
    assert done.items == {"quarantined": 9, "pending": 41}


@pytest.mark.parametrize(
    "answer",
    [{"labels": ["new york", "new jersey"]}, {"labels": None}, {"labels": None, "schema": {"type": "object"}}],
    ids=["one first word", "no labels", "a schema"],
)
def test_labels_that_cannot_be_scored_are_refused_before_anything_is_sent(mill: Any, answer: dict[str, Any]):
    put(mill, answer=answer)
    with pytest.raises(SpecError):
        mill.rehearse(**LAWS)
    assert mill.runs == []


def test_a_prompt_that_cannot_be_asked_without_content_is_refused_before_anything_is_sent(mill: Any):
    put(mill, prompt={"user": "{{ price + 1 }}"})
    with pytest.raises(SpecError, match=r"answer\.calibrate"):
        mill.rehearse(**LAWS)
    assert mill.runs == []


# -- servers that give no log-probabilities, or few


@pytest.mark.parametrize("calibrate", [False, True])
def test_an_endpoint_that_refuses_them_ends_the_run_with_what_to_do(mill: Any, calibrate: bool):
    put(mill, calibrate=calibrate)
    done = mill.rehearse(logprobs=0, **LAWS)
    assert (done.result.exit_code, done.result.reason) == (4, "misconfigured")
    assert 'use answer.method = "generate", or a server or model that gives log-probabilities' in done.result.message
    assert "\n" not in done.result.message
    assert done.items == {"pending": ITEMS}


@pytest.mark.parametrize("calibrate", [False, True])
def test_an_endpoint_that_gives_few_is_asked_for_few(mill: Any, calibrate: bool):
    put(mill, calibrate=calibrate)
    done = mill.rehearse(logprobs=5, **LAWS)
    assert done.items == {"done": ITEMS}
    assert done.seen["by_status"] == {"200": ITEMS + ASKED_FIRST * calibrate, "400": 1}


@pytest.mark.parametrize("calibrate", [False, True])
def test_replies_that_hold_none_end_the_run_at_once(mill: Any, calibrate: bool):
    put(mill, calibrate=calibrate)
    done = mill.rehearse(Rule(body=said(content="red")))
    assert (done.result.exit_code, done.result.reason, done.seen["requests"]) == (4, "misconfigured", 1)
    assert "the reply holds no log-probabilities" in done.result.message
    assert done.items == {"pending": ITEMS}


# -- stops and resumes


def test_a_stop_after_calibration_goes_on_without_it(mill: Any):
    put(mill)
    first = mill.rehearse(Rule(after=ASKED_FIRST + 4, status=429, body=QUOTA), **LAWS)
    assert (first.result.exit_code, first.items) == (4, {"done": 4, "pending": ITEMS - 4})
    second = mill.rehearse(**LAWS)
    assert (second.result.run, second.seen["requests"]) == (first.result.run, ITEMS - 4)
    assert mill.answers() == [expected(f"row {n}.", calibrated=True)[0] for n in range(ITEMS)]


def test_a_stop_in_calibration_reads_the_input_and_goes_on_where_it_was(mill: Any):
    put(mill)
    first = mill.rehearse(Rule(after=1, status=429, body=QUOTA), **LAWS)
    status = first.result.status
    assert (first.result.exit_code, first.result.reason, status["input_complete"]) == (4, "quota", True)
    assert status["items"] | {"total": ITEMS, "pending": ITEMS} == status["items"]
    second = mill.rehearse(**LAWS)
    assert (second.result.run, second.items, second.seen["requests"]) == (first.result.run, {"done": ITEMS}, ITEMS + 2)
    assert mill.answers() == [expected(f"row {n}.", calibrated=True)[0] for n in range(ITEMS)]


def test_a_wrong_key_leaves_everything_pending_and_the_same_command_goes_on(mill: Any, monkeypatch: pytest.MonkeyPatch):
    put(mill, endpoint={"api_key_env": "SCORE_KEY"})
    with monkeypatch.context() as patch:
        patch.setenv("SCORE_KEY", "wrong-key-1")
        first = mill.rehearse(api_key="right-key-1", **LAWS)
        assert (first.result.exit_code, first.result.reason) == (4, "auth")
        assert first.result.status["items"]["total"] == first.items["pending"] == ITEMS
        assert first.result.status["input_complete"] is True
        patch.setenv("SCORE_KEY", "right-key-1")
        second = mill.rehearse(api_key="right-key-1", **LAWS)
    assert (second.result.run, second.items, second.seen["requests"]) == (first.result.run, {"done": ITEMS}, ITEMS + ASKED_FIRST)


def test_calibration_that_comes_to_nothing_says_why_and_is_asked_again(mill: Any):
    put(mill)
    nothing = [Rule(index=number, body=said(content=None)) for number in (1, 2, 3)]
    first = mill.rehearse(*nothing, **LAWS)
    assert (first.result.exit_code, first.result.reason) == (4, "misconfigured")
    assert "which answer.calibrate needs, came to nothing: schema_mismatch: the reply holds no log-prob" in first.result.message
    assert first.items == {"pending": ITEMS}
    assert failures(first.result.folder)["groups"] == []
    second = mill.rehearse(**LAWS)
    assert (second.items, second.seen["requests"]) == ({"done": ITEMS}, ITEMS + ASKED_FIRST)


def test_calibration_that_comes_in_part_is_used_and_said(mill: Any):
    put(mill)
    done = mill.rehearse(Rule(index=2, status=400, body={"error": {"message": "no masks here"}}), **LAWS)
    assert done.items == {"done": ITEMS}
    assert any("rests on 2 of 3 prompts" in getattr(event, "message", "") for event in done.events)


def test_calibration_in_which_no_label_is_seen_is_said(mill: Any):
    put(mill)
    done = mill.rehearse(*[Rule(index=number, body=said(("The", 0.5))) for number in (1, 2, 3)], **LAWS)
    assert mill.answers() == [expected(f"row {n}.", calibrated=False)[0] for n in range(ITEMS)]
    assert any("calibrate changes nothing" in getattr(event, "message", "") for event in done.events)


@pytest.mark.slow
def test_the_runs_deadline_counts_calibration_too(mill: Any):
    put(mill, 50, limits={"run_deadline": "0.9s"})
    done = mill.rehearse(latency_ms=200, **LAWS)
    assert (done.result.exit_code, done.result.reason) == (5, "run_deadline")
    assert done.result.status["input_complete"] is True
    assert done.result.status["items"]["total"] == 50
    assert done.seen["requests"] <= 5


# -- reuse


def test_calibration_switched_on_costs_its_three_requests(mill: Any):
    put(mill, calibrate=False)
    mill.rehearse(**LAWS)
    mill.output.unlink()
    on = mill.rehearse(options=LAST, overrides=["answer.calibrate=true"], **LAWS)
    assert on.seen["requests"] == on.result.status["requests"]["sent"] == ASKED_FIRST
    assert any(getattr(event, "message", "").startswith(f"{ITEMS} answers taken over") for event in on.events)
    rows = mill.rows()
    assert [row["answer"] for row in rows] == [expected(row["text"], calibrated=True)[0] for row in rows]
    assert [row["answer_confidence"] for row in rows] == [
        pytest.approx(expected(row["text"], calibrated=True)[1], abs=2e-6) for row in rows
    ]


def test_calibration_switched_off_costs_nothing(mill: Any):
    put(mill)
    mill.rehearse(**LAWS)
    mill.output.unlink()
    off = mill.rehearse(options=LAST, overrides=["answer.calibrate=false"], **LAWS)
    assert off.seen["requests"] == 0
    assert mill.answers() == [expected(f"row {n}.", calibrated=False)[0] for n in range(ITEMS)]


def test_calibration_is_taken_over_with_the_answers(mill: Any):
    put(mill)
    mill.rehearse(**LAWS)
    mill.put_texts(ITEMS + 2)
    more = mill.rehearse(options=LAST, **LAWS)
    assert (more.seen["requests"], more.items) == (2, {"done": ITEMS + 2})
    assert more.result.status["requests"]["reused"] == ITEMS + ASKED_FIRST


def test_answers_are_not_taken_over_while_calibration_is_missing(mill: Any):
    put(mill, calibrate=False)
    mill.rehearse(**LAWS)
    mill.output.unlink()
    on = ["answer.calibrate=true"]
    stopped = mill.rehearse(Rule(status=429, body=QUOTA), options=LAST, overrides=on, **LAWS)
    assert (stopped.result.exit_code, stopped.result.reason, stopped.items) == (4, "quota", {})
    assert stopped.result.status["input_complete"] is False
    again = mill.rehearse(options=LAST, overrides=on, **LAWS)
    assert (again.seen["requests"], again.items) == (ASKED_FIRST, {"done": ITEMS})
    assert mill.answers() == [expected(f"row {n}.", calibrated=True)[0] for n in range(ITEMS)]


def test_answers_that_were_generated_are_no_scores(mill: Any):
    put(mill, calibrate=False, answer={"method": "generate"})
    mill.rehearse(**LAWS)
    mill.output.unlink()
    scored = mill.rehearse(options=LAST, overrides=["answer.method=score"], **LAWS)
    assert scored.seen["requests"] == ITEMS


# -- the installed command, interrupted and killed while it calibrates


@pytest.mark.slow
def test_ctrl_c_in_calibration_repeats_only_what_was_in_flight(mill: Any, until: Any):
    with mill.sim(*ARGUMENTS, script=[{"index": 2, "action": "hang"}]) as sim:
        put(mill, url=sim.url, limits={"drain": "0.3s"})
        process = mill.start("run", "job.toml", "--json")
        until(lambda: sim.stats()["requests"] == 2)
        status = mill.status()
        assert (status["state"], status["items"]["total"], status["units"]["total"]) == ("running", 0, 0)
        process.send_signal(signal.SIGINT)
        told = mill.told(process)
        assert told.code == 130
        assert told.document["items"]["pending"] == told.document["items"]["total"]
        again = mill.run()
        assert again.code == 0, again.err
        assert sim.stats()["requests"] == ITEMS + ASKED_FIRST + 1
    assert mill.answers() == [expected(f"row {n}.", calibrated=True)[0] for n in range(ITEMS)]


@pytest.mark.slow
@pytest.mark.parametrize("again", ["always", "never"])
def test_a_kill_in_calibration_goes_by_the_jobs_rule_for_what_may_have_been_billed(mill: Any, until: Any, again: str):
    with mill.sim(*ARGUMENTS, script=[{"index": 2, "action": "hang"}]) as sim:
        put(mill, url=sim.url, limits={"retry_ambiguous": again})
        process = mill.start("run", "job.toml", "--quiet")
        until(lambda: sim.stats()["requests"] == 2)
        until(lambda: mill.runs and mill.status()["requests"]["sent"] >= 1)
        process.kill()
        mill.told(process)
        told = mill.run()
        assert told.code == 0, told.err
        if again == "always":
            assert sim.stats()["requests"] == ITEMS + ASKED_FIRST + 1
        else:
            assert sim.stats()["repeats"] == 0
            assert "answer.calibrate rests on" in told.err
        assert told.document["items"]["done"] == ITEMS
