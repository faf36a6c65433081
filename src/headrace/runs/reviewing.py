"""The spot check of a run: items drawn from those that are done, shown with their records, and what was said of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from headrace import canon
from headrace.answers.schema import AnswerSchema
from headrace.errors import DiskError, InputBrokenError, SpecError
from headrace.ledger.reader import LedgerReader, StoredRow, as_text
from headrace.quality.draw import Candidate, Sample, banded, draw
from headrace.quality.reviews import VERDICTS, Review, ReviewStore
from headrace.runs import archive
from headrace.runs.agreement import item_rows
from headrace.runs.answertext import answer_json
from headrace.runs.outputs import records_of
from headrace.runs.registry import RunFolder
from headrace.sources.records import RecordPlaces, parse
from headrace.spec import QualitySpec
from headrace.values import State, Status

OVERLAP, FEWEST_SHARED = 0.1, 10  # of the sample, which every reviewer sees
MOST_FAILURES = 200
_LENGTHS, _LENGTH_NAMES = (
    (500.0, 2000.0, 8000.0),
    ("under 500 bytes", "under 2,000 bytes", "under 8,000 bytes", "8,000 bytes or more"),
)
_SURE, _SURE_NAMES = (0.5, 0.8, 0.95), ("sure by 50 %", "sure by 80 %", "sure by 95 %", "surer")
_PIECES, _PIECE_NAMES = (1.0, 5.0), ("1 piece", "2 to 5 pieces", "more pieces")
_LABEL = 60
_STATUS = {State.FAILED: Status.FAILED, State.QUARANTINED: Status.QUARANTINED}


class Reviewing:
    """Reads a run, also while it goes on, and draws from what is done by now. Raises LedgerError."""

    def __init__(self, folder: RunFolder) -> None:
        self.folder = folder
        configuration = archive.read(folder).get("configuration", {})
        kept = configuration.get("quality") or {}
        self._fault = _fault_of(configuration)
        self.quality = QualitySpec(**{key: kept[key] for key in ("sample", "stratify", "seed") if kept.get(key) is not None})
        self._reader = LedgerReader(folder.ledger)
        files, self._has_records = records_of(self._reader)
        self._places = RecordPlaces(folder.records, files)
        self._failed: list[int] = []
        self._pieces = dict(self._reader.all("piece_counts")) if self.quality.stratify == "pieces" else {}
        self.sample: Sample = draw(self._candidates(), self.quality.sample, self.quality.seed)

    def close(self) -> None:
        self._places.close()
        self._reader.close()

    def _candidates(self) -> Iterator[Candidate]:
        for row in item_rows(self._reader):
            if row.item_error is not None or row.state in _STATUS:
                if len(self._failed) < MOST_FAILURES:
                    self._failed.append(row.seq)
            elif row.state == State.DONE:
                yield Candidate(row.seq, self._stratum(row))

    def _stratum(self, row: StoredRow) -> str:
        match self.quality.stratify:
            case "answer":
                return answer_json(row.answer, row.content).decode("utf-8", "replace")[:_LABEL]
            case "length":
                return banded(row.length, _LENGTHS, _LENGTH_NAMES)
            case "confidence":
                return "not told" if row.confidence is None else banded(row.confidence, _SURE, _SURE_NAMES)
            case "pieces":
                return banded(self._pieces.get(row.seq, 1), _PIECES, _PIECE_NAMES)
        return ""

    @property
    def failed(self) -> list[int]:
        """Items that are not done and will not be, the first of them: to be looked at, not judged."""
        return self._failed

    def item(self, seq: int) -> dict[str, Any]:
        """An item as it is shown: its record, its answer, why there is none."""
        row = next(item_rows(self._reader, seq))
        done = row.item_error is None and row.state == State.DONE
        status = Status.REJECTED if row.item_error is not None else _STATUS.get(State(row.state or 0), Status.DONE)
        return {
            "item": seq, "id": canon.decode(as_text(row.id) or "null") if row.id is not None else row.number,
            "record": self._record(row), "stratum": self.sample.strata.get(seq, ""), "status": str(status),
            "answer": canon.decode(answer_json(row.answer, row.content)) if done else None,
            "confidence": row.confidence, "error": as_text(row.item_error or row.unit_error),
            "raw": None if done else as_text(row.content),
        }  # fmt: skip

    def _record(self, row: StoredRow) -> Any:
        """The record's fields; the bytes of one that cannot be read; None where they are no longer there."""
        if not self._has_records and row.file:
            return None
        try:
            raw = self._places.fetch([(row.file, row.offset, row.length)])[0]
        except InputBrokenError:
            return None
        return parse(raw) if row.readable else raw[:4000].decode("utf-8", "replace")

    # -- who sees what

    def shared(self) -> set[int]:
        """What every reviewer sees, so that their agreement is known."""
        items = self.sample.items
        return set(items[: max(FEWEST_SHARED, round(OVERLAP * len(items)))])

    def next_for(self, reviewer: str, store: ReviewStore) -> int | None:
        """The item that this reviewer judges next; None: all are seen. Nobody else gets it, but for what all see."""
        mine = {review.item for review in store.all() if review.reviewer == reviewer}
        claimed, shared = store.claimed(), self.shared()
        for item in self.sample.items:
            if item in mine:
                continue
            if item in shared or claimed.get(item) == reviewer:
                return item
            if item not in claimed and store.claim(item, reviewer):
                return item
        return None

    def judged(self, given: dict[str, Any]) -> Review:
        """A verdict as it came from a page. Raises SpecError for one that is none."""
        item, verdict, reviewer = given.get("item"), given.get("verdict"), given.get("reviewer")
        note, correction = given.get("note"), given.get("correction")
        if not isinstance(item, int) or isinstance(item, bool) or item not in self.sample.strata:
            raise SpecError("review: no such item in the sample", key="item")
        if verdict not in VERDICTS or not isinstance(reviewer, str) or not reviewer.strip() or len(reviewer) > 100:
            raise SpecError("review: a verdict and a reviewer's name are needed", key="verdict", allowed=", ".join(VERDICTS))
        if note is not None and not isinstance(note, str):
            raise SpecError("review: a note is a text", key="note")
        if verdict == "correct" and "correction" not in given:
            raise SpecError("review: what would be right is needed", key="correction", allowed="any JSON")
        if verdict == "correct" and (fault := self._fault(correction)) is not None:
            raise SpecError(
                f"review: the run could not have answered so: {fault}", key="correction", allowed="what [answer] takes"
            )
        text = None if verdict != "correct" else canon.encode(correction).decode()
        return Review(
            _whole(reviewer.strip()), item, str(verdict), self.sample.strata[item], text, None if not note else _whole(note)
        )

    def progress(self, reviewer: str, store: ReviewStore) -> dict[str, int]:
        """How far one reviewer is, and all together."""
        reviews = store.all()
        return {
            "mine": sum(review.reviewer == reviewer for review in reviews),
            "seen": len({review.item for review in reviews}), "total": len(self.sample.items),
        }  # fmt: skip

    def eval_records(self, store: ReviewStore) -> Iterator[dict[str, Any]]:
        """What reviewers hold to be right, as records of an eval set: corrections, and accepted answers, with `expected`."""
        latest = {review.item: review for review in store.all() if review.verdict in {"accept", "correct"}}
        rejected = {review.item for review in store.all() if review.verdict == "reject"}
        for item, review in sorted(latest.items()):
            shown = self.item(item)
            if not isinstance(shown["record"], dict) or (item in rejected and review.verdict == "accept"):
                continue
            expected = canon.decode(review.correction) if review.correction is not None else shown["answer"]
            yield {**shown["record"], "expected": expected}


def _fault_of(configuration: dict[str, Any]) -> Callable[[Any], str | None]:
    """Why a run of this configuration would not take an answer; of joined answers nothing is known."""
    answer = configuration.get("answer") or {}
    labels, schema = answer.get("labels"), answer.get("schema")
    if (configuration.get("slice") or {}).get("split") is not None:
        return lambda _: None
    if labels:
        return lambda value: None if value in labels else f"it is none of {', '.join(map(str, labels))}"[:300]
    if isinstance(schema, dict):
        return AnswerSchema(schema).fault
    return lambda _: None


def _whole(text: str) -> str:
    """Without halves of characters, which no file can hold as they are."""
    return text.encode("utf-8", "backslashreplace").decode()


def export_reviewed(folder: RunFolder, to: Path) -> int:
    """Write what was reviewed as an eval set, in JSON lines; returns the records.

    Raises SpecError for a file that is there: it may be an eval set that somebody has worked on. DiskError, LedgerError.
    """
    reviewing, store = Reviewing(folder), ReviewStore(folder.path, writable=False)
    count = 0
    try:
        with to.open("xb") as file:
            for record in reviewing.eval_records(store):
                file.write(canon.encode(record) + b"\n")
                count += 1
    except FileExistsError:
        raise SpecError(
            f"--export: {to} is there already, perhaps with other corrections; give another name",
            key="--export",
            allowed="a new file",
        ) from None
    except OSError as error:
        if count:
            to.unlink(missing_ok=True)
        raise DiskError(f"--export: {to}: cannot be written ({error.strerror}).") from error
    finally:
        reviewing.close()
        store.close()
    return count
