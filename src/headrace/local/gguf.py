"""What a GGUF file says of itself: its header, read without loading the model. Every file is taken for hostile."""

from __future__ import annotations

import mmap
import re
import struct
from pathlib import Path
from typing import Any

from msgspec import Struct

from headrace.errors import SpecError

SPLIT = re.compile(r"-(\d{5})-of-(\d{5})\.gguf$")
_MAGIC = b"GGUF"
_NUMBERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
_STRING, _ARRAY = 8, 9
_SHOWN = 200
_MOST_ENTRIES = 100_000
_LISTED = 10_000  # numbers of a list that is kept: one for each layer; a vocabulary's are passed over
# Bytes of a block of values and how many values a block holds, by ggml's number of the type.
_BLOCKS = {
    0: (4, 1), 1: (2, 1), 2: (18, 32), 3: (20, 32), 6: (22, 32), 7: (24, 32), 8: (34, 32), 9: (36, 32), 10: (84, 256),
    11: (110, 256), 12: (144, 256), 13: (176, 256), 14: (210, 256), 15: (292, 256), 16: (66, 256), 17: (74, 256),
    18: (98, 256), 19: (50, 256), 20: (18, 32), 21: (110, 256), 22: (82, 256), 23: (136, 256), 24: (1, 1), 25: (2, 1),
    26: (4, 1), 27: (8, 1), 28: (8, 1), 29: (56, 256), 30: (2, 1), 34: (54, 256), 35: (66, 256), 39: (17, 32),
}  # fmt: skip
_NO_TEXT = frozenset({"clip", "t5encoder", "mtmd", "whisper", "wavtokenizer-dec", "imatrix"})


class Gguf(Struct, frozen=True):
    """What the header of one file says to whoever runs it. `complete` is False where the file ends before its last tensor does.

    `kind` is `text` (it writes), `embedding` (it only embeds) or `other` (a projector, an adapter, a vocabulary). Lengths are
    tokens; 0 where the file does not say. `kv_bytes_per_token` is what a token costs in the cache at 16 bits, 0 if unknown.
    """

    architecture: str
    name: str | None
    licence: str | None
    kind: str
    context_length: int
    kv_bytes_per_token: int
    size: int
    complete: bool


class GgufHeader(Struct, frozen=True):
    """All that a header says: its numbers, texts and lists of numbers by key; how many bytes lie behind it; where tensors end.

    `end` is None where a tensor's type is not known here, which a newer file may well have.
    """

    fields: dict[str, Any]
    tensors: int
    size: int
    start: int
    end: int | None

    @property
    def complete(self) -> bool:
        return self.end is None or self.end <= self.size

    @property
    def tensor_bytes(self) -> int:
        return (self.size if self.end is None else self.end) - self.start


def read_gguf(path: Path) -> Gguf:
    """Read the header. Raises SpecError in one line: not there, unreadable, empty, no GGUF, damaged."""
    header = read_header(path)
    fields = header.fields
    architecture = _shown(fields.get("general.architecture")) or "unknown"
    return Gguf(
        architecture=architecture, name=_shown(fields.get("general.name")), licence=_shown(fields.get("general.license")),
        kind=_kind(fields, architecture, path, header.tensors),
        context_length=_whole(fields.get(f"{architecture}.context_length")),
        kv_bytes_per_token=_kv_bytes(fields, architecture), size=header.size, complete=header.complete,
    )  # fmt: skip


def read_header(path: Path) -> GgufHeader:
    """Read it whole. Raises SpecError as `read_gguf` does."""
    try:
        size = path.stat().st_size
        if not path.is_file():
            raise _refused(path, "no file; give a model's .gguf")
        with path.open("rb") as file:
            if size == 0:
                raise _refused(path, "the file is empty; fetch it again")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                if content[:4] != _MAGIC:
                    raise _refused(path, "no GGUF file (it does not begin with GGUF); give a model's .gguf")
                return _read(_Reader(content), path, size)
    except (struct.error, _BrokenError):
        raise _refused(path, "the file is damaged or cut short; fetch it again") from None
    except FileNotFoundError:
        raise _refused(path, "there is no such file") from None
    except OSError as error:
        raise _refused(path, f"the file cannot be read ({error.strerror})") from None


def refuse_split(path: Path) -> None:
    """Raise SpecError where the name says that the file is one part of several."""
    match = SPLIT.search(path.name)
    if match is not None and int(match[2]) > 1:
        whole = path.name[: match.start()] + ".gguf"
        first = f"{path.name[: match.start()]}-00001-of-{match[2]}.gguf"
        raise _refused(
            path, f"one of {int(match[2])} parts; join them with `llama-gguf-split --merge {first} {whole}` and give {whole}"
        )


def _refused(path: Path, why: str) -> SpecError:
    return SpecError(f"{path}: {why}", key="model.weights", allowed="a whole GGUF file")


class _BrokenError(Exception):
    """The content is not what its own counts say."""


class _Reader:
    """Reads values one after the other and never behind the end."""

    def __init__(self, content: mmap.mmap) -> None:
        self._content = content
        self.at = 4

    def number(self, form: str) -> Any:
        (value,) = struct.unpack_from(form, self._content, self.at)
        self.at += struct.calcsize(form)
        return value

    def text(self) -> bytes:
        length = self.number("<Q")
        if length > len(self._content) - self.at:
            raise _BrokenError
        start, self.at = self.at, self.at + length
        return self._content[start : min(self.at, start + 4096)]

    def value(self, kind: int) -> Any:
        """A number, a text, or a short list of numbers; None for any other list, which is passed over."""
        if kind == _STRING:
            return self.text()
        if kind != _ARRAY:
            return self.number(_form(kind))
        inner, count = self.number("<I"), self.number("<Q")
        if inner == _ARRAY or count > len(self._content) - self.at:
            raise _BrokenError
        if inner != _STRING:
            start, width = self.at, struct.calcsize(_form(inner))
            self.at += count * width
            if count > _LISTED or self.at > len(self._content):
                return None
            return list(struct.unpack_from(f"<{count}{_form(inner)[1:]}", self._content, start))
        unpack, content, at, end = struct.Struct("<Q").unpack_from, self._content, self.at, len(self._content)
        for _ in range(count):
            at += unpack(content, at)[0] + 8
            if at > end:
                raise _BrokenError
        self.at = at
        return None


def _form(kind: int) -> str:
    try:
        return _NUMBERS[kind]
    except KeyError:
        raise _BrokenError from None


def _read(reader: _Reader, path: Path, size: int) -> GgufHeader:
    version = reader.number("<I")
    if not 2 <= version <= 3:
        raise _refused(path, f"a GGUF file of version {version}; versions 2 and 3 are read")
    tensors, entries = reader.number("<Q"), reader.number("<Q")
    if entries > _MOST_ENTRIES or tensors > _MOST_ENTRIES:
        raise _BrokenError
    fields: dict[str, Any] = {}
    for _ in range(entries):
        key = reader.text().decode("utf-8", "replace")
        value = reader.value(reader.number("<I"))
        fields[key] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    alignment = _whole(fields.get("general.alignment")) or 32
    last = _last_tensor(reader, tensors)
    start = -(-reader.at // alignment) * alignment
    return GgufHeader(fields, tensors, size, start, None if last is None else start + last)


def _last_tensor(reader: _Reader, tensors: int) -> int | None:
    """Where the last tensor ends, from the first one's beginning on; None where a type is not known here."""
    last = 0
    known = True
    for _ in range(tensors):
        reader.text()
        dimensions = [reader.number("<Q") for _ in range(min(reader.number("<I"), 8))]
        kind, offset = reader.number("<I"), reader.number("<Q")
        count = 1
        for dimension in dimensions:
            count *= dimension
        block = _BLOCKS.get(kind)
        if block is None:
            known = False
        else:
            last = max(last, offset + count // block[1] * block[0])
    return last if known else None


def _kind(fields: dict[str, Any], architecture: str, path: Path, tensors: int) -> str:
    stated = _shown(fields.get("general.type")) or "model"
    if stated != "model" or architecture in _NO_TEXT or path.name.lower().startswith("mmproj") or tensors == 0:
        return "other"
    embeds = "bert" in architecture or "embedding" in architecture or f"{architecture}.pooling_type" in fields
    return "embedding" if embeds else "text"


def _kv_bytes(fields: dict[str, Any], architecture: str) -> int:
    """Keys and values of all layers at 16 bits; lists (a number for each layer) are not followed."""
    layers = _whole(fields.get(f"{architecture}.block_count"))
    heads = _whole(fields.get(f"{architecture}.attention.head_count"))
    kv_heads = _whole(fields.get(f"{architecture}.attention.head_count_kv")) or heads
    width = _whole(fields.get(f"{architecture}.embedding_length")) // heads if heads else 0
    key = _whole(fields.get(f"{architecture}.attention.key_length")) or width
    value = _whole(fields.get(f"{architecture}.attention.value_length")) or width
    return 2 * layers * kv_heads * (key + value)


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value < 2**48 else 0


def _shown(value: Any) -> str | None:
    if not isinstance(value, str):
        return None
    text = "".join(char for char in value[:_SHOWN] if char.isprintable()).strip()
    return text or None
