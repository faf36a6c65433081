"""Replies to answers and failures, in the contract's order of rules."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.answers.judge import AnswerJudge
from headrace.errors import SpecError
from headrace.spec import JobSpec
from headrace.values import Answer, Failure, Kind, Note, Reply, Usage

USAGE = Usage(prompt=10, completion=20)
OBJECT = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
ANY_TEXT = st.text(alphabet=st.characters(codec=None))


def judge_of(route: str = "chat", **answer: Any) -> AnswerJudge:
    prompt = {"user": "x"} if route == "chat" else {"prompt": "x"}
    job = {"input": {"path": "x"}, "prompt": prompt, "endpoint": {"url": "local"}, "output": {"path": "o"}}
    return AnswerJudge(JobSpec.model_validate({**job, "model": {"name": "m", "route": route}, "answer": answer}))


def reply_of(content: str | None, finish: str | None = "stop", **rest: Any) -> Reply:
    return Reply(content, finish, **{"usage": USAGE, **rest})


def answered(reply: Reply, **answer: Any) -> Answer:
    judged = judge_of(**answer).judge(reply)
    assert isinstance(judged, Answer), judged
    return judged


def failed(reply: Reply, **answer: Any) -> Failure:
    judged = judge_of(**answer).judge(reply)
    assert isinstance(judged, Failure), judged
    assert judged.usage is reply.usage
    assert judged.message.isprintable()
    assert len(judged.message) <= 300
    return judged


def test_plain_text_is_the_replys_content() -> None:
    assert answered(reply_of(" Paris\n")) == Answer(None)


def test_jsn_01_a_fenced_answer_is_accepted_and_marked() -> None:
    assert answered(reply_of('```json\n{"a":1}\n```'), schema=OBJECT) == Answer('{"a":1}', (Note.REPAIRED,))


@pytest.mark.parametrize("finish", ["length", "max_tokens", "LENGTH"])
@pytest.mark.parametrize("content", ['{"items":[1,2', None, "", '{"a":1}', '{"a":' + "\n " * 4000])
def test_jsn_03_and_jsn_06_a_cut_answer_is_truncated_whatever_it_holds(finish: str, content: str | None) -> None:
    failure = failed(reply_of(content, finish), schema=OBJECT)
    assert failure.kind is Kind.TRUNCATED
    assert "after 20 tokens" in failure.message


def test_jsn_04_a_failure_carries_what_the_reply_cost() -> None:
    for reply in (reply_of("no"), reply_of("{", "length"), reply_of("")):
        assert failed(reply, schema=OBJECT).usage == USAGE


@pytest.mark.parametrize(
    ("finish", "reasoning"), [("length", None), ("length", "hm"), ("stop", "hm"), (None, "hm"), ("eos", "hm")]
)
@pytest.mark.parametrize("content", [None, "", " \n"])
def test_rsn_01_reasoning_without_an_answer_is_truncated(content: str | None, finish: str | None, reasoning: str | None) -> None:
    usage = Usage(prompt=1, completion=200, reasoning=199)
    failure = failed(reply_of(content, finish, reasoning=reasoning, usage=usage))
    assert failure.kind is Kind.TRUNCATED
    assert "after 200 tokens, 199 of them reasoning" in failure.message


def test_rsn_03_the_draft_in_a_think_block_is_not_the_answer() -> None:
    assert answered(reply_of('<think>maybe {"a":2}</think>\n{"a":1}'), schema=OBJECT) == Answer('{"a":1}')
    text = '{"a":1,"x":"a <think>b</think>"}'
    assert answered(reply_of(text), schema=OBJECT) == Answer(text)
    assert answered(reply_of(text)) == Answer(None)


@pytest.mark.parametrize("content", ["plan...</think>\n\nAnswer", "<THINK>p</THINK>Answer"])
def test_rsn_04_think_blocks_are_stripped_from_text_unless_told_otherwise(content: str) -> None:
    assert answered(reply_of(content)) == Answer('"Answer"')
    assert answered(reply_of(content), strip_think=False) == Answer(None)


@pytest.mark.parametrize("answer", [{}, {"schema": OBJECT}, {"labels": ["a"]}, {"schema": OBJECT, "extract": "lenient"}])
def test_a_think_block_alone_is_empty_or_truncated(answer: dict[str, Any]) -> None:
    assert failed(reply_of("<think>x</think>\n"), **answer).kind is Kind.EMPTY
    assert failed(reply_of("<think>x", "length"), **answer).kind is Kind.TRUNCATED
    assert failed(reply_of("<think>x", "length"), **answer, on_truncated="keep").kind is Kind.TRUNCATED


def test_rsp_02_the_finish_reason_decides() -> None:
    assert failed(reply_of(None, "content_filter")).kind is Kind.CONTENT_FILTER
    assert failed(reply_of("part", "content_filter")).kind is Kind.CONTENT_FILTER
    assert failed(reply_of("part", "length")).kind is Kind.TRUNCATED
    assert failed(reply_of(None, "stop", refusal="I can't\x1b[2J")).kind is Kind.REFUSAL
    assert answered(reply_of("text", None)) == Answer(None, (Note.FINISH_UNKNOWN,))
    assert answered(reply_of("text", "recitation")) == Answer(None, (Note.FINISH_UNKNOWN,))


@pytest.mark.parametrize("finish", ["stop", "eos", "eos_token", "stop_sequence", "end_turn", "tool_calls", "function_call"])
def test_known_good_endings_need_no_note(finish: str) -> None:
    assert answered(reply_of("text", finish)) == Answer(None)


@pytest.mark.parametrize("usage", [None, Usage(), Usage(prompt=1), Usage(completion=1)])
def test_rsp_04_missing_usage_is_noted(usage: Usage | None) -> None:
    assert answered(reply_of("text", usage=usage)) == Answer(None, (Note.USAGE_MISSING,))
    assert answered(reply_of("text", None, usage=usage)).notes == (Note.FINISH_UNKNOWN, Note.USAGE_MISSING)


@pytest.mark.parametrize("content", [None, "", " \r\n\t"])
def test_nothing_is_empty(content: str | None) -> None:
    for answer in ({}, {"schema": OBJECT}, {"labels": ["a"]}):
        assert failed(reply_of(content), **answer).kind is Kind.EMPTY


def test_a_cut_text_is_kept_where_the_job_says_so() -> None:
    assert answered(reply_of("half a sen", "length"), on_truncated="keep") == Answer(None, (Note.OUTPUT_CUT,))
    assert answered(reply_of("<think>x</think>half", "length"), on_truncated="keep") == Answer('"half"', (Note.OUTPUT_CUT,))
    assert failed(reply_of(" ", "length"), on_truncated="keep").kind is Kind.TRUNCATED
    assert failed(reply_of('{"a":1}', "length"), on_truncated="keep", schema=OBJECT).kind is Kind.TRUNCATED


@pytest.mark.parametrize(
    ("content", "kind", "words"),
    [
        ("sorry", Kind.INVALID_JSON, "Expecting value at character 1"),
        ('{"a":1,"a":2}', Kind.INVALID_JSON, "duplicate key"),
        ('{"a":NaN}', Kind.INVALID_JSON, "NaN"),
        ('here: {"a":1}', Kind.INVALID_JSON, "Expecting value"),
        ('{"a":"x"}', Kind.SCHEMA_MISMATCH, "/a: type: "),
        ("{}", Kind.SCHEMA_MISMATCH, "required"),
        ("[]", Kind.SCHEMA_MISMATCH, "type"),
    ],
)
def test_what_does_not_fit_the_schema_says_why(content: str, kind: Kind, words: str) -> None:
    failure = failed(reply_of(content), schema=OBJECT)
    assert failure.kind is kind
    assert words in failure.message


def test_lenient_takes_an_answer_out_of_prose() -> None:
    assert answered(reply_of('here: {"a":1}'), schema=OBJECT, extract="lenient") == Answer('{"a":1}', (Note.REPAIRED,))


def test_an_answer_is_exact() -> None:
    text = '{"a":123456789012345678901234567890,"b":"\\ud800\\u0000","c":1.50}'
    answer = answered(reply_of(text), schema=OBJECT)
    assert answer.value is not None
    assert json.loads(answer.value) == json.loads(text)
    assert "123456789012345678901234567890" in answer.value


def test_a_field_is_the_answer() -> None:
    job: dict[str, Any] = {"schema": {"type": "object"}, "field": "c"}
    assert answered(reply_of('{"c":[1, "ä"],"d":0}'), **job) == Answer('[1,"ä"]')
    assert answered(reply_of('{"c":null}'), **job) == Answer("null")
    assert failed(reply_of('{"d":0}'), **job).kind is Kind.SCHEMA_MISMATCH
    assert failed(reply_of("[1]"), schema={}, field="c").kind is Kind.SCHEMA_MISMATCH


@pytest.mark.parametrize(
    ("content", "notes"),
    [
        ('{"label": "spam"}', ()),
        ('<think>ham?</think>{"label":"spam"}', ()),
        ('```\n{"label":"spam"}\n```', (Note.REPAIRED,)),
        ("spam", (Note.REPAIRED,)),
        (" spam\n", (Note.REPAIRED,)),
        ('"spam"', (Note.REPAIRED,)),
        ("<think>ham?</think> spam", (Note.REPAIRED,)),
    ],
)
def test_labels_are_unwrapped_and_a_bare_label_is_accepted(content: str, notes: tuple[Note, ...]) -> None:
    assert answered(reply_of(content), labels=["spam", "ham"]) == Answer('"spam"', notes)


@pytest.mark.parametrize("content", ["Spam", "spam.", "spam ham", '{"label":"eggs"}', '["spam"]', '{"label":["spam"]}', "1"])
def test_what_is_no_label_is_not_accepted(content: str) -> None:
    assert failed(reply_of(content), labels=["spam", "ham"]).kind in (Kind.INVALID_JSON, Kind.SCHEMA_MISMATCH)


def test_labels_that_look_like_numbers_are_texts() -> None:
    assert answered(reply_of("1"), labels=["1", "2"]) == Answer('"1"', (Note.REPAIRED,))


def test_an_answer_in_the_reasoning_counts_only_where_asked_for_and_valid() -> None:
    reply = reply_of("", reasoning='so: ```\n{"a":1}\n```'.removeprefix("so: "))
    assert failed(reply, schema=OBJECT).kind is Kind.TRUNCATED
    assert answered(reply, schema=OBJECT, from_reasoning="if_valid").value == '{"a":1}'
    assert failed(reply_of("", reasoning="hm"), schema=OBJECT, from_reasoning="if_valid").kind is Kind.TRUNCATED
    assert failed(reply_of("", "length", reasoning='{"a":1}'), schema=OBJECT, from_reasoning="if_valid").kind is Kind.TRUNCATED
    assert failed(reply_of("", reasoning="hm"), from_reasoning="if_valid").kind is Kind.TRUNCATED


@pytest.mark.parametrize("answer", [{"field": "a"}, {"labels": ["a"], "field": "b"}])
def test_keys_that_do_not_fit_together_are_refused(answer: dict[str, Any]) -> None:
    with pytest.raises(SpecError) as caught:
        judge_of(**answer)
    assert caught.value.key == "answer.field"


def test_a_reask_appends_the_wrong_answer_and_what_was_wrong() -> None:
    judge = judge_of(schema=OBJECT)
    reply = reply_of('<think>long</think>{"a": "ä\x1b"}')
    failure = judge.judge(reply)
    assert isinstance(failure, Failure)
    payload = b'[{"role":"user","content":"x"}]'
    messages = json.loads(judge.reask(payload, reply, failure))
    assert messages[:2] == [{"role": "user", "content": "x"}, {"role": "assistant", "content": '{"a": "ä\x1b"}'}]
    assert messages[2]["role"] == "user"
    assert messages[2]["content"].startswith("Your answer was not accepted: /a: type: ")
    assert json.dumps(OBJECT, separators=(",", ":")) in messages[2]["content"]
    assert len(messages) == 3


def test_a_reask_after_an_empty_reply_quotes_nothing() -> None:
    judge = judge_of(labels=["spam", "ham"])
    reply = reply_of(None)
    failure = judge.judge(reply)
    assert isinstance(failure, Failure)
    messages = json.loads(judge.reask(b'[{"role":"user","content":"x"}]', reply, failure))
    assert [message["role"] for message in messages] == ["user", "user"]
    assert '["spam","ham"]' in messages[1]["content"]


def test_a_reask_of_a_completion_goes_on_with_the_text() -> None:
    judge = judge_of(route="completions", schema={"type": "object"})
    reply = reply_of("no\ud800")
    prompt = json.loads(judge.reask(b'"Q: \\"x\\""', reply, Failure(Kind.INVALID_JSON, "bad")))
    assert prompt.startswith('Q: "x"\n\nno\ud800\n\nYour answer was not accepted: bad. Answer again')


def test_a_reask_quotes_so_much_and_no_more() -> None:
    reply = reply_of("x" * 10_000)
    messages = json.loads(judge_of(schema=OBJECT).reask(b"[{}]", reply, Failure(Kind.INVALID_JSON, "bad\n" * 1000)))
    assert len(messages[1]["content"]) == 4_000
    assert len(messages[2]["content"]) < 800


@given(
    ANY_TEXT | st.none(),
    st.none() | st.sampled_from(["stop", "length", "x", ""]),
    st.none() | ANY_TEXT,
    st.none() | ANY_TEXT,
    st.sampled_from(
        [
            judge_of(),
            judge_of(labels=["a", "b"]),
            judge_of(schema=OBJECT, extract="lenient", from_reasoning="if_valid"),
            judge_of(schema={}, field="a"),
            judge_of(on_truncated="keep"),
        ]
    ),
)
def test_no_reply_makes_the_judge_raise(
    content: str | None, finish: str | None, reasoning: str | None, refusal: str | None, judge: AnswerJudge
) -> None:
    reply = Reply(content, finish, reasoning, refusal)
    judged = judge.judge(reply)
    if isinstance(judged, Failure):
        assert judged.message.isprintable()
        assert json.loads(judge.reask(b"[{}]", reply, judged))[0] == {}
    elif judged.value is not None:
        json.loads(judged.value)
