"""The door: from what `--tokenizer` names to something that counts."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

from headrace.errors import SpecError

INSTALL = "pip install 'headrace[tokens]'"
VOCABULARIES = ("cl100k_base", "o200k_base", "o200k_harmony", "qwen3.5")
FILE = "tokenizer.json"
ALLOWED = f"a {FILE} or its folder, a .gguf, or one of {', '.join(VOCABULARIES)}"


class Tokenizer(Protocol):
    """Counts the tokens of texts. `name` is what people are told. Special tokens within a text are no error."""

    @property
    def name(self) -> str: ...

    def count(self, texts: Sequence[str]) -> list[int]: ...


def open_tokenizer(named: str) -> Tokenizer:
    """A file (relative to the current folder) or a built-in vocabulary's name. Raises SpecError, in one line."""
    if named in VOCABULARIES:
        return Vocabulary(named)
    path = Path(named).expanduser()
    if path.is_dir():
        path /= FILE
    if not path.is_file():
        raise _refused(named, "there is no such file")
    return TokenizerFile(path)


class TokenizerFile:
    """A Hugging Face tokenizer.json."""

    def __init__(self, path: Path) -> None:
        library = _library("tokenizers")
        try:
            self._tokenizer = library.Tokenizer.from_str(path.read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise _refused(str(path), f"it cannot be read ({getattr(error, 'strerror', None) or 'not UTF-8'})") from None
        except Exception as error:  # noqa: BLE001 - the library raises nothing narrower for a file that is none
            raise _refused(str(path), f"it is no {FILE} ({str(error)[:120]})") from None
        self._named = str(path)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.name = path.name if path.name != FILE else f"{path.parent.name or '.'}/{FILE}"

    def count(self, texts: Sequence[str]) -> list[int]:
        try:
            encoded = self._tokenizer.encode_batch_fast(list(map(_whole, texts)), add_special_tokens=False)
        except Exception as error:  # noqa: BLE001 - the library raises nothing narrower for a text that its file has no rule for
            raise _refused(self._named, f"it cannot count this job's texts ({str(error)[:120]})") from None
        return [len(one.ids) for one in encoded]


class Vocabulary:
    """One of toktok's vocabularies, which lie in the library itself."""

    def __init__(self, name: str) -> None:
        self._library = _library("toktok")
        self.name = name

    def count(self, texts: Sequence[str]) -> list[int]:
        counts: list[int] = self._library.batch_count(list(map(_whole, texts)), self.name)
        return counts


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise SpecError(f"--tokenizer needs the library {name}; type `{INSTALL}`", key="--tokenizer") from None


def _whole(text: str) -> str:
    """Text that has a UTF-8 form: a lone surrogate is what a server would make of it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def _refused(named: str, why: str) -> SpecError:
    found = f"{named[:80]!a}"
    return SpecError(f"--tokenizer: found {found}: {why}; allowed: {ALLOWED}", key="--tokenizer", found=found, allowed=ALLOWED)
