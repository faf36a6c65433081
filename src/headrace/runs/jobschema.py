"""The JSON Schema of the job file."""

from __future__ import annotations

from typing import Any

from headrace.spec import ENDPOINT_LIST, JobSpec

_TOP = {
    "name": "A name for people; by default the file's own, without its suffix.",
    "prices": 'What tokens cost, for all endpoints; "endpoint" is short for { file = "endpoint" }.',
}


def job_schema() -> dict[str, Any]:
    """Draft 2020-12; `endpoint` is a table or a list of tables, as the file may write it."""
    schema = JobSpec.model_json_schema(by_alias=True, mode="validation")
    endpoint = schema["properties"]["endpoint"]
    one = endpoint["items"]
    schema["properties"]["endpoint"] = {"title": "Endpoint", "anyOf": [one, endpoint]}
    schema["properties"]["prices"]["anyOf"].append({"const": ENDPOINT_LIST})
    for name, description in _TOP.items():
        schema["properties"][name]["description"] = description
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["title"] = "headrace job file"
    schema["description"] = "A job of headrace, in TOML or YAML. Paths are relative to the file."
    return schema
