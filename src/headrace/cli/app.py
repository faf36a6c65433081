"""Which commands there are, and how the process ends: messages, exit codes, the hard exit after a run."""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace import __version__
from headrace.cli import completion
from headrace.cli.printing import error_document, print_json, print_log, print_words
from headrace.errors import HeadraceError

# One module each, named as the command (with _ for -), with a function of that name; loaded only when it is asked for.
COMMANDS = (
    "init", "run", "status", "runs", "failures", "retry", "export", "show", "report", "compare", "drift", "schema",
    "explain-class", "estimate", "advise", "eval", "review", "plan", "probe", "local", "sim", "demo",
)  # fmt: skip
# Options of the program itself: no command is loaded for them.
_OWN_OPTIONS = frozenset({"--version", "--install-completion", "--show-completion"})
# These hold connections of the Rust client, which can abort the interpreter's own exit.
_EXIT_HARD = frozenset({"run", "retry", "eval", "demo", "plan", "probe"})


def main() -> None:
    """The entry point. Ends the process: 0-7, 130 or 143 as the contract says, 1 with a traceback for a bug."""
    _insist_on_utf8()
    arguments = sys.argv[1:]
    if os.environ.get(completion.VARIABLE, "").startswith("complete_"):
        sys.exit(_completed())
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by whoever called: what is said goes nowhere
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 (as long as the process lives)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # an ASCII terminal shows escapes, it does not end the run
    if not _EXIT_HARD.intersection(arguments[:1]):
        sys.exit(invoke(arguments))
    code = 1
    try:
        code = invoke(arguments)
    except BaseException:  # noqa: BLE001 (a bug: shown as ever, then the hard exit all the same)
        sys.excepthook(*sys.exc_info())
    _flush()
    os._exit(code)


def _completed() -> int:
    """Answer a shell. It is in the middle of a line that somebody types: whatever goes wrong, nothing is said."""
    text, code = "", 1
    with contextlib.suppress(Exception):
        text, code = completion.complete(
            os.environ, COMMANDS, lambda name: typer.main.get_command(application(name or "--version"))
        )
    if text:
        sys.stdout.write(text + "\n")
    return code


def invoke(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Errors of ours are one line; every other exception comes through.

    Ctrl-C where nothing is in flight yet, or in a command that only reads, ends it at once and quietly.
    """
    as_json = "--json" in arguments
    try:
        command = typer.main.get_command(application(arguments[0] if arguments else None))
        code = command.main(args=list(arguments), prog_name="headrace", standalone_mode=False)
    except SystemExit as exit_:
        code = exit_.code
    except HeadraceError as error:
        if "--log-json" in arguments:
            print_log("error", "refused", str(error), exit_code=error.exit_code)
        else:
            print_words(f"headrace: {error}")
        if as_json:
            print_json(error_document(error))
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except OSError as error:
        if not _OWN_OPTIONS.intersection(arguments[:1]):
            raise
        print_words(f"headrace: {arguments[0]}: {error.filename}: {error.strerror}; --show-completion prints the script")
        return 2
    except Exception as error:
        if not callable(getattr(error, "format_message", None)):
            raise
        return _tell_usage(error, as_json=as_json)
    if code == 1 and _OWN_OPTIONS.intersection(arguments[:1]):
        return 2  # a shell that typer does not know
    return code if isinstance(code, int) else 0


def _tell_usage(error: Any, *, as_json: bool) -> int:
    """Say in one line what is wrong with the arguments. A command without any is answered with its help."""
    message, context = str(error.format_message()), getattr(error, "ctx", None)
    if "\n" in message:
        sys.stderr.write(message + "\n")
    else:
        path = context.command_path if context is not None else "headrace"
        print_words(f"headrace: {message.rstrip('.')}; see `{path} --help`")
    if as_json:
        print_json({"error": {"kind": "usage", "key": None, "found": None, "allowed": None, "message": message}})
    return 2


def application(command: str | None = None) -> typer.Typer:
    """The typer application with all commands, or with the one that is asked for, so that only its imports are paid."""
    app = typer.Typer(
        name="headrace",
        help="Offline LLM work at scale against any OpenAI-compatible endpoint.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,  # they print local variables, a key among them
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_top)
    for name in (command,) if command in COMMANDS else () if command in _OWN_OPTIONS else COMMANDS:
        word = str(name).replace("-", "_")
        function = getattr(importlib.import_module(f"headrace.cli.{word}"), word)
        if isinstance(function, typer.Typer):
            app.add_typer(function, name=name)
        else:
            app.command(name)(function)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


def _top(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)] = False,
) -> None:
    pass


def _insist_on_utf8() -> None:
    """Start over in UTF-8 mode where the locale would have it otherwise: a job file names its files in UTF-8."""
    if sys.getfilesystemencoding() != "utf-8" and sys.executable:
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606 (ourselves, no shell)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            continue  # the reader has gone; what could be said was said
