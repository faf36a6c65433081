"""`headrace probe`."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headrace.cli.loop import run_until_complete
from headrace.cli.parameters import Json
from headrace.cli.printing import columns, facts, print_json, print_lines, print_words
from headrace.policy.amounts import counted

if TYPE_CHECKING:
    from headrace.runs.probing import Asking, Probed
    from headrace.runs.sweep import Effort, Swept

Url = Annotated[str, typer.Argument(metavar="URL", help="The endpoint: http(s)://host/v1.")]
Model = Annotated[str | None, typer.Option("--model", metavar="NAME", help="The model to ask; by default the first listed.")]
KeyEnv = Annotated[str | None, typer.Option("--api-key-env", metavar="NAME", help="The environment variable that holds the key.")]
KeyFile = Annotated[str | None, typer.Option("--api-key-file", metavar="PATH", help="The file that holds the key.")]
Sweep = Annotated[
    bool, typer.Option("--sweep", help="Also measure what it delivers with 1, 2, 4, … requests in flight. Sends them, and pays.")
]
MostInFlight = Annotated[
    int, typer.Option("--max-concurrency", min=1, max=4096, metavar="N", help="With --sweep: the most in flight.")
]
MostRequests = Annotated[
    int, typer.Option("--max-requests", min=1, max=100_000, metavar="N", help="With --sweep: requests in all.")
]
MostSeconds = Annotated[
    float,
    typer.Option(
        "--max-seconds", min=1, max=86_400, metavar="S", help="With --sweep: time in all; what is in flight then is cut."
    ),
]
Prompt = Annotated[int, typer.Option("--prompt", min=1, max=1_000_000, metavar="WORDS", help="With --sweep: words of a prompt.")]
Output = Annotated[
    int, typer.Option("--output", min=1, max=1_000_000, metavar="TOKENS", help="With --sweep: tokens of an answer.")
]


def probe(  # noqa: PLR0913 - the command's options
    url: Url,
    *,
    model: Model = None,
    api_key_env: KeyEnv = None,
    api_key_file: KeyFile = None,
    sweep: Sweep = False,
    max_concurrency: MostInFlight = 64,
    max_requests: MostRequests = 500,
    max_seconds: MostSeconds = 120.0,
    prompt: Prompt = 200,
    output: Output = 64,
    json: Json = False,
) -> None:
    """Say what an endpoint is and can do: its server, models, context, how much it takes at once, what it tells of its load.

    Asks for the server's own pages. What they leave open about schemas and log-probabilities costs up to two requests of one
    token each, unless it is a server whose kind is known. Ends with 4 where nobody answers.

    With --sweep it is also sent requests, more and more at once until that brings no more. Ctrl-C ends it, and what was
    measured so far is shown.
    """
    from headrace.runs import probing  # noqa: PLC0415 (help and completion do not pay for it)
    from headrace.runs.sweep import Effort  # noqa: PLC0415 (as above)

    effort = Effort(max_concurrency, max_requests, max_seconds, prompt, output) if sweep else None
    seconds = min(max_seconds, probing.ATTEMPT_S) if sweep else probing.ATTEMPT_S
    asking = probing.Asking(url, model, api_key_env, api_key_file, seconds)
    found, swept, code = run_until_complete(_probe(asking, effort))
    if found is not None and json:
        print_json(found.document() | ({"sweep": swept.document()} if swept is not None else {}))
    elif found is not None:
        print_lines(_lines(found.document(), found.capacity.block, prefix_caching=found.capacity.prefix_caching))
        if swept is not None:
            print_lines(["", *_swept_lines(swept, found.capacity.requests)])
    if code is not None:
        raise typer.Exit(code)


async def _probe(asking: Asking, effort: Effort | None) -> tuple[Probed | None, Swept | None, int | None]:
    """What was found, and the exit code of the signal that ended it."""
    from msgspec.structs import replace  # noqa: PLC0415 (as above)

    from headrace.runs.probing import probe as ask  # noqa: PLC0415 (as above)
    from headrace.runs.signals import unless_signalled  # noqa: PLC0415 (as above)
    from headrace.runs.sweep import Swept, sweep  # noqa: PLC0415 (as above)

    found, code = await unless_signalled(ask(asking, os.environ, Path.cwd()))
    if found is None or effort is None:
        return found, None, code
    swept = Swept()
    named = replace(asking, model=asking.model or next(iter(found.capacity.models), None))
    print_words(f"sends at most {counted(effort.requests, 'request')} in at most {effort.seconds:g} s; Ctrl-C ends it")
    _, code = await unless_signalled(sweep(named, effort, os.environ, Path.cwd(), swept))
    return found, swept, code


def _swept_lines(swept: Swept, said: int | None) -> list[str]:
    """A line for each number in flight with a bar, the knee, and what the server says that it takes."""
    from headrace.observe.bars import bars  # noqa: PLC0415 (as above)

    plain = not (sys.stdout.encoding or "").lower().startswith("utf")
    drawn = bars([level.rate for level in swept.levels], plain=plain)
    rows = [
        (
            f"{level.concurrency:>9}", f"{level.rate * 60:>10,.1f}",
            "         -" if level.tokens_per_second is None else f"{level.tokens_per_second:>10,.1f}",
            "       -" if level.p50 is None else f"{level.p50:>8.3f}", f"{level.failed:>6}", bar,
        )
        for level, bar in zip(swept.levels, drawn, strict=True)
    ]  # fmt: skip
    table = columns([("in flight", "answers/min", "tokens/s", "p50 s", "failed", ""), *rows]) if rows else []
    told = "" if said is None else f"; the server says that it takes {said:,}"
    return [
        *table,
        f"knee: {_knee(swept)}{told}",
        f"{counted(swept.requests, 'request')}; ended because: {swept.stopped}",
    ]


def _lines(document: dict[str, Any], block: int | None, *, prefix_caching: bool | None) -> list[str]:
    capacity, models = document["capacity"], document["models"]
    shown = models[:10] + ([f"and {len(models) - 10} more"] if len(models) > 10 else [])
    return facts(
        [
            ("server", document["server"]),
            ("models", ", ".join(shown) or "not listed"),
            ("context", "unknown" if document["context"] is None else f"{document['context']:,} tokens"),
            ("at once", _held(capacity, block)),
            ("said by", capacity["from"] or "nobody: the window finds out"),
            ("prefixes", {True: "cached", False: "not cached", None: "unknown"}[prefix_caching]),
            ("schema", _can(document, "json_schema")),
            ("logprobs", _can(document, "logprobs")),
            ("gauges", ", ".join(document["gauges"]) or "none"),
        ]
    )


def _knee(swept: Swept) -> str:
    if swept.knee is not None:
        return f"{swept.knee:,} in flight"
    return f"not seen up to {swept.levels[-1].concurrency:,} in flight" if swept.levels else "not seen"


def _held(capacity: dict[str, Any], block: int | None) -> str:
    """`8 requests, 65,536 tokens in blocks of 16`; one word where neither is told."""
    requests, tokens = capacity["requests"], capacity["tokens"]
    parts = [] if requests is None else [counted(requests, "request")]
    if tokens is not None:
        parts.append(f"{tokens:,} tokens" + (f" in blocks of {block}" if block is not None else ""))
    return ", ".join(parts) or "unknown"


def _can(document: dict[str, Any], what: str) -> str:
    """In a word, and how it is known."""
    word = {True: "yes", False: "no", None: "unknown"}[document[what]]
    return (
        f"{word} (asked)" if what in document["asked"] else word if document[what] is None else f"{word} (known of this server)"
    )
