"""What `limits.class` means, as a document: the limits of each class, and what becomes of each kind of failure under it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import asdict

from headrace.events import Event, Progress
from headrace.policy.classes import CLASSES, Course, course, defaults_of, misfit
from headrace.policy.verdict import OVERLOAD, Action
from headrace.spec import JobSpec
from headrace.values import Kind


def explain_classes(names: Sequence[str] = tuple(CLASSES)) -> dict[str, Any]:
    """The document of `explain-class --json`. Nothing in it is written down a second time: the verdicts are asked for."""
    return {
        "classes": {
            name: {
                "limits": defaults_of(name),
                "auto_timeout": asdict(CLASSES[name].patience),
                "backoff": asdict(CLASSES[name].backoff),
            }
            for name in names
        },
        "kinds": [_kind(kind, {name: course(kind, CLASSES[name]) for name in names}) for kind in Kind],
    }


class MisfitWatch:
    """An observer of a run that says once, as soon as it is seen, that the job looks as if it were of the other class."""

    def __init__(self, spec: JobSpec, warn: Callable[[str], None]) -> None:
        self._limits = spec.limits.model_dump(by_alias=True)
        self._warn: Callable[[str], None] | None = warn
        self._look(0)

    def __call__(self, event: Event) -> None:
        if isinstance(event, Progress) and self._warn is not None:
            self._look(event.total)

    def _look(self, requests: int) -> None:
        found = misfit(self._limits, requests)
        if found is not None and self._warn is not None:
            warn, self._warn = self._warn, None
            warn(found)


def _kind(kind: Kind, courses: dict[str, Course]) -> dict[str, Any]:
    any_course = next(iter(courses.values()))
    return {
        "kind": kind.value,
        "action": any_course.first.value,
        "counts": any_course.counts,
        "waits": _waits(kind, any_course.first),
        "classes": {name: {"sends": found.sends, "then": found.last.value} for name, found in courses.items()},
    }


def _waits(kind: Kind, action: Action) -> str | None:
    """What passes before the next send: a back-off, or the longer of it and what the server has named; None: nothing."""
    if action is not Action.RETRY:
        return None
    return "server" if kind in OVERLOAD else "backoff"
