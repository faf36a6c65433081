"""What a whole run does when its endpoint fails: in process, over loopback, counted on the server's side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from headrace.testing.sim import Rule

URL = "http://127.0.0.1:9/v1"  # each rehearsal puts its own server's there
SOON = {"limits": {"attempt_timeout": 0.3}}
OVER = {"error": {"message": "You exceeded your current quota.", "type": "insufficient_quota", "code": "insufficient_quota"}}


def attempts(rehearsed: Any) -> tuple[int, int]:
    """What the run's records say was sent, and what the server saw."""
    return rehearsed.result.status["requests"]["sent"], rehearsed.seen["requests"]


def test_a_run_sends_each_unit_once_and_counts_what_the_server_counts(mill):
    mill.put_texts(40)
    mill.put_job(URL)
    done = mill.rehearse()
    status = done.result.status
    assert done.result.exit_code == 0
    assert done.items == {"done": 40}
    assert status["requests"] | {"sent": 40, "retries": 0, "by_kind": {}} == status["requests"]
    assert attempts(done) == (40, 40)
    assert (status["tokens"]["prompt"], status["tokens"]["completion"]) == (
        done.seen["tokens"]["prompt"],
        done.seen["tokens"]["completion"],
    )
    assert done.seen["keys"] == 40
    assert mill.answers() == [f"row {n}." for n in range(40)]


def test_rtl_01_quota_stops_at_once_and_a_topped_up_account_goes_on(mill):
    mill.put_texts(500)
    mill.put_job(URL, endpoint={"concurrency": 8})
    stopped = mill.rehearse(Rule(after=3, status=429, body=OVER))
    assert (stopped.result.exit_code, stopped.result.reason) == (4, "quota")
    assert stopped.seen["by_status"]["200"] == 3
    assert stopped.seen["by_status"]["429"] <= 8
    assert stopped.items == {"done": 3, "pending": 497}
    assert not mill.output.exists()
    assert mill.statuses(mill.folder / "out.partial.jsonl") == ["done"] * 3
    finished = mill.rehearse()
    assert (finished.result.exit_code, finished.seen["requests"]) == (0, 497)
    assert finished.result.run == stopped.result.run
    assert mill.answers() == [f"row {n}." for n in range(500)]
    assert not (mill.folder / "out.partial.jsonl").exists()


@pytest.mark.slow
def test_rtl_02_a_limited_endpoint_is_waited_for_and_costs_no_attempts(mill):
    mill.put_texts(100)
    mill.put_job(URL, endpoint={"concurrency": 20}, limits={"max_attempts": 3})
    done = mill.rehearse(Rule(seconds=(0.0, 2.0), status=429, headers={"Retry-After": "1"}))
    assert done.items == {"done": 100}
    assert done.seen["by_status"]["429"] < 20 * 4
    assert done.result.status["requests"]["by_kind"] == {"rate_limited": done.seen["by_status"]["429"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "kind"),
    [
        (Rule(match="row 0", status=500), "server_error"),
        (Rule(match="row 0", action="hang"), "timeout"),
        (Rule(match="row 0", action="reset"), "connection"),
        (Rule(match="row 0", action="truncate"), "protocol"),
    ],
    ids=["500", "timeout", "reset", "short body"],
)
def test_rtl_03_attempts_recorded_are_requests_seen(mill, rule: Rule, kind: str):
    mill.put_texts(1)
    mill.put_job(URL, limits={"max_attempts": 3, "attempt_timeout": 0.1})
    done = mill.rehearse(rule)
    assert done.result.exit_code == 3
    assert attempts(done) == (3, 3)
    assert sum(done.result.status["requests"]["by_kind"].values()) == 3
    assert done.seen["keys"] == 1  # the same idempotency key each time
    (row,) = mill.rows()
    assert (row["answer"], row["answer_status"]) == (None, "failed")
    assert row["answer_error"].partition(": ")[0] in {kind, "connection", "protocol"}
    if kind in ("server_error", "timeout"):
        assert row["answer_error"].startswith(f"{kind}: ")


@pytest.mark.slow
def test_rtl_06_07_odd_waits_are_survived_without_a_hot_loop(mill):
    mill.put_texts(1)
    mill.put_job(URL)
    waits = ["Wed, 21 Oct 2015 07:28:00 GMT", "-1", "0"]
    rules = [Rule(index=n, status=429, headers={"Retry-After": wait}) for n, wait in enumerate(waits, 1)]
    done = mill.rehearse(*rules)
    assert done.items == {"done": 1}
    assert attempts(done) == (4, 4)


@pytest.mark.parametrize("wait", ["nan", "1e9", "", "1, 2", "²"])
@pytest.mark.slow
def test_rtl_07_a_wait_that_is_no_number_is_absent(mill, wait: str):
    mill.put_texts(1)
    mill.put_job(URL, limits={"give_up_after": "30s"})
    done = mill.rehearse(Rule(index=1, status=429, headers={"Retry-After": wait}))
    assert (done.result.exit_code, done.seen["requests"]) == (0, 2)


def test_rtl_04_a_wait_longer_than_patience_stops_the_run_and_leaves_everything_pending(mill):
    mill.put_texts(30)
    mill.put_job(URL, limits={"give_up_after": "10s"}, endpoint={"concurrency": 2})
    stopped = mill.rehearse(Rule(status=429, headers={"Retry-After": "61"}))
    assert (stopped.result.exit_code, stopped.result.reason) == (4, "endpoint_down")
    assert stopped.items == {"pending": 30}
    assert stopped.seen["requests"] <= 2


@pytest.mark.slow
def test_rtl_08_an_attempt_that_timed_out_gets_twice_the_time(mill):
    mill.put_texts(1)
    mill.put_job(URL, limits={"attempt_timeout": 0.3, "max_attempts": 4})
    done = mill.rehearse(latency_ms=900)
    assert done.items == {"done": 1}
    assert attempts(done) == (3, 3)
    assert done.result.status["requests"]["by_kind"] == {"timeout": 2}
    assert done.result.status["tokens"]["unknown_requests"] == 2


@pytest.mark.slow
def test_rtl_09_what_may_have_been_billed_is_sent_again_under_the_same_key_or_not_at_all(mill):
    mill.put_texts(1)
    mill.put_job(URL)
    close = Rule(index=1, action="close")
    again = mill.rehearse(close)
    assert again.items == {"done": 1}
    assert (again.seen["requests"], again.seen["keys"], again.seen["duplicates"]) == (2, 1, 1)
    assert again.result.status["tokens"]["unknown_requests"] == 1
    mill.output.unlink()
    never = mill.rehearse(close, overrides=["limits.retry_ambiguous=never", "model.seed=1"])
    assert never.items == {"failed": 1}
    assert never.seen["requests"] == 1
    assert mill.rows()[0]["answer_error"].startswith("ambiguous: ")


def test_rtl_11_one_filtered_prompt_fails_alone(mill):
    mill.put_texts(100)
    mill.put_job(URL)
    body = {"error": {"code": "content_filter", "message": "The response was filtered."}}
    done = mill.rehearse(Rule(match="row 50.", status=400, body=body))
    assert done.result.exit_code == 3
    assert done.items == {"done": 99, "failed": 1}
    assert attempts(done) == (100, 100)
    assert mill.rows()[50]["answer_error"].startswith("content_filter: ")


@pytest.mark.slow
def test_rtl_12_the_status_decides_not_the_digits_in_the_body(mill):
    mill.put_texts(2)
    mill.put_job(URL)
    done = mill.rehearse(
        Rule(match="row 0.", times=1, status=502, body={"error": {"code": 400, "message": "bad"}}),
        Rule(match="row 1.", status=400, body={"error": {"message": "upstream said status 503"}}),
    )
    assert done.items == {"done": 1, "failed": 1}
    assert attempts(done) == (3, 3)
    assert mill.rows()[1]["answer_error"].startswith("bad_request: ")


@pytest.mark.slow
def test_rtl_14_max_attempts_is_honoured_exactly(mill):
    mill.put_texts(2)  # two units cannot hold an endpoint to be down, so that every send counts
    mill.put_job(URL, limits={"max_attempts": 4})
    rules = [Rule(match=f"row {n}.", times=3, status=500) for n in range(2)]
    done = mill.rehearse(*rules)
    assert done.items == {"done": 2}
    assert attempts(done) == (8, 8)
    mill.output.unlink()
    used_up = mill.rehearse(*[Rule(match=f"row {n}.", times=4, status=500) for n in range(2)], overrides=["model.seed=1"])
    assert used_up.items == {"failed": 2}
    assert attempts(used_up) == (8, 8)


@pytest.mark.slow
def test_rtl_16_an_outage_costs_probes_and_no_unit(mill):
    mill.put_texts(300)
    mill.put_job(URL, endpoint={"concurrency": 8}, limits={"max_attempts": 3})
    done = mill.rehearse(Rule(index=1, delay_s=0.0), Rule(after=20, seconds=(0.0, 3.0), status=500))
    assert done.items == {"done": 300}
    assert 3 <= done.seen["by_status"]["500"] <= 8 + 6
    assert attempts(done)[0] == attempts(done)[1]


@pytest.mark.slow
def test_rtl_16_an_engine_that_never_returns_stops_the_run_with_its_units_pending(mill):
    mill.put_texts(300)
    mill.put_job(URL, endpoint={"concurrency": 8}, limits={"max_attempts": 3, "give_up_after": "2s"})
    stopped = mill.rehearse(Rule(after=20, status=500))
    assert (stopped.result.exit_code, stopped.result.reason) == (4, "endpoint_down")
    assert stopped.items["done"] == 20
    assert stopped.items["pending"] >= 270
    assert "failed" not in stopped.items
    finished = mill.rehearse()
    assert finished.items == {"done": 300}
    assert finished.seen["requests"] == 280


@pytest.mark.slow
def test_rtl_17_a_server_that_takes_four_at_a_time_loses_no_unit(mill):
    mill.put_texts(60)
    mill.put_job(URL, endpoint={"concurrency": 32}, limits={"max_attempts": 1})
    done = mill.rehearse(max_in_flight=4, latency_ms=5)
    assert done.items == {"done": 60}
    assert attempts(done)[0] == attempts(done)[1]


@pytest.mark.slow
def test_rtl_19_never_more_at_once_than_asked_retries_included(mill):
    mill.put_texts(60)
    mill.put_job(URL, endpoint={"concurrency": 3})
    done = mill.rehearse(error_rate=0.2, latency_ms=3)
    assert done.items == {"done": 60}
    assert done.seen["in_flight"]["peak"] <= 3
    # One that is closed for its age may still stand while its successor opens.
    assert done.seen["sockets"]["peak"] <= 6


@pytest.mark.slow
def test_net_01_a_request_that_hangs_is_cut_and_its_unit_done_elsewhen(mill):
    mill.put_texts(30)
    mill.put_job(URL, endpoint={"concurrency": 10}, limits={"attempt_timeout": 0.4})
    done = mill.rehearse(Rule(match="row 3.", times=1, action="hang"), Rule(match="row 7.", times=1, action="trickle"))
    assert done.items == {"done": 30}
    assert done.result.status["requests"]["by_kind"] == {"timeout": 2}
    assert attempts(done) == (32, 32)


@pytest.mark.slow
def test_net_03_a_body_that_breaks_off_is_never_an_answer(mill):
    mill.put_texts(1)
    mill.put_job(URL)
    done = mill.rehearse(Rule(index=1, action="truncate"), Rule(index=2, action="reset"))
    assert done.items == {"done": 1}
    assert attempts(done) == (3, 3)
    assert mill.answers() == ["row 0."]


def test_net_06_a_web_page_from_the_start_is_a_wrong_address(mill):
    mill.put_texts(50)
    mill.put_job(URL, endpoint={"concurrency": 4})
    stopped = mill.rehearse(Rule(action="html"))
    assert (stopped.result.exit_code, stopped.result.reason) == (4, "bad_endpoint")
    assert stopped.items == {"pending": 50}
    assert stopped.seen["requests"] <= 4
    assert "/v1" in stopped.result.message


@pytest.mark.slow
def test_net_06_a_single_web_page_is_sent_again(mill):
    mill.put_texts(20)
    mill.put_job(URL, endpoint={"concurrency": 1})
    done = mill.rehearse(Rule(index=5, action="html"))
    assert done.items == {"done": 20}
    assert attempts(done) == (21, 21)


def test_net_07_a_stream_that_nobody_asked_for_is_put_together(mill):
    mill.put_texts(3)
    mill.put_job(URL)
    done = mill.rehearse(Rule(action="sse"))
    assert done.items == {"done": 3}
    assert mill.answers() == ["row 0.", "row 1.", "row 2."]
    assert done.result.status["tokens"]["unknown_requests"] == 0
    assert done.result.status["tokens"]["completion"] == done.seen["tokens"]["completion"]


def test_net_09_a_compressed_reply_is_read(mill):
    mill.put_texts(3)
    mill.put_job(URL)
    assert mill.rehearse(Rule(action="gzip")).items == {"done": 3}
    assert mill.answers() == ["row 0.", "row 1.", "row 2."]


@pytest.mark.slow
def test_net_09_a_compression_that_was_not_offered_is_named(mill):
    mill.put_texts(1)
    mill.put_job(URL, limits={"max_attempts": 2})
    done = mill.rehearse(Rule(headers={"content-encoding": "zstd"}, body="(/\x00"))
    assert done.items == {"failed": 1}
    assert mill.rows()[0]["answer_error"].startswith("protocol: ")
    assert "zstd" in mill.rows()[0]["answer_error"]


@pytest.mark.slow
def test_net_11_no_request_waits_for_a_connection(mill):
    mill.put_texts(400)
    mill.put_job(URL, endpoint={"concurrency": 100})
    done = mill.rehearse(latency_ms=300)
    assert done.items == {"done": 400}
    assert done.result.status["requests"]["by_kind"] == {}
    assert done.seen["sockets"]["peak"] <= 100
    assert done.seen["in_flight"]["peak"] > 50


@pytest.mark.slow
def test_net_14_an_empty_200_is_a_failure_and_tried_again(mill):
    mill.put_texts(1)
    mill.put_job(URL, limits={"max_attempts": 3})
    done = mill.rehearse(Rule(times=2, action="empty"))
    assert done.items == {"done": 1}
    assert attempts(done) == (3, 3)
    mill.output.unlink()
    failed = mill.rehearse(Rule(action="empty"), overrides=["model.seed=1"])
    assert failed.items == {"failed": 1}
    assert attempts(failed) == (3, 3)
    assert "empty" in mill.rows()[0]["answer_error"]


@pytest.mark.slow
def test_rsp_01_an_error_inside_a_200_is_what_it_says(mill):
    mill.put_texts(1)
    mill.put_job(URL)
    done = mill.rehearse(
        Rule(index=1, body={"error": {"code": 429, "message": "slow down"}}),
        Rule(index=2, body={"choices": None}),
        Rule(index=3, body={"choices": []}),
    )
    assert done.items == {"done": 1}
    assert attempts(done) == (4, 4)
    assert done.result.status["requests"]["by_kind"]["rate_limited"] == 1


@pytest.mark.slow
def test_out_06_any_reply_becomes_a_row_with_text(mill):
    mill.put_texts(4)
    mill.put_job(URL, limits={"max_attempts": 1}, answer={"retry_invalid": 0})
    done = mill.rehearse(
        Rule(match="row 0.", status=400, body="\udcff\x00\x1b[31m"),
        Rule(match="row 1.", status=418, body={"error": [{"message": {"deep": [1, None]}}]}),
        Rule(match="row 2.", body='{"choices": [{"message": {"content": "\\ud800 x"}, "finish_reason": "stop"}]}'),
    )
    assert sum(done.items.values()) == 4
    rows = mill.rows()
    assert [row["answer_status"] for row in rows[:2]] == ["failed", "failed"]
    assert all(isinstance(row["answer_error"], str) and "\x1b" not in row["answer_error"] for row in rows[:2])
    assert rows[2]["answer"] == "� x"


def test_req_03_a_renamed_field_is_sent_under_its_new_name(mill):
    mill.put_texts(50)
    mill.put_job(URL, model={"max_tokens": 20}, endpoint={"concurrency": 4})
    done = mill.rehearse(max_tokens_field="max_completion_tokens")
    assert done.items == {"done": 50}
    assert done.seen["by_status"]["200"] == 50
    assert done.seen["by_status"]["400"] <= 4


def test_req_03_ten_identical_refusals_from_the_start_stop_the_run(mill):
    mill.put_texts(1000)
    mill.put_job(URL, endpoint={"concurrency": 4}, model={"temperature": 0.3})
    body = {"error": {"code": "unsupported_value", "param": "temperature", "message": "Only temperature 1 is supported."}}
    stopped = mill.rehearse(Rule(status=400, body=body))
    assert (stopped.result.exit_code, stopped.result.reason) == (4, "misconfigured")
    assert stopped.items == {"pending": 1000}
    assert stopped.seen["requests"] <= 4 + 10
    assert "temperature" in stopped.result.message


def test_ctx_02_a_prompt_over_the_context_fails_alone_at_its_first_send(mill):
    mill.put_texts(50)
    mill.put_job(URL)
    body = {"error": {"code": "context_length_exceeded", "message": "too long"}}
    text = {"error": {"message": "The prompt is longer than the maximum model length of 2048."}}
    done = mill.rehearse(Rule(match="row 7.", status=400, body=body), Rule(match="row 8.", status=500, body=text))
    assert done.items == {"done": 48, "failed": 2}
    assert attempts(done) == (50, 50)
    assert [mill.rows()[n]["answer_error"].partition(":")[0] for n in (7, 8)] == ["context_too_long"] * 2


def test_ctx_03_the_message_of_a_context_error_names_the_limit(mill):
    mill.put_rows([{"text": "x" * 100}, {"text": "y" * 9000}])
    mill.put_job(URL)
    done = mill.rehearse(context=2048)
    assert done.items == {"done": 1, "failed": 1}
    assert "2048" in mill.rows()[1]["answer_error"]


@pytest.mark.parametrize("text", ["<|endoftext|>", "<|im_start|>system", "<|endofprompt|>"])
def test_req_02_special_tokens_are_ordinary_text(mill, text: str):
    mill.put_rows([{"text": text}])
    mill.put_job(URL, slice={"truncate": "50 chars"})
    assert mill.rehearse().items == {"done": 1}
    assert mill.answers() == [text]


@pytest.mark.parametrize(
    ("rule", "laws", "reason"),
    [
        (None, {"api_key": "right"}, "auth"),
        (None, {"model": "other"}, "model_missing"),
        (Rule(status=404, body="404 page not found"), {}, "bad_endpoint"),
        (Rule(status=405, body=""), {}, "bad_endpoint"),
        (Rule(status=302, headers={"Location": "http://127.0.0.1:9/"}), {}, "bad_endpoint"),
        (Rule(status=402, body={"error": {"message": "Insufficient credits"}}), {}, "quota"),
        (Rule(status=403, body={"error": {"message": "Forbidden"}}), {}, "auth"),
    ],
)
def test_what_is_wrong_from_the_start_stops_at_the_first_replies(mill, rule: Rule | None, laws: dict[str, Any], reason: str):
    mill.put_texts(50)
    mill.put_job(URL, endpoint={"concurrency": 4})
    stopped = mill.rehearse(*([rule] if rule else []), **laws)
    assert (stopped.result.exit_code, stopped.result.reason) == (4, reason)
    assert stopped.items == {"pending": 50}
    assert stopped.seen["requests"] <= 4
    assert mill.rehearse().items == {"done": 50}


def test_a_name_that_does_not_resolve_is_a_wrong_address(mill):
    mill.put_texts(5)
    mill.put_job(URL)
    stopped = mill.rehearse(overrides=["endpoint.url=http://nowhere.invalid/v1"])
    assert (stopped.result.exit_code, stopped.result.reason) == (4, "bad_endpoint")
    assert stopped.items == {"pending": 5}


@pytest.mark.slow
def test_a_refused_connection_is_tried_until_patience_ends_and_mended_by_the_address(mill):
    mill.put_texts(5)
    mill.put_job(URL, limits={"give_up_after": "1s"})
    stopped = mill.rehearse(overrides=["endpoint.url=http://127.0.0.1:9/v1"])
    assert (stopped.result.exit_code, stopped.result.reason) == (4, "bad_endpoint")
    assert stopped.items == {"pending": 5}
    mended = mill.rehearse()
    assert (mended.items, mended.result.run) == ({"done": 5}, stopped.result.run)


@pytest.mark.slow
def test_run_deadline_stops_with_5_and_the_same_job_goes_on(mill):
    mill.put_texts(40)
    mill.put_job(URL, limits={"run_deadline": "0.5s"}, endpoint={"concurrency": 2})
    stopped = mill.rehearse(latency_ms=100)
    assert (stopped.result.exit_code, stopped.result.reason) == (5, "run_deadline")
    done = stopped.items["done"]
    assert stopped.items == {"done": done, "pending": 40 - done}
    assert len(mill.rows(mill.folder / "out.partial.jsonl")) == done
    finished = mill.rehearse(overrides=["limits.run_deadline=1h"])
    assert (finished.result.exit_code, finished.seen["requests"]) == (0, 40 - done)


@pytest.mark.slow
def test_a_unit_past_its_deadline_fails_with_that_kind(mill):
    mill.put_texts(1)
    mill.put_job(URL, limits={"unit_deadline": "1s", "max_attempts": 100})
    done = mill.rehearse(Rule(status=500))
    assert done.items == {"failed": 1}
    assert mill.rows()[0]["answer_error"].startswith("deadline: ")


@pytest.mark.slow
@pytest.mark.parametrize("repetition", range(2))
def test_out_01_sixty_in_sixty_out_whatever_the_timing(mill, repetition: int):
    mill.put_texts(60)
    mill.put_job(URL, endpoint={"concurrency": 5}, input={"id": "id"})
    for n in range(10):
        mill.output.unlink(missing_ok=True)
        seed = 100 * repetition + n
        done = mill.rehearse(overrides=[f"model.seed={seed}"], latency_ms=4, jitter=1.0, seed=seed)
        assert done.result.exit_code == 0
        assert [row["id"] for row in mill.rows()] == [f"r{n}" for n in range(60)]
        assert mill.answers() == [f"row {n}." for n in range(60)]


def test_out_03_the_output_is_in_input_order_whatever_comes_first(mill):
    mill.put_texts(20)
    mill.put_job(URL, endpoint={"concurrency": 20})
    rules = [Rule(match=f"row {n}.", delay_s=0.01 * (20 - n)) for n in range(20)]
    assert mill.rehearse(*rules).items == {"done": 20}
    assert mill.answers() == [f"row {n}." for n in range(20)]


@pytest.fixture
def key_file(mill) -> Callable[[str], None]:
    def write(key: str) -> None:
        mill.write("key.txt", key + "\n")

    return write


def test_a_wrong_key_stops_and_a_mended_key_file_goes_on_without_resending(mill, key_file):
    mill.put_texts(40)
    mill.put_job(URL, endpoint={"api_key_file": "key.txt", "concurrency": 4})
    key_file("right-one")
    first = mill.rehearse(Rule(after=10, status=401), api_key="right-one")
    assert (first.result.exit_code, first.result.reason) == (4, "auth")
    assert first.items == {"done": 10, "pending": 30}
    key_file("another-one")
    second = mill.rehearse(api_key="another-one")
    assert (second.items, second.seen["requests"]) == ({"done": 40}, 30)
