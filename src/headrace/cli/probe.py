"""`headrace probe`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.loop import run_until_complete
from headrace.cli.parameters import Json
from headrace.cli.printing import columns, print_json, print_lines

Url = Annotated[str, typer.Argument(metavar="URL", help="The endpoint: http(s)://host/v1.")]
Model = Annotated[str | None, typer.Option("--model", metavar="NAME", help="The model to ask; by default the first listed.")]
KeyEnv = Annotated[str | None, typer.Option("--api-key-env", metavar="NAME", help="The environment variable that holds the key.")]
KeyFile = Annotated[str | None, typer.Option("--api-key-file", metavar="PATH", help="The file that holds the key.")]


def probe(url: Url, model: Model = None, api_key_env: KeyEnv = None, api_key_file: KeyFile = None, json: Json = False) -> None:
    """Say what an endpoint is and can do: its server, models, context, how much it takes at once, what it tells of its load.

    Asks for the server's own pages. What they leave open about schemas and log-probabilities costs up to two requests of one
    token each, unless it is a server whose kind is known. Ends with 4 where nobody answers.
    """
    from headrace.runs import probing  # noqa: PLC0415 (help and completion do not pay for it)

    found = run_until_complete(probing.probe(probing.Asking(url, model, api_key_env, api_key_file), os.environ, Path.cwd()))
    if json:
        print_json(found.document())
    else:
        print_lines(_lines(found.document(), found.capacity.block, prefix_caching=found.capacity.prefix_caching))


def _lines(document: dict[str, Any], block: int | None, *, prefix_caching: bool | None) -> list[str]:
    capacity, models = document["capacity"], document["models"]
    shown = models[:10] + ([f"and {len(models) - 10} more"] if len(models) > 10 else [])
    held = f"{_number(capacity['tokens'])} tokens" + (f" in blocks of {block}" if block is not None else "")
    return columns(
        [
            ("server", document["server"]),
            ("models", ", ".join(shown) or "not listed"),
            ("context", f"{_number(document['context'])} tokens"),
            ("at once", f"{_number(capacity['requests'])} requests, {held}"),
            ("said by", capacity["from"] or "nobody: the window finds out"),
            ("prefixes", {True: "cached", False: "not cached", None: "unknown"}[prefix_caching]),
            ("schema", _can(document, "json_schema")),
            ("logprobs", _can(document, "logprobs")),
            ("gauges", ", ".join(document["gauges"]) or "none"),
        ]
    )


def _number(value: int | None) -> str:
    return "unknown" if value is None else f"{value:,}"


def _can(document: dict[str, Any], what: str) -> str:
    """In a word, and how it is known."""
    word = {True: "yes", False: "no", None: "unknown"}[document[what]]
    return (
        f"{word} (asked)" if what in document["asked"] else word if document[what] is None else f"{word} (known of this server)"
    )
