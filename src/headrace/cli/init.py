"""`headrace init`: a few questions, and a job file that runs as it stands."""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.printing import print_lines, print_words
from headrace.errors import SpecError

Place = Annotated[Path | None, typer.Argument(metavar="PATH", help="The job file to write, or its folder; by default job.toml.")]
To = Annotated[Path | None, typer.Option("--to", metavar="PATH", help="The same as the argument.")]
Input = Annotated[
    str | None, typer.Option("--input", metavar="PATH", help="The input: a file, or a glob in quotes. Asked for where left out.")
]
Field = Annotated[str | None, typer.Option("--field", metavar="NAME", help="The field of a record that is asked about.")]
Id = Annotated[str | None, typer.Option("--id", metavar="NAME", help="The field that names a record; - for its number.")]
Ask = Annotated[str | None, typer.Option("--ask", metavar="TEXT", help="What is asked about each text: the system message.")]
Labels = Annotated[str | None, typer.Option("--labels", metavar="A,B", help="The answer is one of these.")]
Schema = Annotated[
    str | None,
    typer.Option(
        "--schema", metavar="FIELDS", help="The answer is JSON: a JSON Schema file, or its fields as name:type,name:type."
    ),
]
Url = Annotated[str | None, typer.Option("--url", metavar="URL", help="The endpoint: local, or http(s)://host/v1.")]
Model = Annotated[str | None, typer.Option("--model", metavar="NAME", help="The model's name as the endpoint knows it.")]
KeyEnv = Annotated[
    str | None, typer.Option("--api-key-env", metavar="NAME", help="The environment variable that holds the key; - for none.")
]
Output = Annotated[str | None, typer.Option("--output", metavar="PATH", help="Where the answers go: .jsonl .csv .parquet.")]


def init(  # noqa: PLR0913, PLR0917 (one parameter for each option that the command has)
    path: Place = None,
    to: To = None,
    input: Input = None,  # noqa: A002 (the option's name)
    field: Field = None,
    id: Id = None,  # noqa: A002 (the option's name)
    ask: Ask = None,
    labels: Labels = None,
    schema: Schema = None,
    url: Url = None,
    model: Model = None,
    api_key_env: KeyEnv = None,
    output: Output = None,
    yes: Annotated[bool, typer.Option("--yes", help="Ask nothing: take the defaults, or say what is missing.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the job file if there is one.")] = False,
) -> None:
    """Write a first job file: asks a few questions, looks at the input, and ends with what to type next.

    Without a terminal, or with --yes, nothing is asked. A key is never asked for, only the name of the variable that holds it.
    """
    target = _target(path, to, force=force)
    from headrace.cli.interview import Given, interview  # noqa: PLC0415 (help and completion do not pay for it)
    from headrace.cli.questions import Talk  # noqa: PLC0415 (the same)

    given = Given(
        input=input,
        field=field,
        id=id,
        ask=ask,
        labels=labels,
        schema=schema,
        url=url,
        model=model,
        key_env=api_key_env,
        output=output,
    )
    talk = Talk(interactive=not yes and sys.stdin.isatty())
    try:
        starter, text = interview(given, target, talk)
    except KeyboardInterrupt:
        print_words("\nheadrace: interrupted; nothing was written" if talk.interactive else "headrace: interrupted")
        raise typer.Exit(130) from None
    _write(target, text, force=force)
    print_lines([f"{target} is written", "next:", *(f"  {line}" for line in _next(target, starter.key_env))])


def _target(path: Path | None, to: Path | None, *, force: bool) -> Path:
    if path is not None and to is not None and path != to:
        raise SpecError(
            f"found PATH {str(path)!a} and --to {str(to)!a}; name the job file once", key="--to", allowed="one of them"
        )
    target = path or to or Path("job.toml")
    if target.is_dir():
        target /= "job.toml"
    if target.suffix.lower() in {".yaml", ".yml"}:
        raise SpecError(f"{str(target)!a}: init writes TOML; name a .toml file", key="--to", allowed="a .toml file")
    if os.path.lexists(target) and not force:
        raise SpecError(f"{target} is already there; name another, or --force replaces it", key="--to", found="a file")
    if not target.parent.is_dir():
        raise SpecError(f"{target.parent}: no such folder", key="--to", found="no such folder", allowed="a folder that exists")
    return target


def _write(target: Path, text: str, *, force: bool) -> None:
    """The file as a whole, or nothing. Without `force` never over another, whoever made it meanwhile."""
    place = target.with_name(f"{target.name}.tmp-{os.getpid()}") if force else target
    try:
        with place.open("x", encoding="utf-8") as file:
            try:
                file.write(text)
                file.flush()
            except OSError:
                place.unlink(missing_ok=True)
                raise
        place.replace(target)
    except FileExistsError:
        raise SpecError(f"{target} is already there; name another, or --force replaces it", key="--to", found="a file") from None
    except OSError as error:
        raise SpecError(f"{target}: cannot be written ({error.strerror})", key="--to") from None


def _next(target: Path, key_env: str | None) -> list[str]:
    job = shlex.quote(str(target))
    lines = [f"headrace estimate {job}", f"headrace run {job}", "headrace status"]
    if key_env is not None and not os.environ.get(key_env):
        lines.insert(0, f"export {key_env}=…      (it is not set here)")
    return lines
