"""A key that somebody pastes where the name of its variable belongs is never repeated."""

from __future__ import annotations

import pytest

from headrace.cli import app

KEY = "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789"
ASKED = ("--prompt", "1", "--output", "1")


@pytest.mark.parametrize("pasted", [KEY, KEY.replace("-", "_"), ""])
@pytest.mark.parametrize(
    "command",
    [
        ("probe", "http://127.0.0.1:9/v1"),
        ("plan", "--model", "http://127.0.0.1:9/v1", *ASKED),
        ("sim",),
        ("local", "serve"),
    ],
)
def test_a_key_in_place_of_its_variables_name_is_refused_and_not_shown(
    command: tuple[str, ...], pasted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.invoke([*command, "--api-key-env", pasted, *(["--json"] if command[0] in {"probe", "plan"} else [])]) == 2
    said = capsys.readouterr()
    assert said.err.startswith("headrace: --api-key-env: found no name of an environment variable")
    assert said.err.count("\n") == 1
    assert "abcdefgh" not in said.err + said.out


def test_a_probe_speaks_of_its_own_options(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET_HERE", raising=False)
    assert app.invoke(["probe", "http://127.0.0.1:9/v1", "--api-key-env", "NOT_SET_HERE"]) == 2
    assert capsys.readouterr().err == "headrace: --api-key-env: the environment variable NOT_SET_HERE is not set\n"
    assert app.invoke(["probe", "nonsense"]) == 2
    assert capsys.readouterr().err == 'headrace: the URL must be "http://host/v1" or "https://host/v1"\n'
