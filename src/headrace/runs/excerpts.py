"""The beginning of a record, and of what was answered to it: enough to see why it failed."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

from headrace.errors import InputError
from headrace.ledger.reader import LedgerReader, as_text
from headrace.runs.registry import RunFolder
from headrace.sources.matching import still_hold
from headrace.sources.records import RecordPlaces
from headrace.values import State

_CHARS = 300
_CAME_TO_NOTHING = (State.FAILED, State.QUARANTINED)


class Excerpts:
    """Reads excerpts of a run's items. Use as a context manager: the input's files stay open between two.

    Of a divided item the answer is that of its first piece that came to nothing.
    """

    def __init__(self, reader: LedgerReader, folder: RunFolder) -> None:
        fingerprint: list[dict[str, Any]] = reader.meta("fingerprint", [])
        files = [Path(file["path"]) for file in fingerprint]
        self._reader = reader
        self._in_place_holds = not any(reader.meta("in_place", [])) or still_hold(fingerprint, files)
        self._places = RecordPlaces(folder.records, files)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._places.close()

    def of(self, seq: int) -> dict[str, str | None]:
        """`record`: how its JSON, or the unreadable bytes, begin; None where the input is not what it was. `answer`: the reply.

        At most 300 characters of each. They are as hostile as the input and the model are.
        """
        rows = next(self._reader.piece_rows(seq, seq))
        row = next((row for row in rows if row.state in _CAME_TO_NOTHING), rows[0])
        answer = as_text(row.content)
        return {
            "record": self._record(row.file, row.offset, row.length),
            "answer": answer[:_CHARS] if answer is not None else None,
        }

    def _record(self, file: int, offset: int, length: int) -> str | None:
        if file and not self._in_place_holds:
            return None
        try:
            (raw,) = self._places.fetch([(file, offset, min(length, 4 * _CHARS))])
        except InputError:
            return None
        return raw.decode("utf-8", "replace")[:_CHARS]
