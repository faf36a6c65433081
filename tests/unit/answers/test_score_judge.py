"""Which label is the answer, how sure that is, and what a reply without one is."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from headrace.answers.score import CONFLICTS, ContentFreeJudge, LabelScorer, LabelScores, ScoreJudge, content_free
from headrace.values import Answer, Failure, Kind, Note, Reply, Usage

USAGE = Usage(prompt=10, completion=1)
LABELS = ["web", "games", "fonts"]


def reply(tokens: dict[str, float] | None, finish: str | None = "length", content: str | None = "x", **more: Any) -> Reply:
    """A reply whose tokens have these probabilities."""
    likeliest = None
    if tokens is not None:
        likeliest = sorted(((token, math.log(share)) for token, share in tokens.items()), key=lambda pair: -pair[1])
    return Reply(content, finish, usage=USAGE, likeliest=likeliest, **more)


def judge(prior: list[float] | None = None, labels: list[str] | None = None) -> ScoreJudge:
    return ScoreJudge(LabelScorer(labels or LABELS), [math.log(share) for share in prior] if prior is not None else None)


def answer(judged: Answer | Failure) -> tuple[str | None, float | None]:
    assert isinstance(judged, Answer), judged
    return judged.value, judged.confidence


def failure(judged: Answer | Failure) -> Failure:
    assert isinstance(judged, Failure), judged
    assert judged.message.isprintable()
    assert len(judged.message) <= 300
    assert judged.usage == USAGE
    return judged


def test_the_confidence_is_the_labels_share_of_what_all_labels_have() -> None:
    assert answer(judge().judge(reply({" web": 0.3, "games": 0.15, "fonts": 0.05, "x": 0.4}))) == ('"web"', 0.6)


def test_what_the_prompt_prefers_by_itself_is_taken_out() -> None:
    found = reply({"web": 0.4, "games": 0.3, "fonts": 0.2})
    assert answer(judge().judge(found)) == ('"web"', 0.444444)
    # 0.4/0.8, 0.3/0.1, 0.2/0.1 are 0.5, 3 and 2 parts
    assert answer(judge([0.8, 0.1, 0.1]).judge(found)) == ('"games"', round(3 / 5.5, 6))


def test_what_is_not_seen_takes_its_share_and_cannot_win() -> None:
    found = reply({"web": 0.4, "x": 0.1})
    assert answer(judge().judge(found)) == ('"web"', round(0.4 / 0.6, 6))
    # calibrated, fonts would have 10 parts of 10 + 0.444… + 1; it was not seen
    value, confidence = answer(judge([0.9, 0.09, 0.01]).judge(found))
    parts = [0.4 / 0.9, 0.1 / 0.09, 0.1 / 0.01]
    assert (value, confidence) == ('"web"', round(parts[0] / sum(parts), 6))


def test_no_label_among_the_tokens_is_a_mismatch_that_names_the_likeliest() -> None:
    found = failure(judge().judge(reply({"The\n": 0.7, "x": 0.1})))
    assert found.kind is Kind.SCHEMA_MISMATCH
    assert found.message == r"none of the labels is among the 2 likeliest tokens; the likeliest is 'The\n'"


def test_nothing_is_said_to_a_model_that_was_asked_for_one_token() -> None:
    found = reply({"The": 0.7})
    assert judge().reask(b"[]", found, failure(judge().judge(found))) == b"[]"
    assert judge().schema is None


@pytest.mark.parametrize("finish", ["length", "stop", None, "max_tokens"])
@pytest.mark.parametrize("content", ["web", "", None, " \n"])
def test_neither_the_finish_nor_the_text_matters(finish: str | None, content: str | None) -> None:
    judged = judge().judge(reply({"web": 0.5, "games": 0.5 / 3, "fonts": 0.5 / 3}, finish, content))
    assert judged == Answer('"web"', (), 0.6)


@pytest.mark.parametrize("finish", ["content_filter", "CONTENT_FILTER", "content_filter_azure"])
def test_what_the_filter_cut_fails_as_filtered(finish: str) -> None:
    assert failure(judge().judge(reply({"web": 0.5}, finish))).kind is Kind.CONTENT_FILTER
    assert failure(judge().judge(reply(None, finish, None))).kind is Kind.CONTENT_FILTER


def test_a_refusal_without_log_probabilities_is_a_refusal() -> None:
    assert failure(judge().judge(reply(None, "stop", None, refusal="I can\nnot"))).kind is Kind.REFUSAL


@pytest.mark.parametrize("content", ["", None, "\ufffd"])
def test_a_reply_without_log_probabilities_is_a_mismatch(content: str | None) -> None:
    for each in (judge(), ContentFreeJudge()):
        found = failure(each.judge(reply(None, content=content)))
        assert found.kind is Kind.SCHEMA_MISMATCH
        assert ("half a character" in found.message) is (content == "\ufffd")


def test_usage_that_is_missing_is_noted() -> None:
    judged = judge().judge(Reply("web", likeliest=[("web", -0.1)]))
    assert isinstance(judged, Answer)
    assert judged.notes == (Note.USAGE_MISSING,)


def test_labels_come_out_as_they_stand_in_the_job() -> None:
    found = reply({"été": 0.5, '"': 0.2})
    assert answer(judge(labels=["été", '"so"']).judge(found))[0] == '"été"'
    assert answer(judge(labels=["été", '"so"']).judge(reply({"été": 0.1, '"': 0.2})))[0] == '"\\"so\\""'


def test_one_label_alone_is_certain_where_it_is_seen() -> None:
    assert answer(judge(labels=["yes"]).judge(reply({" yes": 0.001, "no": 0.9}))) == ('"yes"', 1.0)


# -- a token that begins several labels

CLASH = {"sci": 0.6, "web": 0.1}
SCIENCES = ["web", "science", "scientific"]


def test_one_odd_record_does_not_end_a_run() -> None:
    found = failure(judge(labels=SCIENCES).judge(reply(CLASH)))
    assert found.kind is Kind.SCHEMA_MISMATCH
    assert "the token 'sci' begins 'science' and 'scientific'; labels must begin with different tokens" in found.message


def test_ten_conflicts_and_no_answer_are_the_labels_fault() -> None:
    judged = judge(labels=SCIENCES)
    kinds = [failure(judged.judge(reply(CLASH))).kind for _ in range(CONFLICTS)]
    assert kinds == [Kind.SCHEMA_MISMATCH] * (CONFLICTS - 1) + [Kind.MISCONFIGURED]


def test_once_an_answer_stood_conflicts_are_the_records_fault() -> None:
    judged = judge(labels=SCIENCES)
    answer(judged.judge(reply({"web": 0.5})))
    assert {failure(judged.judge(reply(CLASH))).kind for _ in range(3 * CONFLICTS)} == {Kind.SCHEMA_MISMATCH}


def test_a_space_that_wins_is_met_by_a_space_in_the_prompt() -> None:
    scorer = LabelScorer(["1", "2"], {"1": [" ", "1"], "2": [" ", "2"]})
    found = failure(ScoreJudge(scorer).judge(reply({" ": 0.9, "1": 0.05})))
    assert "let the prompt end with a space" in found.message


def test_the_hint_survives_long_labels() -> None:
    labels = [f"{letter}{'y' * 500}" for letter in "aabbcc"]
    labels = [f"{label}{n}" for n, label in enumerate(labels)]
    found = failure(judge(labels=labels).judge(reply({"a": 0.9})))
    assert found.message.endswith('"generate"')


# -- without content


def test_the_prompt_without_content_is_kept_whatever_it_says() -> None:
    assert ContentFreeJudge().judge(reply({"The": 0.9})) == Answer("null")
    assert ContentFreeJudge().reask(b"x", reply({}), Failure(Kind.EMPTY, "")) == b"x"


def of(*shares: float) -> LabelScores:
    return LabelScores([math.log(share) for share in shares], [True] * len(shares))


def test_the_prior_is_the_mean_of_probabilities_normalised_over_the_labels() -> None:
    # [0.6, 0.2] is 0.75 and 0.25; [0.1, 0.1] is 0.5 and 0.5; [0.01, 0.09] is 0.1 and 0.9; their means 0.45 and 0.55
    found = content_free([of(0.6, 0.2), of(0.1, 0.1), of(0.01, 0.09)])
    assert [math.exp(value) for value in found] == pytest.approx([0.45, 0.55])


def test_calibrated_is_divided_by_the_prior_and_normalised() -> None:
    """q = softmax(W p) with W = diag(p_cf)^-1 in the paper is, without its softmax, p / p_cf over its sum."""
    prior = content_free([of(0.6, 0.2), of(0.1, 0.1), of(0.01, 0.09)])
    scorer = LabelScorer(["yes", "no"])
    judged = ScoreJudge(scorer, prior).judge(reply({"yes": 0.5, "no": 0.3}))
    parts = [0.5 / 0.45, 0.3 / 0.55]
    assert answer(judged) == ('"yes"', round(parts[0] / sum(parts), 6))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.lists(st.floats(-40, 0), min_size=3, max_size=3), min_size=1, max_size=3))
def test_the_prior_sums_to_one(values: list[list[float]]) -> None:
    found = content_free([LabelScores(each, [True] * 3) for each in values])
    assert sum(math.exp(value) for value in found) == pytest.approx(1)


# -- laws

WORDS = [" web", "web", "w", "games", " g", "fonts", "the", " "]
LIKELIEST = st.dictionaries(st.sampled_from(WORDS), st.floats(-60, 0), min_size=1).map(lambda found: list(found.items()))
PRIORS = st.none() | st.lists(st.floats(-30, 0), min_size=3, max_size=3)


def judged_by(likeliest: list[tuple[str, float]], prior: list[float] | None = None) -> Answer | Failure:
    return ScoreJudge(LabelScorer(LABELS), prior).judge(Reply("x", usage=USAGE, likeliest=likeliest))


def alike(one: Answer | Failure, other: Answer | Failure) -> bool:
    """The same but for the last digit: a confidence within rounding, and its label where no two are equal."""
    if isinstance(one, Failure) or isinstance(other, Failure):
        return isinstance(one, Failure) and isinstance(other, Failure) and one.kind is other.kind
    assert one.confidence is not None
    assert other.confidence is not None
    return abs(one.confidence - other.confidence) <= 2e-6


@settings(max_examples=50, deadline=None)
@given(LIKELIEST, PRIORS)
def test_a_confidence_is_between_none_and_all(likeliest: list[tuple[str, float]], prior: list[float] | None) -> None:
    found = judged_by(likeliest, prior)
    assert isinstance(found, Failure) or (found.confidence is not None and 0 <= found.confidence <= 1)


@settings(max_examples=50, deadline=None)
@given(LIKELIEST, st.floats(-30, 0), PRIORS)
def test_a_constant_added_to_all_changes_nothing(
    likeliest: list[tuple[str, float]], constant: float, prior: list[float] | None
) -> None:
    moved = [(token, value + constant) for token, value in likeliest]
    assert alike(judged_by(likeliest, prior), judged_by(moved, prior))


@settings(max_examples=50, deadline=None)
@given(LIKELIEST, st.floats(-30, 0))
def test_a_uniform_prior_changes_nothing(likeliest: list[tuple[str, float]], level: float) -> None:
    assert alike(judged_by(likeliest), judged_by(likeliest, [level] * 3))


@settings(max_examples=50, deadline=None)
@given(LIKELIEST, PRIORS, st.randoms(use_true_random=False))
def test_the_order_of_the_tokens_changes_nothing(likeliest: list[tuple[str, float]], prior: Any, rng: Any) -> None:
    mixed = rng.sample(likeliest, len(likeliest))
    assert alike(judged_by(likeliest, prior), judged_by(mixed, prior))


@settings(max_examples=50, deadline=None)
@given(LIKELIEST, PRIORS)
def test_only_a_label_that_was_seen_is_an_answer(likeliest: list[tuple[str, float]], prior: list[float] | None) -> None:
    found = judged_by(likeliest, prior)
    assume(isinstance(found, Answer))
    assert isinstance(found, Answer)
    label = (found.value or "").strip('"')
    assert any(token.strip() and label.startswith(token.strip()) for token, _ in likeliest)
