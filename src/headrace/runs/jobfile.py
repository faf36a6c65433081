"""From a job file, or the same keys as a dict, to a job that can be run: read, overridden, checked, self-contained."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from headrace import canon
from headrace.errors import SpecError
from headrace.policy.classes import defaults_of
from headrace.runs import archive
from headrace.runs.job import Job
from headrace.runs.jobfaults import fault, shown
from headrace.runs.jobrules import check_rules
from headrace.runs.jobsecrets import refuse_secrets
from headrace.runs.jobtext import (
    apply_overrides,
    read_tables,
    read_text,
    refuse_broken_text,
    refuse_foreign_values,
    without_nulls,
)
from headrace.spec import JobSpec


def load_job(path: Path, overrides: Sequence[str] = ()) -> Job:
    """The job that a file (TOML, or YAML by its suffix) describes, or that a run's folder or run.json keeps, with each
    `section.key=value` put in.

    Paths in it are relative to the file's folder. `prompt.user_file` and an `answer.schema` that is a file are read and stand
    in the spec as text and table, so that its content hash follows theirs. Raises SpecError; nothing is written or sent.
    """
    refuse_broken_text(str(path.absolute()), "the job file's path")
    if archive.is_archive(path):
        tables, file, base = archive.read_job(path)
        return Job(spec=_spec(tables, base, overrides), path=file, base=base, archived=archive.folder_of(path).path)
    tables = read_tables(path)
    tables.setdefault("name", path.stem)
    real = path.resolve()
    return Job(spec=_spec(tables, real.parent, overrides), path=real, base=real.parent)


def job_from_dict(value: Mapping[str, Any], base: Path, overrides: Sequence[str] = ()) -> Job:
    """As load_job, from the same keys in a dict; paths are relative to `base`.

    `answer.schema` may be a pydantic model too. What `JobSpec.model_dump(mode="json", by_alias=True)` gives comes back as the
    same spec.
    """
    return Job(spec=_spec(dict(value), base, overrides), path=None, base=base)


def _spec(tables: dict[str, Any], base: Path, overrides: Sequence[str]) -> JobSpec:
    tables = without_nulls(apply_overrides(tables, overrides))
    refuse_foreign_values(tables)
    refuse_secrets(tables)
    tables = _inlined(tables, base)
    refuse_foreign_values(tables)
    if isinstance(tables.get("endpoint"), dict):
        tables["endpoint"] = [tables["endpoint"]]
    try:
        spec = JobSpec.model_validate(tables)
    except ValidationError as error:
        raise fault(error.errors(include_input=False, include_url=False), tables) from None
    check_rules(spec, base)
    return _with_class(spec)


def _with_class(spec: JobSpec) -> JobSpec:
    """The spec with what follows from `limits.class` where the job writes nothing of its own."""
    limits = spec.limits
    follows = {key: value for key, value in defaults_of(limits.class_).items() if key not in limits.model_fields_set}
    return spec.model_copy(update={"limits": limits.model_copy(update=follows)})


def without_class(limits: Mapping[str, Any]) -> dict[str, Any]:
    """Recorded limits as somebody may have written them: what equals the class's own value follows from it, also once the class
    is another.
    """
    own = defaults_of(limits["class"])
    return {key: value for key, value in limits.items() if key not in own or value != own[key]}


def _inlined(tables: dict[str, Any], base: Path) -> dict[str, Any]:
    """The tables with the files that decide answers read into them."""
    prompt, answer = tables.get("prompt"), tables.get("answer")
    if isinstance(prompt, dict) and isinstance(prompt.get("user_file"), str):
        if "user" in prompt:
            raise SpecError("prompt: user and user_file exclude each other", key="prompt.user_file", allowed="one of them")
        prompt = dict(prompt)
        written = prompt.pop("user_file")
        prompt["user"] = read_text(base / written, "prompt.user_file", written)
        tables = {**tables, "prompt": prompt}
    if isinstance(answer, dict) and "schema" in answer:
        tables = {**tables, "answer": {**answer, "schema": _schema(answer["schema"], base)}}
    return tables


def _schema(value: Any, base: Path) -> Any:
    if isinstance(value, type) and issubclass(value, BaseModel):
        return value.model_json_schema()
    if not isinstance(value, str):
        return value
    text = read_text(base / value, "answer.schema", value)
    path = shown("answer.schema", value)
    try:
        schema = canon.decode(text)
    except ValueError:
        raise SpecError(f"answer.schema: {path}: not valid JSON", key="answer.schema", allowed="a JSON Schema file") from None
    if not isinstance(schema, dict):
        found = shown("answer.schema", schema)
        raise SpecError(
            f"answer.schema: {path}: found {found}; allowed: a JSON object",
            key="answer.schema",
            found=found,
            allowed="a JSON object",
        )
    return schema
