"""Opening an input: its files are checked, then read one after another as one source."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from headrace.errors import InputBrokenError, InputError
from headrace.sources.blocks import BLOCK_BYTES, FileBytes, Text, unpacked
from headrace.sources.csv import Rows, Table
from headrace.sources.fingerprint import FileFingerprint
from headrace.sources.folder import FolderFingerprint, TextFolder
from headrace.sources.json import JsonArray, JsonDocument
from headrace.sources.jsonl import JsonLines
from headrace.sources.layout import Layout, layout_of
from headrace.sources.names import Names
from headrace.sources.parquet import ParquetTable
from headrace.sources.paths import Compression, Form, Format, database, format_of, is_database, resolve, status_of
from headrace.sources.sqlite import SqliteFingerprint, SqliteTable
from headrace.values import Chunk, Record

CHUNK_BYTES = 1_000_000
_DELIMITERS = {"csv": ",", "tsv": "\t"}


class Reader(Protocol):
    """Reads one file. `done`: it gave its last record. A mark is where to go on; `skip` goes there, before the first read."""

    done: bool

    @property
    def in_place(self) -> bool: ...

    def read(self, limit: int, size: int) -> list[Record]: ...

    def mark(self) -> list[int]: ...

    def skip(self, mark: list[int]) -> None: ...

    def close(self) -> None: ...


class Fingerprint(Protocol):
    """What an input was when it was opened and what was read of it."""

    @property
    def path(self) -> Path: ...

    def restore(self, stored: dict[str, Any]) -> None: ...

    def finish(self) -> None: ...

    def is_changed(self) -> bool: ...

    def as_json(self) -> dict[str, Any]: ...


class OpenedSource:
    """A checked input, read as `headrace.protocols.Source` says. Several files form one input, in the order of `files`.

    `files` are its files, or one folder of texts, or one database with its `query`. `in_place[n]` says that the records of
    `files[n]` stay where they are: they carry file n + 1 and the offset of their line, and `raw` is that line. All others
    carry file 0 and offset -1 and are to be copied; their `raw` is their fields as JSON (an array's element as it stands
    there), or the bytes as read (brought to UTF-8) where the record is unreadable. Of a record that is too large `raw` is
    the first 4,000 bytes. Record numbers restart with each file.
    """

    def __init__(
        self, files: Sequence[Path], *, max_record: int, query: str | None = None, block_bytes: int = BLOCK_BYTES
    ) -> None:
        """Checks every file. Raises InputError, and SpecError for a query that cannot be asked."""
        self.files = tuple(files)
        self._query = query
        self._formats = [Format("rows", None) if query is not None else format_of(file) for file in self.files]
        self._max_record = max_record
        self._block_bytes = block_bytes
        self._names = Names()
        self._fingerprints = [self._fingerprint_of(file, form.form) for file, form in zip(self.files, self._formats, strict=True)]
        self._stored: Sequence[dict[str, Any]] = ()
        self._broken: InputBrokenError | None = None
        self._index = 0
        self._reader = self._checked(0)
        try:
            self.in_place = (self._reader.in_place, *map(self._check, range(1, len(self.files))))
        except InputError:
            self._reader.close()
            raise

    def interrupt(self) -> None:
        """Let a query that is at work break off; called from another thread."""
        interrupt = getattr(self._reader, "interrupt", None)
        if interrupt is not None:
            interrupt()

    @property
    def names(self) -> list[str]:
        """The top-level field names met so far, in first-seen order (beyond 1,000 only those that begin with `answer`)."""
        return self._names.as_list()

    def fingerprint(self) -> list[dict[str, Any]]:
        """What is known of each file, JSON-ready; whole once the input was read to its end."""
        return [fingerprint.as_json() for fingerprint in self._fingerprints]

    def changed_files(self) -> list[Path]:
        """Files that are not what they were when they were opened, or that are gone."""
        return [fingerprint.path for fingerprint in self._fingerprints if fingerprint.is_changed()]

    def restore(self, fingerprint: Sequence[dict[str, Any]], names: Sequence[str] = ()) -> None:
        """Take over what an earlier process had learnt, before `seek`. Without it `seek` reads again what it passes."""
        self._stored = fingerprint
        self._names.add(names)

    def read(self, limit: int) -> Chunk:
        if self._broken is not None:
            raise self._broken
        records: list[Record] = []
        size = 0
        done = False
        while not done and len(records) < limit and size < CHUNK_BYTES:
            try:
                got = self._reader.read(limit - len(records), CHUNK_BYTES - size)
                records += got
                size += sum([len(record.raw) for record in got])
                if self._reader.done:
                    done = not self._advance()
            except InputBrokenError as error:
                if not records:
                    raise
                self._broken = error
                break
        return Chunk(records, self._position(), done)

    def seek(self, position: str) -> None:
        place = json.loads(position)
        self._reader.close()
        self._broken = None
        self._index = place["file"]
        for index, fingerprint in enumerate(self._fingerprints[: self._index + 1]):
            if index < len(self._stored):
                fingerprint.restore(self._stored[index])
            if index < self._index:
                fingerprint.finish()
        self._reader = self._open(self._index)
        self._reader.skip(place["at"])

    def close(self) -> None:
        self._reader.close()

    def _position(self) -> str:
        return json.dumps({"file": self._index, "at": self._reader.mark()})

    def _advance(self) -> bool:
        """Go on to the next file; False after the last."""
        self._fingerprints[self._index].finish()
        if self._index + 1 >= len(self.files):
            return False
        following = self._open_later(self._index + 1)
        self._reader.close()
        self._reader = following
        self._index += 1
        return True

    def _open_later(self, index: int) -> Reader:
        """A file that could be opened at the start may be gone by now."""
        try:
            return self._open(index)
        except InputBrokenError:
            raise
        except InputError as error:
            raise InputBrokenError(str(error)) from error

    def _check(self, index: int) -> bool:
        """Whether a later file's records stay in place. It is closed again: a glob may name more than can be open at once."""
        reader = self._checked(index)
        reader.close()
        return reader.in_place

    def _checked(self, index: int) -> Reader:
        """What breaks at its first bytes could never be read: nothing has begun yet."""
        try:
            return self._open(index)
        except InputBrokenError as error:
            raise InputError(str(error)) from error

    def _open(self, index: int) -> Reader:
        fingerprint = self._fingerprints[index]
        if isinstance(fingerprint, FolderFingerprint):
            return TextFolder(fingerprint, self._names)
        if isinstance(fingerprint, SqliteFingerprint):
            return SqliteTable(fingerprint, self._names, max_record=self._max_record)
        assert isinstance(fingerprint, FileFingerprint)
        form, compression = self._formats[index]
        if form == "parquet":
            return ParquetTable(fingerprint, self._names, max_record=self._max_record)
        layout = self._layout(fingerprint, compression) if form == "json" else None
        base = FileBytes(fingerprint)
        try:
            text = Text(unpacked(base, compression, fingerprint.path))
            if layout is not None and layout.kind != "lines":
                return self._json(base, text, layout, packed=compression is not None)
            if layout is not None or form == "lines":
                in_place = compression is None and text.encoding == "utf-8"
                file = index + 1 if in_place else 0
                return JsonLines(base, text, self._names, file=file, max_record=self._max_record, block_bytes=self._block_bytes)
            return Table(base, Rows(text, _DELIMITERS[form], self._max_record, self._block_bytes), self._names)
        except InputError:
            base.close()
            raise

    def _layout(self, fingerprint: FileFingerprint, compression: Compression | None) -> Layout:
        """How a .json file is to be read; it is opened for that alone."""
        base = FileBytes(fingerprint)
        try:
            content = Text(unpacked(base, compression, fingerprint.path))
            return layout_of(content, self._max_record, fingerprint.path, self._block_bytes)
        finally:
            base.close()

    def _json(self, base: FileBytes, text: Text, layout: Layout, *, packed: bool) -> Reader:
        longest, blocks = self._max_record, self._block_bytes
        if layout.kind == "record":
            return JsonDocument(base, text, self._names, max_record=longest, block_bytes=blocks)
        return JsonArray(base, text, layout, self._names, max_record=longest, packed=packed, block_bytes=blocks)

    def _fingerprint_of(self, file: Path, form: Form) -> Fingerprint:
        if form == "texts":
            return FolderFingerprint(file, self._max_record)
        if form == "rows":
            return SqliteFingerprint(file, self._query or "")
        status = status_of(file)
        return FileFingerprint(file, status.st_size, status.st_mtime_ns)


def open_source(path: str, base: Path, *, max_record: int, query: str | None = None) -> OpenedSource:
    """Open what `input.path` names, relative to `base`: a file, a folder of texts, a database whose rows `query` gives, or a
    glob whose files are read in order of their names.

    Every file is checked before anything is read. Raises InputError, and SpecError for a query that cannot be asked.
    """
    if is_database(path):
        return OpenedSource([database(path, base)], max_record=max_record, query=query or "")
    return OpenedSource(resolve(path, base), max_record=max_record)
