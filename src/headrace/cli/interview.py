"""The questions of `headrace init`, in their order. Each answer is tried on the real loader before the next is asked."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from headrace.cli.questions import NONE, Question, Talk
from headrace.errors import HeadraceError, SpecError
from headrace.observe.text import printable
from headrace.runs.inputlook import Look, look_at
from headrace.runs.jobsecrets import HIDDEN, is_key, looks_secret
from headrace.runs.starter import LOCAL, Starter, check, fields_schema
from headrace.sources.paths import format_of

_FORMS = ("labels", "schema", "text")
_ASK = {
    "labels": "Choose the label that fits the text best.",
    "schema": "Read the fields of the answer from the text.",
    "text": "Summarize the text in one sentence.",
}
_SHOWN = 8
_OPENAI = "api.openai.com"


class Given(Struct, frozen=True):
    """What the command line answers already."""

    input: str | None = None
    field: str | None = None
    id: str | None = None
    ask: str | None = None
    labels: str | None = None
    schema: str | None = None
    url: str | None = None
    model: str | None = None
    key_env: str | None = None
    output: str | None = None


def interview(given: Given, target: Path, talk: Talk) -> tuple[Starter, str]:
    """The answers and the job file's text. Raises SpecError and InputError for what cannot be used, or is missing."""
    return _Interview(given, target, talk).run()


class _Interview:
    def __init__(self, given: Given, target: Path, talk: Talk) -> None:
        self.given = given
        self.talk = talk
        self.base = target.parent.resolve()
        # What is not asked yet stands at what any loader accepts.
        self.draft = Starter(
            input="in.jsonl", text="text", url="http://127.0.0.1:8000/v1", model="m", output="answers.jsonl", ask=""
        )
        self.look = Look(0, 0, (), None, None)

    def run(self) -> tuple[Starter, str]:
        if self.given.labels is not None and self.given.schema is not None:
            raise SpecError("--labels and --schema exclude each other", key="--schema", allowed="one of them")
        self._ask_for_input()
        self._ask_for_fields()
        self._ask_for_the_answer()
        self._ask_for_the_endpoint()
        stem = _stem(self.draft.input)
        default = self._shown(_unused(self.base, f"{stem}-answers" if stem else "answers"))
        self._put(Question("Where the answers go (.jsonl .csv .parquet)", "--output", default), self.given.output, self._output)
        self.draft = msgspec.structs.replace(self.draft, name=stem or "job")
        return self.draft, check(self.draft, self.base)

    # -- the questions

    def _ask_for_input(self) -> None:
        inputs = _inputs_here()
        default = inputs[0] if len(inputs) == 1 else None
        found = f" (here: {', '.join(inputs[:_SHOWN])})" if len(inputs) > 1 else ""
        words = f"The input: .jsonl, .json, .csv, .tsv or .parquet, a pattern such as data/*.jsonl, or a folder of texts{found}"
        self._put(Question(words, "--input", default), self.given.input, self._input)

    def _ask_for_fields(self) -> None:
        fields = self.look.fields
        if fields:
            shown = ", ".join(printable(name, 40) for name in fields[:_SHOWN])
            more = f" and {len(fields) - _SHOWN} more" if len(fields) > _SHOWN else ""
            self.talk.say(f"  the first {self.look.records} records have the fields {shown}{more}")
        default = self.look.text or (None if fields else "text")
        self._put(Question("The field to ask about", "--field", default), self.given.field, self._field)
        words = f"The field that names a record, {NONE} for its number"
        self._put(Question(words, "--id", self.look.id or NONE), self.given.id, self._id)

    def _ask_for_the_answer(self) -> None:
        given = self.given
        form = "labels" if given.labels is not None else "schema" if given.schema is not None else None
        default = "labels" if self.talk.interactive else "text"
        form = self.talk.answer(
            Question("The answer is one of labels, JSON by a schema, or text", "the form", default), form, _form
        )
        if form == "labels":
            self._put(Question("The labels, with commas between", "--labels"), given.labels, self._labels)
        elif form == "schema":
            words = "The answer's fields as name:type, name:type (string, number, integer, boolean), or a JSON Schema file"
            self._put(Question(words, "--schema"), given.schema, self._schema)
        self._put(Question("What to ask about each text", "--ask", _ASK[form]), given.ask, lambda text: {"ask": text})

    def _ask_for_the_endpoint(self) -> None:
        given = self.given
        local = self._is_served(LOCAL)
        words = f"The endpoint: {f'{LOCAL}, or ' if local else ''}an address such as http://127.0.0.1:8000/v1"
        url = LOCAL if local else self.draft.url if self.talk.interactive else None
        self._put(Question(words, "--url", url), given.url, lambda text: {"url": text})
        is_local = self.draft.url == LOCAL
        self._put(
            Question("The model's name as the endpoint knows it", "--model", LOCAL if is_local else None),
            given.model,
            lambda text: {"model": text},
        )
        if not is_local:
            default = "OPENAI_API_KEY" if urlsplit(self.draft.url).hostname == _OPENAI else NONE
            words = f"The environment variable that holds the key, {NONE} for none"
            self._put(Question(words, "--api-key-env", default), given.key_env, self._key_env)
        elif given.key_env not in {None, NONE}:
            raise SpecError("--api-key-env: found with --url local, which takes no key of yours", key="--api-key-env")

    def _is_served(self, url: str) -> bool:
        try:
            check(msgspec.structs.replace(self.draft, url=url, model=LOCAL), self.base)
        except SpecError:
            return False
        return True

    # -- the answers

    def _put(self, question: Question, given: str | None, read: Callable[[str], dict[str, Any]]) -> None:
        """Ask, and keep the answer once the draft with it would be accepted by `headrace run`."""

        def accept(text: str) -> Starter:
            _refuse_key(question, text)
            draft = msgspec.structs.replace(self.draft, **read(text))
            check(draft, self.base)
            return draft

        self.draft = self.talk.answer(question, given, accept)

    def _input(self, text: str) -> dict[str, Any]:
        path = self._from_job(text)
        self.look = look_at(path, self.base)
        if self.look.records and self.look.unreadable == self.look.records:
            raise SpecError(f"{text[:60]!a}: none of its first records can be read", key="--input")
        return {"input": path, "fields": self.look.fields}

    def _field(self, name: str) -> dict[str, Any]:
        return {"text": self._known(name, "--field")}

    def _id(self, name: str) -> dict[str, Any]:
        return {"id": None if name == NONE else self._known(name, "--id")}

    def _known(self, name: str, option: str) -> str:
        fields = self.look.fields
        if fields and name not in fields:
            shown = ", ".join(printable(field, 40) for field in fields[:_SHOWN])
            raise SpecError(f"no field {name[:60]!a} in the first records; found: {shown}", key=option, allowed=shown)
        return name

    def _labels(self, text: str) -> dict[str, Any]:
        return {"labels": tuple(label.strip() for label in text.split(",") if label.strip())}

    def _schema(self, text: str) -> dict[str, Any]:
        return {"schema": self._from_job(text) if text.lower().endswith(".json") else fields_schema(text)}

    @staticmethod
    def _key_env(name: str) -> dict[str, Any]:
        return {"key_env": None if name == NONE else name}

    def _output(self, text: str) -> dict[str, Any]:
        path = self._from_job(text)
        if os.path.lexists(self.base / path):
            raise SpecError(f"{text[:60]!a} is already there, and a run replaces no file of others; name another", key="--output")
        return {"output": path}

    # -- paths: typed as seen from here, written as seen from the job file

    def _from_job(self, text: str) -> str:
        path = os.path.expanduser(text) if text.startswith("~") else text  # noqa: PTH111 (a pattern is no path)
        if not path or "\0" in path or path.startswith("sqlite:") or os.path.isabs(path) or self.base == Path.cwd():  # noqa: PTH117
            return path
        return os.path.relpath(Path.cwd() / path, self.base)

    def _shown(self, name: str) -> str:
        """A file beside the job file, as it is named from here."""
        return name if self.base == Path.cwd() else os.path.relpath(self.base / name)


def _form(text: str) -> str:
    if is_key(text):
        raise SpecError("that is a key (not shown), which is never asked for")
    matches = [form for form in _FORMS if text and form.startswith(text.lower())]
    if len(matches) != 1:
        raise SpecError(f"found {text[:60]!a}; allowed: {', '.join(_FORMS)}")
    return matches[0]


def _refuse_key(question: Question, text: str) -> None:
    """Whatever was asked: a key that is typed there goes nowhere, and is not repeated."""
    if is_key(text) or (question.option in {"--url", "--api-key-env"} and looks_secret("", text)):
        raise SpecError(
            f"{question.option}: found {HIDDEN}; a key never stands in a job file, name the environment variable that holds it",
            key=question.option,
            found=HIDDEN,
        )


def _inputs_here() -> list[str]:
    """The files here that could be an input, by their names; a .json file beside others is rather a schema or settings."""
    names = []
    with os.scandir() as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name.startswith(".") or ".partial." in entry.name or not entry.is_file():
                continue
            try:
                format_of(Path(entry.name))
            except HeadraceError:
                continue
            names.append(entry.name)
    names = [name for name in names if name.isprintable()]
    return [name for name in names if not name.lower().endswith(".json")] or names


def _stem(path: str) -> str:
    """What an input is called, without its suffixes and what makes it a pattern."""
    return "".join(char for char in Path(path).name.partition(".")[0] if char.isalnum() or char in "-_ ").strip()


def _unused(folder: Path, stem: str) -> str:
    """A name for the output that nothing has there yet."""
    names = (f"{stem}{number}.jsonl" for number in ("", *(f"-{n}" for n in range(2, 1000))))
    return next(name for name in names if not os.path.lexists(folder / name))
