"""A JSON object out of a file that is not to be trusted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from headrace.errors import SpecError

_LARGEST = 16 * 2**20


def refused(path: Path, why: str) -> SpecError:
    return SpecError(
        f"--model: {path}: {why}", key="--model", allowed="a Hugging Face folder or its config.json, a .gguf, or a server's URL"
    )


def read_object(path: Path) -> dict[str, Any]:
    """The object that the file holds. Raises SpecError in one line: not there, unreadable, too large, no object."""
    try:
        if path.exists() and not path.is_file():
            raise refused(path, "no file")
        with path.open("rb") as file:
            content = file.read(_LARGEST + 1)
    except FileNotFoundError:
        raise refused(path, "there is no such file") from None
    except OSError as error:
        raise refused(path, f"it cannot be read ({error.strerror})") from None
    if len(content) > _LARGEST:
        raise refused(path, f"larger than {_LARGEST >> 20} MiB; that is no description of a model")
    return parse_object(content, path)


def parse_object(content: bytes, path: Path) -> dict[str, Any]:
    """The same of bytes that came from the file."""
    try:
        value = json.loads(content)
    except RecursionError:
        raise refused(path, "nested too deeply to be a description of a model") from None
    except ValueError:  # not UTF-8, not JSON, a number of thousands of digits
        raise refused(path, "no JSON, or cut short; fetch it again") from None
    if not isinstance(value, dict):
        raise refused(path, "no JSON object")
    return value
