"""From the likeliest tokens of a reply to the scores of labels: which token stands for which label."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.answers.score import HINT, LabelScorer, LabelScores
from headrace.errors import SpecError

HALF = b"\xf0\x9f".decode("utf-8", "surrogateescape")  # what many symbols begin with
PAD, DART = b"\xf0\x9f\x8e\xae", b"\xf0\x9f\x8e\xaf"


def log(share: float) -> float:
    return math.log(share)


def scored(labels: list[str], tokens: dict[str, float], first: dict[str, list[str]] | None = None) -> LabelScores:
    """Scores of tokens given with their probabilities."""
    likeliest = sorted(((token, log(share)) for token, share in tokens.items()), key=lambda pair: -pair[1])
    return LabelScorer(labels, first)(likeliest)


def shares(scores: LabelScores) -> list[float]:
    return [round(math.exp(value), 9) for value in scores.values]


BY_SERVER = {"web": [" web", "web"], "games": [" games", "g"]}


@pytest.mark.parametrize("first", [None, BY_SERVER], ids=["by text", "by the server's tokenizer"])
def test_a_label_behind_a_space_and_without_one_is_the_same_label(first: dict[str, list[str]] | None) -> None:
    scores = scored(["web", "games"], {" web": 0.4, "web": 0.2, " games": 0.3, "x": 0.01}, first)
    assert shares(scores) == [0.6, 0.3]
    assert scores.seen == [True, True]
    assert scores.conflict is None


def test_the_servers_tokenizer_decides_not_the_text() -> None:
    scores = scored(["web", "games"], {" we": 0.5, "w": 0.2, " games": 0.1, "g": 0.1, "game": 0.05}, BY_SERVER)
    assert scores.seen == [False, True]
    assert shares(scores) == [0.05, 0.2]


def test_what_is_not_seen_is_bound_by_the_least_of_the_list() -> None:
    scores = scored(["web", "games", "fonts"], {" web": 0.5, "the": 0.2, "a": 0.03})
    assert shares(scores) == [0.5, 0.03, 0.03]
    assert scores.seen == [True, False, False]


def test_by_text_the_longest_token_that_begins_a_label_stands_for_it() -> None:
    scores = scored(["science", "web"], {"sci": 0.3, "s": 0.4, " scien": 0.1, " s": 0.1, "w": 0.05})
    assert shares(scores) == [0.4, 0.05]


def test_by_text_a_label_that_begins_another_one_keeps_its_own_token() -> None:
    scores = scored(["no", "none", "not sure"], {"no": 0.5, " no": 0.1, "none": 0.2, "not": 0.1, "n": 0.05})
    assert shares(scores) == [0.6, 0.2, 0.1]
    assert scores.conflict is None


def test_by_the_tokenizer_a_label_that_begins_another_one_is_found_to_share() -> None:
    first = {"cat": [" cat", "cat"], "category": [" category", "cat"]}
    scores = scored(["cat", "category"], {"cat": 0.5, " cat": 0.2, " category": 0.1}, first)
    assert scores.conflict == ("cat", ["cat", "category"])


def test_what_two_labels_share_counts_for_neither_and_is_no_conflict_while_a_label_outweighs_it() -> None:
    scores = scored(["science", "scientific"], {" science": 0.5, " scientific": 0.2, "sci": 0.25})
    assert shares(scores) == [0.5, 0.2]
    assert scores.conflict is None


def test_what_two_labels_share_is_a_conflict_where_it_outweighs_every_label() -> None:
    scores = scored(["web", "science", "scientific"], {" web": 0.1, "sci": 0.6, " scientific": 0.2})
    assert scores.conflict == ("sci", ["science", "scientific"])


def test_a_shared_token_bounds_what_is_not_seen() -> None:
    scores = scored(["web", "science", "scientific"], {" web": 0.6, "sci": 0.2, "x": 0.01})
    assert shares(scores) == [0.6, 0.2, 0.2]


def test_half_characters_are_told_apart_by_their_bytes() -> None:
    pad, dart = (raw.decode() for raw in (PAD, DART))
    halves = [raw[:3].decode("utf-8", "surrogateescape") for raw in (PAD, "é".encode())]
    scores = scored([pad, "été"], {" " + halves[0]: 0.5, "é": 0.2, HALF: 0.1})
    assert scores.seen == [True, True]
    assert shares(scores) == [0.6, 0.2]
    assert scored([pad, dart], {HALF: 0.7, " the": 0.1}).conflict == (HALF, [pad, dart])


def test_half_characters_of_the_servers_tokenizer_are_matched_as_they_are() -> None:
    first = {PAD.decode(): [HALF, " " + HALF], "web": ["web"]}
    assert shares(scored([PAD.decode(), "web"], {HALF: 0.5, " " + HALF: 0.1, "web": 0.2}, first)) == [0.6, 0.2]


def test_a_lone_surrogate_that_a_server_wrote_itself_is_no_label() -> None:
    assert scored(["web"], {"\ud83d": 0.5, "web": 0.1}).seen == [True]


def test_white_space_around_a_label_is_not_part_of_what_is_looked_for() -> None:
    assert scored([" web ", "games"], {" web": 0.5, "games": 0.1}).seen == [True, True]


def test_a_word_in_other_case_is_another_token() -> None:
    assert scored(["Web", "games"], {"web": 0.5, " Web": 0.1}).seen == [True, False]


def test_a_token_that_comes_twice_counts_twice() -> None:
    scores = LabelScorer(["web", "games"])([("web", log(0.4)), ("web", log(0.2)), ("games", log(0.1))])
    assert shares(scores) == [0.6, 0.1]


@pytest.mark.parametrize("labels", [["new york", "new jersey"], ["web", "web site"], ["a b", "c", "a  d"]])
def test_labels_with_an_equal_first_word_are_refused_with_a_hint(labels: list[str]) -> None:
    with pytest.raises(SpecError) as refused:
        LabelScorer(labels)
    assert refused.value.key == "answer.labels"
    assert refused.value.allowed == HINT
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("labels", [["new york", "old york"], ["Web", "web"], ["no", "none"], ["ja!", "ja"], ["only"]])
def test_labels_whose_first_words_differ_are_taken(labels: list[str]) -> None:
    assert LabelScorer(labels).labels == labels


def test_labels_that_the_tokenizer_cannot_tell_apart_are_refused_and_named() -> None:
    with pytest.raises(SpecError, match=r"the token '1' begins '1[0-9]?' and '1.'"):
        LabelScorer(["1", "2", "10"], {"1": [" ", "1"], "2": [" ", "2"], "10": [" ", "1"]})


def test_digits_behind_a_tokens_own_space_are_told_apart_where_the_space_does_not_win() -> None:
    first = {"1": [" ", "1"], "2": [" ", "2"]}
    assert shares(scored(["1", "2"], {"1": 0.6, "2": 0.2, " ": 0.1}, first)) == [0.6, 0.2]
    assert scored(["1", "2"], {"1": 0.1, " ": 0.8}, first).conflict == (" ", ["1", "2"])


def test_sixty_labels_are_named_in_a_short_message() -> None:
    labels = [f"label{n}" for n in range(60)]
    with pytest.raises(SpecError) as refused:
        LabelScorer(labels, {label: ["label"] for label in labels})
    assert len(str(refused.value)) < 300


TOKENS = st.lists(
    st.tuples(st.sampled_from([" web", "web", "w", "ga", " games", "g", " ", "", "the", HALF, "\ud83d"]), st.floats(-50, 0)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=50, deadline=None)
@given(TOKENS, st.permutations(range(12)))
def test_the_order_of_the_tokens_changes_nothing(tokens: list[tuple[str, float]], order: list[int]) -> None:
    scorer = LabelScorer(["web", "games", "gas"])
    mixed = [tokens[place] for place in order if place < len(tokens)]
    one, other = scorer(tokens), scorer(mixed)
    assert one.seen == other.seen
    assert one.values == pytest.approx(other.values)


@settings(max_examples=50, deadline=None)
@given(TOKENS, st.sampled_from([None, {"web": ["web"], "games": [" games", "g"], "gas": ["ga", "g"]}]))
def test_no_score_is_below_the_least_token_or_above_certainty(
    tokens: list[tuple[str, float]], first: dict[str, list[str]] | None
) -> None:
    scores = LabelScorer(["web", "games", "gas"], first)(tokens)
    least, whole = min(value for _, value in tokens), math.log(len(tokens))
    assert all(least - 1e-9 <= value <= whole + 1e-9 for value in scores.values)
    assert len(scores.values) == len(scores.seen) == 3
