"""The public names are exactly those that `__all__` says; what is loaded lazily is loaded as said."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

import headrace
import headrace.protocols
import headrace.testing
from headrace.runs.api import Sections
from headrace.spec import JobSpec


@pytest.mark.parametrize("module", [headrace, headrace.protocols, headrace.testing])
def test_every_name_of_all_is_there_once(module: object) -> None:
    names = module.__all__  # type: ignore[attr-defined]
    assert len(names) == len(set(names))
    for name in names:
        getattr(module, name)


def test_nothing_else_is_public() -> None:
    public = {name for name in vars(headrace) if not name.startswith("_") and not hasattr(getattr(headrace, name), "__path__")}
    modules = {"errors", "protocols", "events", "values", "canon", "spec", "clock"}
    assert public - modules - {"annotations", "Any", "TYPE_CHECKING"} <= set(headrace.__all__)


def test_only_public_names_are_listed() -> None:
    assert {name for name in dir(headrace) if not name.startswith("__")} | {"__version__"} == set(headrace.__all__)


@pytest.mark.parametrize("name", ["run", "arun"])
def test_a_function_says_what_it_takes(name: str) -> None:
    signature = inspect.signature(getattr(headrace, name))
    assert list(signature.parameters) == ["job", "new", "reuse", "run_dir", "overrides", "observers"]
    assert inspect.getdoc(getattr(headrace, name))


def test_run_and_arun_take_the_same() -> None:
    assert inspect.signature(headrace.run) == inspect.signature(headrace.arun)


def test_a_job_takes_the_sections_of_a_job_file() -> None:
    assert set(Sections.__annotations__) == {field.alias or name for name, field in JobSpec.model_fields.items()}


def test_the_engine_is_not_loaded_for_the_version_alone() -> None:
    code = "import sys, headrace; headrace.__version__; sys.exit('headrace.engine.live' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
