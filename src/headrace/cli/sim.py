"""`headrace sim`: the simulated endpoint as a command."""

from __future__ import annotations

import dataclasses
import inspect
import os
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from headrace.errors import SpecError
from headrace.runs.jobsecrets import key_in
from headrace.testing.sim import SimOptions, read_script, read_table, run_sim

_CHANGES = {"capacity": "SECOND:FACTOR,… such as 60:0.5,120:1", "background": "SECOND:COUNT,… such as 0:4,60:16"}
_FILES = {"table": read_table, "script": read_script}


def sim(**given: Any) -> None:
    """Serve a simulated endpoint, to rehearse a job without a model and without paying.

    Prints one line, READY http://HOST:PORT/v1, and serves until Ctrl-C or SIGTERM. GET /stats beside /v1 tells what it
    was asked; POST /stats/reset starts the counts anew.
    """
    variable = given.pop("api_key_env", None)
    if variable is not None:
        given["api_key"] = key_in(variable, os.environ)
    for name, read in _FILES.items():
        path = given.pop(name, None)
        if path is not None:
            given[name] = read(path)
    given["labels"] = tuple(label.strip() for label in (given["labels"] or "").split(",") if label.strip())
    for name, such_as in _CHANGES.items():
        given[name] = _changes(name, given[name] or "", such_as)
    run_sim(SimOptions(**given))


def _changes(name: str, text: str, such_as: str) -> tuple[tuple[float, float], ...]:
    """(second, figure) from "60:0.5,120:1"."""
    try:
        pairs = [part.split(":") for part in text.split(",") if part.strip()]
        return tuple((float(at), float(factor)) for at, factor in pairs)
    except ValueError:
        raise SpecError(f"--{name} is {text[:40]!a}; allowed: {such_as}", key=name, allowed=such_as) from None


def _parameters() -> list[inspect.Parameter]:
    """The command's options: each is declared once, as a field of SimOptions, with its type, default and help."""
    types = get_type_hints(SimOptions)
    made = [
        _parameter(field.name, *_shown(field.name, types[field.name], field.default), field.metadata)
        for field in sorted(dataclasses.fields(SimOptions), key=lambda field: field.name not in ("host", "port"))
    ]
    help_text = "The environment variable that holds the key."
    return [*made, _parameter("api_key_env", str | None, None, {"help": help_text})]


def _parameter(name: str, kind: Any, default: Any, about: Any) -> inspect.Parameter:
    flag = about.get("flag") or "--" + name.replace("_", "-")
    flags = f"{flag}/--no-{name}" if name == "schema" else flag
    option = typer.Option(flags, help=about["help"], show_default=default not in (None, "", 0, 0.0))
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, option])


def _shown(name: str, kind: Any, default: Any) -> tuple[Any, Any]:
    """Type and default on the command line, where files and lists are written as text."""
    if name in _FILES:
        return Path | None, None
    if name in ("labels", *_CHANGES):
        return str | None, None
    return kind, default


_command: Any = sim
_command.__signature__ = inspect.Signature(_parameters())
_command.__annotations__ = {parameter.name: parameter.annotation for parameter in _parameters()} | {"return": None}
