"""What a job's earlier runs teach of the next: tokens as the server counts them, lengths of answers, how fast it goes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from msgspec import Struct

from headrace.errors import HeadraceError, RecordError
from headrace.ledger.reader import LedgerReader, as_text
from headrace.policy.scale import Scale, fit
from headrace.runs.expectation import usually_added
from headrace.runs.job import Job
from headrace.runs.lifecycle import Candidate, with_content
from headrace.runs.making import Making, making_of
from headrace.runs.pieces import salt_of
from headrace.runs.prompttexts import PromptTexts, prompt_texts
from headrace.runs.registry import RunFolder
from headrace.sources.records import RecordPlaces, parse

Count = Callable[[Sequence[PromptTexts]], Sequence[float]]
ENOUGH = 20  # answers of a newer run that are worth more than many of an older one
_MOST = 2000  # answers looked at
_SAME_ANSWERS = ("prompt", "model", "answer", "slice")


class Counted(Struct, frozen=True):
    """What one run's answers say of prompts: the scale from estimates to the server's count."""

    run: str
    scale: Scale


class Lessons(Struct, frozen=True):
    """`prompt` is of the newest run of the same model by the same endpoint, whatever it asked; `answers` (tokens, one by one) of
    the newest with the same prompt, model and [answer]; `per_second` is how many requests a second were settled.
    """

    prompt: Counted | None = None
    answers: Sequence[int] = ()
    answers_run: str | None = None
    per_second: float | None = None
    pace_run: str | None = None


def learn(job: Job, candidates: Sequence[Candidate], identities: Sequence[str | None], count: Count | None) -> Lessons:
    """Look through the job's runs, newest first. `count` gives the figure that is to be brought to the server's, if any is.

    A run that cannot be read, or whose records are not what they were, teaches nothing.
    """
    known = {identity for identity in identities if identity is not None}
    prompt = few = None
    answers: tuple[Sequence[int], str | None] = ((), None)
    pace: tuple[float | None, str | None] = (None, None)
    for candidate in candidates:
        if not known or not _is_same_model(candidate.content, job):
            continue
        try:
            read = _Read(candidate.folder, job, known)
        except HeadraceError:
            continue
        try:
            if pace[0] is None:
                pace = read.per_second(), candidate.folder.id
            if not answers[0] and _asks_the_same(candidate.content, job):
                answers = read.completions(), candidate.folder.id
            if prompt is None and count is not None:
                scale = read.scale(count)
                found = Counted(candidate.folder.id, scale) if scale is not None else None
                prompt = found if found is not None and found.scale.count >= ENOUGH else None
                few = few if found is None or (few is not None and few.scale.count >= found.scale.count) else found
        except HeadraceError:
            continue
        finally:
            read.close()
        if (prompt is not None or count is None) and answers[0] and pace[0] is not None:
            break
    return Lessons(prompt or few, answers[0], answers[1] if answers[0] else None, pace[0], pace[1] if pace[0] else None)


def _is_same_model(content: dict[str, Any], job: Job) -> bool:
    model = content["model"]
    return bool(model["name"] == job.spec.model.name and model["route"] == job.spec.model.route)


def _asks_the_same(content: dict[str, Any], job: Job) -> bool:
    now = job.spec.content()
    return all(content.get(section) == now[section] for section in _SAME_ANSWERS)


class _Read:
    """One run's answers of the endpoints in question. Raises HeadraceError where it cannot be read."""

    def __init__(self, folder: RunFolder, job: Job, identities: set[str]) -> None:
        self._folder = folder
        self._job = job
        self._reader = LedgerReader(folder.ledger)
        config = self._reader.configs()[0]
        (answered,) = self._reader.one("count_answered")
        rows = self._reader.all("counted_answers", (max(1, answered // _MOST), 2 * _MOST))
        self._rows = [row for row in rows if as_text(row[6]) in identities]
        self._config = config

    def completions(self) -> list[int]:
        """The tokens of each answer that the server counted."""
        return [row[8] for row in self._rows if row[8] is not None]

    def per_second(self) -> float | None:
        """Requests settled a second, while some were."""
        if not self._rows:
            return None
        seconds, settled = self._reader.one("pace")
        if seconds < 2 or not settled:
            settled, seconds = self._reader.one("sent_within")
        return settled / seconds if seconds else None

    def scale(self, count: Count) -> Scale | None:
        """Their requests rendered again, counted, and held against what the server counted."""
        making = making_of(with_content(self._job.spec, self._config.content))
        files = [Path(file["path"]) for file in self._reader.meta("fingerprint", [])]
        places = RecordPlaces(self._folder.records, files)
        try:
            raws = places.fetch([(row[3], row[4], row[5]) for row in self._rows])
        finally:
            places.close()
        payloads, counted = [], []
        for row, raw in zip(self._rows, raws, strict=True):
            payload = _rendered(making, row, raw)
            if payload is not None:
                payloads.append(payload)
                counted.append(row[7])
        texts = list(prompt_texts(payloads))
        texts, counted = _without_pictures(texts, counted)
        return fit(count(texts), counted, usually_added(texts[0].messages if texts else 0))

    def close(self) -> None:
        self._reader.close()


def _rendered(making: Making, row: Sequence[Any], raw: bytes) -> bytes | None:
    """The request as it was sent; None where the record is another by now."""
    try:
        whole = making.slicer(row[1], parse(raw))
        if making.dividing is not None:
            asked = making.dividing.asked(whole, dedupe=making.dedupe)
            at = row[2]
            return asked.payloads[at] if at < len(asked.hashes) and asked.hashes[at] == row[0] else None
        payload = making.renderer.render(whole)
    except RecordError:
        return None
    return payload if making.hasher(payload, salt_of(row[1], 0, dedupe=making.dedupe)) == row[0] else None


def _without_pictures(texts: list[PromptTexts], counted: list[int]) -> tuple[list[PromptTexts], list[int]]:
    """What a picture takes is no matter of its characters."""
    kept = [(one, tokens) for one, tokens in zip(texts, counted, strict=True) if not one.others]
    return [one for one, _ in kept], [tokens for _, tokens in kept]
