"""Scripted replies: rules that say which request gets what, instead of what the laws would give it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from headrace import canon
from headrace.errors import SpecError

ACTIONS = ("reset", "hang", "close", "truncate", "html", "empty", "sse", "gzip", "trickle")
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One line of a script. A request is meant when all conditions that are written hold; the first rule that means it
    and has `times` left decides.

    Conditions: `match` (a substring of the prompt), `index` (the n-th request, from 1), `every` (each k-th), `after`
    (from request n + 1 on), `seconds` ([from, until) since the first request). What it gets: `status`, `headers`, `body`
    (text, or JSON to be encoded), or `content` and `finish` in an ordinary answer, `delay_s` more, and an `action` on the
    wire. A rule that says none of these lets the laws answer.
    """

    match: str | None = None
    index: int | None = None
    every: int | None = None
    after: int | None = None
    seconds: tuple[float, float] | None = None
    times: int | None = None
    status: int | None = None
    headers: dict[str, str] = {}
    body: Any = msgspec.UNSET
    content: str | None = None
    finish: str | None = None
    delay_s: float = 0.0
    action: str | None = None

    def __post_init__(self) -> None:
        if self.action is not None and self.action not in ACTIONS:
            raise ValueError(f"action must be one of {', '.join(ACTIONS)}")
        if self.status is not None and not 200 <= self.status <= 599:
            raise ValueError("status must be between 200 and 599")
        if not 0 <= self.delay_s < 1e9:
            raise ValueError("delay_s must be 0 or more")
        if any(value is not None and value < 1 for value in (self.index, self.every, self.times)):
            raise ValueError("index, every and times count from 1")
        for name, value in self.headers.items():
            if not _HEADER_NAME.fullmatch(name) or any(ord(c) < 32 or ord(c) > 255 for c in value):
                raise ValueError("headers must be header names with values of one line")

    def means(self, index: int, seconds: float, prompt: str) -> bool:
        return (
            (self.index is None or index == self.index)
            and (self.every is None or index % self.every == 0)
            and (self.after is None or index > self.after)
            and (self.seconds is None or self.seconds[0] <= seconds < self.seconds[1])
            and (self.match is None or self.match in prompt)
        )

    def body_bytes(self) -> bytes | None:
        """The body as sent, or None where the rule says nothing of it."""
        if self.body is msgspec.UNSET:
            return None
        return self.body.encode("utf-8", "surrogatepass") if isinstance(self.body, str) else canon.encode(self.body)


class Script:
    """The rules with how often each may still be used."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self._rules = [[rule, rule.times] for rule in rules]

    def pick(self, index: int, seconds: float, prompt: str) -> Rule | None:
        """The rule for the request `index` (from 1), `seconds` after the first; uses it up by one."""
        for entry in self._rules:
            rule, left = entry
            assert isinstance(rule, Rule)
            if left == 0 or not rule.means(index, seconds, prompt):
                continue
            if isinstance(left, int):
                entry[1] = left - 1
            return rule
        return None


def read_script(path: Path) -> tuple[Rule, ...]:
    """The rules of a JSONL file, one a line. Raises SpecError with the line's number."""
    rules = []
    for number, line in enumerate(_text(path, "--script").split("\n"), 1):
        if not line.strip():
            continue
        try:
            rules.append(msgspec.json.decode(line, type=Rule))
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise SpecError(f"{path}, line {number}: {error}", key="script") from None
    return tuple(rules)


def read_table(path: Path) -> dict[str, str]:
    """A JSON object of substring and label. Raises SpecError."""
    try:
        return msgspec.json.decode(_text(path, "--table"), type=dict[str, str])
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise SpecError(f'{path} must hold one JSON object {{"substring": "label"}}: {error}', key="table") from None


def _text(path: Path, flag: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise SpecError(f"{flag} {path} cannot be read: {error.strerror}", key=flag[2:]) from None
    except UnicodeDecodeError:
        raise SpecError(f"{flag} {path} is not UTF-8 text", key=flag[2:]) from None
