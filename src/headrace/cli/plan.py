"""`headrace plan`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace.cli.parameters import Json
from headrace.cli.printing import facts, notes, print_json, print_lines, print_tables
from headrace.errors import SpecError
from headrace.observe.text import printable
from headrace.policy.amounts import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.policy.capacity import Row
    from headrace.runs.plan import Planned, Wanted

_MOST_TOKENS = 10**9
_MOST_GPUS = 65_536
_SHOWN = 50  # of a model's path
_SIZES = "a number and a unit: 80GiB, 80GB, 81920MiB"

Model = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="PATH|URL",
        help="A Hugging Face folder or its config.json, a .gguf, or the URL of Ollama or of an OpenAI-compatible server.",
    ),
]  # fmt: skip
Name = Annotated[str | None, typer.Option("--name", metavar="NAME", help="Which of the server's models, where it has several.")]
KeyEnv = Annotated[
    str | None, typer.Option("--api-key-env", metavar="NAME", help="The environment variable that holds the server's key.")
]
Prompt = Annotated[str, typer.Option("--prompt", metavar="TOKENS", help="Tokens of a request's prompt.")]
Output = Annotated[str, typer.Option("--output", metavar="TOKENS", help="Tokens of its answer.")]
Shared = Annotated[
    str, typer.Option("--shared-prefix", metavar="TOKENS", help="So many of the prompt's tokens are the same in all requests.")
]
GpuMemory = Annotated[str | None, typer.Option("--gpu-memory", metavar="SIZE", help="Memory of each GPU, such as 80GiB.")]
Gpus = Annotated[
    str | None, typer.Option("--gpus", metavar="N", help="All GPUs; without it those of one copy, which lies on --tp times --pp.")
]
Tp = Annotated[str, typer.Option("--tp", metavar="N", help="Tensor parallel: each layer lies on so many GPUs.")]
Pp = Annotated[str, typer.Option("--pp", metavar="N", help="Pipeline parallel: the layers are dealt out to so many GPUs.")]
Utilization = Annotated[
    str, typer.Option("--utilization", metavar="SHARE", help="Share of each GPU's memory that the server may take.")
]
KvDtype = Annotated[
    str,
    typer.Option("--kv-dtype", metavar="TYPE", help="How the cache is stored: auto, bf16, fp8, fp8_ds_mla, q8_0 or q4_0."),
]
Overhead = Annotated[
    str, typer.Option("--overhead", metavar="SIZE", help="Set aside on each GPU, for activations and CUDA graphs.")
]
Weights = Annotated[
    str | None, typer.Option("--weights", metavar="SIZE", help="What the weights take, where the model does not tell.")
]
Block = Annotated[str, typer.Option("--block", metavar="TOKENS", help="Tokens of a block of the cache.")]
Layers = Annotated[str | None, typer.Option("--layers", metavar="N", help="In place of --model: how many layers there are.")]
KvHeads = Annotated[str | None, typer.Option("--kv-heads", metavar="N", help="With --layers: KV heads of each.")]
HeadDim = Annotated[
    str | None, typer.Option("--head-dim", metavar="N", help="With --layers: the length of a head's keys and values.")
]


def plan(  # noqa: PLR0913 - the command's options
    *,
    model: Model = None,
    prompt: Prompt,
    output: Output,
    shared_prefix: Shared = "0",
    gpu_memory: GpuMemory = None,
    gpus: Gpus = None,
    tp: Tp = "1",
    pp: Pp = "1",
    utilization: Utilization = "0.92",
    kv_dtype: KvDtype = "auto",
    overhead: Overhead = "2GiB",
    weights: Weights = None,
    block: Block = "16",
    name: Name = None,
    api_key_env: KeyEnv = None,
    layers: Layers = None,
    kv_heads: KvHeads = None,
    head_dim: HeadDim = None,
    json: Json = False,
) -> None:
    """Say how many requests fit in the memory at once, before a server is started or asked.

    Of a server that runs already its own figure is taken. What is not understood of a model is unknown, never guessed.
    """
    from headrace.policy.capacity import Load, Memory  # noqa: PLC0415 (help and completion do not pay for it)
    from headrace.runs.plan import KV_DTYPES, Wanted, copies_of, document  # noqa: PLC0415 (as above)

    load = Load(
        _whole("--prompt", prompt, 1, _MOST_TOKENS),
        _whole("--output", output, 1, _MOST_TOKENS),
        _whole("--shared-prefix", shared_prefix, 0, _MOST_TOKENS),
    )
    if load.shared_prefix > load.prompt:
        raise _refused("--shared-prefix", shared_prefix, f"no more than the prompt's {load.prompt} tokens")
    if kv_dtype not in KV_DTYPES:
        raise _refused("--kv-dtype", kv_dtype, ", ".join(KV_DTYPES))
    split = _whole("--tp", tp, 1, _MOST_GPUS), _whole("--pp", pp, 1, _MOST_GPUS)
    memory = Memory(
        None if gpu_memory is None else _size("--gpu-memory", gpu_memory),
        *split,
        copies_of(None if gpus is None else _whole("--gpus", gpus, 1, _MOST_GPUS), *split),
        _share(utilization),
        0 if overhead.strip() == "0" else _size("--overhead", overhead),
    )
    told = None if weights is None else _size("--weights", weights)
    wanted = Wanted(load, memory, kv_dtype, _whole("--block", block, 1, 65_536), told)
    planned = _planned(model, (layers, kv_heads, head_dim), wanted, name, api_key_env)
    if json:
        print_json(document(planned))
    else:
        _print(planned)


def _planned(
    model: str | None, numbers: tuple[str | None, ...], wanted: Wanted, name: str | None, api_key_env: str | None
) -> Planned:
    from headrace.runs.plan import describe_numbers, describe_path, plan_described, plan_served  # noqa: PLC0415 (as above)

    if model is None:
        if None in numbers:
            raise SpecError("--model is needed: PATH or URL; or --layers, --kv-heads and --head-dim", key="--model")
        flags = ("--layers", "--kv-heads", "--head-dim")
        counts = (_whole(flag, text or "", 1, 10_000) for flag, text in zip(flags, numbers, strict=True))
        return plan_described("numbers", describe_numbers(*counts), wanted)
    if any(numbers):
        raise SpecError("--layers, --kv-heads and --head-dim are in place of --model", key="--layers")
    if "://" not in model:
        for flag, given in (("--name", name), ("--api-key-env", api_key_env)):
            if given is not None:
                raise SpecError(f"{flag} is for a server's URL; --model names a file", key=flag)
        return plan_described(model, describe_path(Path(model).expanduser()), wanted)
    from headrace.cli.loop import run_until_complete  # noqa: PLC0415 (only to ask a server)
    from headrace.models.served import Served  # noqa: PLC0415 (as above)
    from headrace.runs.planserver import ask_server, shown_address  # noqa: PLC0415 (as above)

    answer = run_until_complete(ask_server(model, name, _key(api_key_env), os.environ))
    shown = shown_address(model)
    return plan_served(shown, answer, wanted) if isinstance(answer, Served) else plan_described(shown, answer, wanted)


# -- values


def _refused(flag: str, found: str, allowed: str) -> SpecError:
    shown = f"{found[:40]!a}"
    return SpecError(f"{flag}: found {shown}; allowed: {allowed}", key=flag, found=shown, allowed=allowed)


def _whole(flag: str, text: str, least: int, most: int) -> int:
    plain = text.strip()
    if not (plain.isascii() and plain.isdigit() and len(plain) < 19 and least <= int(plain) <= most):
        raise _refused(flag, text, f"a whole number from {least} to {most}")
    return int(plain)


def _size(flag: str, text: str) -> int:
    from headrace.spec import parse_size  # noqa: PLC0415 (as above)

    try:
        found: int = parse_size(text)
    except ValueError:
        raise _refused(flag, text, _SIZES) from None
    if found > 2**60:
        raise _refused(flag, text, f"{_SIZES}; no more than 1048576TiB")
    return found


def _share(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not 0.0 < found <= 1.0:
        raise _refused("--utilization", text, "a number above 0, at most 1, such as 0.92")
    return found


def _key(variable: str | None) -> str | None:
    from headrace.runs.jobsecrets import key_in  # noqa: PLC0415 (as above)

    return None if variable is None else key_in(variable, os.environ)


# -- words


def _print(planned: Planned) -> None:
    print_lines(facts(_rows(planned)))
    rows = [
        [f"{row.tokens:,}", _bytes(row.bytes_per_request), "-" if row.max_concurrency is None else f"{row.max_concurrency:,}"]
        for row in _worth(planned.plan.table)
    ]
    if rows:
        print_lines([""])
        print_tables((["tokens a request", "memory a request", "at once"], rows))
    print_lines(notes(planned.notes))


def _worth(table: Sequence[Row]) -> Sequence[Row]:
    """The rows up to the first length of which none fits."""
    none = next((number for number, row in enumerate(table) if row.max_concurrency == 0), len(table))
    return table[: none + 1]


def _rows(planned: Planned) -> list[tuple[str, str]]:
    from headrace.runs.plannotes import size  # noqa: PLC0415 (as above)

    found, described, load, memory = planned.plan, planned.description, planned.wanted.load, planned.wanted.memory
    shared = f", {load.shared_prefix:,} of them shared" if load.shared_prefix else ""
    rows = [("model", _model(planned)), ("attention", _attention(planned))]
    if planned.server is None:
        rows.append(("weights", _known(described.weights)))
        if memory.gpu_memory is not None:
            gpus = memory.copies * memory.tp * memory.pp
            kept = (
                f"{memory.utilization:g} of it, {size(memory.overhead)} set aside"
                if memory.overhead
                else f"{memory.utilization:g} of it"
            )
            rows.append(("memory", f"{gpus} × {size(memory.gpu_memory)}, {kept}"))
        rows.append(
            ("pool", _known(found.kv_pool_bytes) + ("" if found.kv_pool_tokens is None else f", {found.kv_pool_tokens:,} tokens"))
        )
    elif found.kv_pool_tokens is not None:
        rows.append(("pool", f"{found.kv_pool_tokens:,} tokens, told by the server"))
    if found.bytes_per_token is not None and planned.store is not None:
        rows.append(("a token", f"{found.bytes_per_token:,} bytes at {planned.store.kind}"))
    rows.append(("a request", f"{load.tokens:,} tokens{shared}: {_known(found.bytes_per_request)}"))
    exact = "" if found.times is None or planned.server is not None else f" ({found.times:,.2f})"
    rows.append(
        ("at once", "unknown" if found.max_concurrency is None else f"{counted(found.max_concurrency, 'request')}{exact}")
    )
    if found.max_concurrency != 0:
        rows.append(("start with", f"concurrency = {{ start = {found.suggested_start} }}"))
    return rows


def _model(planned: Planned) -> str:
    family, context = planned.description.family, planned.description.context
    facts = [planned.server or printable(family or ""), "" if context is None else f"context {context:,}"]
    told = ", ".join(filter(None, facts))
    shown = planned.model if len(planned.model) <= _SHOWN else "…" + planned.model[1 - _SHOWN :]
    return printable(shown) + (f" ({told})" if told else "")


def _attention(planned: Planned) -> str:
    from headrace.runs.plannotes import layers  # noqa: PLC0415 (as above)

    attention = planned.description.attention
    if attention is None:
        return "not looked at: the server knows what it holds" if planned.server else "unknown"
    return f"{attention.name}: {', '.join(map(layers, attention.groups))}"


def _known(count: int | None) -> str:
    return "unknown" if count is None else _bytes(count)


def _bytes(count: int | None) -> str:
    from headrace.runs.plannotes import size  # noqa: PLC0415 (as above)

    return "-" if count is None else size(count)
