"""The text of a job file and of `--set`: read into plain tables, nothing judged yet."""

from __future__ import annotations

import datetime as dt
import io
import math
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.errors import SpecError
from headrace.runs.jobsecrets import HIDDEN, looks_secret, shown_name

_PATH_SHOWN = 300
_LARGEST = 256 << 20  # bytes of a file that a job names: a price list has two million of them
_YAML_SUFFIXES = frozenset({".yaml", ".yml"})
# Ways to say the same thing: setting one on the command line replaces the others.
_ALTERNATIVES: tuple[frozenset[str], ...] = (
    frozenset({"prompt.user", "prompt.user_file", "prompt.messages", "prompt.prompt", "prompt.input"}),
    frozenset({"answer.schema", "answer.labels"}),
    frozenset({"endpoint.api_key_env", "endpoint.api_key_file", "endpoint.api_key_command"}),
)


def read_text(path: Path, key: str | None = None, written: str = "") -> str:
    """A UTF-8 text file, with or without a BOM. Raises SpecError.

    `key` is the job file's key that names it as `written`. What looks like a secret is not repeated: it stands in a wrong
    place.
    """
    name = HIDDEN if looks_secret("", written) else _one_line(str(path))
    where = f"{key}: {name}" if key else name
    try:
        with path.open("rb") as file:  # also a pipe, such as the shell makes of <(…)
            raw = file.read(_LARGEST + 1)
        if len(raw) > _LARGEST:
            raise SpecError(f"{where}: longer than {_LARGEST >> 20} MiB", key=key, allowed=f"{_LARGEST >> 20} MiB at most")
        return io.TextIOWrapper(io.BytesIO(raw), "utf-8-sig").read()
    except UnicodeDecodeError as error:
        raise SpecError(f"{where}: not UTF-8 (byte {error.start}); save it as UTF-8", key=key) from None
    except FileNotFoundError:
        raise SpecError(f"{where}: no such file", key=key, found="no such file", allowed="a file that exists") from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or "cannot be read"
        raise SpecError(f"{where}: {reason}", key=key) from None


def _one_line(text: str) -> str:
    """A path as it is written, unless it would break the line that it stands in."""
    shown = text if text.isprintable() else ascii(text)[1:-1]
    return shown if len(shown) <= _PATH_SHOWN else f"…{shown[-_PATH_SHOWN:]}"


def read_tables(path: Path) -> dict[str, Any]:
    """The tables of a job file: YAML by its suffix, else TOML. Raises SpecError."""
    text = read_text(path)
    if path.suffix.lower() in _YAML_SUFFIXES:
        from headrace.runs.jobyaml import parse_yaml  # noqa: PLC0415 (the YAML library is only loaded for YAML)

        value = parse_yaml(text, path.name)
    else:
        try:
            value = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SpecError(f"{path.name}: not valid TOML: {error}") from None
        except RecursionError:
            raise SpecError(f"{path.name}: nested too deeply") from None
        except ValueError:  # thousands of digits
            raise SpecError(
                f"{path.name}: found an integer beyond 64 bits", found="a larger integer", allowed="64 bits"
            ) from None
    if not isinstance(value, dict):
        raise SpecError(f"{path.name}: a job file is a table with the sections input, prompt, model, endpoint and output")
    return value


def without_nulls(tables: dict[str, Any]) -> dict[str, Any]:
    """A copy in which a key of a section that is null does not stand: null means the default.

    Deeper tables are the user's own (a schema, a body) and keep theirs.
    """
    kept: dict[str, Any] = {}
    for name, value in tables.items():
        if isinstance(value, dict):
            kept[name] = _without_null_values(value)
        elif name == "endpoint" and isinstance(value, list):
            kept[name] = [_without_null_values(entry) if isinstance(entry, dict) else entry for entry in value]
        elif value is not None:
            kept[name] = value
    return kept


def apply_overrides(tables: dict[str, Any], overrides: Sequence[str]) -> dict[str, Any]:
    """A copy of the tables with each `section.key=value` put in. Raises SpecError.

    `endpoint.url` is the first endpoint's, `endpoint.1.url` the second's. The value is read as TOML, and as plain text where
    it is none; `null` takes the key away.
    """
    result = _copied(tables)
    for override in overrides:
        name, equals, text = override.partition("=")
        path = _override_path(name.strip()) if equals else []
        if not path:
            raise SpecError("--set wants section.key=value", found="no such form", allowed="section.key=value")
        _drop_alternatives(result, path)
        _put(result, path, _override_value(text))
    return result


def refuse_foreign_values(value: Any, key: str = "") -> None:
    """Raise SpecError for what the archive's JSON cannot hold: dates, NaN, infinities, integers beyond 64 bits, text that is
    no Unicode, nesting without end.
    """
    try:
        _refuse(value, key)
    except RecursionError:
        raise SpecError(f"{key or 'the job file'}: nested too deeply") from None


def refuse_broken_text(text: str, key: str) -> None:
    """Raise SpecError for lone surrogates: bytes of the command line or of a file name that were no UTF-8."""
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            where = key or "the job file"
            raise SpecError(f"{where}: found text that is not Unicode", key=key or None, allowed="UTF-8") from None


def _refuse(value: Any, key: str) -> None:
    if isinstance(value, dict):
        for name, part in value.items():
            if not isinstance(name, str):
                raise SpecError(f"{key or 'the job file'}: a key is not text", key=key or None, allowed="keys that are text")
            refuse_broken_text(name, key)
            _refuse(part, f"{key}.{shown_name(name)}" if key else shown_name(name))
    elif isinstance(value, list | tuple):
        for part in value:
            _refuse(part, key)
    elif isinstance(value, str):
        refuse_broken_text(value, key)
    elif isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise SpecError(f"{key}: found an integer beyond 64 bits", key=key, found="a larger integer", allowed="64 bits")
    elif isinstance(value, dt.date | dt.time):
        raise SpecError(f"{key}: found a date; put quotes around it", key=key, found="a date", allowed="text in quotes")
    elif isinstance(value, float) and not math.isfinite(value):
        raise SpecError(f"{key}: found {value}; a finite number is allowed", key=key, found=str(value), allowed="a finite number")


def _without_null_values(section: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in section.items() if value is not None}


def _copied(tables: dict[str, Any]) -> dict[str, Any]:
    return {
        name: dict(value)
        if isinstance(value, dict)
        else [dict(entry) if isinstance(entry, dict) else entry for entry in value]
        if isinstance(value, list)
        else value
        for name, value in tables.items()
    }


def _override_path(name: str) -> list[str]:
    """The parts of a dotted key, which may be quoted as in TOML; [] where it is none."""
    try:
        node: Any = tomllib.loads(f"{name} = 0")
    except (tomllib.TOMLDecodeError, RecursionError):
        return []
    path: list[str] = []
    while isinstance(node, dict):
        if len(node) != 1:
            return []
        [(part, node)] = node.items()
        path.append(part)
    return path


def _override_value(text: str) -> Any:
    if text.strip() == "null":
        return None
    try:
        tables = tomllib.loads(f"value = {text.strip()}")
    except (ValueError, RecursionError):
        return text
    value = tables["value"]
    return text if len(tables) != 1 or isinstance(value, dt.date | dt.time) else value


def _drop_alternatives(tables: dict[str, Any], path: list[str]) -> None:
    dotted = ".".join(part for part in path if not _is_index(part))
    for group in _ALTERNATIVES:
        if dotted in group:
            for other in group - {dotted}:
                section = _section(tables, path[:-1])
                if section is not None:
                    section.pop(other.rpartition(".")[2], None)


def _is_index(part: str) -> bool:
    """Whether it numbers an endpoint. Not what only looks like a number (²), nor what is too long to be one."""
    return part.isascii() and part.isdigit() and len(part) < 10


def _section(tables: dict[str, Any], path: list[str]) -> dict[str, Any] | None:
    node: Any = tables.get(path[0])
    if isinstance(node, list):
        index = int(path[1]) if len(path) > 1 and _is_index(path[1]) else 0
        node = node[index] if index < len(node) else None
    return node if isinstance(node, dict) else None


def _put(tables: dict[str, Any], path: list[str], value: Any) -> None:
    node: Any = tables
    key = ".".join(path)
    parts = list(path)
    if parts[0] == "endpoint" and len(parts) > 1:
        node, parts = _endpoint(tables, parts[1:], key)
    while len(parts) > 1:
        part = parts.pop(0)
        child = node.get(part)
        if child is None:
            child = {}
        if not isinstance(child, dict):
            raise SpecError(f"--set {key}: `{part}` is no table", key=key, allowed="a key of a table")
        node[part] = child = dict(child)
        node = child
    node[parts[0]] = value


def _endpoint(tables: dict[str, Any], parts: list[str], key: str) -> tuple[dict[str, Any], list[str]]:
    """The endpoint that a key addresses, and the rest of the key."""
    entries = tables.setdefault("endpoint", {})
    if isinstance(entries, dict):
        entries = [entries]
        tables["endpoint"] = entries
    index = 0
    if _is_index(parts[0]):
        index, parts = int(parts[0]), parts[1:]
    if not parts or not isinstance(entries, list) or index >= len(entries) or not isinstance(entries[index], dict):
        raise SpecError(f"--set {key}: there is no such endpoint", key=key, allowed="endpoint.url, endpoint.0.url")
    return entries[index], parts
