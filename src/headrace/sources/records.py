"""Where records live: the run's `records.jsonl`, and bytes by (file, offset, length) over it and the input files."""

from __future__ import annotations

import os
import sys
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from headrace import canon
from headrace.errors import DiskError, InputBrokenError, RecordError
from headrace.sources.paths import cause, shown

_MOST_OPEN = 64  # descriptors kept open; a glob may name thousands of files
_MOST_GAP = 512  # bytes between two records that are read along: a read costs more than they do
_MOST_BLOCK = 256 << 10  # bytes of neighbouring records in one read, unless the first alone is longer
_KINDS = {list: "array", str: "string", int: "number", float: "number", bool: "truth value", type(None): "null"}


def parse(raw: bytes) -> dict[str, Any]:
    """A record's fields from its JSON, as exactly as `canon.decode`. Raises RecordError with the reason."""
    try:
        value = canon.decode(raw)
    except UnicodeDecodeError as error:
        raise RecordError(f"not UTF-8: byte 0x{raw[error.start]:02x} at byte {error.start + 1}") from error
    except ValueError as error:
        raise RecordError(f"not JSON: {_reason(error)}") from error
    if type(value) is not dict:
        raise RecordError(f"not a JSON object: {_KINDS[type(value)]}")
    return value


def _reason(error: ValueError) -> str:
    text = str(error)
    if text.startswith("Exceeds the limit"):
        return "an integer of more than 4,300 digits"
    return text.partition(" (decode using")[0]


def fsync(descriptor: int) -> None:
    """Return when what was written is on the disk itself. Raises OSError."""
    if sys.platform == "darwin":
        import fcntl  # noqa: PLC0415 - the constant below exists on macOS only

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


class RecordsFile:
    """The run's `records.jsonl`: records that cannot stay where they were read, one after another, each with 0x0A behind it.

    One writer. What was appended is durable after `sync`. Raises DiskError; after it the file's end is where it was before.
    """

    def __init__(self, path: Path) -> None:
        """Open the file, or make it, durably. Raises DiskError."""
        self._path = path
        try:
            existed = path.exists()
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
            self._length = os.fstat(self._descriptor).st_size
            if not existed:
                _fsync_folder(path.parent)
        except OSError as error:
            raise self._failed("opened", error) from error

    @property
    def length(self) -> int:
        """Bytes; the place where the next record begins."""
        return self._length

    def append(self, raws: Iterable[bytes]) -> list[tuple[int, int]]:
        """Write records; each one's (offset, length) without its 0x0A."""
        places = []
        parts = []
        end = self._length
        for raw in raws:
            places.append((end, len(raw)))
            parts.append(raw)
            end += len(raw) + 1
        if not parts:
            return []
        view = memoryview(b"\n".join([*parts, b""]))
        offset = self._length
        try:
            while view:
                written = os.pwrite(self._descriptor, view, offset)
                offset += written
                view = view[written:]
        except OSError as error:
            raise self._failed("written", error) from error
        self._length = end
        return places

    def sync(self) -> None:
        try:
            fsync(self._descriptor)
        except OSError as error:
            raise self._failed("written", error) from error

    def truncate(self, length: int) -> None:
        """Forget everything from this byte on. A file that is shorter than that has lost records: DiskError."""
        try:
            found = os.fstat(self._descriptor).st_size
            if found < length:
                raise DiskError(f"{shown(self._path)}: holds {found} bytes of at least {length}; its end was lost")
            os.ftruncate(self._descriptor, length)
        except OSError as error:
            raise self._failed("cut", error) from error
        self._length = length

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _failed(self, what: str, error: OSError) -> DiskError:
        return DiskError(f"{shown(self._path)}: cannot be {what}: {cause(error)}")


class RecordPlaces:
    """Fetches records by place: file 0 is `records.jsonl`, file n the n-th input file. Files are opened when first needed."""

    def __init__(self, records: Path, files: Sequence[Path]) -> None:
        self._paths = (records, *files)
        self._open: OrderedDict[int, int] = OrderedDict()

    def again(self) -> RecordPlaces:
        """The same places, with files of its own."""
        return RecordPlaces(self._paths[0], self._paths[1:])

    def fetch(self, places: Iterable[tuple[int, int, int]]) -> list[bytes]:
        """The bytes at each (file, offset, length). Raises InputBrokenError where a file is gone or shorter than that.

        Records that lie behind one another in the order asked for cost one read together.
        """
        wanted = list(places)
        raws: list[bytes] = []
        while len(raws) < len(wanted):
            first = len(raws)
            file, start, _ = wanted[first]
            after, end = _run_of_neighbours(wanted, first)
            block = self._read(file, start, end - start)
            if len(block) != end - start:
                lost = next(offset for _, offset, length in wanted[first:after] if offset + length - start > len(block))
                raise self._broken(file, f"a record at byte {lost} is no longer there; the file was changed")
            if after - first == 1:
                raws.append(block)
            else:
                raws += [block[(at := offset - start) : at + length] for _, offset, length in wanted[first:after]]
        return raws

    def _read(self, file: int, offset: int, length: int) -> bytes:
        """So many bytes, fewer only at the file's end."""
        descriptor = self._open.get(file)
        if descriptor is None:
            descriptor = self._opened(file)
        try:
            raw = os.pread(descriptor, length, offset)
            while len(raw) < length and (more := os.pread(descriptor, length - len(raw), offset + len(raw))):
                raw += more
        except OSError as error:
            raise self._broken(file, f"cannot be read again: {cause(error)}") from error
        return raw

    def close(self) -> None:
        while self._open:
            os.close(self._open.popitem()[1])

    def _opened(self, file: int) -> int:
        if len(self._open) >= _MOST_OPEN:
            os.close(self._open.popitem(last=False)[1])
        try:
            descriptor = os.open(self._paths[file], os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise self._broken(file, f"cannot be read again: {cause(error)}") from error
        self._open[file] = descriptor
        return descriptor

    def _broken(self, file: int, why: str) -> InputBrokenError:
        return InputBrokenError(f"{shown(self._paths[file])}: {why}")


def _run_of_neighbours(places: Sequence[tuple[int, int, int]], first: int) -> tuple[int, int]:
    """The index after the last place that is read together with the first, and the byte where that one ends."""
    file, start, length = places[first]
    end = start + length
    index = first
    for index in range(first + 1, len(places)):
        other, offset, length = places[index]
        if other != file or not 0 <= offset - end <= _MOST_GAP or offset + length - start > _MOST_BLOCK:
            return index, end
        end = offset + length
    return index + 1, end


def _fsync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
