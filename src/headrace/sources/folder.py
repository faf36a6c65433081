"""A folder of text files as records: which files, in which order, and what becomes of those that cannot be read."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import Any, NamedTuple

from headrace import canon
from headrace.errors import InputBrokenError, InputError
from headrace.sources import digests
from headrace.sources.blocks import BLOCK_BYTES, BOMS, unpacked
from headrace.sources.digests import RecordDigests
from headrace.sources.jsonl import KEPT_BYTES, too_large
from headrace.sources.names import Names
from headrace.sources.paths import COMPRESSIONS, RECORD_SUFFIXES, Compression, cause, shown, split_suffix
from headrace.values import Record

KIND = "folder"
_LEFT_OUT = (b"~", b".bak", b".tmp", b".swp", b".part", b".crdownload")  # what editors and downloads leave
_UNNAMED = Path("file")  # a record's reason does not say where it lies
_STAMP_BYTES = 16
_STAMPS = 2 ** (8 * _STAMP_BYTES)


class Listing(NamedTuple):
    """The files below a folder: their names from there as the system has them, in byte order.

    `stamp` changes with any name, size or time, `shape` with any name or size.
    """

    names: list[bytes]
    stamp: str
    shape: str


def listed(folder: Path) -> Listing:
    """The regular files below a folder, and links to some. Raises InputError where a folder cannot be read.

    Left out are names with a dot in front, backups and unfinished downloads (`x~ #x# x.bak x.tmp x.swp x.part`). Links to
    folders are not followed: so there is no loop, and no file comes twice.
    """
    root = os.fsencode(folder)
    names: list[bytes] = []
    stamp = shape = 0
    waiting = [b""]
    while waiting:
        inner = waiting.pop()
        try:
            with os.scandir(os.path.join(root, inner)) as entries:  # noqa: PTH118 - names are bytes here
                for entry in entries:
                    name = inner + entry.name
                    if _is_left_out(entry.name):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(name + b"/")
                    elif (found := _status(entry)) is not None:
                        names.append(name)
                        size, mtime_ns = found
                        shape += _number(b"%b\0%d" % (name, size))
                        stamp += _number(b"%b\0%d\0%d" % (name, size, mtime_ns))
        except OSError as error:
            raise InputError(f"input {shown(folder / os.fsdecode(inner))}: cannot be read: {cause(error)}") from error
    names.sort()
    return Listing(names, f"{stamp % _STAMPS:032x}", f"{shape % _STAMPS:032x}")


def _is_left_out(name: bytes) -> bool:
    return name.startswith(b".") or name.endswith(_LEFT_OUT) or (name.startswith(b"#") and name.endswith(b"#"))


def _status(entry: os.DirEntry[bytes]) -> tuple[int, int] | None:
    """Size and time of what is to be a record: a file, or a link that leads nowhere; None for what is no file."""
    try:
        found = entry.stat()
    except OSError:
        return (-1, -1)
    return (found.st_size, found.st_mtime_ns) if stat.S_ISREG(found.st_mode) else None


def _number(text: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(text, digest_size=_STAMP_BYTES).digest(), "big")


class FolderFingerprint:
    """The listing of a folder as it was opened, and the digests of the files read so far."""

    def __init__(self, path: Path, max_record: int) -> None:
        """Raises InputError: it cannot be read, holds no file, or nothing but files that hold records."""
        self.path = path
        self.max_record = max_record
        self.listing = listed(path)
        self.digests = RecordDigests()
        _refuse(path, self.listing.names)

    def restore(self, stored: dict[str, Any]) -> None:
        """Take over what an earlier process had read; whole chunks only."""
        self.digests.restore(stored["chunks"], stored["records"])

    def finish(self) -> None:
        """The folder was read to its end."""

    def is_changed(self) -> bool:
        """Whether a file came, went or changed since the folder was opened."""
        try:
            return listed(self.path).stamp != self.listing.stamp
        except InputError:
            return True

    def as_json(self) -> dict[str, Any]:
        """JSON-ready: path, kind, files, stamp, shape, max_record, records (read so far), chunks (hex)."""
        return {
            "path": str(self.path), "kind": KIND, "files": len(self.listing.names), "stamp": self.listing.stamp,
            "shape": self.listing.shape, "max_record": self.max_record, "records": self.digests.count,
            "chunks": self.digests.chunks(),
        }  # fmt: skip


def matches(stored: dict[str, Any], path: Path) -> bool:
    """Whether a folder still is what was fingerprinted: equal names, sizes and times are trusted.

    With other times the files that had been read are read again and compared.
    """
    try:
        now = listed(path)
    except InputError:
        return False
    if now.stamp == stored["stamp"]:
        return True
    return now.shape == stored["shape"] and digests.hold(
        stored["chunks"], stored["records"], (_File(path, name, stored["max_record"]).parts() for name in now.names)
    )


class TextFolder:
    """Reads the files of a folder as records with the fields `path` (from the folder, with /) and `text`. Numbers count files.

    A file that is no text is a record with a reason: bytes that are not UTF-8 (or what its byte order mark says), a NUL,
    more than `max_record`, no permission, gone meanwhile. `.gz` and `.zst` are unpacked. Line ends stay as they are.
    """

    def __init__(self, fingerprint: FolderFingerprint, names: Names) -> None:
        self.done = False
        self._root = fingerprint.path
        self._files = fingerprint.listing.names
        self._digests = fingerprint.digests
        self._max_record = fingerprint.max_record
        self._next = 0
        names.add(["path", "text"])

    def read(self, limit: int, size: int) -> list[Record]:
        """At most `limit` records, about `size` bytes of them."""
        records: list[Record] = []
        while self._next < len(self._files) and len(records) < limit and size > 0:
            file = _File(self._root, self._files[self._next], self._max_record)
            self._next += 1
            if self._digests.count < self._next:
                self._digests.add(*file.parts())
            records.append(file.record(self._next))
            size -= len(records[-1].raw)
        self.done = self._next >= len(self._files)
        return records

    @property
    def in_place(self) -> bool:
        return False

    def mark(self) -> list[int]:
        return [self._next]

    def skip(self, mark: list[int]) -> None:
        """Go on after so many files; those of them that no stored chunk covers are read once more."""
        self._next = min(mark[0], len(self._files))
        self._digests.rewind(self._next)
        for name in self._files[self._digests.count : self._next]:
            self._digests.add(*_File(self._root, name, self._max_record).parts())

    def close(self) -> None:
        pass


class _File:
    """One file's content, or the reason why there is none."""

    def __init__(self, root: Path, name: bytes, max_record: int) -> None:
        self._name = name
        self._max_record = max_record
        self._content, self._reason = _content(root, name, max_record)

    def parts(self) -> tuple[bytes, ...]:
        """What is remembered of it."""
        if self._reason is None:
            return (self._name, self._content)
        return (self._name, b"", self._reason.encode())

    def record(self, number: int) -> Record:
        path = os.fsdecode(self._name)
        reason = self._reason
        if reason is None:
            text, reason = _text(self._content)
            fields = {"path": path, "text": text}
            raw = canon.encode(fields)
            if reason is None and len(raw) <= self._max_record:
                return Record(number, raw, fields)
            reason = reason or too_large(len(raw), self._max_record)
        return Record(number, canon.encode({"path": path, "text": None})[:KEPT_BYTES], None, reason)


def _content(root: Path, name: bytes, max_record: int) -> tuple[bytes, str | None]:
    """A file's bytes, unpacked, or why they cannot be had. Nothing that is no regular file is waited for."""
    try:
        descriptor = os.open(os.path.join(os.fsencode(root), name), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # noqa: PTH118
    except OSError as error:
        return b"", f"cannot be read: {cause(error)}"
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return b"", "not a regular file"
        compression = COMPRESSIONS.get(name[name.rfind(b".") :].lower().decode("ascii", "replace"))
        if compression is None and status.st_size > max_record:
            return b"", too_large(status.st_size, max_record)
        return _unpacked(descriptor, compression, max_record)
    except OSError as error:
        return b"", f"cannot be read: {cause(error)}"
    finally:
        os.close(descriptor)


def _unpacked(descriptor: int, compression: Compression | None, max_record: int) -> tuple[bytes, str | None]:
    blocks = unpacked(_Descriptor(descriptor), compression, _UNNAMED)
    parts: list[bytes] = []
    size = 0
    try:
        while block := blocks.read(BLOCK_BYTES):
            parts.append(block)
            size += len(block)
            if size > max_record:
                return b"", f"too large: over {max_record:,} bytes, which is input.max_record"
    except InputBrokenError as error:
        return b"", str(error).removeprefix(f"input {_UNNAMED}: ")
    return parts[0] if len(parts) == 1 else b"".join(parts), None


class _Descriptor:
    """An open file's bytes as blocks."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, size: int) -> bytes:
        return os.read(self._descriptor, size)


def _text(content: bytes) -> tuple[str, str | None]:
    """A file's text, or why it is none."""
    mark, encoding = next(((mark, name) for mark, name in BOMS if content.startswith(mark)), (b"", "utf-8"))
    nul = -1 if encoding != "utf-8" else content.find(b"\0")
    if nul >= 0:
        return "", f"not text: a NUL at byte {nul + 1:,}"
    try:
        text = content[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        at = error.start + len(mark)
        return "", f"not {encoding.upper()}: byte 0x{content[at]:02x} at byte {at + 1:,}"
    return ("", "not text: it holds a NUL") if "\0" in text else (text, None)


def _refuse(path: Path, names: list[bytes]) -> None:
    if not names:
        raise InputError(
            f"input {shown(path)}: no file in this folder; hidden files, backups and links to folders are passed over"
        )
    if all(split_suffix(os.fsdecode(name))[0] in RECORD_SUFFIXES for name in names):
        pattern = "**/*" if any(b"/" in name for name in names) else "*"
        suffix, _ = split_suffix(os.fsdecode(names[0]))
        raise InputError(
            f"input {shown(path)}: a folder is read as plain texts, and this one holds {suffix} files and the like alone; "
            f'to read their records, write the pattern "{shown(path / pattern)}"'
        )
