"""Labels chosen by log-probability: one token is asked for, and each label is scored by the tokens that begin it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from headrace import canon
from headrace.answers.excerpt import excerpt
from headrace.answers.schema import AnswerSchema
from headrace.errors import SpecError
from headrace.spec import JobSpec
from headrace.values import Answer, Failure, Kind, Note, Reply

HINT = 'labels must begin with different tokens; rename one, or use answer.method = "generate"'
SPACE_HINT = 'let the prompt end with a space, so that the label itself comes next, or use answer.method = "generate"'
CONFLICTS = 10  # so many, and no answer among them, are the labels' fault and not the records'
Likeliest = Sequence[tuple[str, float]]


class LabelScores(NamedTuple):
    """Natural logarithms of probabilities, in the order of the labels.

    A label outside the likeliest tokens is not `seen`; its value is the bound that the least of them sets. `conflict` is the
    token that outweighs every label and begins more than one of them.
    """

    values: list[float]
    seen: list[bool]
    conflict: tuple[str, list[str]] | None = None


class LabelScorer:
    """Reads the scores of labels from the likeliest tokens of a reply.

    `first` are the tokens that can begin each label, with a space before it and without, as the server's own tokenizer
    says. Without it the longest token that begins the label's text stands for it. What two labels share counts for neither.
    Raises SpecError for labels that no token can tell apart.
    """

    def __init__(self, labels: Sequence[str], first: Mapping[str, Iterable[str]] | None = None) -> None:
        self.labels = list(labels)
        self._texts = [label.strip().encode("utf-8", "surrogatepass") for label in self.labels]
        _refuse_equal_words(self.labels)
        self._owners: dict[str, set[int]] | None = None
        if first is not None:
            self._owners = {}
            for place, label in enumerate(self.labels):
                for token in first[label]:
                    self._owners.setdefault(token, set()).add(place)
            self._refuse_indistinct(self._owners)

    def __call__(self, likeliest: Likeliest) -> LabelScores:
        """The scores in `likeliest`, which is not empty. The logarithms of a label's tokens are summed as probabilities."""
        owners = self._owners if self._owners is not None else self._owners_in(likeliest)
        bound = min(value for _, value in likeliest)
        own: list[list[float]] = [[] for _ in self.labels]
        bounds = [bound] * len(self.labels)
        shared: tuple[float, str] | None = None
        for token, value in likeliest:
            places = owners.get(token, ())
            if len(places) == 1:
                own[next(iter(places))].append(value)
            for place in places if len(places) > 1 else ():
                bounds[place] = max(bounds[place], value)
                shared = max(shared or (value, token), (value, token))
        seen = [bool(values) for values in own]
        values = [_log_sum(found) if found else least for found, least in zip(own, bounds, strict=True)]
        best = max((value for value, is_seen in zip(values, seen, strict=True) if is_seen), default=-math.inf)
        conflict = None
        if shared is not None and shared[0] > best:
            conflict = (shared[1], [self.labels[place] for place in sorted(owners[shared[1]])])
        return LabelScores(values, seen, conflict)

    def _owners_in(self, likeliest: Likeliest) -> dict[str, set[int]]:
        """Which labels each token begins, told by its bytes alone; of several that begin a label the longest counts."""
        raws = {token: _raw(token) for token, _ in likeliest}
        texts = {token: raw.removeprefix(b" ") for token, raw in raws.items()}
        alike_at: dict[bytes, list[str]] = {}  # tokens by their first byte: few can begin a label at all
        for token, text in texts.items():
            if text:
                alike_at.setdefault(text[:1], []).append(token)
        owners: dict[str, set[int]] = {}
        for label in self._texts:
            beginnings = [token for token in alike_at.get(label[:1], ()) if label.startswith(texts[token])]
            for spaced in (True, False):
                same = [token for token in beginnings if raws[token].startswith(b" ") is spaced]
                if same:
                    owners.setdefault(max(same, key=lambda token: len(texts[token])), set())
        for token, places in owners.items():  # what begins another label too is shared, though that one has a longer token
            text = texts[token]
            alike = [place for place, label in enumerate(self._texts) if label.startswith(text)]
            exact = [place for place in alike if self._texts[place] == text]
            places.update(exact or alike)
        return owners

    def _refuse_indistinct(self, owners: Mapping[str, set[int]]) -> None:
        for place, label in enumerate(self.labels):
            tokens = [token for token, places in owners.items() if place in places]
            if not any(len(owners[token]) == 1 for token in tokens):
                token = next((token for token in tokens if token.strip()), label if not tokens else tokens[0])
                others = [self.labels[other] for other in sorted(owners.get(token, ())) if other != place]
                raise SpecError(_begins(token, [label, *others]), key="answer.labels", allowed=HINT)


class ScoreJudge:
    """Satisfies `headrace.protocols.Judge` for `answer.method = "score"`; its methods never raise.

    `prior` are the labels' logarithms of probability under the same prompt with nothing in it, see `content_free`. Pure but
    for one thing: a token that begins several labels and outweighs all is one record's bad luck once an answer has stood, and
    a wrong configuration where the first ten replies hold nothing else.
    """

    schema: AnswerSchema | None = None  # what is sent as response_format: nothing, a label is one token

    def __init__(self, scorer: LabelScorer, prior: Sequence[float] | None = None) -> None:
        self._score = scorer
        self._prior = prior
        self._answers = [canon.encode(label).decode() for label in scorer.labels]
        self._conflicts = 0
        self._has_answered = False

    @property
    def labels(self) -> list[str]:
        return self._score.labels

    def judge(self, reply: Reply) -> Answer | Failure:
        """The label that is left most probable, or why there is none. The answer's length is no matter: one token was asked."""
        if (reply.finish or "").lower().startswith("content_filter"):
            return Failure(Kind.CONTENT_FILTER, "the endpoint's content filter cut the answer", usage=reply.usage)
        if not reply.likeliest:
            return _without_likeliest(reply)
        scores = self._score(reply.likeliest)
        if scores.conflict is not None:
            return self._conflict(reply, *scores.conflict)
        if not any(scores.seen):
            token = excerpt(repr(reply.likeliest[0][0]), 60)
            count = len(reply.likeliest)
            message = f"none of the labels is among the {count} likeliest tokens; the likeliest is {token}"
            return Failure(Kind.SCHEMA_MISMATCH, message, usage=reply.usage)
        self._has_answered = True
        left = scores.values
        if self._prior is not None:
            left = [value - prior for value, prior in zip(left, self._prior, strict=True)]
        # What was not seen is a bound, not a finding: it takes its share of the probability and cannot win.
        best = max((place for place, is_seen in enumerate(scores.seen) if is_seen), key=lambda place: left[place])
        usage = reply.usage
        notes = () if usage is not None and usage.prompt is not None else (Note.USAGE_MISSING,)
        return Answer(self._answers[best], notes, round(math.exp(left[best] - _log_sum(left)), 6))

    def _conflict(self, reply: Reply, token: str, labels: Sequence[str]) -> Failure:
        self._conflicts += 1
        systematic = not self._has_answered and self._conflicts >= CONFLICTS
        kind = Kind.MISCONFIGURED if systematic else Kind.SCHEMA_MISMATCH
        return Failure(kind, excerpt(_begins(token, labels)), usage=reply.usage)

    def reask(self, payload: bytes, reply: Reply, failure: Failure) -> bytes:  # noqa: ARG002 - the protocol's
        """Nothing is to be said to a model that was asked for one token."""
        return payload


class ContentFreeJudge:
    """Judges the replies to prompts without content: whatever log-probabilities come are kept."""

    schema: AnswerSchema | None = None

    def judge(self, reply: Reply) -> Answer | Failure:
        return Answer("null") if reply.likeliest else _without_likeliest(reply)

    def reask(self, payload: bytes, reply: Reply, failure: Failure) -> bytes:  # noqa: ARG002 - the protocol's
        return payload


def content_free(scores: Sequence[LabelScores]) -> list[float]:
    """What the prompt prefers by itself: the mean of the labels' probabilities over several prompts without content.

    Natural logarithms, in the order of the labels; each prompt's probabilities are normalised over the labels first. Zhao et
    al., "Calibrate Before Use" (2021), section 4: W = diag(p_cf)^-1, which as logarithms is a subtraction.
    """
    shares = [[value - _log_sum(one.values) for value in one.values] for one in scores]
    return [_log_sum(column) - math.log(len(shares)) for column in zip(*shares, strict=True)]


def scorer_of(spec: JobSpec, first: Mapping[str, Iterable[str]] | None = None) -> LabelScorer:
    return LabelScorer(list(dict.fromkeys(spec.answer.labels or ())), first)


def _log_sum(values: Sequence[float]) -> float:
    """The logarithm of the sum of the exponentials, without overflow."""
    most = max(values)
    return most + math.log(sum(math.exp(value - most) for value in values))


def _without_likeliest(reply: Reply) -> Failure:
    if reply.refusal:
        return Failure(Kind.REFUSAL, excerpt(f"the model refused: {reply.refusal}"), usage=reply.usage)
    why = "the reply holds no log-probabilities"
    if "\ufffd" in (reply.content or ""):
        why += ": its token is half a character, for which this server gives none; let labels begin with letters"
    return Failure(Kind.SCHEMA_MISMATCH, why, usage=reply.usage)


def _raw(token: str) -> bytes:
    """A token's bytes: half a character stands in it as lone surrogates."""
    try:
        return token.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # another lone surrogate, which the server itself has written
        return token.encode("utf-8", "surrogatepass")


def _refuse_equal_words(labels: Sequence[str]) -> None:
    """Every tokenizer splits at spaces: labels with an equal first word have an equal first token."""
    words: dict[str, str] = {}
    for label in labels:
        word = label.split()[0]
        other = words.setdefault(word, label)
        if other != label:
            raise SpecError(_begins(word, [other, label]), key="answer.labels", allowed=HINT)


def _begins(token: str, labels: Sequence[str]) -> str:
    named = " and ".join(excerpt(repr(label), 40) for label in labels[:3])
    return f"answer.labels: the token {excerpt(repr(token), 30)} begins {named}; {HINT if token.strip() else SPACE_HINT}"
