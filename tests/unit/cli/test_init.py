"""`headrace init`: what it asks, what it refuses, what it writes, and that it writes nothing where it was broken off."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.cli import app
from headrace.errors import SpecError
from headrace.runs.jobfile import load_job

KEY = "sk-proj-1234567890abcdefghij"
URL = "http://127.0.0.1:8000/v1"


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    put("in.jsonl", [{"name": f"n{n}", "text": f"a longer text {n}", "lang": "en"} for n in range(5)])


def put(name: str, rows: list[dict[str, Any]]) -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


@pytest.fixture
def typing(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[str]]:
    """Somebody at a terminal who types these answers; the questions that were asked are returned."""

    def types(*answers: str | BaseException) -> list[str]:
        asked: list[str] = []
        waiting: Iterator[str | BaseException] = iter(answers)

        def answer(question: str) -> str:
            asked.append(question)
            said = next(waiting)
            if isinstance(said, BaseException):
                raise said
            return said

        monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
        monkeypatch.setattr("builtins.input", answer)
        return asked

    return types


def test_the_answers_of_a_person_become_a_job(typing: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]) -> None:
    asked = typing("", "", "", "labels", "cat, dog", "Which animal?", URL, "gpt", "-", "")
    assert app.invoke(["init"]) == 0
    spec = load_job(Path("job.toml")).spec
    assert (spec.input.path, spec.input.id, spec.prompt.user) == ("in.jsonl", "name", "{{ text }}")
    assert (spec.answer.labels, spec.model.name, spec.endpoint[0].url) == (["cat", "dog"], "gpt", URL)
    assert (spec.endpoint[0].api_key_env, spec.output.path) == (None, "in-answers.jsonl")
    assert str(spec.prompt.system).startswith("Which animal?")
    assert "[in.jsonl]" in asked[0]
    assert "name, text, lang" in (out := capsys.readouterr().out)
    assert "  headrace estimate job.toml\n  headrace run job.toml\n" in out


def test_json_by_fields_and_by_a_file_and_plain_text_can_be_asked_for(typing: Callable[..., list[str]]) -> None:
    typing("", "", "-", "schema", "animal, legs:integer", "", URL, "m", "MY_KEY", "out.csv")
    assert app.invoke(["init", "fields.toml"]) == 0
    spec = load_job(Path("fields.toml")).spec
    assert isinstance(spec.answer.schema_, dict)
    assert spec.answer.schema_["required"] == ["animal", "legs"]
    assert (spec.input.id, spec.endpoint[0].api_key_env, spec.output.path) == (None, "MY_KEY", "out.csv")
    Path("s.json").write_text('{"type": "object", "properties": {"x": {"type": "string"}}}', encoding="utf-8")
    typing("in.jsonl", "", "", "s", "s.json", "", URL, "m", "", "")
    assert app.invoke(["init", "file.toml"]) == 0
    assert load_job(Path("file.toml")).spec.answer.schema_ == {"type": "object", "properties": {"x": {"type": "string"}}}
    typing("in.jsonl", "", "", "text", "", URL, "m", "", "")
    assert app.invoke(["init", "text.toml"]) == 0
    answer = load_job(Path("text.toml")).spec.answer
    assert (answer.labels, answer.schema_) == (None, None)


def test_a_bad_answer_is_asked_again_with_what_the_loader_says(
    typing: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    put("other.jsonl", [{"a": 1}])
    asked = typing(
        "", "nowhere.jsonl", "in.jsonl", "txet", "text", "", "labels", "a, a", "a, b", "{{ open", "", "ftp://x", URL, "", "m", "no name",
        "", "other.jsonl", "x.doc", "",
    )  # fmt: skip
    assert app.invoke(["init"]) == 0
    err = capsys.readouterr().err
    for said in ("needs an answer", "no such file", "'txet'", "a label twice", "prompt.system", "endpoint.url", "api_key_env"):
        assert said in err
    assert "other.jsonl' is already there" in err
    assert "in.jsonl, other.jsonl" in asked[0]
    assert load_job(Path("job.toml")).spec.answer.labels == ["a", "b"]


@pytest.mark.parametrize("place", range(10))
def test_a_key_that_is_typed_anywhere_is_refused_and_not_repeated(
    place: int, typing: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    answers = ["in.jsonl", "text", "name", "labels", "a,b", "Which?", URL, "m", "MY_KEY", "out.jsonl"]
    typing(*answers[:place], KEY, *answers[place:])
    assert app.invoke(["init"]) == 0
    assert KEY not in "".join(capsys.readouterr())
    assert KEY not in Path("job.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("option", ["--api-key-env", "--model", "--url", "--ask", "--labels", "--output", "--field"])
def test_a_key_that_is_given_as_an_option_is_refused_and_not_repeated(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    given = {"--url": URL, "--model": "m", option: KEY}
    assert app.invoke(["init", "--yes", *(word for pair in given.items() for word in pair)]) == 2
    assert KEY not in "".join(capsys.readouterr())
    assert not Path("job.toml").exists()


@pytest.mark.parametrize(("end", "code"), [(EOFError(), 2), (KeyboardInterrupt(), 130)])
@pytest.mark.parametrize("after", [0, 4, 9])
def test_an_end_in_the_middle_writes_nothing_and_is_one_line(
    end: BaseException, code: int, after: int, typing: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    typing(*["", "", "", "labels", "a,b", "", URL, "m", "", ""][:after], end)
    before = sorted(Path().iterdir())
    assert app.invoke(["init"]) == code
    assert sorted(Path().iterdir()) == before
    assert capsys.readouterr().err.strip().count("\n") == 0


def test_nothing_is_asked_with_yes_or_without_a_terminal(
    typing: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = typing()
    assert app.invoke(["init", "--yes", "--url", URL, "--model", "m", "--labels", "a,b"]) == 0
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert app.invoke(["init", "--to", "other.toml", "--url", URL, "--model", "m"]) == 0
    assert asked == []
    assert load_job(Path("job.toml")).spec.answer.labels == ["a", "b"]
    assert load_job(Path("other.toml")).spec.input.id == "name"


def test_what_is_missing_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert app.invoke(["init", "--yes", "--url", URL]) == 2
    err = capsys.readouterr().err
    assert err.startswith("headrace: init needs --model: ")
    assert err.count("\n") == 1
    put("second.jsonl", [])
    assert app.invoke(["init", "--yes", "--url", URL, "--model", "m"]) == 2
    assert "in.jsonl, second.jsonl" in capsys.readouterr().err


def test_openais_own_key_is_meant_only_for_openai(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    for name, url in (("a.toml", "https://api.openai.com/v1"), ("b.toml", "https://api.openai.com.example/v1")):
        assert app.invoke(["init", name, "--yes", "--url", url, "--model", "m"]) == 0
    assert "export OPENAI_API_KEY=…" in capsys.readouterr().out
    keys = [load_job(Path(name)).spec.endpoint[0].api_key_env for name in ("a.toml", "b.toml")]
    assert keys == ["OPENAI_API_KEY", None]


def test_a_file_that_is_there_is_replaced_only_by_force(
    capsys: pytest.CaptureFixture[str], typing: Callable[..., list[str]]
) -> None:
    Path("job.toml").write_text("mine", encoding="utf-8")
    asked = typing()
    assert app.invoke(["init"]) == 2
    assert "--force" in capsys.readouterr().err
    assert (asked, Path("job.toml").read_text(encoding="utf-8")) == ([], "mine")
    assert app.invoke(["init", "--yes", "--force", "--url", URL, "--model", "m"]) == 0
    assert load_job(Path("job.toml")).spec.model.name == "m"


def test_a_dangling_link_counts_as_a_file_that_is_there() -> None:
    Path("job.toml").symlink_to("nowhere.toml")
    assert app.invoke(["init", "--yes", "--url", URL, "--model", "m"]) == 2
    assert not Path("nowhere.toml").exists()


def test_a_folder_gets_a_job_file_whose_paths_lead_back() -> None:
    Path("jobs").mkdir()
    Path("schemas").mkdir()
    Path("schemas/s.json").write_text('{"type": "object"}', encoding="utf-8")
    given = ["--input", "in.jsonl", "--schema", "schemas/s.json", "--url", URL, "--model", "m"]
    assert app.invoke(["init", "jobs", "--yes", *given]) == 0
    job = load_job(Path("jobs/job.toml"))
    assert (job.spec.input.path, job.spec.output.path) == ("../in.jsonl", "in-answers.jsonl")
    assert job.spec.answer.schema_ == {"type": "object"}
    assert app.invoke(["init", "jobs/two.toml", "--yes", *given, "--output", "out.jsonl"]) == 0
    assert load_job(Path("jobs/two.toml")).spec.output.path == "../out.jsonl"


def test_a_pattern_and_a_whole_path_stay_what_they_are(tmp_path: Path) -> None:
    Path("jobs").mkdir()
    for name, given, expected in (("a", "i*.jsonl", "../i*.jsonl"), ("b", f"{tmp_path}/in.jsonl", f"{tmp_path}/in.jsonl")):
        assert app.invoke(["init", f"jobs/{name}.toml", "--yes", "--input", given, "--url", URL, "--model", "m"]) == 0
        assert load_job(Path(f"jobs/{name}.toml")).spec.input.path == expected


@pytest.mark.parametrize("place", ["job.yaml", "nowhere/job.toml"])
def test_a_place_where_no_toml_can_be_written_is_refused(place: str) -> None:
    assert app.invoke(["init", place, "--yes", "--url", URL, "--model", "m"]) == 2


def test_an_output_that_is_there_is_not_proposed() -> None:
    Path("in-answers.jsonl").touch()
    assert app.invoke(["init", "--yes", "--input", "in.jsonl", "--url", URL, "--model", "m"]) == 0
    assert load_job(Path("job.toml")).spec.output.path == "in-answers-2.jsonl"


@pytest.mark.parametrize(
    ("rows", "text", "name"),
    [
        ([{"id": 1, "body": "x", "title": "longer than that"}, {"id": 2, "body": "y", "title": "t"}], "body", "id"),
        ([{"a": "short", "b": "much the longest of all"}, {"a": "other", "b": "z"}], "b", "a"),
        ([{"text": "x", "id": 1}, {"text": "y", "id": 1}], "text", None),
        ([{"text": "x", "id": None}, {"text": "y", "doc_id": 7}], "text", None),
        ([{"text": "x", "n": True}, {"text": "y", "n": False}], "text", None),
        ([{"text": "x", "lang": "en", "doc_id": 1}, {"text": "y", "lang": "de", "doc_id": 2}], "text", "doc_id"),
    ],
)
def test_the_text_and_the_id_are_proposed_by_what_the_records_hold(
    rows: list[dict[str, Any]], text: str, name: str | None
) -> None:
    put("in.jsonl", rows)
    assert app.invoke(["init", "--yes", "--url", URL, "--model", "m"]) == 0
    spec = load_job(Path("job.toml")).spec
    assert (spec.prompt.user, spec.input.id) == (f"{{{{ {text} }}}}", name)


def test_an_input_without_text_has_to_be_told_its_field(capsys: pytest.CaptureFixture[str]) -> None:
    put("in.jsonl", [{"a": 1}, {"a": 2}])
    assert app.invoke(["init", "--yes", "--url", URL, "--model", "m"]) == 2
    assert "--field" in capsys.readouterr().err
    assert app.invoke(["init", "--yes", "--field", "a", "--url", URL, "--model", "m"]) == 0


def test_an_input_of_which_no_record_can_be_read_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    Path("in.jsonl").write_text("no json\n", encoding="utf-8")
    assert app.invoke(["init", "--yes", "--url", URL, "--model", "m"]) == 2
    assert "none of its first records" in capsys.readouterr().err


def test_field_names_that_command_a_terminal_are_shown_escaped(
    typing: Callable[..., list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    put("in.jsonl", [{"\x1b[2Jtext": "a text", "\u202eid": n} for n in range(3)])
    typing("", "", "", "text", "", URL, "m", "", "")
    assert app.invoke(["init"]) == 0
    told = "".join(capsys.readouterr()) + Path("job.toml").read_text(encoding="utf-8")
    assert "\x1b" not in told
    assert "\u202e" not in told
    assert load_job(Path("job.toml")).spec.input.id == "\u202eid"


def test_the_embedded_model_is_offered_where_the_loader_takes_it(typing: Callable[..., list[str]]) -> None:
    Path("local.toml").write_text(
        'input = { path = "in.jsonl" }\nprompt = { user = "x" }\nmodel = { name = "local" }\nendpoint = { url = "local" }\n'
        'output = { path = "out.jsonl" }\n',
        encoding="utf-8",
    )
    try:
        load_job(Path("local.toml"))
        served = True
    except SpecError:
        served = False
    asked = typing("", "", "", "text", "", "" if served else URL, "" if served else "m", *(["", ""][served:]))
    assert app.invoke(["init"]) == 0
    assert ("local" in next(question for question in asked if question.startswith("The endpoint"))) is served
    assert load_job(Path("job.toml")).spec.endpoint[0].url == ("local" if served else URL)
