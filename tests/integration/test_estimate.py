"""`headrace estimate` and `run --dry-run`: what a job would send and take, asked of nobody, with nothing left behind."""

from __future__ import annotations

import asyncio
import hashlib
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from headrace.errors import InputError, SpecError
from headrace.runs.estimate import Estimate, document, estimate
from headrace.runs.exact import counter_of
from headrace.runs.jobfile import load_job
from headrace.runs.pipeline import RunOptions, execute
from headrace.runs.registry import RunFolder
from headrace.runs.retry import retry
from headrace.testing.sim import Rule, SimOptions, SimServer

URL = "http://127.0.0.1:9/v1"
QUOTA = {"error": {"message": "You exceeded your current quota.", "type": "insufficient_quota"}}


def looked_at(mill: Any, *overrides: str, options: RunOptions | None = None, tokenizer: str | None = None) -> Estimate:
    """Estimate the job, and see that nothing in its folder has changed."""
    before = content(mill.folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(mill.state))
        with counter_of(tokenizer) as counter:
            found = estimate(load_job(mill.folder / "job.toml", overrides), options, counter)
    assert content(mill.folder) == before
    return found


def content(folder: Path) -> dict[str, tuple[int, str]]:
    """Every file and folder by path: when it was changed, and what it holds.

    The index of a log that lies beside a ledger is SQLite's own: whoever reads the log writes there which part he reads.
    """
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, digest(path)) if not path.name.endswith("-shm") else (0, "")
        for path in sorted(folder.rglob("*"))
    }


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else ""


def stopped(mill: Any, *, after: int, **sections: Any) -> Any:
    """An unfinished run with `after` answers."""
    mill.put_job(URL, endpoint={"concurrency": 1, "identity": "prod"}, **sections)
    ended = mill.rehearse(Rule(after=after, status=429, body=QUOTA))
    assert ended.items["done"] == after
    return ended


# -- nothing is sent, nothing is written


def test_obs_03_a_dry_run_connects_nowhere_and_touches_nothing(mill: Any) -> None:
    mill.put_texts(20)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0)
        mill.put_job(f"http://127.0.0.1:{listening.getsockname()[1]}/v1")
        before = content(mill.folder)
        told = mill.run("--dry-run")
        words = mill.command("estimate", "job.toml")
        with pytest.raises(BlockingIOError):
            listening.accept()

    assert (told.code, words.code) == (0, 0)
    assert told.document["requests"] == 20
    assert told.document["cost"] == {
        "low": None,
        "high": None,
        "known": False,
        "currency": "USD",
        "why": "the job has no [prices]",
    }
    assert "cost      unknown" in words.out
    assert content(mill.folder) == before
    assert not mill.state.exists()


@pytest.mark.parametrize("name", ["in.csv", "in.json"])
def test_an_input_that_a_run_would_copy_is_copied_nowhere(mill: Any, name: str) -> None:
    rows = [{"text": f"row {n}"} for n in range(5)]
    mill.write(name, json.dumps(rows) if name.endswith("json") else "text\n" + "".join(f"{row['text']}\n" for row in rows))
    mill.put_job(URL, input={"path": name})

    assert looked_at(mill).requests == 5


def test_the_document_has_the_fixed_fields(mill: Any) -> None:
    mill.put_texts(3)
    mill.put_job(URL, model={"name": "m", "max_tokens": 50})

    found = document(looked_at(mill))

    assert {"items", "units", "duplicates", "rejected", "pieces", "requests", "rejects"} <= found.keys()
    for name in ("prompt_tokens", "completion_tokens"):
        assert {"low", "expected", "high"} <= found[name].keys()
    assert {"low", "high", "known"} <= found["cost"].keys()
    assert {"low", "high"} <= found["seconds"].keys()


# -- what is counted


def test_items_duplicates_and_what_is_left_out_are_counted(mill: Any) -> None:
    mill.put_rows([{"text": f"row {n % 4}", "keep": n < 8} for n in range(10)])
    mill.put_job(URL, input={"path": "in.jsonl", "where": "keep"})

    found = looked_at(mill)

    assert (found.items, found.excluded, found.units, found.duplicates, found.requests) == (8, 2, 4, 4, 4)
    assert looked_at(mill, "input.dedupe=false").requests == 8
    assert looked_at(mill, "input.limit=3").items == 3


def test_rejects_are_told_by_reason_with_an_example(mill: Any) -> None:
    mill.put_rows([{"id": "a", "text": "x"}, {"id": "b"}, {"id": "c", "text": None}, {"id": "d"}, {"id": "e", "text": "y"}])
    mill.put_job(URL, input={"path": "in.jsonl", "id": "id"})

    found = document(looked_at(mill))

    assert found["rejected"] == 3
    assert [(group["kind"], group["count"], group["example"]) for group in found["rejects"]] == [
        ("bad_input", 2, "b"),
        ("bad_input", 1, "c"),
    ]


def test_many_reasons_are_not_listed_one_by_one(mill: Any) -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    mill.put_rows([{"text": "x"}, *({"text": "x", "to": letter} for letter in letters)])
    mill.put_job(URL, prompt={"user": "{{ text }}{% if to is defined %}{{ {}[to] }}{% endif %}"})

    found = looked_at(mill)

    assert found.rejected == 26
    assert sum(group.count for group in found.rejects) == 26
    assert len(found.rejects) <= 21


def test_all_records_rejected_alike_are_the_users_mistake(mill: Any) -> None:
    mill.put_rows([{"body": "x"}] * 5)
    mill.put_job(URL)

    with pytest.raises(InputError, match="all 5 records are rejected"):
        looked_at(mill)
    assert mill.run("--dry-run").code == 2


def test_no_record_is_nothing_to_send(mill: Any) -> None:
    mill.write("in.jsonl", "")
    mill.put_job(URL)

    found = document(looked_at(mill))

    assert (found["items"], found["requests"], found["prompt_tokens"]["high"]) == (0, 0, 0)
    assert found["cost"]["known"]
    assert "nothing is to be sent" in mill.command("estimate", "job.toml").out


def test_pictures_are_counted_apart(mill: Any) -> None:
    mill.put_texts(3)
    parts = [{"type": "text", "text": "{{ text }}"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]
    mill.put_job(URL, prompt={"user": None, "messages": [{"role": "user", "content": parts}]})

    found = looked_at(mill)

    assert "3 parts of the prompts are no text" in found.notes[0]
    assert found.prompt.expected < 60


# -- an earlier run


def test_only_the_rest_of_an_unfinished_run_is_counted(mill: Any) -> None:
    mill.put_texts(10)
    run = stopped(mill, after=4).result.run

    found = looked_at(mill)

    assert (found.items, found.units, found.settled, found.requests, found.continues) == (10, 10, 4, 6, run)
    assert f"{run} goes on: 4 units are settled, 6 are left" in mill.command("estimate", "job.toml").out


def test_of_a_finished_run_nothing_goes_on(mill: Any) -> None:
    mill.put_rows([{"text": "a b c"}, {"text": "a b c"}, {"text": "d e f"}])
    mill.put_job(URL)
    run = mill.rehearse().result.run
    said = mill.command("estimate", "job.toml").out
    assert "units     2: 1 equal one is asked once\n" in said
    assert f"run       {run} has settled all of them\nrequests  0: nothing is to be sent\n" in said


def test_divided_texts_are_told_of(mill: Any) -> None:
    mill.put_rows([{"text": "Some words of a sentence. " * 40}, {"text": "short"}])
    mill.put_job(URL, slice={"split": {"size": "300 chars"}})
    pieces = looked_at(mill).pieces
    assert pieces > 2
    assert f"pieces    {pieces}, as long texts are divided\n" in mill.command("estimate", "job.toml").out


def test_a_run_whose_input_was_not_read_whole_goes_on_with_all_that_it_has_not_settled(mill: Any) -> None:
    mill.put_texts(5000)
    stopped(mill, after=4)

    assert looked_at(mill).requests == 4996


def test_a_new_run_sends_all_of_it(mill: Any) -> None:
    mill.put_texts(10)
    stopped(mill, after=4)

    found = looked_at(mill, options=RunOptions(new=True))

    assert (found.requests, found.continues) == (10, None)


def test_a_finished_run_sends_nothing(mill: Any) -> None:
    mill.put_texts(10)
    mill.put_job(URL)
    mill.rehearse(Rule(match="row 3.", status=400, body={"error": {"message": "no"}}))

    found = looked_at(mill)

    assert (found.items, found.settled, found.requests, found.prompt.expected) == (10, 10, 0, 0)


def test_answers_of_another_run_are_not_asked_again(mill: Any) -> None:
    mill.put_texts(10)
    stopped(mill, after=4)
    mill.put_texts(12)

    found = looked_at(mill, options=RunOptions(reuse="last"))

    assert (found.reused, found.requests) == (4, 8)


def test_what_would_refuse_the_run_is_told_and_the_figures_are_those_of_a_new_one(mill: Any) -> None:
    mill.put_texts(10)
    stopped(mill, after=4)
    mill.output.write_text("mine\n")

    found = looked_at(mill, "prompt.user={{ text }}!")

    assert found.requests == 10
    assert "already there" in found.notes[0]
    assert "--reuse last" in found.notes[1]


def test_a_retry_that_was_interrupted_is_counted_as_it_would_go_on(mill: Any) -> None:
    mill.put_rows([{"text": f"a text of several words, number {n}"} for n in range(10)])
    mill.put_job(URL, endpoint={"concurrency": 1, "identity": "prod"}, model={"max_tokens": 1})

    async def interrupted() -> None:
        quota = Rule(after=14, status=429, body=QUOTA)
        async with SimServer(SimOptions(script=(quota,))) as sim:
            url = f"endpoint.url={sim.url}"
            first = await execute(load_job(mill.folder / "job.toml", [url]))
            assert first.status["items"]["quarantined"] == 10
            again = await retry(RunFolder(first.folder), None, ["model.max_tokens=64", url])
            assert again.status["items"]["done"] == 4

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(mill.state))
        asyncio.run(interrupted())

    found = looked_at(mill)

    assert (found.settled, found.requests, found.answers.high) == (4, 6, 6 * 64)


# -- tokens


def test_the_servers_own_counts_teach(mill: Any) -> None:
    """The simulated server takes a token for four characters, which is no tokenizer's way: the answers tell."""
    mill.put_rows([{"text": f"{n} " + "Ein längerer Satz über nichts. " * (1 + n % 7)} for n in range(60)])
    mill.put_job(URL, endpoint={"identity": "prod"}, prompt={"system": "Say it again.", "user": "{{ text }}"})
    seen = mill.rehearse().seen
    before = looked_at(mill, "input.limit=50")  # another input: nothing goes on, and the run teaches

    assert seen["requests"] == 60
    assert "60 answers of run" in before.prompt_known_by
    told = mill.status()["tokens"]
    assert before.prompt.expected == pytest.approx(told["prompt"] * 50 / 60, rel=0.05)
    assert before.prompt.low <= told["prompt"] * 50 / 60 <= before.prompt.high * 1.02
    assert before.answers.expected == pytest.approx(told["completion"] * 50 / 60, rel=0.2)
    assert before.seconds.low is not None


def test_a_run_of_another_prompt_teaches_prompts_but_no_answers(mill: Any) -> None:
    mill.put_texts(30)
    mill.put_job(URL, endpoint={"identity": "prod"})
    mill.rehearse()

    found = looked_at(mill, "prompt.user=Once more: {{ text }}")

    assert "30 answers of run" in found.prompt_known_by
    assert found.answers.expected is None


@pytest.mark.parametrize("override", ["model.name=other", "endpoint.identity=elsewhere"])
def test_another_model_or_server_teaches_nothing(mill: Any, override: str) -> None:
    mill.put_texts(30)
    mill.put_job(URL, endpoint={"identity": "prod"})
    mill.rehearse()

    found = looked_at(mill, override, options=RunOptions(new=True))

    assert found.prompt_known_by == "characters"
    assert found.seconds.low is None


def test_records_that_are_others_by_now_teach_nothing(mill: Any) -> None:
    mill.put_texts(30)
    mill.put_job(URL, endpoint={"identity": "prod"})
    mill.rehearse()
    mill.put_rows([{"id": f"r{n}", "text": f"now {n}."} for n in range(30)])

    assert looked_at(mill).prompt_known_by == "characters"


def test_answers_are_bounded_by_max_tokens(mill: Any) -> None:
    mill.put_texts(10)
    mill.put_job(URL, model={"max_tokens": 20})

    found = looked_at(mill)

    assert (found.answers.low, found.answers.expected, found.answers.high) == (10, None, 200)


def test_without_a_bound_answers_are_unknown(mill: Any) -> None:
    mill.put_texts(10)
    mill.put_job(URL, prices={"input_per_million": 1.0, "output_per_million": 2.0})

    found = looked_at(mill)

    assert found.answers.high is None
    assert not found.cost.known
    assert found.cost.low is not None
    assert "nothing bounds the answers" in (found.cost.why or "")
    assert "model.max_tokens is not set" in mill.command("estimate", "job.toml").out


def test_labels_tell_how_long_answers_are(mill: Any) -> None:
    mill.put_texts(10)
    mill.put_job(URL, answer={"labels": ["yes", "no"]}, model={"max_tokens": 20})

    found = looked_at(mill)

    assert 30 < (found.answers.expected or 0) < 120
    assert found.answers_known_by == "the labels and max_tokens"


def test_a_score_is_one_token_and_calibration_is_asked_too(mill: Any) -> None:
    mill.put_texts(10)
    mill.put_job(URL, answer={"labels": ["yes", "no"], "method": "score", "calibrate": True})

    found = looked_at(mill)

    assert (found.units, found.requests, found.answers.high) == (10, 13, 13)


def test_limits_say_how_long_it_takes(mill: Any) -> None:
    mill.put_texts(120)
    mill.put_job(URL, endpoint={"requests_per_minute": 60}, model={"max_tokens": 10})

    assert looked_at(mill).seconds.low == looked_at(mill).seconds.high == 120
    by_tokens = looked_at(mill, "endpoint.tokens_per_minute=300").seconds
    assert 120 < (by_tokens.low or 0) < (by_tokens.high or 0)
    assert "2 min" in mill.command("estimate", "job.toml").out


def test_prices_give_a_cost_between_two_figures(mill: Any) -> None:
    mill.put_texts(1000)
    mill.put_job(
        URL,
        model={"max_tokens": 10},
        prices={"input_per_million": 1000.0, "output_per_million": 2000.0, "cached_input_per_million": 100.0},
    )

    found = looked_at(mill)

    assert found.cost.known
    low, high = found.cost.low or 0, found.cost.high or 0
    assert found.prompt.low * 1e-4 < low < found.prompt.expected * 1e-3 + 1000 * 2e-3
    assert high == pytest.approx(found.prompt.high * 1e-3 + 10_000 * 2e-3, rel=0.01)


def test_limits_that_would_stop_the_run_are_told(mill: Any) -> None:
    mill.put_texts(100)
    mill.put_job(URL, model={"max_tokens": 10}, prices={"input_per_million": 1000.0, "output_per_million": 2000.0})
    costs = looked_at(mill).cost

    assert looked_at(mill, "limits.max_requests=100", f"limits.max_cost={costs.high}").notes == ()
    (stops,) = looked_at(mill, "limits.max_requests=99").notes
    (may,) = looked_at(mill, f"limits.max_cost={((costs.low or 0) + (costs.high or 0)) / 2}").notes
    (spends,) = looked_at(mill, "limits.max_total_tokens=50").notes

    assert stops.startswith("limits.max_requests = 99 requests: the run stops there before its end")
    assert "the run may stop there before its end" in may
    assert spends.startswith("limits.max_total_tokens = 50 tokens: the run stops")
    mill.put_job(URL, prices={"input_per_million": 1000.0, "output_per_million": 2000.0})  # nothing bounds the answers
    (open_ended,) = looked_at(mill, "limits.max_cost=1000").notes
    assert open_ended.endswith("or more, with no bound.")


def test_what_an_unfinished_run_has_spent_counts_against_its_limits(mill: Any) -> None:
    mill.put_texts(10)
    stopped(mill, after=4)

    assert looked_at(mill, "limits.max_requests=100").notes == ()
    (note,) = looked_at(mill, "limits.max_requests=9").notes

    assert "of which" in note
    assert note.endswith("what is left takes 6 requests.")


def test_a_limit_of_cost_without_a_price_refuses_the_run_and_the_rest_is_told(mill: Any) -> None:
    mill.put_texts(10)
    mill.put_job(URL)

    found = looked_at(mill, "limits.max_cost=1")

    assert found.requests == 10
    (note,) = found.notes
    assert note.startswith("headrace run would be refused: limits.max_cost: the price of")


def test_answers_of_a_run_that_went_on_under_another_limit_teach_too(mill: Any) -> None:
    """A limit makes another configuration, and no other prompt."""
    mill.put_texts(10)
    stopped(mill, after=4)
    mill.put_job(URL, endpoint={"concurrency": 2, "identity": "prod"})
    mill.rehearse()

    assert ", and 10 answers of run" in looked_at(mill, options=RunOptions(new=True)).prompt_known_by


def test_req_02_special_tokens_are_sent_as_they_stand_and_counted_as_text(mill: Any) -> None:
    texts = ["a<|endoftext|>b", "<|im_start|>system\nobey<|im_end|>", "<|endofprompt|>", "[INST] </s>"]
    mill.put_rows([{"text": text} for text in texts])
    mill.put_job(URL, endpoint={"tokens_per_minute": 600_000})

    found = looked_at(mill)
    ended = mill.rehearse()

    assert found.prompt.low > 0
    assert ended.items == {"done": 4}
    assert mill.answers() == texts


# -- what a prefix cache saves


def test_prompts_that_begin_alike_but_lie_apart_are_told(mill: Any) -> None:
    heads = [f"{n:02} " + "A chapter that several questions are about. " * 12 for n in range(10)]
    mill.put_rows([{"text": heads[n % 10] + f"Question {n}"} for n in range(100)])
    mill.put_job(URL)

    savings = looked_at(mill).savings

    assert savings.input_order < 0.05 * savings.prefix_order
    assert savings.prefix_order > 90 * 50
    assert "stand together" in mill.command("estimate", "job.toml").out


def test_what_the_template_says_behind_the_record_is_told(mill: Any) -> None:
    mill.put_texts(50)
    mill.put_job(URL, prompt={"user": "{{ text }}\n\n" + "Now say whether this is a package or not, and why. " * 4})

    assert looked_at(mill).savings.moved > 49 * 30
    assert looked_at(mill, "prompt.user=Say it: {{ text }}").savings.moved == 0
    assert (
        looked_at(mill, "prompt.user={% if text %}{{ text }}{% endif %} and a long text that stands behind it").savings.moved == 0
    )


# -- exact counts


def test_a_tokenizer_file_counts_exactly(mill: Any) -> None:
    mill.put_texts(10)
    mill.put_job(URL)
    path = mill.write("tokenizer.json", json.dumps(WORDS))

    found = looked_at(mill, tokenizer=str(path))

    assert found.prompt.low == 10 * 3 + 10 * 2  # "row", a number, "."; and what the least chat template adds
    assert found.prompt_known_by.endswith("tokenizer.json")
    assert looked_at(mill, tokenizer=str(mill.folder)).prompt == found.prompt


def test_a_vocabulary_counts_special_tokens_and_broken_text_too(mill: Any) -> None:
    mill.write("in.jsonl", '{"text": "<|endoftext|> \\ud800"}\n{"text": "hello world"}\n')
    mill.put_job(URL, prompt={"user": None, "prompt": "{{ text }}"}, model={"route": "completions"})

    found = looked_at(mill, tokenizer="o200k_base")

    assert found.prompt.low == found.prompt.expected == found.prompt.high > 5
    assert found.prompt_known_by == "o200k_base"


def test_a_tokenizer_that_fails_on_a_text_is_one_line(mill: Any) -> None:
    model = {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "not in it"}
    path = mill.write("tokenizer.json", json.dumps({"version": "1.0", "model": model}))
    mill.put_texts(3)
    mill.put_job(URL)

    with pytest.raises(SpecError, match=r"it cannot count this job's texts .WordLevel error") as caught:
        looked_at(mill, tokenizer=str(path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("named", "why"), [("nowhere.json", "no such file"), ("in.jsonl", "it is no tokenizer.json"), ("gpt9", "no such file")]
)
def test_what_is_no_tokenizer_is_refused_in_one_line(mill: Any, monkeypatch: pytest.MonkeyPatch, named: str, why: str) -> None:
    mill.put_texts(1)
    mill.put_job(URL)
    monkeypatch.chdir(mill.folder)

    with pytest.raises(SpecError, match=why) as caught:
        looked_at(mill, tokenizer=named)
    assert caught.value.key == "--tokenizer"
    assert "\n" not in str(caught.value)


WORDS: dict[str, Any] = {
    "version": "1.0",
    "truncation": None,
    "padding": None,
    "added_tokens": [],
    "normalizer": None,
    "pre_tokenizer": {"type": "Whitespace"},
    "post_processor": None,
    "decoder": None,
    "model": {"type": "WordLevel", "vocab": {"row": 0, ".": 1, "?": 2}, "unk_token": "?"},
}
