"""The reference is what the code says, and every job file in the docs loads."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest

from headrace.cli.app import COMMANDS
from headrace.runs.jobfile import job_from_dict
from headrace.spec import JobSpec

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
FENCE = re.compile(r"^( *)```toml[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference_script", ROOT / "scripts" / "reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_not_stale(reference: ModuleType) -> None:
    written = {name: (ROOT / "docs" / "reference" / name).read_text(encoding="utf-8") for name in reference.pages()}
    assert written == reference.pages(), "`make docs` writes it again"


def test_every_command_and_every_key_is_described(reference: ModuleType) -> None:
    pages = reference.pages()
    for command in COMMANDS:
        assert f"## `headrace {command}`" in pages["commands.md"]
    for section in JobSpec.model_fields:
        assert section in pages["job-file.md"]
    empty = re.compile(r"^\|[^|]*\|\s*\|$", re.MULTILINE)
    assert [line for line in empty.findall(pages["commands.md"]) if line != "| | |"] == []


def job_files(text: str) -> list[str]:
    """The TOML snippets that are whole job files: they have an input and an endpoint."""
    snippets = [match[2] for match in FENCE.finditer(text)]
    return [snippet for snippet in snippets if "[input]" in snippet and "endpoint" in snippet]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_job_file_in_the_docs_loads(page: Path, tmp_path: Path) -> None:
    for snippet in job_files(page.read_text(encoding="utf-8")):
        tables = tomllib.loads(snippet)
        schema, prompt = tables.get("answer", {}).get("schema"), tables["prompt"].get("user_file")
        if isinstance(schema, str):
            (tmp_path / schema).write_text('{"type": "object"}', encoding="utf-8")
        if isinstance(prompt, str):
            (tmp_path / prompt).write_text("{{ text }}", encoding="utf-8")
        assert job_from_dict(tables, tmp_path).spec.endpoint


def test_a_job_file_in_a_page_is_found_and_another_snippet_is_not() -> None:
    text = '```toml\n[input]\npath = "a"\n[endpoint]\nurl = "x"\n```\n\n```toml\n[limits]\ndrain = "3s"\n```\n'
    assert len(job_files(text)) == 1
