"""What a whole run takes for an answer, and what it keeps of everything else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from headrace.runs.failures import failures
from headrace.testing.sim import Rule

URL = "http://127.0.0.1:9/v1"
ANY = {"type": "object"}
TITLE = {"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}


def reply(content: Any, finish: Any = "stop", usage: Any = None, **message: Any) -> dict[str, Any]:
    """The body of a 200 with one choice."""
    choice = {"index": 0, "finish_reason": finish, "message": {"role": "assistant", "content": content, **message}}
    body = {"object": "chat.completion", "model": "m", "choices": [choice]}
    return body if usage is None else {**body, "usage": usage}


def usage(prompt: int, completion: int, reasoning: int = 0) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt, "completion_tokens": completion, "completion_tokens_details": {"reasoning_tokens": reasoning},
    }  # fmt: skip


def asked(mill: Any, *bodies: Any, **sections: dict[str, Any]) -> Any:
    """A run of one record for each body, which is what the server says to it, whenever it is asked."""
    mill.put_texts(len(bodies))
    mill.put_job(URL, **sections)
    return mill.rehearse(*[Rule(match=f"row {n}.", body=body) for n, body in enumerate(bodies)])


def test_rsp_02_the_finish_reason_decides(mill):
    done = asked(
        mill,
        reply(None, "content_filter"),
        reply("partial", "length"),
        reply(None, "stop", refusal="I cannot."),
        reply("fine", None, usage(1, 1)),
    )
    rows = mill.rows()
    assert [row["answer_status"] for row in rows] == ["failed", "quarantined", "quarantined", "done"]
    assert [row["answer_error"] and row["answer_error"].partition(":")[0] for row in rows] == [
        "content_filter", "truncated", "refusal", None,
    ]  # fmt: skip
    assert rows[3]["answer_notes"] == ["finish_unknown"]
    assert (done.result.exit_code, done.seen["requests"]) == (3, 4)


@pytest.mark.parametrize(
    "counted", [None, {}, {"prompt_tokens": None}, {"completion_tokens_details": None, "prompt_tokens": None}], ids=str
)
def test_rsp_04_an_answer_without_usage_is_an_answer(mill, counted: Any):
    body = {**reply("fine"), "usage": counted}
    done = asked(mill, body)
    assert done.items == {"done": 1}
    assert mill.rows()[0]["answer_notes"] == ["usage_missing"]
    assert done.result.status["tokens"] | {"prompt": 0, "completion": 0, "unknown_requests": 1} == done.result.status["tokens"]


@pytest.mark.parametrize("content", ['```json\n{"a":1}\n```', '```\n{"a":1}\n```', '```json\r\n{"a":1}\r\n```\r\n'])
def test_jsn_01_one_fence_around_the_whole_is_taken_off(mill, content: str):
    done = asked(mill, reply(content, usage=usage(1, 1)), answer={"schema": ANY}, output={"details": True})
    assert (done.items, done.seen["requests"]) == ({"done": 1}, 1)
    (row,) = mill.rows()
    assert (row["answer"], row["answer_notes"], row["answer_raw"]) == ({"a": 1}, ["repaired"], content)


@pytest.mark.parametrize(("extract", "status"), [("strict", "quarantined"), ("lenient", "done")])
def test_jsn_01_prose_around_the_json_goes_by_the_jobs_rule(mill, extract: str, status: str):
    asked(mill, reply('Sure:\n```json\n{"a":1}\n```'), answer={"schema": ANY, "extract": extract, "retry_invalid": 0})
    assert mill.statuses() == [status]


def test_jsn_02_text_that_parses_is_never_touched(mill):
    good = '{"md":"use ```bash ls``` here"}'
    two = '```bash\nls\n```\nthen\n```json\n{"a":1}\n```'
    asked(mill, reply(good, usage=usage(1, 1)), reply(two), answer={"schema": ANY, "retry_invalid": 0})
    rows = mill.rows()
    assert (rows[0]["answer"], rows[0]["answer_notes"]) == (json.loads(good), [])
    assert (rows[1]["answer"], rows[1]["answer_status"]) == (None, "quarantined")
    assert rows[1]["answer_error"].startswith("invalid_json: ")


def test_jsn_03_an_answer_that_was_cut_is_truncated_and_not_asked_again(mill):
    body = reply('{"items":[1,2', "length", usage(5, 8))
    done = asked(mill, body, answer={"schema": ANY}, output={"details": True})
    assert (done.items, done.seen["requests"]) == ({"quarantined": 1}, 1)
    (row,) = mill.rows()
    assert row["answer_error"].startswith("truncated: ")
    assert (row["answer"], row["answer_raw"]) == (None, '{"items":[1,2')
    assert done.result.status["tokens"]["wasted"] == 13
    assert any("max_tokens" in advice for advice in done.result.status["advice"])


def test_jsn_04_what_led_to_no_answer_is_counted_as_wasted(mill):
    mill.put_texts(1)
    mill.put_job(URL, answer={"schema": ANY, "retry_invalid": 2})
    done = mill.rehearse(
        Rule(index=1, body=reply("no json", usage=usage(4, 6))),
        Rule(index=2, body=reply("[1]", usage=usage(9, 11))),
        Rule(index=3, body=reply('{"a":1}', usage=usage(14, 16))),
    )
    assert (done.items, done.seen["requests"]) == ({"done": 1}, 3)
    tokens = done.result.status["tokens"]
    assert (tokens["prompt"], tokens["completion"], tokens["wasted"]) == (27, 33, 30)
    assert done.seen["keys"] == 3  # a re-ask is a new request


def test_jsn_06_endless_white_space_is_one_request_and_kept_whole(mill):
    content = '{"a":' + "\n " * 4000
    done = asked(mill, reply(content, "length", usage(3, 8000)), answer={"schema": ANY}, output={"details": True})
    assert done.seen["requests"] == 1
    (row,) = mill.rows()
    assert row["answer_raw"] == content
    assert row["answer_error"].startswith("truncated: ")
    assert len(row["answer_error"]) < 500
    assert done.result.status["tokens"]["wasted"] == 8003


@pytest.mark.parametrize(
    "body",
    [
        reply("", "length", usage(10, 200, 199)),
        reply("", "stop", usage(10, 200, 199), reasoning_content="thinking ..."),
        reply(None, "stop", usage(10, 200), reasoning="thinking ..."),
    ],
    ids=["length", "stop", "reasoning"],
)
def test_rsn_01_thinking_without_an_answer_is_truncated(mill, body: Any):
    done = asked(mill, body)
    assert (done.items, done.seen["requests"]) == ({"quarantined": 1}, 1)
    assert mill.rows()[0]["answer_error"].startswith("truncated: ")
    (group,) = failures(done.result.folder)["groups"]
    assert (group["kind"], group["count"]) == ("truncated", 1)


def test_rsn_03_the_answer_is_taken_not_its_draft(mill):
    asked(
        mill,
        reply('<think>maybe {"title":"draft"}</think>\n{"title":"T"}'),
        reply('{"title":"a <think>b</think>"}'),
        answer={"schema": TITLE},
    )
    assert mill.answers() == [{"title": "T"}, {"title": "a <think>b</think>"}]


@pytest.mark.parametrize(
    ("strip", "answers"), [(True, ["Answer", "Answer"]), (False, ["plan...</think>\n\nAnswer", "<THINK>p</THINK>Answer"])]
)
def test_rsn_04_think_blocks_go_to_the_raw_text(mill, strip: bool, answers: list[str]):
    texts = ["plan...</think>\n\nAnswer", "<THINK>p</THINK>Answer"]
    asked(mill, *[reply(text) for text in texts], answer={"strip_think": strip}, output={"details": True})
    assert mill.answers() == answers
    assert [row["answer_raw"] for row in mill.rows()] == texts


def test_a_schema_mismatch_names_pointer_and_keyword_and_the_reask_may_mend_it(mill):
    mill.put_texts(2)
    mill.put_job(URL, answer={"schema": TITLE})
    done = mill.rehearse(
        Rule(match="row 0.", times=1, content='{"title": 3}'),
        Rule(match="row 0.", content='{"title": "ok"}'),
        Rule(match="row 1.", content='{"title": 3}'),
    )
    assert done.items == {"done": 1, "quarantined": 1}
    assert done.seen["requests"] == 4
    error = mill.rows()[1]["answer_error"]
    assert error.startswith("schema_mismatch: ")
    assert "/title" in error
    assert "type" in error


@pytest.mark.parametrize("times", [0, 1, 3])
def test_retry_invalid_is_the_number_of_re_asks(mill, times: int):
    mill.put_texts(1)
    mill.put_job(URL, answer={"schema": ANY, "retry_invalid": times})
    done = mill.rehearse(Rule(content="never json"))
    assert (done.items, done.seen["requests"]) == ({"quarantined": 1}, 1 + times)


def test_truncated_and_refused_answers_are_not_asked_again(mill):
    done = asked(mill, reply("x", "length"), reply(None, refusal="no"), answer={"retry_invalid": 3})
    assert (done.items, done.seen["requests"]) == ({"quarantined": 2}, 2)


def test_a_cut_text_may_be_kept_and_is_marked(mill):
    mill.put_rows([{"text": "x" * 100}])
    mill.put_job(URL, model={"max_tokens": 5}, answer={"on_truncated": "keep"})
    done = mill.rehearse()
    assert done.items == {"done": 1}
    assert (mill.rows()[0]["answer"], mill.rows()[0]["answer_notes"]) == ("x" * 20, ["output_cut"])


@pytest.mark.parametrize("schema", [True, False])
def test_labels_come_out_bare_whether_or_not_the_server_knows_schemas(mill, schema: bool):
    mill.put_texts(20)
    mill.put_job(URL, answer={"labels": ["web", "games"]}, endpoint={"concurrency": 2})
    done = mill.rehearse(answer="label", labels=("web", "games"), schema=schema)
    assert done.items == {"done": 20}
    assert set(mill.answers()) == {"web", "games"}
    assert done.seen["by_status"].get("400", 0) <= (0 if schema else 2)
    assert done.seen["requests"] == done.result.status["requests"]["sent"]


def test_a_label_that_is_none_is_quarantined(mill):
    mill.put_texts(1)
    mill.put_job(URL, answer={"labels": ["web", "games"], "retry_invalid": 0})
    mill.rehearse(Rule(content='{"label": "other"}'))
    assert mill.rows()[0]["answer_error"].startswith("schema_mismatch: ")


def test_one_field_of_the_answer_may_be_the_answer(mill):
    mill.put_texts(1)
    mill.put_job(URL, answer={"schema": TITLE, "field": "title"})
    mill.rehearse(Rule(content='{"title": "T", "more": 1}'))
    assert mill.answers() == ["T"]


def test_a_schema_may_be_a_file(mill):
    mill.write("title.json", json.dumps(TITLE))
    mill.put_texts(3)
    mill.put_job(URL, answer={"schema": "title.json"})
    assert mill.rehearse(answer="json").items == {"done": 3}
    assert all(isinstance(answer["title"], str) for answer in mill.answers())


@pytest.mark.parametrize("content", ['{"a": NaN}', '{"a": 1, "a": 2}', '{"a": Infinity}', '{"a": 1} and more', "{'a': 1}"])
def test_what_is_no_json_is_not_an_answer(mill, content: str):
    asked(mill, reply(content), answer={"schema": ANY, "retry_invalid": 0})
    assert mill.rows()[0]["answer_error"].startswith("invalid_json: ")


def test_big_integers_and_raw_control_characters_survive(mill):
    asked(mill, reply('{"n": 123456789012345678901234567890, "t": "a\tb"}'), answer={"schema": ANY})
    assert mill.answers() == [{"n": 123456789012345678901234567890, "t": "a\tb"}]


def test_the_raw_text_of_every_quarantined_answer_is_kept(mill):
    asked(mill, reply("not json at all"), reply(None, refusal="I will not."), reply("cut", "length"),
          answer={"schema": ANY, "retry_invalid": 0}, output={"details": True})  # fmt: skip
    assert [row["answer_status"] for row in mill.rows()] == ["quarantined"] * 3
    assert mill.rows()[0]["answer_raw"] == "not json at all"
    assert mill.rows()[2]["answer_raw"] == "cut"
    assert "I will not." in mill.rows()[1]["answer_error"]


def test_per_05_what_was_judged_unacceptable_is_not_paid_for_again(mill):
    mill.put_texts(10)
    mill.put_job(URL, answer={"schema": ANY, "retry_invalid": 0})
    bad = [Rule(match=f"row {n}.", content="not json") for n in (2, 5, 7)]
    first = mill.rehearse(*bad, Rule(content='{"a": 1}'))
    assert (first.result.exit_code, first.items) == (3, {"done": 7, "quarantined": 3})
    for _ in range(2):
        again = mill.rehearse(*bad)
        assert (again.result.exit_code, again.seen["requests"], again.items) == (3, 0, first.items)
        assert again.seen["sockets"]["total"] == 0
