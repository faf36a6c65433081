"""A file's bytes in blocks: hashed as read, decompressed and brought to UTF-8 on the way, never held whole."""

from __future__ import annotations

import codecs
import zlib
from pathlib import Path
from typing import Any, Protocol

import zstandard

from headrace.errors import InputBrokenError, InputError
from headrace.sources.fingerprint import FileFingerprint
from headrace.sources.paths import Compression, cause, shown

BLOCK_BYTES = 2**18
_GZIP_INPUT_BYTES = 2**13  # small: what one call unpacks before it meets corrupt data is lost
# zstd has no bound on what one call may give: 512 bytes of it unpack to 16 MiB at the very worst.
_ZSTD_STEP_BYTES = 2**9
_ZSTD_INPUT_BYTES = 2**16
BOMS = (  # the longer ones first: UTF-32 little endian begins like UTF-16
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MARKER = "headrace.mark"


class Blocks(Protocol):
    """Bytes in order: about `size` at a time, b"" at the end. Raises InputBrokenError."""

    def read(self, size: int) -> bytes: ...


class FileBytes:
    """A file's own bytes, up to the size that it had when it was opened, each fed to the fingerprint as it passes."""

    def __init__(self, fingerprint: FileFingerprint) -> None:
        """Raises InputError where the file cannot be opened."""
        self.path = fingerprint.path
        self._fingerprint = fingerprint
        self._offset = 0
        try:
            self._file = self.path.open("rb", buffering=0)
        except OSError as error:
            raise InputError(f"input {shown(self.path)}: cannot be read: {cause(error)}") from error

    def read(self, size: int) -> bytes:
        wanted = min(size, self._fingerprint.size - self._offset)
        if wanted <= 0:
            return b""
        try:
            block = self._file.read(wanted)
        except OSError as error:
            raise InputBrokenError(f"input {shown(self.path)}: {cause(error)} after {self._offset} bytes") from error
        if not block:
            raise InputBrokenError(f"input {shown(self.path)}: became shorter while it was being read, at {self._offset} bytes")
        self._offset += len(block)
        if self._offset > self._fingerprint.hashed:
            self._fingerprint.update(block[self._fingerprint.hashed - self._offset :])
        return block

    def seek(self, offset: int) -> None:
        """Go on at this byte; what lies before it is in the fingerprint afterwards."""
        self._offset = min(offset, self._fingerprint.size)
        self._fingerprint.rewind(self._offset)
        try:
            self._file.seek(self._offset)
        except OSError as error:
            raise InputBrokenError(f"input {shown(self.path)}: {cause(error)} at {self._offset} bytes") from error

    def close(self) -> None:
        self._file.close()


class Gunzipped:
    """The content of a gzip file of any number of members; zero bytes after a member are padding."""

    def __init__(self, blocks: Blocks, path: Path) -> None:
        self._blocks = blocks
        self._path = path
        self._member: Any = None
        self._input = b""
        self._given = 0

    def read(self, size: int) -> bytes:
        while True:
            if self._member is None and not self._start():
                return b""
            try:
                content: bytes = self._member.decompress(self._input, size)
            except zlib.error as error:
                raise _broken(self._path, "gzip", self._given, "are corrupt") from error
            if self._member.eof:
                self._input = self._member.unused_data
                self._member = None
            else:
                self._input = self._member.unconsumed_tail
                if not content and not self._input:
                    self._input = self._blocks.read(_GZIP_INPUT_BYTES)
                    if not self._input:
                        raise _broken(self._path, "gzip", self._given, "end too early")
            if content:
                self._given += len(content)
                return content

    def _start(self) -> bool:
        """Whether another member begins."""
        while True:
            if self._given:
                self._input = self._input.lstrip(b"\0")
            if self._input:
                self._member = zlib.decompressobj(wbits=31)
                return True
            self._input = self._blocks.read(_GZIP_INPUT_BYTES)
            if not self._input:
                return False


class Unzstd:
    """The content of a zstd file of any number of frames."""

    def __init__(self, blocks: Blocks, path: Path) -> None:
        self._blocks = blocks
        self._path = path
        self._frame: Any = None
        self._input = b""
        self._at = 0
        self._given = 0

    def read(self, size: int) -> bytes:  # noqa: ARG002 - zstd gives what its input holds
        while True:
            if self._at >= len(self._input):
                self._input, self._at = self._blocks.read(_ZSTD_INPUT_BYTES), 0
                if not self._input:
                    if self._frame is not None:
                        raise _broken(self._path, "zstd", self._given, "end too early")
                    return b""
            if self._frame is None:
                self._frame = zstandard.ZstdDecompressor().decompressobj()
            step = self._input[self._at : self._at + _ZSTD_STEP_BYTES]
            try:
                content: bytes = self._frame.decompress(step)
            except zstandard.ZstdError as error:
                raise _broken(self._path, "zstd", self._given, "are corrupt") from error
            self._at += len(step)
            if self._frame.eof:
                self._at -= len(self._frame.unused_data)
                self._frame = None
            if content:
                self._given += len(content)
                return content


class Text:
    """Content as UTF-8 without its byte order mark. `bom` is the mark's length, `encoding` what it says (UTF-8 without one).

    A code unit that is broken in UTF-16 or UTF-32 comes out as bytes that are no UTF-8, so that its record is rejected.
    """

    def __init__(self, blocks: Blocks) -> None:
        head = b""
        while len(head) < 4 and (block := blocks.read(BLOCK_BYTES)):
            head += block
        self.bom, self.encoding = next(((len(mark), name) for mark, name in BOMS if head.startswith(mark)), (0, "utf-8"))
        self._head = head[self.bom :]
        self._blocks = blocks
        self._decoder = None if self.encoding == "utf-8" else codecs.getincrementaldecoder(self.encoding)(_MARKER)

    def read(self, size: int) -> bytes:
        if self._decoder is None:
            return self._take(size)
        while True:
            block = self._take(size)
            text = self._decoder.decode(block, not block)
            if text or not block:
                return text.encode("utf-8", "surrogatepass")

    def drop_head(self) -> None:
        """Forget what was read ahead: the blocks below were moved."""
        self._head = b""

    def _take(self, size: int) -> bytes:
        if self._head:
            head, self._head = self._head[:size], self._head[size:]
            return head
        return self._blocks.read(size)


def unpacked(blocks: Blocks, compression: Compression | None, path: Path) -> Blocks:
    """The content of a file, whatever it is packed with."""
    if compression == "gzip":
        return Gunzipped(blocks, path)
    if compression == "zstd":
        return Unzstd(blocks, path)
    return blocks


def _broken(path: Path, what: str, given: int, why: str) -> InputBrokenError:
    if not given:
        return InputBrokenError(f"input {shown(path)}: not {what}, or its first bytes {why}")
    return InputBrokenError(f"input {shown(path)}: its {what} data {why} after {given} bytes of content")


def _mark(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeDecodeError)
    return "\ud800", error.end


codecs.register_error(_MARKER, _mark)
