"""What happens as one JSON object a line, for programs that collect logs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TextIO

from msgspec.structs import asdict

from headrace.events import EndpointBack, EndpointDown, EndpointGone, EndpointPaused, Event, Progress, Stopping, Tried, Warned
from headrace.observe.text import printable
from headrace.observe.wording import amounts, said

_LONGEST = 400
_NAMES: dict[type[Event], tuple[str, str]] = {
    Progress: ("info", "progress"),
    Tried: ("debug", "tried"),
    Warned: ("warning", "warned"),
    EndpointPaused: ("warning", "endpoint_paused"),
    EndpointDown: ("error", "endpoint_down"),
    EndpointBack: ("info", "endpoint_back"),
    EndpointGone: ("error", "endpoint_gone"),
    Stopping: ("warning", "stopping"),
}


def log_line(at: float, level: str, event: str, message: str, **fields: Any) -> str:
    """One line without its end. `at`: Unix seconds. ASCII, controls escaped: it commands no terminal and is one line always."""
    time = datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"time": time, "level": level, "event": event, "message": printable(message, _LONGEST), **fields})


class JsonWords:
    """Events as log lines. `now`: wall time in Unix seconds."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now

    def event(self, event: Event, times: int) -> str:
        """`times`: how often an equal event has come by now."""
        level, name = _NAMES[type(event)]
        fields = {key: _plain(value) for key, value in asdict(event).items() if key != "message"}
        if isinstance(event, Progress):
            return log_line(self._now(), level, name, amounts(event), **fields)
        return log_line(self._now(), level, name, said(event) or name, **fields, times=times)

    def summary(self, line: str, times: int) -> str:
        """Without `times` where they are unknown (0)."""
        return log_line(self._now(), "warning", "repeated", line, **({"times": times} if times else {}))


class JsonPainter:
    """Writes lines to a stream, and figures every ten seconds as one more."""

    EVERY_S = 10.0

    def __init__(self, stream: TextIO, words: JsonWords) -> None:
        self._stream = stream
        self._words = words
        self._due = -math.inf
        self._shown: Progress | None = None

    def line(self, text: str) -> None:
        self._stream.write(text + "\n")
        self._stream.flush()

    def progress(self, progress: Progress, now: float, *, last: bool) -> None:
        if progress is self._shown or (now < self._due and not last):
            return
        self._shown = progress
        self._due = now + self.EVERY_S
        self.line(self._words.event(progress, 1))

    def close(self) -> None:
        self._stream.flush()


def _plain(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value, _LONGEST)
    return round(value, 3) if isinstance(value, float) else value
