"""Arguments and options that several commands share, each declared once."""

from __future__ import annotations

import difflib
import os
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from headrace.errors import SpecError
from headrace.runs.registry import RunFolder, resolve, state_folder

Run = Annotated[
    str | None, typer.Argument(metavar="RUN", help="A run id, a unique prefix of one, a path, or `last` (the default).")
]
Overrides = Annotated[
    list[str] | None, typer.Option("--set", metavar="K=V", help="Override a key: section.key=value. May be given several times.")
]
Json = Annotated[bool, typer.Option("--json", help="One JSON document on stdout; words for people go to stderr.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Say nothing but errors.")]
LogJson = Annotated[bool, typer.Option("--log-json", help="What happens as JSON, one object a line on stderr.")]
MetricsPort = Annotated[
    str | None,
    typer.Option(
        "--metrics-port", metavar="[HOST:]PORT", help="Serve figures for Prometheus while it runs, on loopback; 0 is a free port."
    ),
]
Otel = Annotated[
    bool,
    typer.Option(
        "--otel", help="Send metrics and a span for each request to the OpenTelemetry collector of OTEL_EXPORTER_OTLP_ENDPOINT."
    ),
]

Word = TypeVar("Word", bound=StrEnum)


def found(run: str | None) -> RunFolder:
    """The run that the argument names, seen from here. Raises RunNotFoundError."""
    return resolve(run, Path.cwd(), state_folder(os.environ))


def chosen(text: str | None, words: type[Word], allowed: frozenset[Word] | None = None) -> frozenset[Word] | None:
    """The words of `--only`, which commas part; None where it is not given. Raises SpecError for a word that is none."""
    if text is None:
        return None
    known = [str(word) for word in words if allowed is None or word in allowed]
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise SpecError("--only: found nothing; name one or more", key="--only", found="nothing", allowed=", ".join(known))
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean `{close[0]}`?" if close else f"allowed: {', '.join(known)}"
            raise SpecError(
                f"--only: found {name[:60]!a}; {hint}", key="--only", found=f"{name[:60]!a}", allowed=", ".join(known)
            )
    return frozenset(words(name) for name in names)
