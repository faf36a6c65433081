"""Long records: divided, asked piece by piece, joined again; cut; or rejected. In process, over loopback."""

from __future__ import annotations

import pytest

from headrace.errors import SpecError
from headrace.runs.pipeline import RunOptions
from headrace.testing.sim import Rule

URL = "http://127.0.0.1:9/v1"  # each rehearsal puts its own server's there
WORDS = "".join(f"Sentence {n} says what number {n} says. " for n in range(40)).rstrip()
LONG = "".join(f"Sentence {n} of many says what number {n} says. " for n in range(100, 340)).rstrip()
NOTES = "Join: {% for answer in answers %}[{{ answer }}]{% endfor %}"


def put(mill, *texts, join="concat", size="200 chars", **sections):
    mill.put_rows([{"id": f"r{n}", "text": text} for n, text in enumerate(texts)])
    sections.setdefault("slice", {"split": {"size": size, "join": join}})
    mill.put_job(URL, **{"input": {"id": "id"}, **sections})


def test_an_echo_of_every_piece_is_the_text_again(mill):
    third = "Absatz eins.\n\n" + LONG + "\n\n" + "漢字がある。" * 90
    put(mill, WORDS, "short", third)
    done = mill.rehearse()
    assert done.items == {"done": 3}
    status = done.result.status
    pieces = status["slices"]["pieces"]
    assert pieces - status["units"]["duplicates_saved"] == status["units"]["total"] == done.seen["requests"] > 10
    assert status["slices"] == {"cut": 0, "pieces": pieces, "divided": 2, "joins": 0}
    assert mill.answers() == [WORDS, "short", third]


def test_equal_pieces_of_different_records_are_asked_once(mill):
    put(mill, WORDS, WORDS + " And a little more at the end of it.", WORDS)
    done = mill.rehearse()
    status = done.result.status
    assert status["units"]["total"] == done.seen["requests"] < status["slices"]["pieces"]
    assert status["units"]["duplicates_saved"] == status["slices"]["pieces"] - status["units"]["total"]
    assert mill.answers()[0] == mill.answers()[2] == WORDS


def test_without_dedupe_every_piece_is_asked_by_itself(mill):
    put(mill, WORDS, WORDS, input={"dedupe": False})
    done = mill.rehearse()
    assert done.seen["requests"] == done.result.status["slices"]["pieces"]
    assert mill.answers() == [WORDS, WORDS]


def test_a_list_has_each_piece_s_answer(mill):
    put(mill, WORDS, "short", join="list")
    mill.rehearse()
    listed, single = mill.answers()
    assert " ".join(part.strip() for part in listed) == WORDS
    assert single == ["short"]


def test_a_vote_is_for_what_most_pieces_say_with_its_share_and_what_it_was_tied_with(mill):
    put(
        mill,
        "a is good. " * 60 + "b is bad. " * 20,
        "a. " * 70 + "b. " * 70,
        "a",
        join="vote",
        answer={"labels": ["a", "b", "c"]},
    )
    said = [Rule(match="b is bad", content='{"label":"b"}'), Rule(match="b. b.", content='{"label":"b"}')]
    done = mill.rehearse(*said, Rule(content='{"label":"a"}'))
    assert done.items == {"done": 3}
    first, second, third = mill.rows()
    assert (first["answer"], third["answer"], third["answer_share"]) == ("a", "a", 1.0)
    assert 0.5 < first["answer_share"] < 1
    assert first["answer_tied"] == []
    assert second["answer_share"] <= 0.5 or second["answer_tied"] == []


@pytest.mark.parametrize("texts", [[WORDS * 8, "short"], [WORDS * 8, WORDS * 8, WORDS * 3]])
def test_a_prompt_joins_in_as_many_levels_as_it_takes(mill, texts):
    put(mill, *texts, join={"prompt": NOTES})
    done = mill.rehearse(answer="echo:60")
    assert done.items == {"done": len(texts)}
    status = done.result.status
    assert status["slices"]["joins"] > 10
    assert status["units"]["total"] == done.seen["requests"]
    answers = mill.answers()
    assert answers[0].startswith("Join: [Join: [")
    assert len(texts) == 2 or answers[1] == answers[0]  # equal documents are joined once
    assert texts[-1] != "short" or answers[1] == "short"


def test_an_overlap_is_asked_twice(mill):
    put(mill, WORDS, slice={"split": {"size": "200 chars", "overlap": "60 chars", "join": "list"}})
    mill.rehearse()
    (listed,) = mill.answers()
    assert sum(map(len, listed)) > len(WORDS) + 100


def test_the_schema_is_for_the_joined_answer_alone_where_a_prompt_joins(mill):
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    put(mill, WORDS, join={"prompt": NOTES + "{% if last %} As JSON.{% endif %}"}, answer={"schema": schema})
    done = mill.rehearse(Rule(match="As JSON.", content='{"n": 7}'), Rule(content="some text"))
    assert done.items == {"done": 1}
    assert mill.answers() == [{"n": 7}]


def test_a_piece_that_fails_fails_its_item_with_a_reason_and_nothing_is_lost(mill):
    put(mill, WORDS, "short", output={"details": True})
    refusal = Rule(match="Sentence 20 ", status=400, body={"error": {"message": "never heard of 20"}})
    done = mill.rehearse(refusal)
    assert (done.result.exit_code, done.items) == (3, {"done": 1, "failed": 1})
    row = mill.rows()[0]
    assert row["answer"] is None
    assert row["answer_error"].startswith("bad_request: piece ")
    assert "never heard of 20" in row["answer_error"]
    pieces = row["answer_pieces"]
    assert [piece["status"] for piece in pieces].count("failed") == 1
    kept = " ".join(piece["answer"].strip() for piece in pieces if piece["answer"])
    assert kept.startswith("Sentence 0 ")
    assert kept.endswith("number 39 says.")


def test_only_the_piece_that_failed_is_sent_again_by_retry(mill, monkeypatch):
    import asyncio

    from headrace.runs.registry import RunFolder
    from headrace.runs.retry import retry
    from headrace.testing.sim import SimOptions, SimServer

    put(mill, WORDS, join={"prompt": NOTES})
    stopped = mill.rehearse(Rule(match="Sentence 20 ", status=400, body={"error": {"message": "no"}}))
    assert stopped.items == {"failed": 1}
    assert stopped.result.status["slices"]["joins"] == 0  # a level begins when the one below is whole
    monkeypatch.setenv("XDG_STATE_HOME", str(mill.state))

    async def again():
        async with SimServer(SimOptions(answer="echo:30")) as sim:
            result = await retry(RunFolder(stopped.result.folder), None, [f"endpoint.url={sim.url}"])
            return result.status, sim.stats.document()

    status, seen = asyncio.run(again())
    assert status["items"]["done"] == 1
    assert seen["requests"] == 1 + status["slices"]["joins"]


def test_a_join_that_fails_fails_its_item_and_says_at_which_level(mill):
    put(mill, WORDS, join={"prompt": NOTES})
    done = mill.rehearse(Rule(match="Join: ", status=400, body={"error": {"message": "no notes"}}))
    assert done.items == {"failed": 1}
    assert mill.rows()[0]["answer_error"].startswith("bad_request: joining the pieces' answers, request 1 of level 1: ")


def test_an_unfinished_run_goes_on_with_the_pieces_that_are_left(mill):
    put(mill, WORDS * 3, join={"prompt": NOTES}, endpoint={"concurrency": 2})
    out = {"error": {"message": "no credit", "code": "insufficient_quota"}}
    first = mill.rehearse(Rule(after=10, status=429, body=out), answer="echo:40")
    assert first.items == {"pending": 1}
    finished = mill.rehearse(answer="echo:40")
    assert finished.items == {"done": 1}
    assert finished.seen["requests"] == finished.result.status["units"]["total"] - first.seen["by_status"]["200"]
    answer = mill.answers()
    mill.output.unlink()
    again = mill.rehearse(options=RunOptions(new=True), answer="echo:40")
    assert again.items == {"done": 1}
    assert mill.answers() == answer


def test_answers_of_pieces_and_joins_are_taken_over(mill):
    put(mill, WORDS * 3, join={"prompt": NOTES}, endpoint={"identity": "one"})
    first = mill.rehearse(answer="echo:40")
    answer = mill.answers()
    put(mill, WORDS * 3, "one more", join={"prompt": NOTES}, endpoint={"identity": "one"})
    second = mill.rehearse(options=RunOptions(reuse=first.result.run), answer="echo:40")
    assert second.items == {"done": 2}
    assert second.seen["requests"] == 1
    assert mill.answers()[:1] == answer


def test_what_is_cut_is_counted_and_marked(mill):
    put(mill, WORDS, "short", slice={"truncate": "200 chars"})
    done = mill.rehearse()
    assert done.result.status["slices"]["cut"] == 1
    long, short = mill.rows()
    assert (long["answer_notes"], short["answer_notes"]) == (["input_cut"], [])
    assert WORDS.startswith(long["answer"])
    assert long["answer"].endswith("says.")
    assert long["text"] == WORDS


@pytest.mark.parametrize("more", [{}, {"split": {"size": "100 chars"}}])
def test_an_oversized_record_is_rejected_before_anything_of_it_is_sent(mill, more):
    put(mill, WORDS, "short", slice={"max_input": "500 chars", **more})
    done = mill.rehearse()
    assert done.items == {"done": 1, "rejected": 1}
    assert done.seen["requests"] == 1
    error = mill.rows()[0]["answer_error"]
    assert error == f"bad_input: the prompt has {len(WORDS)} chars, and slice.max_input allows 500 chars"


def test_truncate_comes_before_division(mill):
    put(mill, WORDS, slice={"truncate": "600 chars", "split": {"size": "200 chars"}})
    done = mill.rehearse()
    assert done.result.status["slices"]["cut"] == 1
    (row,) = mill.rows()
    assert WORDS.startswith(row["answer"])
    assert 480 < len(row["answer"]) <= 600


def test_a_budget_holds_for_the_requests_that_join_too(mill):
    put(mill, LONG, join={"prompt": NOTES}, limits={"max_requests": 25}, endpoint={"concurrency": 4})
    stopped = mill.rehearse(answer="echo:40")
    assert (stopped.result.exit_code, stopped.result.reason, stopped.seen["requests"]) == (5, "max_requests", 25)
    pieces = stopped.result.status["slices"]["pieces"]
    again = mill.rehearse(overrides=[f"limits.max_requests={pieces + 2}"], answer="echo:40")
    assert (again.result.exit_code, again.result.reason) == (5, "max_requests")
    assert again.result.status["slices"]["joins"] > 0
    assert stopped.seen["requests"] + again.seen["requests"] == pieces + 2
    finished = mill.rehearse(overrides=["limits.max_requests=1000"], answer="echo:40")
    assert finished.items == {"done": 1}


def test_a_template_may_print_the_piece_s_number(mill):
    put(
        mill,
        WORDS,
        "short",
        prompt={"user": "{{ piece }}/{{ pieces }} {{ text }}"},
        slice={"split": {"size": "400 chars", "join": "list"}},
    )
    mill.rehearse(answer="echo:3")
    listed, single = mill.answers()
    assert listed == [f"{n}/{len(listed)}" for n in range(1, len(listed) + 1)]
    assert single == ["1/1"]


def test_failures_and_tables_know_items_alone(mill):
    put(mill, WORDS, "short", output={"path": "out.csv"}, join="list")
    mill.rehearse(Rule(match="Sentence 2", status=400, body={"error": {"message": "no"}}))
    told = mill.command("failures", "--json")
    (group,) = told.document["groups"]
    assert (group["kind"], group["count"], group["examples"]) == ("bad_request", 1, ["r0"])
    lines = (mill.folder / "out.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 3
    exported = mill.command("export", "--to", "again.jsonl", "--details", "--only", "done")
    assert exported.code == 0
    (row,) = mill.rows(mill.folder / "again.jsonl")
    assert (row["id"], row["answer"], len(row["answer_pieces"])) == ("r1", ["short"], 1)


def test_status_says_in_words_what_was_divided_and_cut(mill):
    put(mill, WORDS, "short", slice={"truncate": "600 chars", "split": {"size": "200 chars", "join": {"prompt": NOTES}}})
    document = mill.rehearse(answer="echo:40").result.status
    said = mill.command("status").out
    pieces, joins = document["slices"]["pieces"], document["slices"]["joins"]
    assert f"pieces     {pieces}, of 1 divided item and all others; {joins} request" in said
    assert "cut        1 of the records, to slice.truncate" in said


def test_labels_by_log_probability_are_voted_on_with_a_confidence(mill):
    put(mill, LONG, join="vote", size="2000 chars", answer={"labels": ["yes", "no"], "method": "score"})
    done = mill.rehearse(answer="label", labels=("yes", "no"))
    assert done.items == {"done": 1}
    (row,) = mill.rows()
    assert row["answer"] in {"yes", "no"}
    assert 0 < row["answer_confidence"] < 1
    assert 0.5 <= row["answer_share"] <= 1


def test_what_changed_is_told_in_records_not_in_pieces(mill):
    put(mill, LONG, WORDS, endpoint={"concurrency": 2})
    out = {"error": {"message": "no credit", "code": "insufficient_quota"}}
    assert mill.rehearse(Rule(after=5, status=429, body=out)).result.exit_code == 4
    put(mill, LONG, WORDS + " One sentence more.", "a third", endpoint={"concurrency": 2})
    with pytest.raises(SpecError, match=r"1 .*added.*1 .*changed|1 .*changed.*1 .*added"):
        mill.rehearse()


def test_a_record_that_the_joining_prompt_cannot_use_is_rejected_before_its_pieces_are_paid_for(mill):
    put(mill, LONG, "short", join={"prompt": NOTES + " {{ title }}"})
    done = mill.rehearse()
    assert done.items == {"done": 1, "rejected": 1}
    assert done.seen["requests"] == 1
    assert "title" in mill.rows()[0]["answer_error"]


def test_a_joining_prompt_prints_fields_that_were_not_divided(mill):
    mill.put_rows([{"title": "Mills", "text": WORDS}])
    mill.put_job(
        URL, slice={"split": {"size": "400 chars", "join": {"prompt": "{{ title }}, level {{ level }}: {{ answers | length }}"}}}
    )
    mill.rehearse(answer="echo:100")
    (answer,) = mill.answers()
    assert answer.startswith("Mills, level ")
