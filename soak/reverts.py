"""Fixes undone: for each of these cases the test that carries its id must fail. `python -m soak --mutants` tries them all.

Each takes back the one decision that keeps the case from happening again, as the code was or would be without it.
"""

from __future__ import annotations

from typing import NamedTuple

from soak.mutations import Mutation


class Revert(NamedTuple):
    """`test` is the node id of a test that passes, and fails by an assertion once the fix is undone."""

    case: str
    test: str
    mutation: Mutation


def _revert(case: str, test: str, module: str, old: str, new: str, undone: str) -> Revert:
    return Revert(case, f"tests/{test}", Mutation(undone, f"headrace.{module}", old, new))


CASES = (
    _revert(
        "INP-01", "integration/test_sources_csv.py::test_inp_01_a_utf8_mark_is_no_part_of_the_first_name",
        "sources.blocks",
        "        self._head = head[self.bom :]\n",
        "        self._head = head\n",
        "the byte order mark stays in the first field's name",
    ),
    _revert(
        "INP-03", "integration/test_sources_jsonl.py::test_inp_03_only_a_newline_ends_a_record",
        "sources.framing",
        '            lines = block.split(b"\\n")\n',
        '            lines = [*(line.encode() for line in block.decode().removesuffix("\\n").splitlines()), b""]\n',
        "records end at every line boundary of Unicode",
    ),
    _revert(
        "INP-05", "acceptance/test_command.py::test_inp_05_an_ascii_terminal_and_a_c_locale_change_no_byte_of_the_output",
        "cli.app",
        "    _insist_on_utf8()\n    arguments",
        "    arguments",
        "names of files and arguments are read as the locale says",
    ),
    _revert(
        "INP-06", "integration/test_sources_csv.py::test_inp_06_a_cell_over_131072_characters_is_read",
        "sources.csv",
        "        csv.field_size_limit(max(csv.field_size_limit(), min(max_record + 1, _LARGEST_FIELD_LIMIT)))\n",
        "",
        "the csv module keeps its own limit of a cell",
    ),
    _revert(
        "INP-08", "integration/test_sources_jsonl.py::test_inp_08_an_integer_id_beyond_2_to_the_53_is_exact",
        "canon",
        "    return _decode_slowly(raw) if _may_be_inexact(value, raw) else value\n",
        "    return value\n",
        "an integer beyond 64 bits becomes a float",
    ),
    _revert(
        "INP-10", "integration/test_sources_parquet.py::test_inp_10_arrow_values_become_plain_json_and_bytes_reject_their_record",
        "sources.arrow",
        "    (pa.types.is_decimal, _decimals),\n",
        "    (pa.types.is_decimal, lambda array: [None if value is None else float(value) for value in array.to_pylist()]),\n",
        "a decimal becomes a float",
    ),
    _revert(
        "INP-11", "unit/prompts/test_environment.py::test_inp_11_values_print_as_json_and_text_as_it_is",
        "prompts.environment",
        '        return "true" if value else "false"\n',
        "        return str(value)\n",
        "truth values print as Python writes them",
    ),
    _revert(
        "INP-13", "integration/test_run_input.py::test_inp_13_ids_that_repeat_or_are_empty_lose_no_row",
        "runs.intake",
        "        made.hashes.append(making.hasher(payload, salt))\n",
        "        made.hashes.append(making.hasher(str(name).encode(), salt))\n",
        "a unit is known by the user's id",
    ),
    _revert(
        "REQ-03", "unit/endpoints/test_http_endpoint.py::test_req_03_max_tokens_is_renamed_once_and_remembered",
        "endpoints.wire",
        '                self._use("max_completion_tokens", self.form.schema)\n',
        "                pass\n",
        "a refused max_tokens is sent again as it was",
    ),
    _revert(
        "RTL-01", "unit/endpoints/test_mapping.py::test_a_reply_has_its_kind[rtl-01 old quota]",
        "endpoints.mapping",
        "    return Kind.QUOTA if refusals.out_of_quota(error) else Kind.RATE_LIMITED\n",
        "    return Kind.RATE_LIMITED\n",
        "every 429 is a rate limit",
    ),
    _revert(
        "RTL-02", "unit/policy/test_verdict.py::test_RTL_02_waiting_for_an_overloaded_endpoint_spends_no_attempt",
        "policy.verdict",
        "    Kind.RATE_LIMITED: _RETRY_FREE,\n",
        "    Kind.RATE_LIMITED: _RETRY,\n",
        "each rate limit spends an attempt",
    ),
    _revert(
        "RTL-04", "unit/endpoints/test_retry_after.py::test_rtl_04_rtl_06_rtl_07_a_retry_after_is_decimal_seconds_or_nothing",
        "endpoints.retry_after",
        "_LONGEST_S = 30 * 86_400.0",
        "_LONGEST_S = 60.0",
        "a wait above a minute is dropped",
    ),
    _revert(
        "RTL-06", "unit/endpoints/test_retry_after.py::test_rtl_06_a_date_in_the_past_is_no_wait",
        "endpoints.retry_after",
        "    return seconds if seconds is not None and 0.0 < seconds <= _LONGEST_S else None\n",
        "    return seconds if seconds is not None and seconds <= _LONGEST_S else None\n",
        "a date in the past is a negative wait",
    ),
    _revert(
        "RTL-07", "unit/endpoints/test_retry_after.py::test_rtl_07_reset_headers",
        "endpoints.retry_after",
        "    seconds = go_duration(text)\n    if seconds is None:\n        seconds = decimal(text)\n        if",
        "    seconds = None\n    if seconds is None:\n        seconds = decimal(text)\n        if",
        "durations such as 1m0.052s are not understood",
    ),
    _revert(
        "RTL-08", "unit/engine/test_lives.py::test_rtl_08_a_timeout_doubles_the_next_limit",
        "policy.timeout",
        " * 2.0 ** min(timeouts, MOST_DOUBLED)\n",
        "\n",
        "each try of a long generation is cut at the same limit",
    ),
    _revert(
        "RTL-09", "integration/test_run_retries.py::"
        "test_rtl_09_what_may_have_been_billed_is_sent_again_under_the_same_key_or_not_at_all",
        "engine.live",
        'f"{self.knobs.run}-{work.seq}-{work.ask}"',
        'f"{self.knobs.run}-{work.seq}-{work.send}"',
        "a retry goes out under a key of its own",
    ),
    _revert(
        "RTL-12", "unit/endpoints/test_mapping.py::test_a_reply_has_its_kind[rtl-12 502 with 400 inside]",
        "endpoints.mapping",
        "    if status >= 500:\n        return _of_5xx(status, error)\n",
        "    status = error.status or status\n    if status >= 500:\n        return _of_5xx(status, error)\n",
        "a code in the body replaces the status",
    ),
    _revert(
        "RTL-14", "unit/engine/test_lives.py::test_rtl_14_a_unit_that_fails_four_times_is_done_at_the_fifth_attempt",
        "policy.verdict",
        "        if counts and standing.spent + 1 >= standing.max_attempts:\n",
        "        if counts and standing.spent >= 1:\n",
        "a unit gets one retry, whatever max_attempts says",
    ),
    _revert(
        "RTL-16", "unit/engine/test_lives.py::test_rtl_16_a_dead_engine_is_probed_and_costs_no_unit",
        "policy.breaker",
        "        if self.circuit is Circuit.CLOSED and allow_open and len(self._streak) >= TRIP_UNITS:\n",
        "        if self.circuit is Circuit.CLOSED and allow_open and not self._streak:\n",
        "the breaker never opens",
    ),
    _revert(
        "RTL-17", "unit/endpoints/test_mapping.py::test_a_reply_has_its_kind[rtl-17 busy behind 500]",
        "endpoints.mapping",
        "    if status == 500 and refusals.overloaded(error):\n        return Kind.OVERLOADED\n",
        "",
        "a busy server that answers 500 is a failing one",
    ),
    _revert(
        "NET-02", "unit/endpoints/test_transport_choice.py::test_net_02_a_total_limit_is_never_absent",
        "endpoints.transport",
        "    return total_s if 0.0 < total_s < LONGEST_S else LONGEST_S\n",
        "    return total_s\n",
        "a limit that is none switches all limits off",
    ),
    _revert(
        "NET-06", "unit/endpoints/test_endpoint_replies.py::test_net_06_a_page_is_told_apart",
        "endpoints.replies",
        '    if is_html(body) or content_type.lower().startswith("text/html"):\n',
        '    if content_type.lower().startswith("text/html"):\n',
        "a web page is known by its header alone",
    ),
    _revert(
        "NET-07", "unit/endpoints/test_endpoint_replies.py::test_net_07_a_stream_is_put_together",
        "endpoints.replies",
        '        contents.append(_text(part.get("content", choice.get("text"))) or "")\n',
        '        contents = [_text(part.get("content", choice.get("text"))) or ""]\n',
        "of a stream the last delta is the answer",
    ),
    _revert(
        "NET-09", "unit/endpoints/test_http_endpoint.py::"
        "test_net_09_an_encoding_that_was_not_asked_for_is_named_and_sent_again_once_with_identity",
        "endpoints.http",
        "            self._encodings = IDENTITY\n",
        "            self._encodings = ENCODINGS\n",
        "after a foreign encoding the same ones are offered again",
    ),
    _revert(
        "NET-12", "integration/test_run_lag.py::test_net_12_the_loops_own_lag_fails_no_request_and_is_told",
        "endpoints.deadlines",
        "        self._lag_s += late_s\n",
        "        late_s = 0.0\n",
        "a request times out because its own loop was busy",
    ),
    _revert(
        "NET-14", "unit/endpoints/test_endpoint_replies.py::test_net_14_an_empty_200_is_broken",
        "endpoints.replies",
        '    if not body.strip():\n        return Broken("a 200 with an empty body")\n',
        '    if not body.strip():\n        return Reply("", "stop")\n',
        "an empty 200 is an empty answer",
    ),
    _revert(
        "RSP-01", "unit/endpoints/test_endpoint_replies.py::test_rsp_01_an_error_comes_before_choices",
        "endpoints.replies",
        "    if not choices or value.error is not None:\n",
        "    if not choices:\n",
        "an error beside choices is not looked at",
    ),
    _revert(
        "RSP-02", "unit/answers/test_judge.py::test_rsp_02_the_finish_reason_decides",
        "answers.judge",
        "            cut = word in CUT\n",
        "            cut = False\n",
        "an answer that was cut counts",
    ),
    _revert(
        "JSN-01", "unit/answers/test_judge.py::test_jsn_01_a_fenced_answer_is_accepted_and_marked",
        "answers.extract",
        "    peeled = _unfenced(text)\n    if peeled is None:\n        return found\n",
        "    peeled = None\n    if peeled is None:\n        return found\n",
        "a fence around the whole makes the answer invalid",
    ),
    _revert(
        "JSN-02", "unit/answers/test_extract.py::test_jsn_02_good_json_with_backticks_is_not_touched",
        "answers.extract",
        "    found = _parse_fenced(text)\n    if isinstance(found, Extracted) or found.final:\n        return found\n",
        '    text = text.replace("```", "")\n    found = _parse_fenced(text)\n'
        "    if isinstance(found, Extracted) or found.final:\n        return found\n",
        "fences are taken off before anything is parsed",
    ),
    _revert(
        "JSN-03", "integration/test_run_answers.py::test_jsn_03_an_answer_that_was_cut_is_truncated_and_not_asked_again",
        "policy.verdict",
        "    Kind.TRUNCATED: _QUARANTINE,\n",
        "    Kind.TRUNCATED: _REASK,\n",
        "what was cut at the token limit is asked for again",
    ),
    _revert(
        "JSN-04", "unit/answers/test_judge.py::test_jsn_04_a_failure_carries_what_the_reply_cost",
        "answers.judge",
        "    return Failure(kind, excerpt(message), usage=reply.usage)\n",
        "    return Failure(kind, excerpt(message))\n",
        "what a refused answer cost is dropped",
    ),
    _revert(
        "RSN-01", "unit/answers/test_judge.py::test_rsn_01_reasoning_without_an_answer_is_truncated",
        "answers.judge",
        "        if not reasoning or reasoning.isspace():\n",
        "        if True:\n",
        "reasoning without an answer is an empty answer",
    ),
    _revert(
        "RSN-03", "unit/answers/test_judge.py::test_rsn_03_the_draft_in_a_think_block_is_not_the_answer",
        "answers.extract",
        "    if strip_think or lenient:\n",
        "    if False:\n",
        "JSON is looked for with the think block in front of it",
    ),
    _revert(
        "CTX-02", "unit/policy/test_wrong.py::test_CTX_02_other_kinds_do_not_count",
        "policy.wrong",
        "frozenset({Kind.BAD_REQUEST,",
        "frozenset({Kind.CONTEXT_TOO_LONG, Kind.BAD_REQUEST,",
        "ten long prompts are a wrong configuration",
    ),
    _revert(
        "PER-03", "integration/test_run_input.py::test_per_03_equal_records_are_asked_once_or_each_and_all_come_out",
        "runs.intake",
        "                self._next_unit += 1\n            made.pieces.append((item, n, earlier))\n",
        "                self._next_unit += 1\n                made.pieces.append((item, n, earlier))\n",
        "a prompt that comes again is nobody's",
    ),
    _revert(
        "PER-05", "integration/test_run_answers.py::test_per_05_what_was_judged_unacceptable_is_not_paid_for_again",
        "runs.lifecycle",
        "            return Choice(Way.REPEAT if candidate.finished else Way.CONTINUE, candidate.folder)\n",
        "            return Choice(Way.NEW) if candidate.finished else Choice(Way.CONTINUE, candidate.folder)\n",
        "a run that has ended is paid for again",
    ),
    _revert(
        "PER-06", "unit/engine/test_lives.py::test_per_06_the_first_interrupt_drains_and_keeps_the_second_stops_at_once",
        "engine.live",
        '        self.stop("interrupted", "interrupted", exit_code, reading_s=self.knobs.drain_s)\n',
        '        self.stop("interrupted", "interrupted", exit_code, reading_s=self.knobs.drain_s)\n        self._cut()\n',
        "the first Ctrl-C throws away what is in flight",
    ),
    _revert(
        "DUP-01", "unit/prompts/test_body.py::test_dup_01_whatever_changes_the_answer_changes_the_hash",
        "prompts.body",
        '            "body": {name: value for name, value in self.fields().items() if name not in skipped},\n',
        '            "body": {},\n',
        "sampling does not belong to what is asked",
    ),
    _revert(
        "OUT-05", "contract/test_sinks.py::TestJsonl::test_OUT_05_failed_rows_first_and_answers_of_varying_shape_after",
        "sinks.encoding",
        "        return encode(answers)\n",
        "        return encode({name: value for name, value in answers.items() if value != []})\n",
        "a row lacks the fields that have nothing to say",
    ),
    _revert(
        "OUT-06", "unit/endpoints/test_http_endpoint.py::test_out_06_odd_bytes_in_errors_become_text",
        "endpoints.redact",
        '        shown = _CONTROLS.sub(lambda match: f"\\\\u{ord(match[0]):04x}", shown)\n',
        "",
        "control characters of a server reach the row",
    ),
    _revert(
        "OBS-01", "unit/endpoints/test_redact.py::test_obs_01_what_looks_like_a_secret_is_masked_though_nobody_configured_it",
        "endpoints.redact",
        '        text = _QUERY.sub(rf"\\1{_MASK}", text)\n',
        "",
        "the query of an address is shown",
    ),
    _revert(
        "OBS-04", "unit/observe/test_progress_display.py::test_obs_04_ten_thousand_failures_are_few_lines",
        "observe.repeats",
        "        if not _is_power_of_hundred(count):\n            return None\n",
        "",
        "an equal line is said each time",
    ),
)  # fmt: skip
