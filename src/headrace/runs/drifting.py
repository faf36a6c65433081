"""`headrace drift A B`: whether two runs answer differently as a whole, and by how much."""

from __future__ import annotations

import importlib.util
from collections import Counter
from contextlib import ExitStack
from typing import Any, NamedTuple

import numpy as np

from headrace.errors import HeadraceError, SpecError
from headrace.ledger.reader import LedgerReader, as_text
from headrace.policy.drift import (
    ALARM,
    LEAST_FLIPS,
    LEAST_LENGTH,
    LEAST_RATE,
    LEAST_V,
    Finding,
    LabelShift,
    label_shift,
    length_difference,
    rate_difference,
    verdict,
)
from headrace.policy.stats import wilson
from headrace.runs.agreement import DONE, Answers, Labels, matched, read_answers
from headrace.runs.job import Job
from headrace.runs.lifecycle import job_candidates
from headrace.runs.registry import RunFolder
from headrace.runs.repeating import REPEATED
from headrace.values import Kind

DRIFT = "drift"  # the ledger's name for what a run is against the job's last one
MOST_ITEMS = 200_000  # of a run that is compared by itself at its end
PAIRED = 0.9  # of the answers of either run: then they are answers to the same records
RATES = {
    "truncated": (Kind.TRUNCATED,), "refusal": (Kind.REFUSAL, Kind.CONTENT_FILTER),
    "unusable": (Kind.INVALID_JSON, Kind.SCHEMA_MISMATCH, Kind.EMPTY),
}  # fmt: skip


def insist_on_scipy() -> None:
    """Raises SpecError, with what to type."""
    if importlib.util.find_spec("scipy") is None:
        raise SpecError("drift needs scipy: pip install '.[quality]'", key=None, allowed="that package")


class _Pairs(NamedTuple):
    """Where the records that both runs have answered stand in each, and whether they are nearly all."""

    in_a: np.ndarray
    in_b: np.ndarray
    are_all: bool


def drift_between(a: RunFolder, b: RunFolder) -> dict[str, Any]:
    """The document of `drift A B --json`. Reads only. Raises LedgerError."""
    with ExitStack() as stack:
        readers = (LedgerReader(a.ledger), LedgerReader(b.ledger))
        for reader in readers:
            stack.callback(reader.close)
            reader.snapshot()
        labels = Labels()
        answers = (read_answers(readers[0], labels), read_answers(readers[1], labels))
        return {"runs": [a.id, b.id], **_document(readers, answers, labels)}


def _document(readers: tuple[LedgerReader, LedgerReader], answers: tuple[Answers, Answers], labels: Labels) -> dict[str, Any]:
    pairs = _paired(*answers)
    done = [int((one.statuses == DONE).sum()) for one in answers]
    shift = _labels(*answers, pairs, labels)
    rates, tests = _rates(readers)
    tests += [_lengths(*answers, pairs)]
    if shift is not None:
        tests.append(Finding("labels", shift.p, shift.cramers_v >= LEAST_V))
    flips, own = _flips(*answers, pairs), _own_flips(readers)
    if (flipped := _beyond(flips, own)) is not None:
        tests.append(flipped)
    said, adjusted = verdict(tests, shift, min(done))
    share = flips[0] / flips[1] if flips[1] else None
    return {
        "verdict": said, "answers": done, "common": flips[1],
        "labels": shift._asdict() if shift is not None else None,
        "flips": share, "flips_interval": list(wilson(*flips)), "own_flips": own[0] / own[1] if own[1] else None,
        "rates": rates, "length": [_mean_length(one) for one in answers],
        "tests": {test.name: {"p": test.p, "adjusted": adjusted[test.name], "matters": test.matters} for test in tests},
    }  # fmt: skip


def _paired(a: Answers, b: Answers) -> _Pairs:
    in_a, in_b = matched(a, b)
    both = (a.statuses[in_a] == DONE) & (b.statuses[in_b] == DONE)
    most = max(int((a.statuses == DONE).sum()), int((b.statuses == DONE).sum()), 1)
    return _Pairs(in_a[both], in_b[both], bool(both.sum() >= PAIRED * most))


def _labels(a: Answers, b: Answers, pairs: _Pairs, labels: Labels) -> LabelShift | None:
    """The shift of labels; None where the answers are none."""
    one, other = a.labels[a.statuses == DONE], b.labels[b.statuses == DONE]
    if labels.is_full or (one < 0).any() or (other < 0).any() or not len(one) or not len(other):
        return None
    count = len(labels)
    table = None
    if pairs.are_all:
        one, other = a.labels[pairs.in_a], b.labels[pairs.in_b]
        table = (
            np.bincount(one.astype(np.int64) * count + other, minlength=count * count).reshape(count, count).astype(np.float64)
        )
    return label_shift(np.bincount(one, minlength=count).tolist(), np.bincount(other, minlength=count).tolist(), table)


def _lengths(a: Answers, b: Answers, pairs: _Pairs) -> Finding:
    one, other = a.sizes[a.statuses == DONE], b.sizes[b.statuses == DONE]
    if pairs.are_all:
        one, other = a.sizes[pairs.in_a], b.sizes[pairs.in_b]
    before, after = (float(sizes.mean()) if len(sizes) else 0.0 for sizes in (one, other))
    matters = before > 0 and abs(after / before - 1) >= LEAST_LENGTH
    return Finding("length", length_difference(one, other, paired=pairs.are_all), matters)


def _mean_length(answers: Answers) -> float:
    sizes = answers.sizes[answers.statuses == DONE]
    return round(float(sizes.mean()), 1) if len(sizes) else 0.0


def _rates(readers: tuple[LedgerReader, LedgerReader]) -> tuple[dict[str, list[float]], list[Finding]]:
    counts = [_bad(reader) for reader in readers]
    settled = [sum(reader.one("count_item_states")) for reader in readers]
    rates, tests = {}, []
    for name, kinds in RATES.items():
        a, b = (sum(of[kind] for kind in kinds) for of in counts)
        shares = [a / settled[0] if settled[0] else 0.0, b / settled[1] if settled[1] else 0.0]
        rates[name] = [round(share, 6) for share in shares]
        tests.append(Finding(name, rate_difference(a, settled[0], b, settled[1]), abs(shares[1] - shares[0]) >= LEAST_RATE))
    return rates, tests


def _bad(reader: LedgerReader) -> Counter[str]:
    found: Counter[str] = Counter()
    for _, error, count, _, _ in reader.all("failed_units"):
        found[(as_text(error) or "").partition(":")[0]] += count
    return found


def _flips(a: Answers, b: Answers, pairs: _Pairs) -> tuple[int, int]:
    """How many of the common answers differ, and how many there are."""
    return int((a.answers[pairs.in_a] != b.answers[pairs.in_b]).sum()), len(pairs.in_a)


def _own_flips(readers: tuple[LedgerReader, LedgerReader]) -> tuple[int, int]:
    """How many answers flipped that were asked for twice under one configuration, both runs together."""
    found = [reader.meta(REPEATED) or {"flipped": 0, "answered": 0} for reader in readers]
    return sum(one["flipped"] for one in found), sum(one["answered"] for one in found)


def _beyond(flips: tuple[int, int], own: tuple[int, int]) -> Finding | None:
    """More flips than the configuration makes by itself; None where that was not measured."""
    if not own[1] or not flips[1]:
        return None
    more = flips[0] / flips[1] - own[0] / own[1]
    return Finding("flips", rate_difference(flips[0], flips[1], own[0], own[1]), more >= LEAST_FLIPS)


def drift_of_run(job: Job, folder: RunFolder) -> dict[str, Any] | None:
    """What a run that has finished is against the job's last one that had; None where there is none, where either is too large to
    be read at every run's end, or where scipy lacks. Never raises for another run that cannot be read.
    """
    if importlib.util.find_spec("scipy") is None:
        return None
    for candidate in job_candidates(job, folder.path.parent):
        if candidate.folder.path.resolve() == folder.path.resolve() or not candidate.finished:
            continue
        try:
            if any(_items(one) > MOST_ITEMS for one in (candidate.folder, folder)):
                return None
            return drift_between(candidate.folder, folder)
        except HeadraceError:
            return None
    return None


def drift_warning(found: dict[str, Any]) -> str | None:
    """One line, where the answers have drifted."""
    if found["verdict"] != "drifted":
        return None
    named = [name for name, test in found["tests"].items() if test["matters"] and test["adjusted"] <= ALARM]
    a, b = found["runs"]
    return f"the answers are not as those of run {a}: {', '.join(named)} differ; `headrace drift {a} {b}` says how much."


def _items(folder: RunFolder) -> int:
    reader = LedgerReader(folder.ledger)
    try:
        return int(reader.one("count_items")[0])
    finally:
        reader.close()
