"""What a shell is told when a command line is completed: commands, options, runs, kinds, statuses, job files.

The shells' scripts are typer's own (`--install-completion`, `--show-completion`), and so is the protocol: the command is called
with the words in its environment and answers one candidate a line. Answered here, because it has to be quick: of all command
modules only the one that is being completed is loaded, and nothing of the work. What cannot be completed is left to the shell,
which offers files.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

VARIABLE = "_HEADRACE_COMPLETE"
_MOST = 200  # candidates; nobody reads more
_JOB_SUFFIXES = (".toml", ".yaml", ".yml")
# The shells evaluate what they are told, and names of files may be hostile: others than these are left to the shell itself.
_HARMLESS = re.compile(r"[\w./@%+,=-]+")
_UNQUOTED = re.compile(r"[^\w .,;/()+=<>-]")


class Candidate(NamedTuple):
    value: str
    help: str = ""


class Line(NamedTuple):
    """A command line that is being completed: the whole words after the program's name, and the one that has begun."""

    words: list[str]
    begun: str


def complete(environ: Mapping[str, str], commands: Sequence[str], load: Callable[[str | None], Any]) -> tuple[str, int]:
    """What to print, and the exit code. `load` gives the group that holds the named command; for None, its own options alone."""
    shell = environ[VARIABLE].removeprefix("complete_")
    if shell == "bash":
        line = _bash_line(environ)
    else:
        line = _one_line(environ.get("_TYPER_COMPLETE_ARGS", ""))
    found = [candidate for candidate in islice(_candidates(line, commands, load), _MOST) if _HARMLESS.fullmatch(candidate.value)]
    if shell == "zsh":
        return _for_zsh(found), 0
    if shell == "fish":
        if environ.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
            return "", 0 if found else 1
        return "\n".join(f"{value}\t{_plain(text)}" if text else value for value, text in found), 0
    return "\n".join(candidate.value for candidate in found), 0


# -- the line


def _bash_line(environ: Mapping[str, str]) -> Line:
    """The words come parted by line feeds, and bash takes `=` for a word of its own."""
    text = environ.get("COMP_WORDS", "")
    words = text.split("\n") if "\n" in text else _split(text)
    place = int(environ.get("COMP_CWORD", "0"))
    whole, begun = words[1:place], words[place] if place < len(words) else ""
    if begun == "=":
        begun = ""
    return Line([word for word in whole if word != "="], begun.strip("\"'"))


def _one_line(text: str) -> Line:
    words = _split(text)[1:]
    if words and not text[-1:].isspace():
        return Line(words[:-1], words[-1])
    return Line(words, "")


def _split(text: str) -> list[str]:
    """As a shell does; a quote that is still open ends with the line."""
    for closing in ("", '"', "'"):
        try:
            return shlex.split(text + closing)
        except ValueError:
            continue
    return text.split()


# -- what may stand there


def _candidates(line: Line, commands: Sequence[str], load: Callable[[str | None], Any]) -> Iterator[Candidate]:
    at = next((place for place, word in enumerate(line.words) if not word.startswith("-")), None)
    if at is None:
        if line.begun.startswith("-"):
            yield from _options(load(None).params, line)
        else:
            yield from (Candidate(name, _summary(name)) for name in commands if name.startswith(line.begun))
        return
    command = line.words[at]
    if command in commands:
        yield from _of_command(load(command).commands[command].params, Line(line.words[at + 1 :], line.begun))


def _of_command(params: Sequence[Any], line: Line) -> Iterator[Candidate]:
    options = {
        name: param for param in params if param.param_type_name == "option" for name in (*param.opts, *param.secondary_opts)
    }
    arguments = [param for param in params if param.param_type_name == "argument"]
    awaited, place = None, 0
    for word in line.words:
        if awaited is not None:
            awaited = None
        elif word in options:
            awaited = None if options[word].is_flag else options[word]
        elif not word.startswith("-"):
            place += 1
    name, equals, value = line.begun.partition("=")
    if awaited is not None:
        yield from _values(awaited, line.begun)
    elif equals and name in options:
        yield from (Candidate(f"{name}={found}", text) for found, text in _values(options[name], value))
    elif line.begun.startswith("-"):
        yield from _options(params, line)
    elif place < len(arguments):
        yield from _values(arguments[place], line.begun)


def _options(params: Sequence[Any], line: Line) -> Iterator[Candidate]:
    """Options that are not given yet, or may be given again."""
    for param in params:
        if param.param_type_name != "option" or param.hidden:
            continue
        names = [name for name in (*param.opts, *param.secondary_opts) if name.startswith("--")]
        if param.multiple or not set(names) & set(line.words):
            yield from (Candidate(name, param.help or "") for name in names if name.startswith(line.begun))


def _values(param: Any, begun: str) -> Iterable[Candidate]:
    """What may stand for an argument or an option's value, by its metavar."""
    metavar = param.metavar or ""
    if metavar == "RUN":
        return _runs(begun)
    if metavar == "JOB":
        return (Candidate(path) for path in _job_files(begun))
    if metavar in {"KIND,...", "STATUS,..."}:
        return _listed(metavar, begun)
    if "|" in metavar:
        return (Candidate(word) for word in metavar.split("|") if word.startswith(begun))
    return ()


def _listed(metavar: str, begun: str) -> Iterator[Candidate]:
    from headrace.values import Kind, Status  # noqa: PLC0415 (only when it is asked for)

    before, _, last = begun.rpartition(",")
    given = before.split(",")
    words: Iterable[str] = Kind if metavar.startswith("KIND") else Status
    prefix = f"{before}," if before else ""
    return (Candidate(prefix + str(word)) for word in words if str(word).startswith(last) and str(word) not in given)


def _runs(begun: str) -> Iterator[Candidate]:
    from headrace.runs.registry import list_runs, state_folder  # noqa: PLC0415 (only when it is asked for)

    if "last".startswith(begun):
        yield Candidate("last", "the newest")
    for folder in list_runs(Path.cwd(), state_folder(os.environ)):
        if folder.id.startswith(begun):
            yield Candidate(folder.id, folder.started or "")


def _job_files(begun: str) -> Iterator[str]:
    """Job files where the word points to, and in the folders that it begins to name."""
    folder, _, name = begun.rpartition("/")
    place = Path(folder + "/" if folder or begun.startswith("/") else ".")
    prefix = begun[: len(begun) - len(name)]
    for entry in _entries(place):
        if not entry.name.startswith(name) or (entry.name.startswith(".") and not name):
            continue
        if entry.name.endswith(_JOB_SUFFIXES):
            yield prefix + entry.name
        elif entry.is_dir():
            inner = (deeper.name for deeper in _entries(Path(entry.path)) if deeper.name.endswith(_JOB_SUFFIXES))
            yield from (f"{prefix}{entry.name}/{file}" for file in inner)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(islice(entries, 2_000), key=lambda entry: entry.name)
    except OSError:
        return []


def _summary(command: str) -> str:
    """The first line of what a command says about itself, read without loading it."""
    word = command.replace("-", "_")
    spec = importlib.util.find_spec(f"headrace.cli.{word}")
    if spec is None or spec.origin is None:
        return ""
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == word)
    return next((ast.get_docstring(node) or "" for node in functions), "").partition("\n")[0]


# -- how it is said


def _for_zsh(found: Sequence[Candidate]) -> str:
    if not found:
        return "_files"
    said = [f'"{value}":"{_plain(text)}"' if text else f'"{value}"' for value, text in found]
    return "_arguments '*: :((" + "\n".join(said) + "))'"


def _plain(text: str) -> str:
    """Words about a candidate, without anything that a shell could take for its own."""
    return " ".join(_UNQUOTED.sub(" ", text).split())
