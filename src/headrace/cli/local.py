"""`headrace local`: the embedded model: what is there, fetching one, serving it to other tools."""

from __future__ import annotations

import os
import signal
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn
from urllib.parse import urlsplit

import typer
from msgspec.structs import replace

from headrace.cli.parameters import Json
from headrace.cli.printing import columns, print_json, print_lines, print_words
from headrace.errors import FetchError, SpecError
from headrace.local.gguf import Gguf
from headrace.local.hub import DEFAULT, KNOWN, Hub, pull, resolve_name
from headrace.local.keyfile import key_file
from headrace.local.server import LocalServer, Serving, default_serving, insist_on_llama_cpp
from headrace.local.survey import survey
from headrace.local.weights import Weights, find_weights
from headrace.policy.amounts import counted
from headrace.runs.registry import state_folder

local = typer.Typer(
    help='The embedded model of `endpoint.url = "local"`.', no_args_is_help=True, rich_markup_mode=None, add_completion=False
)


@local.command("status")
def status_(json: Json = False) -> None:
    """Say whether the embedded model can be used here: llama.cpp, the weights, and what to type where something is missing.

    Ends with 0 where it can be used, else with 2.
    """
    document = survey(os.environ, state_folder(os.environ))
    if json:
        print_json(document)
    else:
        print_lines(_status_lines(document))
    raise typer.Exit(0 if document["usable"] else 2)


@local.command("serve")
def serve_(
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any that is free.")] = 0,
    model: Annotated[
        Path | None, typer.Option("--model", metavar="PATH", help="A GGUF file; without it the weights that are found.")
    ] = None,
    parallel: Annotated[int | None, typer.Option("--parallel", min=1, max=256, help="How many requests at once.")] = None,
    ctx: Annotated[
        int | None,
        typer.Option("--ctx", min=16, help="Tokens of one request, prompt and answer together; each slot has so many."),
    ] = None,
    embeddings: Annotated[bool, typer.Option("--embeddings", help="Serve /v1/embeddings, with mean pooling.")] = False,
    api_key_env: Annotated[
        str | None,
        typer.Option(
            "--api-key-env", metavar="NAME", help="The environment variable that holds the key; without it one is made."
        ),
    ] = None,
) -> None:
    """Serve the embedded model on loopback to other tools, until Ctrl-C or SIGTERM.

    Prints one line, READY http://127.0.0.1:PORT/v1. A key is always needed: without --api-key-env one is made and lies in a
    file that only you can read, named on stderr and taken away in the end; a job takes it with `api_key_file`.
    """
    insist_on_llama_cpp()
    key = _key(api_key_env)
    weights = _weights(model, embeddings=embeddings)
    serving = _serving(weights.gguf, parallel, ctx)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    with LocalServer(weights, replace(serving, port=port, embeddings=embeddings), key) as server:
        server.wait_ready()
        with nullcontext() if key is not None else _kept_key(server) as path:
            if path is not None:
                print_words(f"the key is in {path}; a job takes it with api_key_file, curl with $(cat {path})")
            print_lines([f"READY {server.url}/v1"])
            server.wait()
    raise FetchError(f"the model's server has gone: {server.how_it_ended()}")


@local.command("pull")
def pull_(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="MODEL", help=f"owner/name of a model on the hub, or one of {', '.join(KNOWN)}; by default {DEFAULT}."
        ),
    ] = None,
    file: Annotated[str | None, typer.Option("--file", metavar="NAME", help="Which GGUF file of the repository.")] = None,
) -> None:
    """Fetch a model's weights from the hub into its cache on this machine, checked by size and sha256.

    Honours HF_ENDPOINT, HF_TOKEN, HF_HOME, HF_HUB_CACHE and HF_HUB_OFFLINE. After an interruption the same command goes on.
    """
    hub = Hub(os.environ)
    found = hub.describe(*resolve_name(what, file))
    print_words(f"{found.repo}: {found.path}, {found.size / 1e6:,.0f} MB from {hub.name}")
    try:
        path = pull(hub, found, os.environ, _Tenths())
    except KeyboardInterrupt:
        print_words("headrace: interrupted; the same command goes on where it stopped")
        raise
    print_lines([str(path), f'a job takes it with url = "local" and model.name = "{path.stem}"'])


class _Tenths:
    """Progress in words, a line for each tenth."""

    def __init__(self) -> None:
        self._told = 0

    def __call__(self, done: int, total: int) -> None:
        tenth = done * 10 // total
        if tenth > self._told:
            self._told = tenth
            print_words(f"{done / 1e6:,.0f} of {total / 1e6:,.0f} MB ({10 * tenth} %)")


def _status_lines(document: dict[str, Any]) -> list[str]:
    weights = document["weights"]
    rows = [("llama.cpp", f"xllamacpp {document['llama_cpp']}" if document["llama_cpp"] else "not installed")]
    if weights is not None:
        rows += [
            ("weights", f"{weights['name']} ({weights['source']})"),
            ("path", weights["path"]),
            (
                "size",
                f"{weights['bytes'] / 1e6:,.0f} MB, {weights['architecture']}, licence {weights['licence'] or 'not stated'}",
            ),
            ("sha256", weights["sha256"]),
            ("serves", f"{counted(weights['slots'], 'request')} at once, {weights['context']:,} tokens each"),
        ]
    elif document["problem"]:
        rows.append(("weights", document["problem"]))
    others = [found for found in document["found"] if weights is None or found["path"] != weights["path"]]
    rows += [("also", f"{found['path']}" + (f": {found['why']}" if found["why"] else "")) for found in others]
    rows += [("type", command) for command in document["missing"]]
    return columns(rows)


def _serving(gguf: Gguf, parallel: int | None, ctx: int | None) -> Serving:
    usual = default_serving(gguf)
    if ctx is not None and gguf.context_length and ctx > gguf.context_length:
        raise SpecError(
            f"--ctx: found {ctx}; this model was trained on {gguf.context_length:,} tokens", key="--ctx", found=str(ctx)
        )
    return Serving(parallel or usual.slots, ctx or usual.context)


def _weights(model: Path | None, *, embeddings: bool) -> Weights:
    """A model that only embeds where there is one; any other embeds too."""
    if embeddings:
        with suppress(SpecError):
            return find_weights(os.environ, chosen=_path(model), called="--model", kind="embedding")
    return find_weights(os.environ, chosen=_path(model), called="--model")


def _path(model: Path | None) -> Path | None:
    return Path.cwd() / model.expanduser() if model is not None else None


def _key(variable: str | None) -> str | None:
    from headrace.runs.jobsecrets import key_in  # noqa: PLC0415 (as above)

    return None if variable is None else key_in(variable, os.environ)


def _kept_key(server: LocalServer) -> AbstractContextManager[Path]:
    state = state_folder(os.environ)
    if state is None:
        raise SpecError("there is no home folder to keep a key in; give one with --api-key-env", key="--api-key-env")
    return key_file(state / "local", urlsplit(server.url).port or 0, server.api_key)


def _leave(number: int, _frame: object) -> NoReturn:
    raise SystemExit(128 + number)
