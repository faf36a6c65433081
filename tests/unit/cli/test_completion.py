"""What shells are told: commands, options, runs, kinds, statuses and job files, in each shell's form, and nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import typer

from headrace.cli import app, completion
from headrace.runs.registry import RUNS_FOLDER, create_run
from headrace.values import Kind, Status

Ask = Callable[..., list[str]]


@pytest.fixture
def ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ask:
    """The candidates for a line of words, of which the last has begun."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))

    def asked(*words: str) -> list[str]:
        environ = {
            completion.VARIABLE: "complete_bash",
            "COMP_WORDS": "\n".join(["headrace", *words]),
            "COMP_CWORD": str(len(words)),
        }
        text, code = completion.complete(environ, app.COMMANDS, load)
        assert code == 0
        return text.split("\n") if text else []

    return asked


def load(name: str | None) -> object:
    return typer.main.get_command(app.application(name or "--version"))


def test_commands_are_completed(ask: Ask) -> None:
    assert ask("") == list(app.COMMANDS)
    assert ask("ru") == ["run", "runs"]
    assert ask("nothing-of-this") == []


def test_options_of_the_program_and_of_a_command_are_completed(ask: Ask) -> None:
    assert {"--version", "--install-completion", "--show-completion"} <= set(ask("--"))
    assert ask("run", "--re") == ["--reuse"]
    assert ask("status", "--") == ["--follow", "--json"]


def test_an_option_that_was_given_is_not_offered_again_unless_it_may_be(ask: Ask) -> None:
    assert "--new" not in ask("run", "--new", "--")
    assert "--set" in ask("run", "--set", "a.b=1", "--")


def test_runs_known_here_are_completed_newest_first(ask: Ask, tmp_path: Path) -> None:
    made = []
    for at in (1_796_000_000.0, 1_796_000_100.0):
        folder = create_run(tmp_path / RUNS_FOLDER, at)
        folder.archive.write_text("{}", encoding="utf-8")
        made.append(folder.id)
    assert ask("status", "") == ["last", *reversed(made)]
    assert ask("failures", made[0][:15]) == [made[0]]
    assert ask("run", "job.toml", "--reuse", "la") == ["last"]
    assert ask("status", made[0], "") == []


def test_where_no_run_is_known_nothing_is_offered_but_last(ask: Ask) -> None:
    assert ask("status", "") == ["last"]


def test_kinds_and_statuses_are_completed_also_after_a_comma(ask: Ask) -> None:
    assert ask("retry", "--only", "") == [str(kind) for kind in Kind]
    assert ask("retry", "--only", "timeout,tr") == ["timeout,truncated"]
    assert ask("export", "--only", "") == [str(status) for status in Status]
    assert ask("export", "--only", "done,") == [f"done,{status}" for status in Status if status != "done"]


def test_words_to_choose_from_are_completed(ask: Ask) -> None:
    assert ask("expl") == ["explain-class"]
    assert ask("explain-class", "") == ["batch", "online"]
    assert ask("explain-class", "on") == ["online"]


def test_an_equals_sign_is_a_word_of_its_own_in_bash_and_part_of_one_elsewhere(ask: Ask) -> None:
    assert ask("retry", "--only", "=", "time") == ["timeout"]
    assert ask("retry", "--only", "=") == [str(kind) for kind in Kind]
    assert ask("retry", "--only=time") == ["--only=timeout"]


def test_job_files_are_completed_here_and_one_folder_below(ask: Ask, tmp_path: Path) -> None:
    for name in ("job.toml", "other.yaml", "in.jsonl", ".hidden.toml", "sub/deep.yml", "sub/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    assert ask("run", "") == ["job.toml", "other.yaml", "sub/deep.yml"]
    assert ask("run", "su") == ["sub/deep.yml"]
    assert ask("run", "sub/d") == ["sub/deep.yml"]
    assert ask("run", f"{tmp_path}/jo") == [f"{tmp_path}/job.toml"]
    assert ask("run", "nowhere/") == []


@pytest.mark.parametrize(
    "name", ["a b.toml", "$(id).toml", "`id`.toml", "a'b.toml", 'a".toml', "a;b.toml", "a\\.toml", "a\n.toml"]
)
def test_a_file_whose_name_a_shell_could_evaluate_is_not_offered(ask: Ask, tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert ask("run", "") == []


def test_zsh_gets_values_with_words_and_files_where_there_is_nothing(ask: Ask) -> None:
    text, code = in_shell("zsh", "headrace stat")
    assert code == 0
    assert text.startswith("""_arguments '*: :(("status":"Show where a run stands""")
    assert text.endswith("\"))'")
    assert in_shell("zsh", "headrace export --to ") == ("_files", 0)


def test_fish_gets_values_with_words_and_is_told_whether_there_are_any(ask: Ask) -> None:
    assert in_shell("fish", "headrace sch")[0].partition("\t")[0] == "schema"
    assert in_shell("fish", "headrace sch", is_args=True) == ("", 0)
    assert in_shell("fish", "headrace export --to ", is_args=True) == ("", 1)


def test_a_line_with_an_open_quote_is_understood(ask: Ask) -> None:
    assert in_shell("fish", "headrace run 'jo") == ("", 0)


def in_shell(shell: str, line: str, *, is_args: bool = False) -> tuple[str, int]:
    environ = {completion.VARIABLE: f"complete_{shell}", "_TYPER_COMPLETE_ARGS": line}
    environ["_TYPER_COMPLETE_FISH_ACTION"] = "is-args" if is_args else "get-args"
    return completion.complete(environ, app.COMMANDS, load)


# -- as a shell does it


def as_process(words: str, **more: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, completion.VARIABLE: "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "1", **more}
    return subprocess.run(
        [sys.executable, "-m", "headrace"], env=environ, capture_output=True, text=True, check=False, timeout=60
    )


def test_the_command_answers_through_its_environment(tmp_path: Path) -> None:
    done = as_process("headrace stat", XDG_STATE_HOME=str(tmp_path))
    assert (done.stdout, done.stderr, done.returncode) == ("status\n", "", 0)


@pytest.mark.parametrize("more", [{"COMP_CWORD": "x"}, {"COMP_CWORD": "-9"}, {completion.VARIABLE: "complete_tcsh"}])
def test_what_makes_no_sense_is_answered_with_silence_on_stderr(more: dict[str, str]) -> None:
    assert as_process("headrace stat", **more).stderr == ""


def test_completing_loads_neither_the_engine_nor_what_checks_job_files() -> None:
    code = (
        "import os, sys\n"
        "from headrace.cli import app\n"
        "try:\n    app.main()\nexcept SystemExit:\n    pass\n"
        "heavy = {'pydantic', 'numpy', 'aiohttp', 'headrace.engine.live', 'headrace.spec', 'rich'} & set(sys.modules)\n"
        "sys.exit(repr(heavy) if heavy else 0)"
    )
    for words in ("run\n--", "status\n", "retry\n--only\n", "export\n--", "failures\n--", "runs\n--"):
        environ = {**os.environ, completion.VARIABLE: "complete_bash", "COMP_WORDS": f"headrace\n{words}"}
        environ["COMP_CWORD"] = str(words.count("\n") + 1)
        done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=False, timeout=60)
        assert (done.returncode, done.stderr) == (0, ""), words


@pytest.mark.parametrize(
    ("shell", "mark"), [("bash", "COMPREPLY"), ("zsh", "#compdef headrace"), ("fish", "complete --command headrace")]
)
def test_the_script_of_each_shell_can_be_had(shell: str, mark: str) -> None:
    environ = {**os.environ, completion.VARIABLE: f"source_{shell}"}
    done = subprocess.run(
        [sys.executable, "-m", "headrace"], env=environ, capture_output=True, text=True, check=False, timeout=60
    )
    assert mark in done.stdout
    assert completion.VARIABLE in done.stdout


def test_a_shell_that_is_not_known_is_no_bug_of_ours(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("typer.completion._get_shell_name", lambda: "tcsh")
    assert app.invoke(["--show-completion"]) == 2
    assert "not supported" in capsys.readouterr().err


def test_installing_writes_the_script_for_the_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("typer._completion_shared._get_shell_name", lambda: "fish")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert app.invoke(["--install-completion"]) == 0
    script = (tmp_path / ".config/fish/completions/headrace.fish").read_text(encoding="utf-8")
    assert completion.VARIABLE in script


def test_a_home_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("typer._completion_shared._get_shell_name", lambda: "fish")
    (tmp_path / ".config").touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    assert app.invoke(["--install-completion"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("headrace: --install-completion: ")
    assert err.count("\n") == 1
