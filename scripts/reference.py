"""Writes docs/reference/ from the code: the commands from their options, the job file from its models.

`python scripts/reference.py` writes; with `--check` it only says what is stale and ends with 1.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import typer

from headrace.cli.app import COMMANDS, application
from headrace.runs.jobschema import job_schema
from headrace.spec import NOT_YET

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "reference"
_MADE = "<!-- Written by scripts/reference.py from the code; `make docs` writes it again. -->"


def pages() -> dict[str, str]:
    """File name to text of every generated page."""
    return {"commands.md": _commands(), "job-file.md": _job_file()}


def _commands() -> str:
    lines = [
        "# Commands",
        "",
        _MADE,
        "",
        "With `--json`, stdout carries one JSON document and nothing else; words for people go to stderr.",
    ]
    group: Any = typer.main.get_command(application())
    for name in COMMANDS:
        lines += _command(f"headrace {name}", group.commands[name], "##")
    return "\n".join(lines) + "\n"


def _command(path: str, command: Any, level: str) -> list[str]:
    """A command with its arguments and options; a group with its commands."""
    if hasattr(command, "commands"):
        lines = ["", f"{level} `{path}`", "", _paragraphs(command.help or "")]
        return lines + [
            line for name, inner in command.commands.items() for line in _command(f"{path} {name}", inner, f"{level}#")
        ]
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    usage = " ".join([path, *map(_argument, arguments), *(["[OPTIONS]"] if options else [])])
    lines = ["", f"{level} `{path}`", "", f"    {usage}", "", _paragraphs(command.help or "")]
    if arguments or options:
        lines += ["", "| | |", "|---|---|"]
        lines += [f"| `{_metavar(parameter)}` | {_cell(parameter.help)} |" for parameter in arguments]
        lines += [f"| {_option(parameter)} | {_cell(parameter.help)}{_default(parameter)} |" for parameter in options]
    return lines


def _job_file() -> str:
    schema = job_schema()
    lines = [
        "# The job file",
        "",
        _MADE,
        "",
        "TOML, or YAML with the same keys. Paths are relative to the file. Unknown keys, wrong types and impossible values are",
        "refused before anything is sent. `--set section.key=value` overrides any key; `null` takes one away.",
        "`headrace schema` prints the JSON Schema of this file.",
        "",
        "Keys marked *later* are known and not served by this release: they are refused unless they stand at their default.",
    ]
    top = []
    for name, part in schema["properties"].items():
        section = _section(schema, part)
        if section is None:
            top.append((name, part))
            continue
        lines += [
            "",
            f"## `[{name}]`" + (" (needed)" if name in schema["required"] else ""),
            "",
            "| key | type | default | |",
            "|---|---|---|---|",
        ]
        lines += _keys(schema, name, section)
    lines += ["", "## Outside the sections", "", "| key | type | default | |", "|---|---|---|---|"]
    lines += [_key(schema, name, part, needed=False) for name, part in top]
    return "\n".join(lines) + "\n"


def _section(schema: dict[str, Any], part: dict[str, Any]) -> dict[str, Any] | None:
    for form in [part, *part.get("anyOf", ())]:
        if "$ref" in form:
            found: dict[str, Any] = schema["$defs"][form["$ref"].rpartition("/")[2]]
            return found
    return None


def _keys(schema: dict[str, Any], name: str, section: dict[str, Any], within: str = "") -> list[str]:
    """A row for each key; those of a table within the section follow it as `table.key`."""
    rows, required = [], section.get("required", ())
    for key, part in section["properties"].items():
        rows.append(_key(schema, f"{name}.{key}", part, key in required, within))
        if (inner := _section(schema, part)) is not None:
            rows += _keys(schema, f"{name}.{key}", inner, f"{within}{key}.")
    return rows


def _key(schema: dict[str, Any], key: str, part: dict[str, Any], needed: bool, within: str = "") -> str:
    default = "needed" if needed else f"`{_literal(part['default'])}`" if part.get("default") not in (None, {}) else ""
    later = "*later*: " if key in NOT_YET else ""
    name = within + key.rpartition(".")[2]
    return f"| `{name}` | {_cell(_type(schema, part))} | {default} | {later}{_cell(part.get('description'))} |"


def _type(schema: dict[str, Any], part: dict[str, Any]) -> str:
    if "$ref" in part:
        return "table"
    if "anyOf" in part:
        return " or ".join(dict.fromkeys(_type(schema, form) for form in part["anyOf"] if form.get("type") != "null"))
    if "enum" in part or "const" in part:
        return " or ".join(f"`{_literal(value)}`" for value in part.get("enum", [part.get("const")]))
    words = {
        "string": "text",
        "integer": "whole number",
        "number": "number",
        "boolean": "true or false",
        "object": "table",
        "array": "list",
    }
    kinds = part.get("type", [])
    text = " or ".join(words[kind] for kind in ([kinds] if isinstance(kinds, str) else kinds))
    examples = part.get("examples", ())
    return text + (f", such as {', '.join(f'`{_literal(example)}`' for example in examples)}" if examples else "")


def _literal(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else f"{value:g}" if isinstance(value, float) else str(value)


def _metavar(parameter: Any) -> str:
    return str(parameter.metavar or parameter.name.upper())


def _argument(parameter: Any) -> str:
    return _metavar(parameter) if parameter.required else f"[{_metavar(parameter)}]"


def _option(parameter: Any) -> str:
    names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
    return names if parameter.is_flag else f"{names} `{parameter.metavar or 'VALUE'}`"


def _default(parameter: Any) -> str:
    if parameter.required:
        return " Needed."
    default = parameter.default
    return (
        f" Default: `{default}`."
        if isinstance(default, int | float | str) and not isinstance(default, bool) and default != ""
        else ""
    )


def _paragraphs(text: str) -> str:
    return "\n\n".join(" ".join(part.split()) for part in text.split("\n\n"))


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")


def main() -> int:
    stale = [name for name, text in pages().items() if not _is_written(name, text)]
    if "--check" in sys.argv[1:]:
        for name in stale:
            print(f"docs/reference/{name} is stale; `make docs` writes it again")
        return 1 if stale else 0
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    return 0


def _is_written(name: str, text: str) -> bool:
    path = FOLDER / name
    return path.is_file() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main())
